package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Timeline is one transition of an order: who made it, why, and on what evidence. Append-only by trigger. Of an order
// that is final, the last line and those of operators stay for ever, the others for a while.
type Timeline struct{ ent.Schema }

// Fields of a timeline row.
func (Timeline) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("order_id").Immutable(),
		owner(),
		// The order's version after the transition.
		field.Int("version").Immutable(),
		field.Time("at").Immutable(),
		field.String("from_status").Immutable(),
		field.String("to_status").Immutable(),
		field.String("actor").Immutable(),
		field.Text("reason").Immutable(),
		field.JSON("evidence", map[string]string{}).Optional().Immutable(),
		// The request that made it, as its answer names it; unset for what a worker or a command did.
		field.String("request_id").Optional().Nillable().Immutable(),
	}
}

// Indexes of a timeline row.
func (Timeline) Indexes() []ent.Index {
	return []ent.Index{
		// No transition is recorded twice. Rows are found by the order and its owner, so these come first.
		index.Fields("order_id", "owner", "version").Unique().StorageKey("timeline_move"),
		// What a request did, for operators who look for it.
		index.Fields("request_id").StorageKey("timeline_request").
			Annotations(entsql.IndexWhere("(request_id IS NOT NULL)")),
	}
}

// Annotations of a timeline row.
func (Timeline) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("timeline")}
}
