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

// Attempt is one transaction of a relayer that submits a payment or a refund, stored before it is sent. It belongs to
// the relayer, whose nonces are counted over all owners, and is found by its payment.
type Attempt struct{ ent.Schema }

// Variant is one signed form of an attempt's transaction; a fee bump adds another.
type Variant struct {
	Hash     string    `json:"hash"`
	Raw      []byte    `json:"raw"`
	SignedAt time.Time `json:"signedAt"`
}

var attemptStatuses = []string{"open", "reverted", "closed"}

// Fields of an attempt.
func (Attempt) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.UUID("payment_id", uuid.UUID{}).Immutable(),
		field.String("relayer").Immutable(),
		field.Int64("nonce").Immutable(),
		field.JSON("variants", []Variant{}),
		field.Enum("status").Values(attemptStatuses...),
		field.Time("created_at").Immutable(),
		// What the included transaction cost the relayer, in wei; zero until it is closed.
		field.Int64("spent_wei").Default(0),
	}
}

// Indexes of an attempt.
func (Attempt) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("relayer", "nonce").Unique().StorageKey("attempts_nonce"),
		// While one of our transactions can be included, there is no second one for its payment.
		index.Fields("payment_id").Unique().
			StorageKey("attempts_open").
			Annotations(entsql.IndexWhere("((status)::text = 'open'::text)")),
		index.Fields("payment_id", "created_at"),
		// What was spent recently, and what may be pruned.
		index.Fields("status", "created_at").StorageKey("attempts_age"),
	}
}

// Annotations of an attempt.
func (Attempt) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"attempts_status": oneOf("status", attemptStatuses),
		"attempts_nonce":  "nonce >= 0",
		"attempts_spent":  "spent_wei >= 0",
	})}
}
