package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// EarlyArrival is a transfer of USDC to the payee that somebody showed us, by the authorization it carried out, before its block
// was read for the books. A reorganisation may move it to another place; the authorization stays what it is.
type EarlyArrival struct{ ent.Schema }

// Fields of an early arrival.
func (EarlyArrival) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id").Immutable(),
		field.String("network").Immutable(),
		// Addresses and hashes are lower-case hex.
		field.String("asset").Immutable(),
		field.String("pay_to").Immutable(),
		field.String("payer").Immutable(),
		field.Int64("value").Immutable(),
		field.String("nonce").Immutable(),
		// Unix seconds, as whoever showed it signed them.
		field.Int64("valid_after").Immutable(),
		field.Int64("valid_before").Immutable(),
		field.String("transaction"),
		field.Int64("log_index"),
		field.Int64("block"),
		field.String("block_hash"),
		field.Time("settled_at"),
		field.Time("seen_at").Immutable(),
	}
}

// Indexes of an early arrival.
func (EarlyArrival) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("network", "asset", "payer", "nonce").Unique().StorageKey("early_arrivals_authorization"),
	}
}

// Annotations of an early arrival.
func (EarlyArrival) Annotations() []schema.Annotation {
	return []schema.Annotation{
		entsql.Table("early_arrivals"),
		entsql.Checks(map[string]string{"early_arrivals_value": "value > 0"}),
	}
}
