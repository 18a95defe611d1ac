package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Session is a wallet signed in. The token itself is never stored.
type Session struct{ ent.Schema }

// Fields of a session.
func (Session) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("wallet").Immutable(),
		field.Strings("scopes").Immutable(),
		field.Bytes("token_hash").Unique().Immutable().Sensitive(),
		field.Time("issued_at").Immutable(),
		field.Time("expires_at").Immutable(),
		field.Time("revoked_at").Optional().Nillable(),
	}
}

// Indexes of a session.
func (Session) Indexes() []ent.Index {
	return []ent.Index{index.Fields("expires_at")}
}
