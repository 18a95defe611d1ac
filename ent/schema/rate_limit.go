package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// RateLimit is the state of one caller's limit in one class, counted over all processes (GCRA). The table is unlogged:
// it is empty after a crash of the database, and on a server that takes over.
type RateLimit struct{ ent.Schema }

// Fields of a rate limit.
func (RateLimit) Fields() []ent.Field {
	return []ent.Field{
		// The class and the caller; an address only as a keyed digest.
		field.String("id").Immutable(),
		// When the whole limit is available again.
		field.Time("resets_at"),
	}
}
