package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Transfer is a transfer of USDC to the payee in a block that can no longer be reorganised, whether or not it pays for
// an order. Append-only by trigger.
type Transfer struct{ ent.Schema }

// Fields of a transfer.
func (Transfer) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id").Immutable(),
		// Addresses and hashes are lower-case hex.
		field.String("asset").Immutable(),
		field.String("pay_to").Immutable(),
		field.String("transaction").Immutable(),
		field.Int64("log_index").Immutable(),
		field.Int64("block").Immutable(),
		field.String("sender").Immutable(),
		field.Int64("value").Immutable(),
		// Of the authorization that was executed; empty for a plain transfer.
		field.String("nonce").Default("").Immutable(),
		field.Time("seen_at").Immutable(),
	}
}

// Indexes of a transfer.
func (Transfer) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("transaction", "log_index").Unique().StorageKey("transfers_place"),
		// The authorized transfers of a payer.
		index.Fields("sender", "value").
			StorageKey("transfers_sender").
			Annotations(entsql.IndexWhere("((nonce)::text <> ''::text)")),
		index.Fields("sender", "nonce").StorageKey("transfers_authorization").
			Annotations(entsql.IndexWhere("((nonce)::text <> ''::text)")),
	}
}

// Annotations of a transfer.
func (Transfer) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"transfers_value": "value > 0"})}
}

// ReportedTransfer is a transfer of USDC to the payee that a buyer reported, by its authorization, before the scanner
// has read its block. A reorganisation may move it to another transaction; the authorization stays the same.
type ReportedTransfer struct{ ent.Schema }

// Fields of a reported transfer.
func (ReportedTransfer) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id").Immutable(),
		field.String("network").Immutable(),
		// Addresses and hashes are lower-case hex.
		field.String("asset").Immutable(),
		field.String("pay_to").Immutable(),
		field.String("payer").Immutable(),
		field.Int64("value").Immutable(),
		field.String("nonce").Immutable(),
		// Unix seconds, as signed.
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

// Indexes of a reported transfer.
func (ReportedTransfer) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("network", "asset", "payer", "nonce").Unique().StorageKey("reported_transfers_authorization"),
	}
}

// Annotations of a reported transfer.
func (ReportedTransfer) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"reported_transfers_value": "value > 0"})}
}
