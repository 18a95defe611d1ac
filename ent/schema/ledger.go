package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// LedgerPosting is one movement of value. Append-only by trigger, as are its entries.
type LedgerPosting struct{ ent.Schema }

var postingKinds = []string{
	"settled", "loaded", "load_fee", "fee_withdrawn", "fee_kept", "fee_owed", "fee_collected", "fee_written_off",
	"remainder_withdrawn", "remainder_returned",
	"sold", "supplied", "cancelled", "refunded", "unmatched", "matched", "resolved",
}

// Fields of a posting.
func (LedgerPosting) Fields() []ent.Field {
	return []ent.Field{
		// Says what is recorded, so that it is recorded once: the kind and the order or the transfer.
		field.String("id").Immutable(),
		// Both are empty for money that belongs to no order.
		field.String("order_id").Immutable(),
		owner(),
		field.Enum("kind").Values(postingKinds...).Immutable(),
		field.Time("at").Immutable(),
	}
}

// Indexes of a posting.
func (LedgerPosting) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("order_id", "owner", "id").StorageKey("ledger_postings_order"),
		// Postings are appended almost in the order of their time.
		index.Fields("at").StorageKey("ledger_postings_at").Annotations(entsql.IndexType("BRIN")),
	}
}

// Annotations of a posting.
func (LedgerPosting) Annotations() []schema.Annotation {
	return []schema.Annotation{
		entsql.Table("ledger_postings"),
		entsql.Checks(map[string]string{"ledger_postings_kind": oneOf("kind", postingKinds)}),
	}
}

// LedgerEntry changes one account by a posting. A trigger refuses entries that do not balance.
type LedgerEntry struct{ ent.Schema }

// Fields of an entry.
func (LedgerEntry) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id").Immutable(),
		field.String("posting_id").Immutable(),
		owner(),
		field.String("account").Immutable(),
		// Millionths of a dollar.
		field.Int64("amount").Immutable(),
	}
}

// Indexes of an entry.
func (LedgerEntry) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("posting_id", "owner", "account").Unique().StorageKey("ledger_entries_line"),
		// What is on a card.
		index.Fields("account").StorageKey("ledger_entries_card").
			Annotations(entsql.IndexWhere("((account)::text ~~ 'card:%'::text)")),
	}
}

// Annotations of an entry.
func (LedgerEntry) Annotations() []schema.Annotation {
	return []schema.Annotation{
		entsql.Table("ledger_entries"),
		entsql.Checks(map[string]string{"ledger_entries_amount": "amount <> 0"}),
	}
}
