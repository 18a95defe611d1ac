package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Refund is the authorization that pays an order's payment back. Its nonce follows from the order and stays; the window
// and the signature are made again until it settles.
type Refund struct{ ent.Schema }

var refundStatuses = []string{"signed", "paid", "dead"}

// Fields of a refund.
func (Refund) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		// The recipient.
		owner(),
		field.Enum("status").Values(refundStatuses...),
		field.String("network").Immutable(),
		// Addresses and the nonce are lower-case hex.
		field.String("asset").Immutable(),
		// Changes only with the treasury's key, and then only while the authorization of the old one is dead.
		field.String("treasury"),
		field.Int64("value").Immutable(),
		field.String("nonce").Immutable(),
		field.Int64("valid_before"),
		field.Bytes("signature").Sensitive(),
		field.String("transaction").Optional().Nillable(),
		field.Int64("block").Optional().Nillable(),
		field.String("block_hash").Optional().Nillable(),
		field.Int64("log_index").Optional().Nillable(),
		field.Time("settled_at").Optional().Nillable(),
		field.Time("created_at").Immutable(),
		field.Time("signed_at"),
	}
}

// Indexes of a refund.
func (Refund) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("order_id", "owner").Unique().StorageKey("refunds_order"),
		// What the token enforces, enforced here too. The nonce follows from the payment, which has one payer, so it is
		// unique over all owners.
		index.Fields("network", "asset", "treasury", "nonce", "owner").Unique().StorageKey("refunds_authorization"),
		// One transfer on chain counts once. Its recipient is the owner, so it is unique over all owners.
		index.Fields("transaction", "log_index", "owner").Unique().StorageKey("refunds_transfer"),
	}
}

// Annotations of a refund.
func (Refund) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"refunds_status": oneOf("status", refundStatuses),
		"refunds_value":  "value > 0",
		"refunds_proof": "(status = 'paid') = (transaction IS NOT NULL AND block IS NOT NULL AND " +
			"block_hash IS NOT NULL AND log_index IS NOT NULL AND settled_at IS NOT NULL)",
	})}
}
