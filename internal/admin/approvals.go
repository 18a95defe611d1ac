package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
)

// Approvals shows operators the decisions that wait for a second one, and ends their waiting.
type Approvals struct {
	Records ApprovalRecords
	Refunds Refunds
	// Postings are those of an order that was delivered by hand; see Admin.Postings.
	Postings func(ctx context.Context, id order.ID) ([]ledger.Posting, error)
}

// ApprovalRecords reads and ends decisions that wait for a second operator. Each call writes its audit record in the
// same transaction.
type ApprovalRecords interface {
	// Approvals lists those that a query selects, newest first.
	Approvals(ctx context.Context, q ApprovalQuery, act order.OperatorContext) ([]approval.Approval, error)
	// Approval reads one. approval.ErrNotFound when there is none.
	Approval(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error)
	// Approve lets one take effect in the same transaction, once per key; delivered are the postings of an order that was
	// delivered by hand. approval.ErrNotFound when there is none, order.KeyReused when the operator used the key for
	// another act, ErrChanged when what it is about has changed, else the fault of approval.Approval.Check or of the
	// decision.
	Approve(
		ctx context.Context, id uuid.UUID, delivered []ledger.Posting, act order.OperatorContext,
	) (approval.Approval, error)
	// Reject ends one without an effect, once per key, with the errors of Approve.
	Reject(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error)
}

// ApprovalQuery selects a page of decisions.
type ApprovalQuery struct {
	Status approval.Status
	// Before is the last decision of the previous page.
	Before uuid.UUID
	Limit  int
}

// List lists a page of decisions, newest first. next is the cursor of the next page, or nil.
func (a Approvals) List(
	ctx context.Context, q ApprovalQuery, act order.OperatorContext,
) (page []approval.Approval, next uuid.UUID, err error) {
	limit := q.Limit
	q.Limit++
	if page, err = a.Records.Approvals(ctx, q, act); err != nil {
		return nil, uuid.Nil, fmt.Errorf("list the approvals: %w", err)
	}
	page, next = paging.Cut(page, limit, func(one approval.Approval) uuid.UUID { return one.ID })
	return page, next, nil
}

// Show reads one decision.
func (a Approvals) Show(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error) {
	found, err := a.Records.Approval(ctx, id, act)
	if err != nil {
		return approval.Approval{}, toFault(err, "read the approval")
	}
	return found, nil
}

// Approve lets a decision of another operator take effect. A repeat with the same key changes nothing.
func (a Approvals) Approve(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error) {
	waiting, err := a.Show(ctx, id, order.OperatorContext{Operator: act.Operator}) // a read, which may be repeated
	if err != nil {
		return approval.Approval{}, err
	}
	var postings []ledger.Posting
	pending := waiting.Status == approval.Pending
	switch why := a.Refunds.Unavailable(); {
	case pending && waiting.Action == approval.RefundOrder && why != "":
		return approval.Approval{}, fault.Newf(fault.RefundUnavailable, "The refund cannot be made: %s.", why)
	case pending && waiting.Action == approval.FulfillOrder:
		if postings, err = a.Postings(ctx, order.ID(waiting.Subject)); err != nil {
			return approval.Approval{}, err
		}
	}
	found, err := a.Records.Approve(ctx, id, postings, act)
	if errors.Is(err, ErrChanged) {
		return approval.Approval{}, approval.Outdated()
	}
	if err != nil {
		return approval.Approval{}, toFault(err, "approve the decision")
	}
	return found, nil
}

// Reject ends the waiting of a decision, which takes no effect. A repeat with the same key changes nothing.
func (a Approvals) Reject(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error) {
	found, err := a.Records.Reject(ctx, id, act)
	if err != nil {
		return approval.Approval{}, toFault(err, "reject the decision")
	}
	return found, nil
}
