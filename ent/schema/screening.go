package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// ScreeningList is a list of addresses that are not served, as it was read last.
type ScreeningList struct{ ent.Schema }

// Fields of a screening list.
func (ScreeningList) Fields() []ent.Field {
	return []ent.Field{
		// Where it is read from, without secrets.
		field.String("id").Immutable(),
		// SHA-256 of the addresses in order: a list that did not change is not written again.
		field.Bytes("digest"),
		field.Int("addresses").NonNegative(),
		field.Time("read_at"),
	}
}

// ScreenedAddress is an address on a screening list.
type ScreenedAddress struct{ ent.Schema }

// Fields of a screened address.
func (ScreenedAddress) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("list").Immutable(),
		field.String("address").Immutable(),
	}
}

// Indexes of a screened address.
func (ScreenedAddress) Indexes() []ent.Index {
	return []ent.Index{index.Fields("address", "list").Unique()}
}
