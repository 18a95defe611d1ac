package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// EventDay is what the product events of a day that is over came to, by one of their values. It is written once.
type EventDay struct{ ent.Schema }

// Fields of a day.
func (EventDay) Fields() []ent.Field {
	return []ent.Field{
		id(),
		// When the day began, in UTC.
		field.Time("day").Immutable(),
		// What was counted: empty for all events, "name", or "property." and the property's name.
		field.String("subject").Immutable(),
		field.String("value").Immutable(),
		field.Int64("events").Immutable(),
		// A sketch of who sent them: the least of the digests of their visitors.
		field.Bytes("visitors").Immutable().Sensitive(),
	}
}

// Indexes of a day.
func (EventDay) Indexes() []ent.Index {
	return []ent.Index{index.Fields("day", "subject", "value").Unique().StorageKey("event_days_count")}
}
