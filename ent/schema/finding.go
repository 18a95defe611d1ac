package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
	"github.com/google/uuid"
)

// Finding is one difference between the books. It has one row for ever: a difference that disappears and comes again is
// the same. It is about an order, and belongs to the reconciliation.
type Finding struct{ ent.Schema }

// Fields of a finding.
func (Finding) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id").Immutable(),
		// The reconciliation that found it: asset and payee.
		field.String("reconciliation_id").Immutable(),
		// What is compared at once, and whose findings come and go together: "order/<id>", "arrival/<transfer>",
		// "line/<id at the issuer>", "posting/<id>", "block/<number>".
		field.String("unit").Immutable(),
		field.String("code").Immutable(),
		field.String("subject").Immutable(),
		// Empty when it concerns none.
		field.String("order_id"),
		// The wallet whose top-ups it closes; empty for everybody's. Lower-case hex.
		field.String("owner"),
		// The kind of the order, or empty.
		field.String("product"),
		field.Text("detail"),
		// What the difference is based on. A resolution holds while neither the evidence changes nor the size grows.
		field.Text("evidence"),
		field.Int64("size"),
		field.Bool("blocks"),
		field.Time("first_seen"),
		field.Time("last_seen"),
		// Set while there is no such difference.
		field.Time("closed_at").Optional().Nillable(),
		// An operator's decision.
		field.Time("resolved_at").Optional().Nillable(),
		field.String("resolution").Default(""),
		field.String("resolved_by").Default(""),
		field.Text("reason").Default(""),
	}
}

// Indexes of a finding.
func (Finding) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("reconciliation_id", "unit", "code", "subject").Unique().StorageKey("findings_difference"),
		index.Fields("reconciliation_id", "unit").StorageKey("findings_present").
			Annotations(entsql.IndexWhere("(closed_at IS NULL)")),
		index.Fields("reconciliation_id", "id").StorageKey("findings_listed").
			Annotations(entsql.IndexWhere("(closed_at IS NULL)")),
		// Those that a comparison closed.
		index.Fields("reconciliation_id", "closed_at").StorageKey("findings_closed").
			Annotations(entsql.IndexWhere("(closed_at IS NOT NULL)")),
		// What the gate reads.
		index.Fields("reconciliation_id", "owner").StorageKey("findings_blocking").
			Annotations(entsql.IndexWhere("(blocks AND (closed_at IS NULL) AND (resolved_at IS NULL))")),
	}
}

// IssuerLine is a card or a movement as the issuer's own books show it. It is a copy, for comparing.
type IssuerLine struct{ ent.Schema }

// Fields of a line.
func (IssuerLine) Fields() []ent.Field {
	return []ent.Field{
		// The issuer by the name in the settings, a slash, and the issuer's own name for it.
		field.String("id").Immutable(),
		field.String("provider").Immutable(),
		field.UUID("reference", uuid.UUID{}),
		// The card it is, or moves money on.
		field.String("account"),
		// Empty for a card.
		field.String("direction"),
		field.String("state"),
		field.Int64("amount_usd_cents"),
		field.Int64("balance_usd_cents").Default(0),
		// The order that explains it; empty while none does.
		field.String("order_id").Default(""),
		// What the holder has spent, as far as it can be told.
		field.Int64("spent_usd_cents").Default(0),
		// The reading of the issuer's whole books that last showed it.
		field.Int64("epoch"),
		// It changed, and has not been compared since.
		field.Bool("pending").Default(true),
		field.Time("changed_at"),
	}
}

// Indexes of a line.
func (IssuerLine) Indexes() []ent.Index {
	return []ent.Index{
		index.Fields("reference").StorageKey("issuer_lines_reference"),
		index.Fields("order_id").StorageKey("issuer_lines_order"),
		index.Fields("id").StorageKey("issuer_lines_pending").Annotations(entsql.IndexWhere("pending")),
		index.Fields("id").StorageKey("issuer_lines_spent").Annotations(entsql.IndexWhere("(spent_usd_cents > 0)")),
	}
}

// Annotations of a line.
func (IssuerLine) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("issuer_lines")}
}
