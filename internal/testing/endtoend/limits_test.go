package endtoend_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// TestRepeatsAreNotRateLimited keeps the promise under rates that leave nothing over: what is claimed is
// answered however often it is asked for, what is new is not.
func TestRepeatsAreNotRateLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: func(c *app.Config) {
		c.Limits = limit.Rates{limit.Paid: {Count: 1, Per: time.Hour}, limit.PaidAddress: {Count: 2, Per: time.Hour},
			limit.Orders: {Count: 1, Per: time.Hour}, limit.InFlight: {Count: 1}, limit.Unpaid: {Count: 2, Per: time.Hour}}
	}})
	b := w.buyer()
	first := purchase("once", header(t, b.payment()))
	w.send(first).into(t, 200, nil)
	for i, r := range []request{first, first, purchase("once", header(t, b.payment())),
		purchase("once", header(t, b.payment())), first} {
		var o paidOrder
		if w.send(r).into(t, 200, &o); !o.Replayed {
			t.Errorf("repeat %d is no repeat", i)
		}
	}
	a := w.send(esimPurchase("another", b.esimPayment(w.esimTerms("another"))))
	if a.status != 429 || !a.is(fault.RateLimited) || a.header.Get("Retry-After") == "" ||
		a.header.Get("RateLimit-Limit") != "1" {
		t.Errorf("a second purchase within the hour: %d %s %v", a.status, a.body, a.header)
	}
	// A wallet that was refused has claimed nothing and paid nothing.
	stranger := w.buyer()
	wantStatus(t, "the third new purchase of an address", w.send(purchase("hers", header(t, stranger.payment()))), 429)
	if w.balance(stranger.address) != 1_000_000_000 {
		t.Error("who was refused has paid")
	}
	for i, want := range []int{402, 429} {
		if a := w.send(purchase("terms", "")); a.status != want {
			t.Errorf("terms, time %d: %d, want %d", i+1, a.status, want)
		}
	}
	w.awaitSettled()
	w.checkBooks()
}

// TestConcurrentCopiesMakeOneOrderUnderRateLimit races copies of a first request: those that are
// refused as too many at once must not be those that know of the order.
func TestConcurrentCopiesMakeOneOrderUnderRateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: func(c *app.Config) {
		c.Limits = limit.Rates{limit.InFlight: {Count: 1}, limit.Paid: {Count: 4, Per: time.Hour}}
	}})
	b := w.buyer()
	r := purchase("raced", header(t, b.payment()))
	orders := map[string]bool{}
	for _, a := range w.race([]request{r, r, r, r, r, r}) {
		switch a.status {
		case 200:
			var o paidOrder
			a.into(t, 200, &o)
			orders[o.OrderID] = true
		case 429:
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	w.send(r).into(t, 200, nil)
	if len(orders) != 1 {
		t.Errorf("orders %v", orders)
	}
}

func TestRevealsAndSignInsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: func(c *app.Config) {
		c.Limits = limit.Rates{limit.Reveal: {Count: 1, Per: time.Hour}, limit.Challenge: {Count: 2, Per: time.Hour},
			limit.Verify: {Count: 2, Per: time.Hour}}
	}})
	b := w.buyer()
	o := b.buyCard("mine")
	for i, want := range []int{401, 429} {
		a := b.post("/api/cards/"+o.Issuance.CardID+"/reveal", revealBody(uuid.NewString(), b.sign("x")))
		if a.status != want || (want == 429 && a.header.Get("Retry-After") == "") {
			t.Errorf("reveal %d: %d %s", i+1, a.status, a.body)
		}
	}
	b.get("/api/cards").into(t, 200, nil)
	w.unfundedBuyer().signIn()
	wantStatus(t, "the third sign-in of an address", w.send(challengeRequest(b.address.String())), 429)
}
