package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Rate is when a caller's rate of a class is whole again, as all processes count it. The table is unlogged: it is
// empty after a crash of the database, and on a server that takes over.
type Rate struct{ ent.Schema }

// Fields of a rate.
func (Rate) Fields() []ent.Field {
	return []ent.Field{
		// The class and the caller; of an address only a keyed digest.
		field.String("id").Immutable(),
		field.Time("full_at"),
	}
}
