package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// TransferResolution is an operator's decision on a transfer that belongs to no order. Append-only by trigger.
type TransferResolution struct{ ent.Schema }

var resolutions = []string{"refunded_by_hand", "donation", "known"}

// Fields of a resolution.
func (TransferResolution) Fields() []ent.Field {
	return []ent.Field{
		// The transaction and the log index of the transfer, with a slash between them.
		field.String("id").Immutable(),
		field.Enum("resolution").Values(resolutions...).Immutable(),
		field.Text("reason").Immutable(),
		field.String("actor").Immutable(),
		field.Time("at").Immutable(),
	}
}

// Annotations of a resolution.
func (TransferResolution) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"transfer_resolutions_resolution": oneOf("resolution", resolutions),
	})}
}
