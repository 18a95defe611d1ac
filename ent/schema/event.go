package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Event is one product event: what happened on a page or in a client, without who did it.
type Event struct{ ent.Schema }

// Fields of an event.
func (Event) Fields() []ent.Field {
	return []ent.Field{
		// A digest of the client's id, so that an event sent twice is there once.
		id(),
		field.String("name").Immutable(),
		// A digest of the id the visitor's client made up.
		field.Bytes("visitor").Immutable().Sensitive(),
		field.String("path").Default("").Immutable(),
		field.JSON("properties", map[string]string{}).Immutable(),
		field.Time("at").Immutable(),
	}
}

// Indexes of an event.
func (Event) Indexes() []ent.Index {
	return []ent.Index{index.Fields("at")}
}
