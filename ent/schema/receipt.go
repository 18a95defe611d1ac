package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// Receipt is the signed receipt of an order that has ended. Both outcomes are final, so an order has one.
type Receipt struct{ ent.Schema }

var receiptOutcomes = []string{"delivered", "refunded"}

// Fields of a receipt. Its id is the order's.
func (Receipt) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		owner(),
		field.Enum("outcome").Values(receiptOutcomes...).Immutable(),
		// In the compact form. It is given to its owner as it is here, whatever the keys are by then.
		field.String("jws").Immutable(),
		field.Time("issued_at").Immutable(),
	}
}

// Annotations of a receipt.
func (Receipt) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"receipts_outcome": oneOf("outcome", receiptOutcomes),
	})}
}
