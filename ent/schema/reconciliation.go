package schema

import (
	"encoding/json"

	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Reconciliation is how far the chain has been read for a payee, and what the last comparison of the books found.
type Reconciliation struct{ ent.Schema }

// Fields of a reconciliation.
func (Reconciliation) Fields() []ent.Field {
	return []ent.Field{
		// Asset and payee.
		field.String("id").Immutable(),
		field.Int64("first_block").Immutable(),
		// The first block that has not been read.
		field.Int64("next_block"),
		// The end of the last comparison; unset until there was one.
		field.Time("at").Optional().Nillable(),
		field.Bool("blocks").Default(false),
		field.JSON("report", json.RawMessage{}).Optional(),
		// How far the comparisons have come in each book.
		field.JSON("progress", json.RawMessage{}).Optional(),
	}
}

var outcomes = []string{"agreed", "differed", "incomplete", "failed"}

// ReconciliationRun is one comparison of the books that has ended.
type ReconciliationRun struct{ ent.Schema }

// Fields of a run.
func (ReconciliationRun) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id").Immutable(),
		// Asset and payee.
		field.String("reconciliation_id").Immutable(),
		field.Time("began_at").Immutable(),
		field.Time("ended_at").Immutable(),
		field.String("outcome").Immutable(),
		// What could not be read, of one that failed; empty otherwise. What follows is zero then.
		field.String("unread").Default("").Immutable(),
		// The first and last block whose transfers had been read.
		field.Int64("first_block").Default(0).Immutable(),
		field.Int64("last_block").Default(0).Immutable(),
		// How much it compared.
		field.Int64("orders").Default(0).Immutable(),
		field.Int64("payments").Default(0).Immutable(),
		field.Int64("transfers").Default(0).Immutable(),
		field.Int64("postings").Default(0).Immutable(),
		field.Int64("cards").Default(0).Immutable(),
		field.Int64("movements").Default(0).Immutable(),
		field.Int64("spent_usd_cents").Default(0).Immutable(),
		// The findings that were new in it, and those that were gone.
		field.Int64("opened").Default(0).Immutable(),
		field.Int64("closed").Default(0).Immutable(),
		// The findings that differed at its end: open ones, those of them that block, and those that operators had
		// resolved.
		field.Int64("open").Default(0).Immutable(),
		field.Int64("blocking").Default(0).Immutable(),
		field.Int64("resolved").Default(0).Immutable(),
		// The open findings by code, and the sums of the ledger, as in the report.
		field.JSON("sums", json.RawMessage{}).Optional().Immutable(),
		field.JSON("balances", json.RawMessage{}).Optional().Immutable(),
	}
}

// Indexes of a run.
func (ReconciliationRun) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("reconciliation_id", "id").StorageKey("reconciliation_runs_listed"),
		index.Fields("ended_at").StorageKey("reconciliation_runs_age"),
	}
}

// Annotations of a run.
func (ReconciliationRun) Annotations() []schema.Annotation {
	return []schema.Annotation{
		entsql.Table("reconciliation_runs"),
		entsql.Checks(map[string]string{"reconciliation_runs_outcome": oneOf("outcome", outcomes)}),
	}
}
