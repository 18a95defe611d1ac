package memory

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Settle implements settlement.Store.
func (o Orders) Settle(
	ctx context.Context, f job.Fence, p payment.Payment, m order.Move, watch job.New,
) (order.Order, error) {
	return o.move(ctx, "orders.settle", f, m, func(t *tx) error {
		if err := t.prove(p, payment.Claimed); err != nil {
			return err
		}
		for _, r := range t.reservations.rows {
			if r.order == p.Order && r.released == nil {
				edit(t, r).settled = &t.stamp
			}
		}
		_, _, err := t.insertJob(watch, p.Authorization.From.Lower())
		return err
	})
}

// Reprove implements settlement.Store.
func (o Orders) Reprove(ctx context.Context, f job.Fence, p payment.Payment) error {
	return o.s.fenced(ctx, "orders.reprove", f, func(t *tx) error { return t.prove(p, payment.Paid) })
}

// prove makes a payment in a status paid, with its receipt.
func (t *tx) prove(p payment.Payment, from payment.Status) error {
	row := t.payments.get(p.ID)
	if row == nil || row.Authorization.From != p.Authorization.From || row.Status != from {
		return fmt.Errorf("payment %s is no longer %s", p.ID, from)
	}
	if t.payments.first(func(o *payment.Payment) bool {
		return o.ID != p.ID && o.Authorization.From == p.Authorization.From && o.Receipt != nil &&
			o.Receipt.Transaction == p.Receipt.Transaction && o.Receipt.LogIndex == p.Receipt.LogIndex
	}) != nil {
		return violation("payments_transfer")
	}
	row = edit(t, row)
	row.Status, row.Receipt = payment.Paid, proofOf(*p.Receipt, row.Authorization)
	return nil
}

// proofOf is a receipt as it is stored: who pays whom how much is the authorization's.
func proofOf(r payment.Receipt, a x402.Authorization) *payment.Receipt {
	r.Payer, r.PayTo, r.Amount, r.SettledAt = a.From, a.To, a.Value, stored(r.SettledAt)
	return &r
}

// MarkDead implements settlement.Store.
func (o Orders) MarkDead(ctx context.Context, f job.Fence, p payment.Payment, m order.Move) (order.Order, error) {
	return o.move(ctx, "orders.mark_dead", f, m, func(t *tx) error {
		row := t.payments.get(p.ID)
		if row == nil || row.Authorization.From != p.Authorization.From || row.Status != payment.Claimed {
			return fmt.Errorf("payment %s is no longer claimed", p.ID)
		}
		row = edit(t, row)
		row.Status, row.DeadReason = payment.Dead, p.DeadReason
		return nil
	})
}

// Move implements settlement.Store.
func (o Orders) Move(ctx context.Context, f job.Fence, m order.Move) (order.Order, error) {
	return o.move(ctx, "orders.move", f, m, func(*tx) error { return nil })
}

// move moves an order together with the related changes, under the job's fence.
func (o Orders) move(
	ctx context.Context, op string, f job.Fence, m order.Move, also func(*tx) error,
) (moved order.Order, err error) {
	if err := m.Check(); err != nil {
		return order.Order{}, err
	}
	err = o.s.fenced(ctx, op, f, func(t *tx) error {
		if err := also(t); err != nil {
			return err
		}
		moved, err = t.moveOrder(m)
		return err
	})
	if err != nil {
		return order.Order{}, err
	}
	return moved, nil
}

// moveOrder moves an order, with its timeline row and its postings.
func (t *tx) moveOrder(m order.Move) (order.Order, error) {
	if m.From == order.Settled && m.To == order.Provisioning && len(t.suspended(m.Order)) > 0 {
		return order.Order{}, order.ErrSuspended
	}
	row := t.orders.get(m.Order)
	if row == nil || row.Owner != m.Owner || row.Status != m.From {
		return order.Order{}, fmt.Errorf("order %s is no longer %s", m.Order, m.From)
	}
	row = edit(t, row)
	row.Status, row.UpdatedAt = m.To, t.stamp
	row.Version++
	if m.Refused {
		row.Delivery++
	}
	if err := t.recordMove(m, row.Version); err != nil {
		return order.Order{}, err
	}
	switch {
	case m.To == order.PaymentRequired:
		t.forget(m.Order)
	case m.To.Final():
		t.release(m.Order)
	}
	t.notify(topicOrder, string(m.Order))
	return *row, t.post(m.Owner.Lower(), m.Postings...)
}

// recordMove adds a move to the timeline of an order, whose version is that after the move.
func (t *tx) recordMove(m order.Move, version int) error {
	request := telemetry.RequestID(t.ctx)
	if m.ByWorker() {
		request = ""
	}
	m.Postings = nil
	_, err := add(t, &t.timeline, "timeline_move", move{m.Order, version},
		order.Event{Move: m, Request: request, Version: version, At: t.stamp})
	return err
}

// post adds postings, each once. The owner is that of their order, or empty for one without an order. A reversal of a
// posting that does not exist is not added.
func (t *tx) post(owner string, all ...ledger.Posting) error {
	for _, p := range all {
		of := owner
		if of == "" || p.Order == "" {
			of = ""
			if row := t.orders.get(order.ID(p.Order)); row != nil {
				of = row.Owner.Lower()
			}
		}
		undone := t.postings.first(func(o *posted) bool { return o.ID == p.Undoes })
		if t.postings.get(posting{p.ID, of}) != nil || (p.Undoes != "" && undone == nil) {
			continue
		}
		if err := p.Check(); err != nil {
			return err
		}
		p.At = t.stamp
		if _, err := add(t, &t.postings, "ledger_postings_pkey", posting{p.ID, of}, posted{p, of}); err != nil {
			return err
		}
	}
	return nil
}

// balance is what an owner's account has by the ledger, in millionths of a dollar.
func (t *tx) balance(owner string, account ledger.Account) (sum int64) {
	for _, p := range t.postings.rows {
		for _, e := range p.Entries {
			if p.owner == owner && e.Account == account {
				sum += int64(e.Amount)
			}
		}
	}
	return sum
}
