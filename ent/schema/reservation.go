package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Reservation is a share of a limited resource that an order has taken.
type Reservation struct{ ent.Schema }

// Fields of a reservation.
func (Reservation) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		owner(),
		field.String("resource").Immutable(),
		field.Int64("units").Immutable(),
		field.Time("created_at").Immutable(),
		// When its order was paid: what unpaid claims reserve is bounded.
		field.Time("settled_at").Optional().Nillable(),
		field.Time("released_at").Optional().Nillable(),
		// Since when it is released only until its order is paid.
		field.Time("suspended_at").Optional().Nillable(),
	}
}

// Indexes of a reservation.
func (Reservation) Indexes() []ent.Index {
	return []ent.Index{
		// What is reserved of a resource, over all owners; each order reserves of it once.
		index.Fields("resource", "order_id", "owner").Unique().
			StorageKey("reservations_live").
			Annotations(entsql.IndexWhere("(released_at IS NULL)")),
		index.Fields("order_id", "owner").
			StorageKey("reservations_order").
			Annotations(entsql.IndexWhere("(released_at IS NULL)")),
		index.Fields("order_id", "owner").
			StorageKey("reservations_suspended").
			Annotations(entsql.IndexWhere("(suspended_at IS NOT NULL)")),
		// What was released recently, and what may be pruned.
		index.Fields("released_at", "resource").
			StorageKey("reservations_released").
			Annotations(entsql.IndexWhere("(released_at IS NOT NULL)")),
	}
}

// Annotations of a reservation.
func (Reservation) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"reservations_units": "units > 0"})}
}

// Lock is a row to lock: whoever counts what is reserved of a resource, or takes a relayer's next account nonce, locks
// its row until the transaction ends.
type Lock struct{ ent.Schema }

// Fields of a lock.
func (Lock) Fields() []ent.Field {
	return []ent.Field{field.String("id").Immutable()}
}
