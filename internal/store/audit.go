package store

import (
	"context"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/audit"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/order"
)

// The operators' actions on nothing of its own, as the audit trail names them.
const (
	actAudit     = "audit.list"
	actPresented = "operator.whoami"
)

// Presented implements admin.Records.
func (d Admin) Presented(ctx context.Context, act order.OperatorContext) error {
	return d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return d.s.record(ctx, tx, act, actPresented, "", nil, nil)
	})
}

// Audit implements admin.Records.
func (d Admin) Audit(
	ctx context.Context, q admin.AuditQuery, act order.OperatorContext,
) (found []admin.AuditRecord, err error) {
	err = d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if found, err = auditOf(ctx, tx, q); err != nil {
			return err
		}
		return d.s.record(ctx, tx, act, actAudit, q.Subject, nil, nil)
	})
	return found, err
}

func auditOf(ctx context.Context, tx *ent.Tx, q admin.AuditQuery) ([]admin.AuditRecord, error) {
	query := tx.Audit.Query()
	for _, filter := range []struct {
		value string
		field string
	}{{q.Actor, audit.FieldActor}, {q.Action, audit.FieldAction}, {q.Subject, audit.FieldSubject}} {
		if filter.value != "" {
			query = query.Where(sql.FieldEQ(filter.field, filter.value))
		}
	}
	if !q.Since.IsZero() {
		query = query.Where(audit.AtGTE(q.Since))
	}
	if !q.Until.IsZero() {
		query = query.Where(audit.AtLT(q.Until))
	}
	if q.Before != uuid.Nil {
		query = query.Where(audit.IDLT(q.Before))
	}
	rows, err := query.Order(audit.ByID(sql.OrderDesc())).Limit(q.Limit).All(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]admin.AuditRecord, len(rows))
	for i, row := range rows {
		found[i] = admin.AuditRecord{
			ID: row.ID, At: row.At.UTC(), Actor: row.Actor, Action: row.Action, Subject: row.Subject, Reason: row.Reason,
			Before: row.Before, After: row.After,
		}
	}
	return found, nil
}

// audit writes an action without a reason or key to the audit trail; after is its result, nil for a read.
func (s *Store) audit(ctx context.Context, tx *ent.Tx, actor, action, subject string, after any) error {
	return s.record(ctx, tx, order.OperatorContext{Operator: actor}, action, subject, nil, after)
}
