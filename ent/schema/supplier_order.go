package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// SupplierOrder is an order that was sent to a supplier that takes no reference of ours, stored before it is sent. It
// belongs to the account at the supplier, whose orders are told apart over all owners. Never deleted: without it, what
// the supplier lists cannot be matched with an order.
type SupplierOrder struct{ ent.Schema }

// Fields of a supplier's order.
func (SupplierOrder) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("provider").Immutable(),
		// Our reference, that of the row of an eSIM or of a top-up.
		field.UUID("reference", uuid.UUID{}).Immutable(),
		// That of this row; empty when there is none.
		owner(),
		// The supplier's name for the plan.
		field.String("code").Immutable(),
		// What the supplier quoted, in millionths of a dollar.
		field.Int64("cost_micros").Immutable(),
		field.Time("sent_at").Immutable(),
		// The supplier's own name for the order; empty until that is known.
		field.String("account").Default(""),
		// The supplier's name for the order whose eSIM this one was added to; empty when it is for an eSIM of its own.
		field.String("onto").Immutable().Default(""),
	}
}

// Indexes of a supplier's order.
func (SupplierOrder) Indexes() []ent.Index {
	return []ent.Index{
		// Sent once, whoever owns the order.
		index.Fields("provider", "reference").Unique().StorageKey("supplier_orders_reference"),
		// One order at the supplier is one owner's at most, so this holds over all owners.
		index.Fields("provider", "account").Unique().
			StorageKey("supplier_orders_account").
			Annotations(entsql.IndexWhere("((account)::text <> ''::text)")),
		index.Fields("provider", "code", "sent_at").StorageKey("supplier_orders_sent"),
	}
}

// Annotations of a supplier's order.
func (SupplierOrder) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"supplier_orders_cost": "cost_micros >= 0"})}
}
