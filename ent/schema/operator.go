package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// OperatorToken is a token of an operator that was minted. The token itself is never stored.
type OperatorToken struct{ ent.Schema }

var operatorRoles = []string{"viewer", "support", "treasurer", "admin"}

// Fields of a token.
func (OperatorToken) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("name").Immutable(),
		field.Enum("role").Values(operatorRoles...).Immutable(),
		field.Bytes("token_hash").Unique().Immutable().Sensitive(),
		// The operator who minted it, first, and those who minted that operator's token.
		field.Strings("minters").Immutable(),
		field.Time("minted_at").Immutable(),
		field.Time("expires_at").Immutable(),
		// To the minute.
		field.Time("last_used_at").Optional().Nillable(),
		field.Time("revoked_at").Optional().Nillable(),
		field.String("revoked_by").Default(""),
	}
}

// Annotations of a token.
func (OperatorToken) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"operator_tokens_role": oneOf("role", operatorRoles),
	})}
}

// OperatorApproval is a decision of an operator that a second one has to approve.
type OperatorApproval struct{ ent.Schema }

var (
	approvalActions  = []string{"order.refund", "order.fulfill", "transfer.resolve", "card.close"}
	approvalStatuses = []string{"pending", "approved", "rejected", "expired"}
)

// Fields of an approval.
func (OperatorApproval) Fields() []ent.Field {
	return []ent.Field{
		id(),
		field.String("action").Immutable(),
		// The order, the place of the transfer, or the card.
		field.String("subject").Immutable(),
		field.Int64("amount_usd_cents").Immutable(),
		// What a transfer is resolved as; empty for other actions.
		field.String("resolution").Default("").Immutable(),
		// The version of the order; zero for other actions.
		field.Int("version").Default(0).Immutable(),
		field.Text("reason").Immutable(),
		field.String("idempotency_key").Immutable(),
		field.String("requested_by").Immutable(),
		// Those who minted the token of who asked for it, and those who minted theirs.
		field.Strings("minters").Immutable(),
		field.Time("requested_at").Immutable(),
		field.Time("expires_at").Immutable(),
		// A pending one whose time is over is expired, whether or not its row says so yet.
		field.Enum("status").Values(approvalStatuses...).Default("pending"),
		field.String("decided_by").Default(""),
		field.Text("decision_reason").Default(""),
		field.Time("decided_at").Optional().Nillable(),
	}
}

// Indexes of an approval.
func (OperatorApproval) Indexes() []ent.Index {
	return []ent.Index{
		// One decision about one thing waits at a time.
		index.Fields("subject").Unique().StorageKey("operator_approvals_waiting").
			Annotations(entsql.IndexWhere("((status)::text = 'pending'::text)")),
		index.Fields("status", "id").StorageKey("operator_approvals_listed"),
	}
}

// Annotations of an approval.
func (OperatorApproval) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Checks(map[string]string{
		"operator_approvals_action": oneOf("action", approvalActions),
		"operator_approvals_status": oneOf("status", approvalStatuses),
		// Whatever the program believes, nobody is the second operator of their own decision: package approval says who is
		// one person.
		"operator_approvals_second": "status <> 'approved' OR (decided_by <> '' AND CASE " +
			"WHEN position('~' in decided_by) > 0 AND position('~' in requested_by) > 0 " +
			"THEN split_part(decided_by, '~', 2) <> split_part(requested_by, '~', 2) " +
			"ELSE split_part(decided_by, '~', 1) <> split_part(requested_by, '~', 1) END)",
	})}
}
