package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// office is a store in which decisions above an amount wait for a second operator, and a clock that the test moves on.
type office struct {
	*testing.T
	*store.Store
	approvals store.Approvals
	passed    *atomic.Int64
}

func newOffice(t *testing.T, above money.Cents) office {
	t.Helper()
	o := office{T: t, passed: new(atomic.Int64)}
	s, err := store.Open(t.Context(), store.Config{
		URL: storetest.URL(t), MaxConns: 12, Products: storetest.Products(),
		Now:            func() time.Time { return time.Now().Add(time.Duration(o.passed.Load())) },
		SecondOperator: approval.Rule{Above: above, Within: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	o.Store, o.approvals = s, s.Approvals(treasury(s), asCloseArgs)
	return o
}

func actOf(operator, key string) order.OperatorContext {
	return order.OperatorContext{Operator: operator, Key: key, Reason: "because"}
}

// refund asks for the refund of an order, and returns the order and what waits.
func (o office) refund(p checkout.ClaimRequest, act order.OperatorContext) (admin.ReviewItem, error) {
	o.Helper()
	if err := o.Admin().Decide(o.Context(), decided(p, order.RefundPending, act), act); err != nil {
		return admin.ReviewItem{}, err
	}
	item, err := o.Admin().ReviewItem(o.Context(), p.Order.ID)
	if err != nil {
		o.Fatal(err)
	}
	return item, nil
}

// waits is a refund that ann has asked for.
func (o office) waits(key string) (checkout.ClaimRequest, approval.Approval) {
	o.Helper()
	p, _ := paidOrder(o.T, o.Store, key, order.Provisioning, order.OperatorReview)
	item, err := o.refund(p, actOf("ann", key))
	if err != nil || item.Pending == nil || item.Order.Status != order.OperatorReview {
		o.Fatalf("%+v, %v", item, err)
	}
	return p, *item.Pending
}

// status is that of an order.
func (o office) status(p checkout.ClaimRequest) order.Status {
	o.Helper()
	item, err := o.Admin().ReviewItem(o.Context(), p.Order.ID)
	if err != nil {
		o.Fatal(err)
	}
	return item.Order.Status
}

func (o office) refuses(what string, a approval.Approval, act order.OperatorContext, want fault.Code) {
	o.Helper()
	if _, err := o.approvals.Approve(o.Context(), a.ID, nil, act); fault.Of(err) != want {
		o.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestRefundAboveTheAmountWaitsForASecondOperator(t *testing.T) {
	o := newOffice(t, 2499)
	p, a := o.waits("k")
	want := approval.Asked{
		Action: approval.RefundOrder, Subject: string(p.Order.ID), Amount: p.Order.Price, Version: a.Version,
	}
	if a.Asked != want || a.By.Operator != "ann" || a.ExpiresAt.Sub(a.RequestedAt) != time.Hour {
		t.Errorf("asked for %+v", a)
	}
	if again, err := o.refund(p, actOf("ann", "k")); err != nil || again.Pending == nil || again.Pending.ID != a.ID {
		t.Errorf("the same key again: %+v, %v", again, err)
	}
	reused := actOf("ann", "k")
	reused.Reason = "another"
	if _, err := o.refund(p, reused); !errors.Is(err, order.KeyReused()) {
		t.Errorf("the key with another reason: %v", err)
	}
	if _, err := o.refund(p, actOf("bob", "k")); fault.Of(err) != fault.ApprovalPending {
		t.Errorf("another operator asks, too: %v", err)
	}
	o.refuses("who asked for it", a, actOf("ann", "1"), fault.SecondOperatorRequired)
	if got := o.status(p); got != order.OperatorReview {
		t.Fatalf("the order is %s", got)
	}
	for range 2 { // the second is a repeat
		done, err := o.approvals.Approve(t.Context(), a.ID, nil, actOf("bob", "1"))
		if err != nil || done.Status != approval.Approved || done.DecidedBy != "bob" || done.DecidedAt == nil {
			t.Fatalf("approve: %+v, %v", done, err)
		}
	}
	o.refuses("once more", a, actOf("bob", "2"), fault.ApprovalClosed)
	if _, err := o.approvals.Reject(t.Context(), a.ID, actOf("bob", "3")); fault.Of(err) != fault.ApprovalClosed {
		t.Errorf("reject what was approved: %v", err)
	}
	history, err := o.Admin().History(t.Context(), p.Order.ID, order.OperatorContext{Operator: "eve"})
	if err != nil {
		t.Fatal(err)
	}
	last := history.Timeline[len(history.Timeline)-1]
	if last.To != order.RefundPending || last.Actor != "operator:ann" || last.Evidence["approved_by"] != "bob" {
		t.Errorf("the last move is %+v", last)
	}
	if again, err := o.refund(p, actOf("ann", "k")); err != nil || again.Order.Status != order.RefundPending {
		t.Errorf("the request once more: %+v, %v", again, err)
	}
	for action, by := range map[string]string{
		"approval.request": "ann", "approval.approve": "bob", "order.decide": "ann",
	} {
		if n := rows(t, o.Store, fmt.Sprintf("SELECT count(*) FROM audit WHERE action = '%s' AND actor = '%s' AND "+
			"subject = '%s'", action, by, p.Order.ID)); n != 1 {
			t.Errorf("%d records of %s by %s", n, action, by)
		}
	}
}

// TestDeliveredByHandAboveTheAmountWaitsToo: it keeps the buyer's money without a provider's word that there are goods.
func TestDeliveredByHandAboveTheAmountWaitsToo(t *testing.T) {
	o := newOffice(t, 2499)
	p, _ := paidOrder(t, o.Store, "k", order.Provisioning, order.OperatorReview)
	act := actOf("ann", "1")
	if err := o.Admin().Decide(t.Context(), decided(p, order.Fulfilled, act), act); err != nil {
		t.Fatal(err)
	}
	item, err := o.Admin().ReviewItem(t.Context(), p.Order.ID)
	if err != nil || item.Order.Status != order.OperatorReview || item.Pending == nil ||
		item.Pending.Action != approval.FulfillOrder {
		t.Fatalf("%+v, %v", item, err)
	}
	if _, err := o.refund(p, actOf("bob", "1")); fault.Of(err) != fault.ApprovalPending {
		t.Errorf("the opposite is asked for, too: %v", err)
	}
	o.refuses("who asked for it", *item.Pending, actOf("ann", "2"), fault.SecondOperatorRequired)
	posted := []ledger.Posting{ledger.Loaded(string(p.Order.ID), uuid.NewString(), 2500)}
	if _, err := o.approvals.Approve(t.Context(), item.Pending.ID, posted, actOf("bob", "2")); err != nil {
		t.Fatal(err)
	}
	if got := o.status(p); got != order.Fulfilled {
		t.Errorf("the order is %s", got)
	}
	if n := rows(t, o.Store, fmt.Sprintf("SELECT count(*) FROM ledger_postings WHERE kind = 'loaded' AND order_id = '%s'",
		p.Order.ID)); n != 1 {
		t.Errorf("%d postings of the delivery", n)
	}
}

func TestDecisionsUpToTheAmountWaitForNobody(t *testing.T) {
	for _, above := range []money.Cents{0, 2500} {
		o := newOffice(t, above)
		p, _ := paidOrder(t, o.Store, "k", order.Provisioning, order.OperatorReview)
		if item, err := o.refund(p, actOf("ann", "1")); err != nil || item.Order.Status != order.RefundPending {
			t.Errorf("above %d: %+v, %v", above, item, err)
		}
	}
	o := newOffice(t, 1)
	p, _ := paidOrder(t, o.Store, "k", order.Provisioning, order.OperatorReview)
	act := actOf("ann", "1")
	if err := o.Admin().Decide(t.Context(), decided(p, order.Provisioning, act), act); err != nil ||
		o.status(p) != order.Provisioning {
		t.Errorf("a retry, which refunds nothing: %v", err)
	}
}

// TestSecondOperatorIsAnother: a token that one of two operators has minted could be in the hands of both.
func TestSecondOperatorIsAnother(t *testing.T) {
	o := newOffice(t, 1)
	_, a := o.waits("k")
	minted := actOf("bob", "1")
	minted.Minters = []string{"eve", "ann"}
	o.refuses("by a token that ann's minted token has minted", a, minted, fault.SecondOperatorRequired)

	p, _ := paidOrder(t, o.Store, "other", order.Provisioning, order.OperatorReview)
	act := actOf("carol", "1")
	act.Minters = []string{"root"}
	item, err := o.refund(p, act)
	if err != nil || item.Pending == nil {
		t.Fatalf("%+v, %v", item, err)
	}
	o.refuses("by who minted the token of who asked", *item.Pending, actOf("root", "1"), fault.SecondOperatorRequired)
	sibling := actOf("dave", "1")
	sibling.Minters = []string{"root"}
	o.refuses("by another token that the same admin minted", *item.Pending, sibling, fault.SecondOperatorRequired)
	other := actOf("dave", "2")
	other.Minters = []string{"chief"}
	if _, err := o.approvals.Approve(t.Context(), item.Pending.ID, nil, other); err != nil {
		t.Errorf("by another whom another admin minted a token: %v", err)
	}
	if _, err := o.Pool().Exec(t.Context(), `UPDATE operator_approvals SET status = 'approved', decided_by = requested_by
		WHERE id = $1`, a.ID); err == nil {
		t.Error("the database lets who asked approve")
	}
}

// TestPersonApprovesTheirOwnDecisionUnderNoName: neither the program nor the database takes two names of one person of
// the issuer for two, and both take two persons of one name for two.
func TestPersonApprovesTheirOwnDecisionUnderNoName(t *testing.T) {
	o := newOffice(t, 1)
	name := func(issuer, subject, name string) string {
		return auth.Identity{Issuer: issuer, Subject: subject, Name: name}.Operator()
	}
	ann := name("https://a.example", "1", "ann")
	others := map[string]bool{
		ann: false, name("https://a.example", "1", "bob"): false, "ann": false,
		name("https://b.example", "1", "ann"): true, name("https://a.example", "2", "ann"): true, "bob": true,
	}
	for by, want := range others {
		p, _ := paidOrder(t, o.Store, by, order.Provisioning, order.OperatorReview)
		item, err := o.refund(p, actOf(ann, "k"))
		if err != nil || item.Pending == nil {
			t.Fatalf("%+v, %v", item, err)
		}
		tx, err := o.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), `UPDATE operator_approvals SET status = 'approved', decided_by = $2 WHERE id = $1`,
			item.Pending.ID, by)
		if (err == nil) != want {
			t.Errorf("the database has %s approve what %s asks for: %v", by, ann, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !want {
			o.refuses("by "+by, *item.Pending, actOf(by, "1"), fault.SecondOperatorRequired)
		} else if _, err := o.approvals.Approve(t.Context(), item.Pending.ID, nil, actOf(by, "1")); err != nil {
			t.Errorf("by %s: %v", by, err)
		}
	}
}

// refundable can refund.
type refundable struct{}

func (refundable) Unavailable() string { return "" }

func TestExpiredOrStaleDecisionIsNotApproved(t *testing.T) {
	o := newOffice(t, 1)
	p, a := o.waits("expired")
	q, stale := o.waits("stale")
	act := actOf("carol", "1")
	if err := o.Admin().Decide(t.Context(), decided(q, order.Provisioning, act), act); err != nil {
		t.Fatal(err)
	}
	if _, err := o.approvals.Approve(t.Context(), stale.ID, nil, actOf("bob", "1")); !errors.Is(err, admin.ErrChanged) {
		t.Errorf("of an order that has changed: %v", err)
	}
	office := admin.Approvals{Records: o.approvals, Refunds: refundable{}}
	_, err := office.Approve(t.Context(), stale.ID, actOf("bob", "1"))
	if fault.Of(err) != fault.VersionChanged || !strings.Contains(err.Error(), "Reject it") {
		t.Errorf("what to do about it: %v", err)
	}
	page, err := o.approvals.Approvals(t.Context(), admin.ApprovalQuery{Status: approval.Pending, Limit: 9}, act)
	if err != nil || len(page) != 2 || page[0].ID != stale.ID || !page[0].Outdated || page[1].Outdated {
		t.Errorf("the list: %+v, %v", page, err)
	}
	if shown, err := o.approvals.Approval(t.Context(), stale.ID, act); err != nil || !shown.Outdated {
		t.Errorf("the one: %+v, %v", shown, err)
	}
	for id, want := range map[order.ID]bool{p.Order.ID: false, q.Order.ID: true} {
		item, err := o.Admin().ReviewItem(t.Context(), id)
		if err != nil || item.Pending == nil || item.Pending.Outdated != want {
			t.Errorf("the order: %+v, %v", item, err)
		}
	}
	o.passed.Store(int64(time.Hour))
	o.refuses("after its time", a, actOf("bob", "1"), fault.ApprovalClosed)
	if got := o.status(p); got != order.OperatorReview {
		t.Errorf("the order is %s", got)
	}
	for status, want := range map[approval.Status]int{approval.Pending: 0, approval.Expired: 2} {
		page, err := o.approvals.Approvals(t.Context(), admin.ApprovalQuery{Status: status, Limit: 9}, actOf("eve", ""))
		if err != nil || len(page) != want {
			t.Errorf("%d are %s, %v", len(page), status, err)
		}
	}
	item, err := o.refund(p, actOf("bob", "1"))
	if err != nil || item.Pending == nil || item.Pending.ID == a.ID || item.Pending.Outdated {
		t.Fatalf("asked for again: %+v, %v", item, err)
	}
	if _, err := o.approvals.Reject(t.Context(), item.Pending.ID, actOf("bob", "2")); err != nil {
		t.Errorf("taken back by who asked: %v", err)
	}
	o.refuses("after it was rejected", *item.Pending, actOf("ann", "1"), fault.ApprovalClosed)
	nobody := actOf("bob", "1")
	if _, err := o.approvals.Approve(t.Context(), uuid.New(), nil, nobody); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("what nobody asked for: %v", err)
	}
}

// TestApprovalTakesEffectOnce: of many operators who approve and reject at once, one is heard.
func TestApprovalTakesEffectOnce(t *testing.T) {
	o := newOffice(t, 1)
	p, a := o.waits("k")
	var n atomic.Int64
	if well := atOnce(func() error {
		i := n.Add(1)
		if i%2 == 0 {
			_, err := o.approvals.Reject(t.Context(), a.ID, actOf(fmt.Sprint("bob", i), "1"))
			return err
		}
		_, err := o.approvals.Approve(t.Context(), a.ID, nil, actOf(fmt.Sprint("bob", i), "1"))
		return err
	}); well != 1 {
		t.Errorf("%d of ten were heard", well)
	}
	moves := rows(t, o.Store, fmt.Sprintf("SELECT count(*) FROM timeline WHERE order_id = '%s' AND "+
		"to_status = 'refund_pending'", p.Order.ID))
	approved := rows(t, o.Store, "SELECT count(*) FROM operator_approvals WHERE status = 'approved'")
	if moves != approved {
		t.Errorf("%d moves after %d approvals", moves, approved)
	}
}

func TestTransferAboveTheAmountWaitsForASecondOperator(t *testing.T) {
	o := newOffice(t, 2500)
	books := treasury(o.Store)
	found := []reconcile.Transfer{
		{Transaction: x402.Hash{1}, LogIndex: 2, Block: 90, From: payer, Value: 25_000_001},
		{Transaction: x402.Hash{1}, LogIndex: 4, Block: 90, From: payer, Value: 25_000_000},
	}
	if err := books.Arrive(t.Context(), 1, 100, found); err != nil {
		t.Fatal(err)
	}
	var posted []ledger.Posting
	for _, f := range found {
		posted = append(posted, ledger.Unmatched(f.Transaction.String(), f.LogIndex, f.Value))
	}
	if err := books.Conclude(t.Context(), reconcile.Conclusion{Postings: posted}); err != nil {
		t.Fatal(err)
	}
	small, err := books.Resolve(t.Context(), found[1].Place(), reconcile.Donation, actOf("ann", "1"))
	if err != nil || small.Resolved == nil || small.Version() != 2 {
		t.Errorf("of the amount: %+v, %v", small, err)
	}
	stale := actOf("ann", "2")
	stale.Version = 2
	if _, err := books.Resolve(t.Context(), found[0].Place(), reconcile.Known, stale); !errors.Is(err,
		reconcile.ErrChanged) {
		t.Errorf("at another version: %v", err)
	}
	large, err := books.Resolve(t.Context(), found[0].Place(), reconcile.RefundedByHand, actOf("ann", "3"))
	if err != nil || large.Pending == nil || large.Resolved != nil || large.Pending.Amount != 2501 {
		t.Fatalf("above the amount: %+v, %v", large, err)
	}
	page, err := books.ListUnmatched(t.Context(), reconcile.UnmatchedQuery{Limit: 9}, actOf("eve", ""))
	if err != nil || len(page) != 1 || page[0].Pending == nil {
		t.Errorf("listed as %+v, %v", page, err)
	}
	o.refuses("who asked for it", *large.Pending, actOf("ann", "1"), fault.SecondOperatorRequired)
	if _, err := o.approvals.Approve(t.Context(), large.Pending.ID, nil, actOf("bob", "1")); err != nil {
		t.Fatal(err)
	}
	again, err := books.Resolve(t.Context(), found[0].Place(), reconcile.RefundedByHand, actOf("ann", "3"))
	if err != nil || again.Resolved == nil || again.Resolved.Operator != "ann" {
		t.Errorf("the request once more: %+v, %v", again, err)
	}
	if n := rows(t, o.Store, "SELECT count(*) FROM ledger_postings WHERE kind = 'resolved'"); n != 2 {
		t.Errorf("%d postings", n)
	}
}

func TestClosingOfAFullCardWaitsForASecondOperator(t *testing.T) {
	o := newOffice(t, 1499)
	claim(t, o.Store, claimRequest("what the other orders are copies of"))
	g := garage{t, o.Store}
	id, owner := g.closable(1)
	act := actOf("ann", "1")
	var pending *approval.PendingError
	for range 2 {
		_, err := o.Closings().OrderClosing(t.Context(), id, asCloseArgs, act)
		if !errors.As(err, &pending) || pending.Approval.Amount != 1500 || pending.Approval.Action != approval.CloseCard {
			t.Fatalf("%v", err)
		}
	}
	if closing, err := o.Cards().Closing(t.Context(), id); err != nil || closing {
		t.Errorf("closing %t, %v", closing, err)
	}
	g.post(owner, ledger.Loaded("more", id.String(), 100))
	_, err := o.approvals.Approve(t.Context(), pending.Approval.ID, nil, actOf("bob", "1"))
	if !errors.Is(err, admin.ErrChanged) {
		t.Errorf("after more was loaded: %v", err)
	}
	if _, err := o.approvals.Reject(t.Context(), pending.Approval.ID, actOf("bob", "2")); err != nil {
		t.Fatal(err)
	}
	_, err = o.Closings().OrderClosing(t.Context(), id, asCloseArgs, actOf("ann", "2"))
	if !errors.As(err, &pending) || pending.Approval.Amount != 1600 {
		t.Fatalf("asked for again: %v", err)
	}
	if _, err := o.approvals.Approve(t.Context(), pending.Approval.ID, nil, actOf("bob", "3")); err != nil {
		t.Fatal(err)
	}
	if closing, err := o.Cards().Closing(t.Context(), id); err != nil || !closing {
		t.Errorf("closing %t, %v", closing, err)
	}
	row, err := o.Closings().OrderClosing(t.Context(), id, asCloseArgs, actOf("ann", "2"))
	if err != nil || row.Kind != card.CloseJob {
		t.Errorf("the request once more: %+v, %v", row, err)
	}
}
