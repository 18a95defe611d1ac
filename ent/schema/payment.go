package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Payment is one authorization claimed for one order.
type Payment struct{ ent.Schema }

var paymentStatuses = []string{"claimed", "paid", "dead"}

// Fields of a payment.
func (Payment) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		// The payer.
		owner(),
		field.Enum("status").Values(paymentStatuses...),
		field.String("network").Immutable(),
		// Addresses and the nonce are lower-case hex.
		field.String("asset").Immutable(),
		field.String("pay_to").Immutable(),
		field.Int64("value").Immutable(),
		// Unix seconds. A time past the year 292 billion does not fit and was refused.
		field.Int64("valid_after").Immutable(),
		field.Int64("valid_before").Immutable(),
		field.String("nonce").Immutable(),
		// Empty for a transfer that was on the chain already and was claimed without it.
		field.Bytes("signature").Sensitive().Immutable(),
		field.String("transaction").Optional().Nillable(),
		field.Int64("block").Optional().Nillable(),
		field.String("block_hash").Optional().Nillable(),
		field.Int64("log_index").Optional().Nillable(),
		field.Time("settled_at").Optional().Nillable(),
		field.String("dead_reason").Default(""),
		// When a transfer that was on the chain already was claimed; unset for a payment that we submit.
		field.Time("arrived_at").Optional().Nillable().Immutable(),
		field.Time("created_at").Immutable(),
	}
}

// Indexes of a payment.
func (Payment) Indexes() []ent.Index {
	return []ent.Index{
		// One authorization buys one thing, whatever the key. Its payer is the owner, so it is unique over all owners.
		index.Fields("network", "asset", "owner", "nonce").Unique().StorageKey("payments_authorization"),
		// An order has at most one payment that is or may become paid.
		index.Fields("order_id", "owner").Unique().
			StorageKey("payments_live").
			Annotations(entsql.IndexWhere("((status)::text <> 'dead'::text)")),
		// One transfer on chain counts once. Its sender is the owner, so it is unique over all owners.
		index.Fields("transaction", "log_index", "owner").Unique().StorageKey("payments_transfer"),
		index.Fields("order_id", "owner", "created_at"),
		// A payer has only so many payments that are not decided.
		index.Fields("owner").
			StorageKey("payments_undecided").
			Annotations(entsql.IndexWhere("((status)::text = 'claimed'::text)")),
	}
}

// Annotations of a payment.
func (Payment) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"payments_status": oneOf("status", paymentStatuses),
		"payments_value":  "value > 0",
		"payments_proof": "(status = 'paid') = " +
			"(transaction IS NOT NULL AND log_index IS NOT NULL AND settled_at IS NOT NULL)",
	})}
}
