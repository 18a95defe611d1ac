package store

import (
	"context"
	"fmt"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/operatorapproval"
	entorder "github.com/roamcard/roamcard/ent/order"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// The operators' actions on decisions that wait for a second one, as the audit trail names them.
const (
	actApprovals = "approvals.list"
	actApproval  = "approval.inspect"
	actAsk       = "approval.request"
	actApprove   = "approval.approve"
	actReject    = "approval.reject"
)

// Approvals are the decisions that wait for a second operator. It implements admin.ApprovalRecords.
type Approvals struct {
	s *Store
	// transfers and closings run what is approved.
	transfers Treasury
	closings  Closings
	closing   func(card.ClosingFacts) (card.CloseArgs, error)
}

// Approvals is the part of the store for decisions that wait for a second operator. closing decides, as
// card.CloseJobs.OrderClosing wants it.
func (s *Store) Approvals(transfers Treasury, closing func(card.ClosingFacts) (card.CloseArgs, error)) Approvals {
	return Approvals{s, transfers, s.Closings(), closing}
}

// asked is the audit record of a decision that waits, and of one that does not any more.
type asked struct {
	Approval   string `json:"approval"`
	Action     string `json:"action,omitempty"`
	Cents      int64  `json:"amountUsdCents,omitempty"`
	Resolution string `json:"resolution,omitempty"`
	By         string `json:"requestedBy,omitempty"`
	Status     string `json:"status"`
}

// requestApproval stores a decision that needs a second operator, once per key, and returns it; nil when it needs none.
// It runs in the transaction of the decision, which has locked what it is about. A decision about the same subject that
// waits already is an approval_pending.
func (s *Store) requestApproval(
	ctx context.Context, tx *ent.Tx, of approval.Asked, act order.OperatorContext,
) (*approval.Approval, error) {
	if !s.rule.Needs(of.Amount) {
		return nil, nil
	}
	now := s.stamp()
	same, err := tx.OperatorApproval.Query().Where(operatorapproval.RequestedBy(act.Operator),
		operatorapproval.Subject(of.Subject), operatorapproval.IdempotencyKey(act.Key),
		operatorapproval.Action(string(of.Action))).Only(ctx)
	switch {
	case err == nil && (same.Reason != act.Reason || same.Resolution != of.Resolution):
		return nil, order.KeyReused()
	case err == nil:
		before := approvalOf(same).At(now)
		return &before, nil
	case !ent.IsNotFound(err):
		return nil, err
	}
	waiting, err := waitingFor(ctx, tx.Client(), now, of.Subject)
	if err != nil {
		return nil, err
	}
	if w, ok := waiting[of.Subject]; ok {
		return nil, approval.AlreadyAsked(w.About(of.Version))
	}
	// What waited and has expired makes room.
	if err := tx.OperatorApproval.Update().Where(operatorapproval.Subject(of.Subject),
		operatorapproval.StatusEQ(operatorapproval.StatusPending)).
		SetStatus(operatorapproval.StatusExpired).Exec(ctx); err != nil {
		return nil, err
	}
	a := s.rule.Ask(of, act, now)
	minters := act.Minters
	if minters == nil {
		minters = []string{}
	}
	insert(tx, ent.OperatorApprovalTable, &ent.OperatorApproval{
		ID: a.ID, Action: string(of.Action), Subject: of.Subject, AmountUsdCents: int64(of.Amount),
		Resolution: of.Resolution, Version: of.Version, Reason: act.Reason, IdempotencyKey: act.Key,
		RequestedBy: act.Operator, Minters: minters, RequestedAt: a.RequestedAt, ExpiresAt: a.ExpiresAt,
		Status: operatorapproval.StatusPending,
	})
	return &a, s.record(ctx, tx, act, actAsk, of.Subject, nil, asked{
		Approval: a.ID.String(), Action: string(of.Action), Cents: int64(of.Amount), Resolution: of.Resolution,
		Status: string(approval.Pending),
	})
}

// waitingFor are the decisions about some subjects that wait for a second operator, by subject.
func waitingFor(
	ctx context.Context, c *ent.Client, now time.Time, subjects ...string,
) (map[string]approval.Approval, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	rows, err := c.OperatorApproval.Query().Where(operatorapproval.SubjectIn(subjects...),
		operatorapproval.StatusEQ(operatorapproval.StatusPending), operatorapproval.ExpiresAtGT(now)).All(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]approval.Approval{}
	for _, row := range rows {
		all[row.Subject] = approvalOf(row)
	}
	return all, nil
}

// Approvals implements admin.ApprovalRecords.
func (a Approvals) Approvals(
	ctx context.Context, q admin.ApprovalQuery, act order.OperatorContext,
) (found []approval.Approval, err error) {
	err = a.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		now := a.s.stamp()
		query := tx.OperatorApproval.Query()
		pending := operatorapproval.StatusEQ(operatorapproval.StatusPending)
		switch q.Status {
		case approval.Pending:
			query = query.Where(pending, operatorapproval.ExpiresAtGT(now))
		case approval.Expired:
			query = query.Where(operatorapproval.Or(operatorapproval.StatusEQ(operatorapproval.StatusExpired),
				operatorapproval.And(pending, operatorapproval.ExpiresAtLTE(now))))
		default:
			query = query.Where(operatorapproval.StatusEQ(operatorapproval.Status(q.Status)))
		}
		if q.Before != uuid.Nil {
			query = query.Where(operatorapproval.IDLT(q.Before))
		}
		rows, err := query.Order(operatorapproval.ByID(sql.OrderDesc())).Limit(q.Limit).All(ctx)
		if err != nil {
			return err
		}
		found = make([]approval.Approval, len(rows))
		for i, row := range rows {
			found[i] = approvalOf(row).At(now)
		}
		if err := aboutOrders(ctx, tx, found); err != nil {
			return err
		}
		return a.s.record(ctx, tx, act, actApprovals, string(q.Status), nil, nil)
	})
	return found, err
}

// Approval implements admin.ApprovalRecords.
func (a Approvals) Approval(
	ctx context.Context, id uuid.UUID, act order.OperatorContext,
) (found approval.Approval, err error) {
	err = a.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if found, err = a.find(ctx, tx, id); err != nil {
			return err
		}
		return a.s.record(ctx, tx, act, actApproval, found.Subject, nil, nil)
	})
	return found, err
}

func (a Approvals) find(ctx context.Context, tx *ent.Tx, id uuid.UUID) (approval.Approval, error) {
	row, err := tx.OperatorApproval.Get(ctx, id)
	if ent.IsNotFound(err) {
		return approval.Approval{}, approval.ErrNotFound
	}
	if err != nil {
		return approval.Approval{}, err
	}
	one := []approval.Approval{approvalOf(row).At(a.s.stamp())}
	if err := aboutOrders(ctx, tx, one); err != nil {
		return approval.Approval{}, err
	}
	return one[0], nil
}

// aboutOrders compares decisions about orders with the versions that the orders are at.
func aboutOrders(ctx context.Context, tx *ent.Tx, all []approval.Approval) error {
	var ids []string
	for _, a := range all {
		if a.Status == approval.Pending && aboutOrder(a.Action) {
			ids = append(ids, a.Subject)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Order.Query().Where(entorder.IDIn(ids...)).Select(entorder.FieldID, entorder.FieldVersion).All(ctx)
	if err != nil {
		return err
	}
	versions := map[string]int{}
	for _, row := range rows {
		versions[row.ID] = row.Version
	}
	for i, a := range all {
		if version, ok := versions[a.Subject]; ok && aboutOrder(a.Action) {
			all[i] = a.About(version)
		}
	}
	return nil
}

// Approve implements admin.ApprovalRecords. The decision takes effect in the same transaction.
func (a Approvals) Approve(
	ctx context.Context, id uuid.UUID, postings []ledger.Posting, act order.OperatorContext,
) (approval.Approval, error) {
	return a.decide(ctx, id, approval.Approved, act, func(ctx context.Context, tx *ent.Tx, of approval.Approval) error {
		if err := of.Check(act, a.s.stamp()); err != nil {
			return err
		}
		return a.effect(ctx, tx, of, postings, act.Operator)
	})
}

// Reject implements admin.ApprovalRecords.
func (a Approvals) Reject(ctx context.Context, id uuid.UUID, act order.OperatorContext) (approval.Approval, error) {
	return a.decide(ctx, id, approval.Rejected, act, func(_ context.Context, _ *ent.Tx, of approval.Approval) error {
		return of.CheckOpen(a.s.stamp())
	})
}

// decide ends the waiting of a decision, once per key.
func (a Approvals) decide(
	ctx context.Context, id uuid.UUID, as approval.Status, act order.OperatorContext,
	check func(context.Context, *ent.Tx, approval.Approval) error,
) (found approval.Approval, err error) {
	action := actReject
	if as == approval.Approved {
		action = actApprove
	}
	err = a.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		lock(tx, "approval/"+id.String())
		if found, err = a.find(ctx, tx, id); err != nil {
			return err
		}
		after := asked{
			Approval: id.String(), Action: string(found.Action), By: found.By.Operator, Status: string(as),
		}
		if repeated, err := a.s.repeats(ctx, tx, act, action, found.Subject, after); err != nil || repeated {
			return err
		}
		if err := check(ctx, tx, found); err != nil {
			return err
		}
		now := a.s.stamp()
		n, err := tx.OperatorApproval.Update().Where(operatorapproval.ID(id),
			operatorapproval.StatusEQ(operatorapproval.StatusPending)).SetStatus(operatorapproval.Status(as)).
			SetDecidedBy(act.Operator).SetDecisionReason(act.Reason).SetDecidedAt(now).Save(ctx)
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("approval %s waits no more", id)
		}
		found.Status, found.DecidedBy, found.DecisionReason, found.DecidedAt = as, act.Operator, act.Reason, &now
		before := asked{Approval: id.String(), Cents: int64(found.Amount), Status: string(approval.Pending)}
		return a.s.record(ctx, tx, act, action, found.Subject, before, after)
	})
	if err == nil && as == approval.Approved && aboutOrder(found.Action) {
		a.s.Notify(topicOrder, found.Subject)
	}
	return found, err
}

// aboutOrder reports whether an action decides an order.
func aboutOrder(of approval.Action) bool {
	return of == approval.RefundOrder || of == approval.FulfillOrder
}

// effect runs an approved decision as the operator who asked for it.
func (a Approvals) effect(
	ctx context.Context, tx *ent.Tx, of approval.Approval, postings []ledger.Posting, by string,
) error {
	act := of.Effect()
	switch of.Action {
	case approval.RefundOrder, approval.FulfillOrder:
		to := order.RefundPending
		if of.Action == approval.FulfillOrder {
			to = order.Fulfilled
		}
		m := order.Move{
			Order: order.ID(of.Subject), From: order.OperatorReview, To: to, Postings: postings,
			Actor: "operator:" + act.Operator, Reason: act.Reason,
			Evidence: map[string]string{"approval": of.ID.String(), "approved_by": by},
		}
		return a.s.Admin().decide(ctx, tx, m, act, nil)
	case approval.ResolveTransfer:
		at, err := reconcile.ParsePlace(of.Subject)
		if err != nil {
			return fmt.Errorf("read the approval: %w", err)
		}
		_, err = a.transfers.resolve(ctx, tx, at, reconcile.Resolution(of.Resolution), act, false)
		return reconcile.Resolving(err)
	case approval.CloseCard:
		id, err := uuid.Parse(of.Subject)
		if err != nil {
			return fmt.Errorf("read the approval: %w", err)
		}
		_, err = a.closings.order(ctx, tx, id, a.closing, act, func() (bool, error) {
			on, err := onCard(ctx, tx, id)
			if err == nil && on > of.Amount {
				err = admin.ErrChanged // more was loaded since
			}
			return false, err
		})
		return card.Ordering(err)
	}
	return fmt.Errorf("approval %s: nothing does %s", of.ID, of.Action)
}

const onCardSQL = `SELECT greatest(coalesce(sum(amount), 0), 0)::bigint FROM ledger_entries
	WHERE account = $1 AND account LIKE 'card:%'`

// onCard is the most that can be on a card: what was loaded, before its holder spent of it.
func onCard(ctx context.Context, tx *ent.Tx, id uuid.UUID) (money.Cents, error) {
	var units int64
	err := raw(tx).QueryRow(ctx, onCardSQL, "card:"+id.String()).Scan(&units)
	return centsUp(money.USDC(units)), err
}

// centsUp is an amount in cents, rounded up.
func centsUp(amount money.USDC) money.Cents {
	unit := money.Cents(1).USDC()
	return money.Cents((amount + unit - 1) / unit)
}

func approvalOf(row *ent.OperatorApproval) approval.Approval {
	return approval.Approval{
		ID: row.ID,
		Asked: approval.Asked{
			Action: approval.Action(row.Action), Subject: row.Subject, Amount: money.Cents(row.AmountUsdCents),
			Resolution: row.Resolution, Version: row.Version,
		},
		By: order.OperatorContext{
			Operator: row.RequestedBy, Key: row.IdempotencyKey, Reason: row.Reason, Minters: row.Minters,
		},
		RequestedAt: row.RequestedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), Status: approval.Status(row.Status),
		DecidedBy: row.DecidedBy, DecisionReason: row.DecisionReason, DecidedAt: utc(row.DecidedAt),
	}
}
