package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// closable is a card whose order is fulfilled, with its owner.
func (g garage) closable(n byte) (id uuid.UUID, owner x402.Address) {
	g.Helper()
	owner = x402.Address{18: 9, 19: n}
	id = g.card(owner, 1500)
	if _, err := g.s.Pool().Exec(g.Context(), "UPDATE cards SET order_id = $2 WHERE id = $1", id,
		g.order(owner, order.Fulfilled)); err != nil {
		g.Fatal(err)
	}
	return id, owner
}

func asCloseArgs(s card.ClosingFacts) (card.CloseArgs, error) {
	return card.CloseArgs{
		Card: s.Card.ID, Order: string(s.Card.Order), Opening: s.Card.Ref.String(), Stage: card.StageLocking, Version: 1,
	}, nil
}

// TestOperatorsSeeACard with its owner and what was loaded, and their look is in the audit trail.
func TestOperatorsSeeACard(t *testing.T) {
	g := newGarage(t)
	id, owner := g.closable(1)
	act := card.OperatorContext{Operator: "ada"}
	found, err := g.s.Closings().Inspect(t.Context(), id, act)
	if err != nil || found.Card.ID != id || found.Card.Owner != owner || found.Loaded != 1500 {
		t.Errorf("seen: %+v, %v", found, err)
	}
	if _, err := g.s.Closings().Inspect(t.Context(), uuid.New(), act); !errors.Is(err, card.ErrNotFound) {
		t.Errorf("no card: %v", err)
	}
	trail, err := g.s.Admin().Audit(t.Context(), admin.AuditQuery{Subject: id.String(), Limit: 9}, act)
	if err != nil || len(trail) != 1 || trail[0].Action != "card.inspect" || trail[0].Actor != "ada" {
		t.Errorf("the trail: %+v, %v", trail, err)
	}
}

// close orders a closing, and leases its job.
func (g garage) close(id uuid.UUID) job.Row {
	g.Helper()
	_, err := g.s.Closings().OrderClosing(g.Context(), id, asCloseArgs,
		card.OperatorContext{Operator: "ada", Key: "k", Reason: "r"})
	if err != nil {
		g.Fatal(err)
	}
	rows, err := g.s.Jobs().Claim(g.Context(), "w", job.Deliver, []job.Kind{card.CloseJob}, 1, time.Hour)
	if err != nil || len(rows) != 1 {
		g.Fatalf("%d closings to lease, %v", len(rows), err)
	}
	return rows[0]
}

func TestCardIsClosedByOneJob(t *testing.T) {
	g := newGarage(t)
	id, _ := g.closable(1)
	act := card.OperatorContext{Operator: "ada", Reason: "the owner asked"}
	none := errors.New("not now")
	_, err := g.s.Closings().OrderClosing(t.Context(), id, func(s card.ClosingFacts) (card.CloseArgs, error) {
		if s.Card.ID != id || s.Order != order.Fulfilled || s.Fee == nil {
			t.Errorf("sold: %+v", s)
		}
		return card.CloseArgs{}, none
	}, act)
	if !errors.Is(err, none) {
		t.Errorf("refused: %v", err)
	}
	var all sync.WaitGroup
	rows := make([]job.Row, 20)
	for i := range rows {
		act := act
		act.Key = fmt.Sprint("key ", i%2)
		all.Go(func() {
			var err error
			if rows[i], err = g.s.Closings().OrderClosing(t.Context(), id, asCloseArgs, act); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	all.Wait()
	for _, row := range rows {
		if row.ID != rows[0].ID || row.ID == uuid.Nil {
			t.Errorf("two closings: %s and %s", row.ID, rows[0].ID)
		}
	}
	var audited int
	err = g.s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM audit WHERE action = 'card.close'").Scan(&audited)
	if err != nil || audited != 2 {
		t.Errorf("%d audit rows, %v", audited, err)
	}
	if closing, err := g.s.Cards().Closing(t.Context(), id); err != nil || !closing {
		t.Errorf("closing %t, %v", closing, err)
	}
	if _, err := g.s.Closings().OrderClosing(t.Context(), uuid.New(), asCloseArgs,
		act); !errors.Is(err, card.ErrNotFound) {
		t.Errorf("nobody's card: %v", err)
	}
}

// A closing waits for each top-up of its card that the issuer may have been asked for; of those that come later, only
// those that the issuer may have been asked for have the card.
func TestClosingAndTopUpsTakeTurns(t *testing.T) {
	for status, waits := range map[order.Status]bool{
		order.Provisioning: true, order.OperatorReview: true, order.Settled: false, order.RefundPending: false,
		order.Fulfilled: false,
	} {
		t.Run(string(status), func(t *testing.T) {
			g := newGarage(t)
			id, owner := g.closable(1)
			f := g.worker("w")
			first := load(id, g.order(owner, order.Provisioning), 1000)
			first.Held = false
			g.take(f, first, 2500, nil)
			second := load(id, g.order(owner, order.Provisioning), 2000)
			g.becomes(first.Order, order.OperatorReview)
			second.Held = false
			g.take(f, second, 3500, nil) // whoever had the card before is forgotten
			g.becomes(second.Order, order.Fulfilled)
			if _, err := g.s.Pool().Exec(t.Context(), `UPDATE orders SET status = $2, item = jsonb_build_object('card', $3::text)
				WHERE id = $1`, first.Order, status, id.String()); err != nil {
				t.Fatal(err)
			}
			row := g.close(id)
			turn := card.MovementLock{Card: id, FeeJob: row.ID, Ref: first.Ref, Held: true, Closing: true}
			if waits {
				g.take(row.Fence(), turn, 0, card.ErrBusy)
				first.Begun = true
				g.becomes(first.Order, order.Provisioning)
				g.take(f, first, 2500, nil)
				g.becomes(first.Order, order.Fulfilled)
			}
			g.take(row.Fence(), turn, 1500, nil)
			late := load(id, g.order(owner, order.Provisioning), 1000)
			g.take(f, late, 0, card.ErrClosing)
			late.Begun = true
			g.take(f, late, 0, card.ErrBusy)
		})
	}
}

func TestClosingThatWaitsGoesOnOncePerKey(t *testing.T) {
	g := newGarage(t)
	id, _ := g.closable(1)
	row := g.close(id)
	a, err := job.Decode[card.CloseArgs](row)
	if err != nil {
		t.Fatal(err)
	}
	a.Stage, a.Remainder = card.StageWithdrawing, 1500
	if err := g.s.Cards().SaveClosing(t.Context(), row.Fence(), a); err != nil {
		t.Fatal(err)
	}
	if err := g.s.Jobs().Mark(t.Context(), row.Fence(), "close/1"); err != nil {
		t.Fatal(err)
	}
	retry := func(key string) job.Row {
		t.Helper()
		row, err := g.s.Closings().RetryClosing(t.Context(), row.ID, func(row job.Row) (card.CloseArgs, error) {
			return job.Decode[card.CloseArgs](row)
		}, card.OperatorContext{Operator: "ada", Key: key, Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	if got := retry("k0"); got.Status != job.Processing {
		t.Errorf("a closing that is worked on is %s", got.Status)
	}
	if err := g.s.Jobs().Finish(t.Context(), row.Fence(), job.Review("no trace")); err != nil {
		t.Fatal(err)
	}
	got := retry("k1")
	kept, err := job.Decode[card.CloseArgs](got)
	if err != nil || got.Status != job.Queued || got.Step != "close/1" || kept.Remainder != money.Cents(1500) ||
		kept.Stage != card.StageWithdrawing {
		t.Errorf("it goes on as %+v, %+v, %v", got, kept, err)
	}
	if _, err := g.s.Pool().Exec(t.Context(), "UPDATE jobs SET status = 'operator_review' WHERE id = $1",
		row.ID); err != nil {
		t.Fatal(err)
	}
	if got := retry("k1"); got.Status != job.OperatorReview {
		t.Errorf("the same key again: %s", got.Status)
	}
	// A refund that is signed may still be paid, so that nothing is concluded meanwhile.
	conclude := func() (job.Row, error) {
		return g.s.Closings().ConcludeRefund(t.Context(), row.ID, func(row job.Row) (card.CloseArgs, error) {
			a, err := job.Decode[card.CloseArgs](row)
			a.Stage, a.ByHand = card.StageEnding, "0x1"
			return a, err
		}, card.OperatorContext{Operator: "ada", Key: "c", Reason: "r"})
	}
	refunding := func(status string) {
		t.Helper()
		if _, err := g.s.Pool().Exec(t.Context(), `INSERT INTO refunds (id, order_id, owner, status, network, asset, treasury,
			value, nonce, valid_before, signature, created_at, signed_at) SELECT gen_random_uuid(), order_id, owner, $2, 'n',
			'0x1', '0x2', 1, '0x3', 1, '', now(), now() FROM cards WHERE id = $1
			ON CONFLICT (order_id, owner) DO UPDATE SET status = excluded.status`, id, status); err != nil {
			t.Fatal(err)
		}
		if _, _, signed, err := g.s.Closings().Refunding(t.Context(), row.ID); err != nil || signed != (status == "signed") {
			t.Errorf("a refund that is %s: signed %t, %v", status, signed, err)
		}
	}
	refunding("signed")
	if _, err := conclude(); !errors.Is(err, payment.ErrRefundSigned) {
		t.Errorf("while a refund is signed: %v", err)
	}
	refunding("dead")
	var other uuid.UUID
	if err := g.s.Pool().QueryRow(t.Context(), `INSERT INTO jobs (id, kind, unique_key, payload, max_attempts, run_at,
		created_at) VALUES (gen_random_uuid(), 'card_close', 'another card', '{"byHand": "0x1"}', 1, now(), now())
		RETURNING id`).Scan(&other); err != nil {
		t.Fatal(err)
	}
	if _, err := conclude(); !errors.Is(err, payment.ErrTransferUsed) {
		t.Errorf("by the refund of another card: %v", err)
	}
	if _, err := g.s.Pool().Exec(t.Context(), "DELETE FROM jobs WHERE id = $1", other); err != nil {
		t.Fatal(err)
	}
	const paid = `INSERT INTO refunds (id, order_id, owner, status, network, asset, treasury, value, nonce, valid_before,
		signature, created_at, signed_at, transaction, log_index, block, block_hash, settled_at)
		SELECT gen_random_uuid(), 'another', owner, 'paid', 'n', '0x1', '0x2', 1, '0x4', 1, '', now(), now(), '0x1', 0, 1,
			'0xb', now() FROM cards WHERE id = $1`
	if _, err := g.s.Pool().Exec(t.Context(), paid, id); err != nil {
		t.Fatal(err)
	}
	if _, err := conclude(); !errors.Is(err, payment.ErrTransferUsed) {
		t.Errorf("by a refund of the service's own: %v", err)
	}
	if _, err := g.s.Pool().Exec(t.Context(), "DELETE FROM refunds WHERE order_id = 'another'"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := conclude()
		done, _ := job.Decode[card.CloseArgs](got)
		if err != nil || got.Status != job.Queued || done.Stage != card.StageEnding || done.ByHand != "0x1" {
			t.Errorf("concluded: %+v, %+v, %v", got, done, err)
		}
	}
	var posted int
	if err := g.s.Pool().QueryRow(t.Context(),
		"SELECT count(*) FROM ledger_postings WHERE kind = 'remainder_returned'").Scan(
		&posted); err != nil || posted != 1 {
		t.Errorf("%d returns are posted, %v", posted, err)
	}
	_, err = g.s.Closings().RetryClosing(t.Context(), uuid.New(), nil,
		card.OperatorContext{Operator: "ada", Key: "k", Reason: "r"})
	if !errors.Is(err, card.ErrNotFound) {
		t.Errorf("nobody's closing: %v", err)
	}
	if fault.Of(err) != "" {
		t.Errorf("the store speaks to users: %v", err)
	}
}

// TestClosingsKeyWithAnotherReasonIsReused: whether the closing was ordered, waits for a second operator or goes on.
func TestClosingsKeyWithAnotherReasonIsReused(t *testing.T) {
	again := func(act card.OperatorContext) card.OperatorContext { act.Reason = "another"; return act }
	reused := func(t *testing.T, what string, err error) {
		t.Helper()
		if fault.Of(err) != fault.IdempotencyKeyReused {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.Run("ordered", func(t *testing.T) {
		g := newGarage(t)
		id, _ := g.closable(1)
		row := g.close(id)
		act := card.OperatorContext{Operator: "ada", Key: "k", Reason: "r"}
		_, err := g.s.Closings().OrderClosing(t.Context(), id, asCloseArgs, again(act))
		reused(t, "ordered", card.Ordering(err))
		if same, err := g.s.Closings().OrderClosing(t.Context(), id, asCloseArgs, act); err != nil || same.ID != row.ID {
			t.Errorf("the same again: %s, %v", same.ID, err)
		}
		if err := g.s.Jobs().Finish(t.Context(), row.Fence(), job.Review("no trace")); err != nil {
			t.Fatal(err)
		}
		keep := func(row job.Row) (card.CloseArgs, error) { return job.Decode[card.CloseArgs](row) }
		if _, err := g.s.Closings().RetryClosing(t.Context(), row.ID, keep, act); err != nil {
			t.Fatal(err)
		}
		_, err = g.s.Closings().RetryClosing(t.Context(), row.ID, keep, again(act))
		reused(t, "went on", err)
	})
	t.Run("waits", func(t *testing.T) {
		o := newOffice(t, 1)
		claim(t, o.Store, claimRequest("what the other orders are copies of"))
		id, _ := garage{t, o.Store}.closable(1)
		var pending *approval.PendingError
		act := actOf("ann", "k")
		for range 2 {
			if _, err := o.Closings().OrderClosing(t.Context(), id, asCloseArgs, act); !errors.As(err, &pending) {
				t.Fatalf("it does not wait: %v", err)
			}
		}
		_, err := o.Closings().OrderClosing(t.Context(), id, asCloseArgs, again(act))
		reused(t, "waits", card.Ordering(err))
	})
}
