package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Worker is a live process that claims jobs; readiness asks for one before anything is sold.
type Worker struct{ ent.Schema }

// Fields of a worker. The id is the owner name of its leases, unique to one incarnation.
func (Worker) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		field.Strings("kinds"),
		field.Time("live_until"),
	}
}
