package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// Challenge is a message we asked a wallet to sign, good for one use. Its typed-data twin is made from it.
type Challenge struct{ ent.Schema }

// Fields of a challenge.
func (Challenge) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("purpose").Immutable(),
		field.String("wallet").Immutable(),
		field.String("scheme").Immutable(),
		field.Text("message").Immutable(),
		field.String("nonce").Immutable(),
		field.UUID("card_id", uuid.UUID{}).Optional().Nillable().Immutable(),
		field.UUID("session_id", uuid.UUID{}).Optional().Nillable().Immutable(),
		field.Bytes("recipient_key").Optional().Nillable().Immutable(),
		// A keyed digest of the address that asked, never the address.
		field.String("source").Default("").Immutable(),
		field.Time("issued_at").Immutable(),
		field.Time("expires_at").Immutable(),
		field.Time("consumed_at").Optional().Nillable(),
	}
}

// Indexes of a challenge.
func (Challenge) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("wallet", "purpose", "expires_at"),
		index.Fields("expires_at"),
	}
}
