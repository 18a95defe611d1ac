package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"github.com/google/uuid"
)

// CatchUp is the mark of one process in the database that it has compared with the chain. A database that does
// not have it as the process left it is another one, or an older state of the same.
type CatchUp struct{ ent.Schema }

// Fields of a catch-up.
func (CatchUp) Fields() []ent.Field {
	return []ent.Field{
		field.UUID("id", uuid.UUID{}).Immutable(),
		// The server's system identifier, its timeline and the database, as far as the server tells them.
		field.String("server").Immutable(),
		// Counts up while the process lives.
		field.Int64("beat").Default(0),
		// The block up to which transfers have been read.
		field.Int64("head").Default(0),
		field.Time("begun_at").Immutable(),
		field.Time("seen_at"),
	}
}
