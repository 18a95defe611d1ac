package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Arrival is a transfer of USDC to the payee, as a block says that nothing can undo. Append-only by trigger.
type Arrival struct{ ent.Schema }

// Fields of an arrival.
func (Arrival) Fields() []ent.Field {
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
		// The authorization it carried out; empty for a plain transfer.
		field.String("nonce").Default("").Immutable(),
		field.Time("seen_at").Immutable(),
	}
}

// Indexes of an arrival.
func (Arrival) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("transaction", "log_index").Unique().StorageKey("arrivals_transfer"),
		// What of a payer's came by an authorization.
		index.Fields("sender", "value").
			StorageKey("arrivals_payer").
			Annotations(entsql.IndexWhere("((nonce)::text <> ''::text)")),
		index.Fields("sender", "nonce").StorageKey("arrivals_authorization").
			Annotations(entsql.IndexWhere("((nonce)::text <> ''::text)")),
	}
}

// Annotations of an arrival.
func (Arrival) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{"arrivals_value": "value > 0"})}
}

// Reconciliation is how far the chain has been read for a payee, and what the last comparison of the books found.
type Reconciliation struct{ ent.Schema }

// Fields of a reconciliation.
func (Reconciliation) Fields() []ent.Field {
	return []ent.Field{
		// Asset and payee.
		field.String("id").Immutable(),
		field.Int64("first_block").Immutable(),
		// The first block that has not been read.
		field.Int64("next_block"),
		// The end of the last comparison; unset until there was one.
		field.Time("at").Optional().Nillable(),
		field.Bool("blocks").Default(false),
		field.JSON("report", json.RawMessage{}).Optional(),
		// How far the comparisons have come in each book.
		field.JSON("progress", json.RawMessage{}).Optional(),
	}
}
