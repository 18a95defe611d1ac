package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Audit is one action of an operator: who, what, why, and what it changed. Append-only by trigger. A row without
// reason, key and change is a read: those are deleted after a while.
type Audit struct{ ent.Schema }

// Fields of an audit row.
func (Audit) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.Time("at").Immutable(),
		field.String("actor").Immutable(),
		field.String("action").Immutable(),
		field.String("subject").Immutable(),
		field.Text("reason").Default("").Immutable(),
		field.String("idempotency_key").Default("").Immutable(),
		field.JSON("before", json.RawMessage{}).Optional().Immutable(),
		field.JSON("after", json.RawMessage{}).Optional().Immutable(),
	}
}

// Indexes of an audit row.
func (Audit) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("subject", "at"),
		// An action with a key happens once, however often it is requested.
		index.Fields("actor", "action", "subject", "idempotency_key").
			Unique().
			StorageKey("audit_once").
			Annotations(entsql.IndexWhere("((idempotency_key)::text <> ''::text)")),
		// The reads, by age: what may be pruned.
		index.Fields("at").
			StorageKey("audit_reads").
			Annotations(entsql.IndexWhere("((before IS NULL) AND (after IS NULL) AND (reason = ''::text) AND " +
				"((idempotency_key)::text = ''::text))")),
	}
}

// Annotations of an audit row.
func (Audit) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("audit")}
}
