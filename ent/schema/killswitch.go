package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// KillSwitch says whether operators have closed the sale of a product, or that over a provider. What has none is open.
type KillSwitch struct{ ent.Schema }

// Fields of a kill switch. The id is the product, or "provider." and the provider's name.
func (KillSwitch) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").Immutable(),
		field.Bool("paused"),
		field.Text("reason"),
		field.String("actor"),
		field.Time("changed_at"),
	}
}

// Annotations of a kill switch.
func (KillSwitch) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"kill_switches_product": kindOf("id") + ` OR id ~ '^provider\.[a-z][a-z0-9_-]{0,31}$'`,
	})}
}
