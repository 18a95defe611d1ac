package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
)

// AuditRecord is one thing that an operator did.
type AuditRecord struct {
	ID uuid.UUID
	At time.Time
	// Actor is the operator's name, or what did it by itself.
	Actor string
	// Action is the name of what was done, and Subject what it was done to: an order, a job, a product, a status.
	Action, Subject string
	Reason          string
	// Before and After are the state that it changed, as JSON; empty for reads.
	Before, After json.RawMessage
}

// AuditQuery selects a page of audit records. What is empty selects all.
type AuditQuery struct {
	Actor, Action, Subject string
	// Since is the earliest time, and Until the first that is too late.
	Since, Until time.Time
	// Before is the last record of the previous page.
	Before uuid.UUID
	Limit  int
}

// Audit lists a page of audit records, newest first. next is the cursor of the next page, or nil.
func (a Admin) Audit(
	ctx context.Context, q AuditQuery, act order.OperatorContext,
) (page []AuditRecord, next uuid.UUID, err error) {
	limit := q.Limit
	q.Limit++
	if page, err = a.Records.Audit(ctx, q, act); err != nil {
		return nil, uuid.Nil, fmt.Errorf("list the audit trail: %w", err)
	}
	page, next = paging.Cut(page, limit, func(record AuditRecord) uuid.UUID { return record.ID })
	return page, next, nil
}

// Presented records that an operator asked who they are, as every program of an operator's does first.
func (a Admin) Presented(ctx context.Context, act order.OperatorContext) error {
	if err := a.Records.Presented(ctx, act); err != nil {
		return fmt.Errorf("record the operator: %w", err)
	}
	return nil
}
