package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// CardLink is a link to a page that shows a card once. Its tokens are stored as hashes only.
type CardLink struct{ ent.Schema }

// Fields of a link.
func (CardLink) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.UUID("card_id", uuid.UUID{}).Immutable(),
		field.String("owner").Immutable(),
		field.Bytes("token_hash").Unique().Immutable().Sensitive(),
		field.Time("expires_at").Immutable(),
		field.Time("opened_at").Optional().Nillable(),
		field.Bytes("unlock_hash").Optional().Nillable().Unique().Sensitive(),
		field.Time("unlock_before").Optional().Nillable(),
		field.Time("unlocked_at").Optional().Nillable(),
	}
}

// Indexes of a link.
func (CardLink) Indexes() []ent.Index {
	return []ent.Index{index.Fields("expires_at")}
}
