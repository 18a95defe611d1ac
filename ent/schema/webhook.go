package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// WebhookEvent is what a provider sent by itself, once for all its deliveries. Deleted after a while.
type WebhookEvent struct{ ent.Schema }

// Fields of an event.
func (WebhookEvent) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("provider").Immutable(),
		// The provider's id of the event, and its word for what happened.
		field.String("event_id").Immutable(),
		field.String("type").Immutable(),
		// The request's body, as it was signed.
		field.Bytes("body").Immutable(),
		field.Time("received_at").Immutable(),
	}
}

// Indexes of an event.
func (WebhookEvent) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("provider", "event_id").Unique().StorageKey("webhook_events_event"),
		index.Fields("received_at").StorageKey("webhook_events_received"),
	}
}
