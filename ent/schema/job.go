package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Job is work that must survive a restart. Its times are the database's, the one clock that every
// worker shares.
type Job struct{ ent.Schema }

var jobClasses = []string{"settle", "deliver", "maintain"}

var jobStatuses = []string{"queued", "processing", "succeeded", "failed", "operator_review"}

// Fields of a job.
func (Job) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("kind").Immutable(),
		// Which workers' slots it takes.
		field.Enum("class").Values(jobClasses...).Default("maintain"),
		field.String("unique_key").Immutable(),
		// The wallet whose order it works on, in lower-case hex; empty for maintenance.
		field.String("owner").Default("").Immutable(),
		field.JSON("payload", json.RawMessage{}).Immutable(),
		field.String("traceparent").Default("").Immutable(),
		field.Enum("status").Values(jobStatuses...).Default("queued"),
		// The number of claims so far: with the claim's name it is the fencing token, so it only rises.
		field.Int("attempt").Default(0),
		// Claims that do not count against max_attempts: snoozed, or handed back at a shutdown.
		field.Int("uncounted_attempts").Default(0),
		field.Int("max_attempts"),
		// Raised by every write; an operator's action is guarded by it.
		field.Int64("version").Default(0),
		field.String("step").Default(""),
		field.Time("step_at").Optional().Nillable(),
		field.Time("run_at"),
		field.Time("created_at").Immutable(),
		field.Time("finished_at").Optional().Nillable(),
		field.Text("last_error").Default(""),
		field.String("lease_owner").Optional().Nillable(),
		field.Time("lease_until").Optional().Nillable(),
	}
}

// Indexes of a job.
func (Job) Indexes() []ent.Index {
	return []ent.Index{
		// A key names an order's payment, refund or card, or a period of maintenance: each has one owner, so the key is
		// unique over all owners too.
		index.Fields("kind", "unique_key", "owner").Unique().StorageKey("jobs_unique"),
		index.Fields("class", "run_at").
			StorageKey("jobs_due").
			Annotations(entsql.IndexWhere("((status)::text = 'queued'::text)")),
		index.Fields("lease_until").
			StorageKey("jobs_leased").
			Annotations(entsql.IndexWhere("((status)::text = 'processing'::text)")),
		// Depth and the operator's lists read what is not done; most rows are done.
		index.Fields("kind", "status", "created_at").
			StorageKey("jobs_open").
			Annotations(entsql.IndexWhere("((status)::text <> 'succeeded'::text)")),
		// What may be pruned.
		index.Fields("kind", "finished_at").
			StorageKey("jobs_finished").
			Annotations(entsql.IndexWhere("((status)::text = 'succeeded'::text)")),
	}
}

// Annotations of a job.
func (Job) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"jobs_status":       oneOf("status", jobStatuses),
		"jobs_class":        oneOf("class", jobClasses),
		"jobs_lease":        "(status = 'processing') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)",
		"jobs_max_attempts": "max_attempts > 0",
	})}
}
