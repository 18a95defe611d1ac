package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Reconciliation is how far the chain has been read for a payee, and what the last comparison of the books found.
type Reconciliation struct{ ent.Schema }

// Fields of a reconciliation.
func (Reconciliation) Fields() []ent.Field {
	return []ent.Field{
		// Asset and payee.
		field.String("id").Immutable(),
		field.Int64("first_block").Immutable(),
		// The first block that has not been read.
		field.Int64("next_block"),
		// The end of the last comparison; unset until there was one.
		field.Time("at").Optional().Nillable(),
		field.Bool("blocks").Default(false),
		field.JSON("report", json.RawMessage{}).Optional(),
		// How far the comparisons have come in each book.
		field.JSON("progress", json.RawMessage{}).Optional(),
	}
}
