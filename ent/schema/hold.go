package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Hold is a share of something scarce that an order has taken.
type Hold struct{ ent.Schema }

// Fields of a hold.
func (Hold) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		field.String("resource").Immutable(),
		field.Int64("units").Immutable(),
		field.Time("created_at").Immutable(),
		// When its order was paid: what unpaid claims hold is bounded.
		field.Time("settled_at").Optional().Nillable(),
		field.Time("released_at").Optional().Nillable(),
		// Since when it is given back only until its order is paid.
		field.Time("suspended_at").Optional().Nillable(),
	}
}

// Indexes of a hold.
func (Hold) Indexes() []ent.Index {
	return []ent.Index{
		// What is held of a resource, and of each only once by an order.
		index.Fields("resource", "order_id").Unique().
			StorageKey("holds_live").
			Annotations(entsql.IndexWhere("(released_at IS NULL)")),
		index.Fields("order_id").
			StorageKey("holds_order").
			Annotations(entsql.IndexWhere("(released_at IS NULL)")),
		index.Fields("order_id").
			StorageKey("holds_suspended").
			Annotations(entsql.IndexWhere("(suspended_at IS NOT NULL)")),
		// What was given back lately.
		index.Fields("resource", "released_at").
			StorageKey("holds_released").
			Annotations(entsql.IndexWhere("(released_at IS NOT NULL)")),
	}
}

// Annotations of a hold.
func (Hold) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"holds_units": "units > 0"})}
}

// Mutex is a row to lock: whoever counts what is held of a resource, or takes a relayer's next account
// nonce, holds its row until the transaction ends.
type Mutex struct{ ent.Schema }

// Fields of a mutex.
func (Mutex) Fields() []ent.Field {
	return []ent.Field{field.String("id").Immutable()}
}

// Annotations of a mutex.
func (Mutex) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("mutexes")}
}
