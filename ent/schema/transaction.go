package schema

import (
	"time"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// Transaction is one of a relayer's transactions, stored before it is sent. It submits payments and refunds, which are
// its members. It belongs to the relayer, whose nonces are counted over all owners.
type Transaction struct{ ent.Schema }

// Variant is one signed form of a transaction; a fee bump adds another.
type Variant struct {
	Hash     string    `json:"hash"`
	Raw      []byte    `json:"raw"`
	SignedAt time.Time `json:"signedAt"`
}

var transactionStatuses = []string{"open", "reverted", "closed"}

// Fields of a transaction.
func (Transaction) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("relayer").Immutable(),
		field.Int64("nonce").Immutable(),
		field.JSON("variants", []Variant{}),
		field.Enum("status").Values(transactionStatuses...),
		field.Time("created_at").Immutable(),
		// What the included transaction cost the relayer, in wei; zero until it is closed.
		field.Int64("spent_wei").Default(0),
	}
}

// Indexes of a transaction.
func (Transaction) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("relayer", "nonce").Unique().StorageKey("transactions_nonce"),
		// What may be pruned.
		index.Fields("status", "created_at").StorageKey("transactions_age"),
	}
}

// Annotations of a transaction.
func (Transaction) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"transactions_status": oneOf("status", transactionStatuses),
		"transactions_nonce":  "nonce >= 0",
		"transactions_spent":  "spent_wei >= 0",
	})}
}

// TransactionMember is a payment or a refund that a transaction submits.
type TransactionMember struct{ ent.Schema }

// Fields of a member.
func (TransactionMember) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.UUID("transaction_id", uuid.UUID{}).Immutable(),
		field.UUID("payment_id", uuid.UUID{}).Immutable(),
		// The place in the transaction's call, from 0.
		field.Int("place").Immutable(),
		// Reverted: the transaction is included, or never will be, and has not moved this payment.
		field.Enum("status").Values(transactionStatuses...),
		field.Time("created_at").Immutable(),
		// What the relayer lost on a reverted member, in wei: its share of the transaction's cost.
		field.Int64("lost_wei").Default(0),
	}
}

// Indexes of a member.
func (TransactionMember) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("transaction_id", "place").Unique().StorageKey("transaction_members_place"),
		// While one of our transactions can be included, there is no second one for its payment.
		index.Fields("payment_id").Unique().
			StorageKey("transaction_members_open").
			Annotations(entsql.IndexWhere("((status)::text = 'open'::text)")),
		index.Fields("payment_id", "created_at"),
		// What was lost recently.
		index.Fields("created_at").
			StorageKey("transaction_members_reverted").
			Annotations(entsql.IndexWhere("((status)::text = 'reverted'::text)")),
	}
}

// Annotations of a member.
func (TransactionMember) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"transaction_members_status": oneOf("status", transactionStatuses),
		"transaction_members_lost":   "lost_wei >= 0",
	})}
}
