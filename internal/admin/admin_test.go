package admin_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
)

func TestRetryAfterARefusalHasANewReference(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
	b := s.NewBuyer(t)
	p := s.PaidCard(t, b, "k")
	s.Issuer.Fault(cardtest.Open, fulfilmenttest.Rejected)
	sold := s.MustBuy(t, p)
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	s.Decide(t, sold.Order.ID, admin.DecideRetry, "the issuer is well again")
	s.Reaches(t, sold.Order.ID, order.Fulfilled)
	history, err := s.Admin.Inspect(t.Context(), sold.Order.ID, order.OperatorContext{Operator: "ada"})
	if err != nil || len(history.References) != 2 || history.References[0].Reference == history.References[1].Reference {
		t.Fatalf("references %+v, %v", history.References, err)
	}
	c, err := s.Cards.Ensure(t.Context(), b.Address)
	if err != nil || c.Status != card.Active || c.Ref.String() != history.References[1].Reference ||
		s.Issuer.Executed(c.Ref) != 1 {
		t.Errorf("card %+v, %v", c, err)
	}
	if s.Spent(b) != checkouttest.Price {
		t.Errorf("spent %d", s.Spent(b))
	}
}

// TestKindThatNothingIsSoldOfIsRefused: an empty list would say that nothing waits.
func TestKindThatNothingIsSoldOfIsRefused(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
	ada := order.OperatorContext{Operator: "ada"}
	for kind, want := range map[order.Kind]fault.Code{"cards": fault.SchemaInvalid, card.Kind: "", "": ""} {
		_, _, err := s.Admin.Queue(t.Context(), admin.QueueQuery{Kind: kind, Limit: 1}, ada)
		if fault.Of(err) != want || want != "" && !strings.Contains(err.Error(), "one of card_issue, card_topup.") {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

func TestRetryOfARefusedTopUpLoadsOnce(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
	b := s.NewBuyer(t)
	s.Reaches(t, s.MustBuy(t, s.PaidCard(t, b, "k")).Order.ID, order.Fulfilled)
	c, err := s.Cards.Ensure(t.Context(), b.Address)
	if err != nil {
		t.Fatal(err)
	}
	s.FeeJob(t, c)
	p := checkouttest.TopUp("t", 2500)
	p = s.Paid(t, b, p)
	s.Issuer.Fault(cardtest.Move, fulfilmenttest.Rejected)
	sold := s.MustBuy(t, p)
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	s.Decide(t, sold.Order.ID, admin.DecideRetry, "once more")
	s.Reaches(t, sold.Order.ID, order.Fulfilled)
	if bal, err := s.Cards.Balance(t.Context(), c.ID, b.Address); err != nil || bal.Available != 1500+2450 {
		t.Errorf("balance %v, %v", bal.Available, err)
	}
}

func TestRetryOfAnUnclearCallOnlyReads(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{
		Postgres: true, Traits: fulfilment.Traits{VisibilityDelay: time.Millisecond},
	})
	b := s.NewBuyer(t)
	p := s.PaidCard(t, b, "k")
	s.Issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
	sold := s.MustBuy(t, p)
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	reads := s.Issuer.Calls(cardtest.Account)
	s.Decide(t, sold.Order.ID, admin.DecideRetry, "look again")
	checkouttest.Until(t, "the order is in review again",
		func() bool { return s.Moves(t, sold.Order.ID, order.OperatorReview) == 2 })
	if n := s.Issuer.Calls(cardtest.Open); n != 1 {
		t.Errorf("sent %d times", n)
	}
	if s.Issuer.Calls(cardtest.Account) == reads {
		t.Error("nothing was read")
	}
	s.Decide(t, sold.Order.ID, admin.DecideFulfilled, "the issuer opened it by hand")
	s.Reaches(t, sold.Order.ID, order.Fulfilled)
	held, err := s.Store.Cards.Reserved(t.Context(), "float/card", time.Now().Add(time.Minute))
	if err != nil || held != 0 {
		t.Errorf("float still held: %d, %v", held, err)
	}
}

func TestDecisionIsMadeOncePerKeyAndOnlyInReview(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
	b := s.NewBuyer(t)
	p := s.PaidCard(t, b, "k~002")
	sold := s.MustBuy(t, p)
	id := sold.Order.ID
	s.Reaches(t, id, order.OperatorReview)
	act := order.OperatorContext{Operator: "ada", Key: "1", Reason: "delivered at the counter"}
	for range 3 {
		q, err := s.Admin.Decide(t.Context(), id, admin.DecideFulfilled, act)
		if err != nil || q.Order.Status != order.Fulfilled || q.Reason != act.Reason {
			t.Errorf("decided %+v, %v", q, err)
		}
	}
	for name, c := range map[string]struct {
		id       order.ID
		decision admin.Decision
		act      order.OperatorContext
		want     fault.Code
	}{
		"another decision": {id, admin.DecideRetry, act, fault.IdempotencyKeyReused},
		"another reason": {id, admin.DecideFulfilled, order.OperatorContext{Operator: "ada", Key: "1", Reason: "other"},
			fault.IdempotencyKeyReused},
		"another key": {id, admin.DecideFulfilled, order.OperatorContext{Operator: "ada", Key: "2", Reason: act.Reason},
			fault.OrderNotInReview},
		"another operator": {id, admin.DecideRetry, order.OperatorContext{Operator: "bob", Key: "1", Reason: act.Reason},
			fault.OrderNotInReview},
		"no such order": {"ord_none", admin.DecideRetry, act, fault.OrderNotFound},
	} {
		_, err := s.Admin.Decide(t.Context(), c.id, c.decision, c.act)
		if f, ok := fault.As(err); !ok || f.Code != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if n := s.Moves(t, id, order.Fulfilled); n != 1 {
		t.Errorf("fulfilled %d times", n)
	}
}

// TestDecisionAtAnotherVersionIsRefused: what an operator has not seen is not decided, and nothing moves.
func TestDecisionAtAnotherVersionIsRefused(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
	b := s.NewBuyer(t)
	id := s.MustBuy(t, s.PaidCard(t, b, "k~002")).Order.ID
	s.Reaches(t, id, order.OperatorReview)
	review, err := s.Admin.Review(t.Context(), id, order.OperatorContext{Operator: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	act := order.OperatorContext{Operator: "ada", Key: "1", Reason: "as I saw it", Version: review.Order.Version - 1}
	if _, err := s.Admin.Decide(t.Context(), id, admin.DecideFulfilled, act); fault.Of(err) != fault.VersionChanged {
		t.Errorf("an older version: %v", err)
	}
	if n := s.Moves(t, id, order.Fulfilled); n != 0 {
		t.Errorf("fulfilled %d times", n)
	}
	act.Version = review.Order.Version
	if q, err := s.Admin.Decide(t.Context(), id, admin.DecideFulfilled, act); err != nil ||
		q.Order.Version != review.Order.Version+1 {
		t.Errorf("the version that was read: %+v, %v", q, err)
	}
	act.Key = "2"
	if _, err := s.Admin.Decide(t.Context(), id, admin.DecideRetry, act); fault.Of(err) != fault.VersionChanged {
		t.Errorf("after another decision: %v", err)
	}
}

func TestReviewSaysWhatCanBeDoneAndWhyNot(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true}) // without a treasury
	b := s.NewBuyer(t)
	id := s.MustBuy(t, s.PaidCard(t, b, "k~002")).Order.ID
	s.Reaches(t, id, order.OperatorReview)
	can := func(want string) {
		t.Helper()
		review, err := s.Admin.Review(t.Context(), id, order.OperatorContext{Operator: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range review.Actions {
			if a.Allowed != (a.Reason == "") {
				t.Errorf("%+v", a)
			}
			got = append(got, fmt.Sprint(a.Name, " ", a.Allowed))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	can("refund false, retry true, fulfilled true, prove_payment false")
	s.Decide(t, id, admin.DecideFulfilled, "by hand")
	can("refund false, retry false, fulfilled false, prove_payment false")
}

func TestOneOfConcurrentDecisionsHolds(t *testing.T) {
	s, _ := checkouttest.OpenWithTreasury(t,
		checkouttest.Options{Postgres: true, Traits: fulfilment.Traits{VisibilityDelay: time.Millisecond}}, 100_000_000)
	b := s.NewBuyer(t)
	p := s.PaidCard(t, b, "k")
	s.Issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
	sold := s.MustBuy(t, p)
	s.Reaches(t, sold.Order.ID, order.OperatorReview)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			decision := []admin.Decision{admin.DecideRefund, admin.DecideFulfilled}[i%2]
			_, errs[i] = s.Admin.Decide(t.Context(), sold.Order.ID, decision,
				order.OperatorContext{Operator: fmt.Sprint("op", i), Key: "1", Reason: "mine"})
		})
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if fault.Of(err) != fault.OrderNotInReview {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d decisions held", won)
	}
	checkouttest.Until(t, "the order has ended", func() bool {
		o, err := s.Store.Orders.Find(t.Context(), sold.Order.ID)
		return err == nil && o.Status.Final()
	})
	if refunded, fulfilled := s.Moves(t, sold.Order.ID, order.Refunded),
		s.Moves(t, sold.Order.ID, order.Fulfilled); refunded+fulfilled != 1 {
		t.Errorf("refunded %d times, fulfilled %d times", refunded, fulfilled)
	}
}

func TestQueueListsOrdersInReview(t *testing.T) {
	s := checkouttest.Open(t, checkouttest.Options{Postgres: true})
	b := s.NewBuyer(t)
	var ids []order.ID
	for i := range 3 {
		if i > 0 {
			b = s.NewBuyer(t)
		}
		sold := s.MustBuy(t, s.PaidCard(t, b, fmt.Sprintf("k%d~002", i)))
		s.Reaches(t, sold.Order.ID, order.OperatorReview)
		ids = append(ids, sold.Order.ID)
	}
	q := admin.QueueQuery{Status: order.OperatorReview, Limit: 2}
	first, next, err := s.Admin.Queue(t.Context(), q, order.OperatorContext{Operator: "ada"})
	if err != nil || len(first) != 2 || first[0].Order.ID != ids[2] || next != ids[1] ||
		first[0].Reason != card.RefusedHolder {
		t.Fatalf("first page %+v, next %s, %v", first, next, err)
	}
	q.Last = next
	rest, next, err := s.Admin.Queue(t.Context(), q, order.OperatorContext{Operator: "ada"})
	if err != nil || len(rest) != 1 || rest[0].Order.ID != ids[0] || next != "" {
		t.Fatalf("second page %+v, next %s, %v", rest, next, err)
	}
	q = admin.QueueQuery{Status: order.RefundPending, Limit: 2}
	if none, _, err := s.Admin.Queue(t.Context(), q,
		order.OperatorContext{Operator: "ada"}); err != nil || len(none) != 0 {
		t.Errorf("refunds %+v, %v", none, err)
	}
}

// onlyBack has one order, which was made only to bring its payment back. Nothing decides about it.
type onlyBack struct{ admin.Records }

func (onlyBack) item() admin.ReviewItem {
	return admin.ReviewItem{Order: order.Order{ID: "ord_1", Status: order.OperatorReview, RefundReason: "sold out"}}
}

// Unavailable implements admin.Refunds.
func (onlyBack) Unavailable() string { return "" }

func (o onlyBack) ReviewItem(context.Context, order.ID) (admin.ReviewItem, error) {
	return o.item(), nil
}

func (o onlyBack) Review(context.Context, order.ID, order.OperatorContext) (admin.Review, error) {
	return admin.Review{ReviewItem: o.item()}, nil
}

func TestOrderThatOnlyBringsItsPaymentBackIsDeliveredByNoRetry(t *testing.T) {
	a := admin.Admin{Records: onlyBack{}, Refunds: onlyBack{}}
	ada := order.OperatorContext{Operator: "ada", Key: "1", Reason: "why"}
	if _, err := a.Decide(t.Context(), "ord_1", admin.DecideRetry, ada); fault.Of(err) != fault.OrderOnlyRefunded {
		t.Errorf("decided: %v", err)
	}
	r, err := a.Review(t.Context(), "ord_1", ada)
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range r.Actions {
		if action.Name == string(admin.DecideRetry) && (action.Allowed || action.Reason == "") {
			t.Errorf("offered: %+v", action)
		}
	}
}
