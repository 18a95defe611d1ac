package endtoend_test

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// newStripeWorld makes a world whose cards are Stripe's, of a vendor that the test plays.
func newStripeWorld(t *testing.T, p plan) (*world, *stripefake.Server) {
	t.Helper()
	vendor := stripefake.New(stripefake.Config{})
	web := httptest.NewServer(vendor)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	more := p.change
	p.change = func(c *app.Config) {
		if more != nil {
			more(c)
		}
		c.IssuerURL, c.IssuerKey = web.URL, secret.New(stripefake.DevKey)
		for key, text := range map[string]string{
			"issuer.provider": stripe.Name, stripe.CardholderKey: stripefake.DevCardholder,
			stripe.PublishableKey: stripefake.DevPublishable, stripe.ElementsKey: web.URL + "/elements.js",
		} {
			if err := c.Set(key, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := newAdminWorld(t, 100_000_000, p)
	w.issuerBooks = web.URL + "/control/books"
	return w, vendor
}

// TestStripeCardsAreSoldAndToppedUp though answers are lost: the holder can spend what was paid for, and not a cent
// more.
func TestStripeCardsAreSoldAndToppedUp(t *testing.T) {
	t.Parallel()
	w, vendor := newStripeWorld(t, plan{instances: 2})
	b := w.buyer()
	vendor.Fault("open", vendorfake.TimeoutAfter)
	o := b.buyCard("a-card-of-stripe-1")
	cards := vendor.Cards()
	if len(cards) != 1 || cards[0].Limits[0].Amount != 1500 {
		t.Fatalf("the issuer has %+v", cards)
	}
	at := cards[0].ID
	balance := func(want money.Cents) {
		t.Helper()
		eventually(t, func() (bool, string) { // what a merchant takes shows once the balance is read again
			var got struct{ AvailableUsdCents money.Cents }
			b.get("/api/cards/"+o.Issuance.CardID+"/balance").into(t, 200, &got)
			return got.AvailableUsdCents == want, fmt.Sprintf("%s on the card, want %s", got.AvailableUsdCents, want)
		})
	}
	balance(1500)
	j := w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "succeeded" })
	if j.Outstanding || w.ledgerBalance("revenue:issue_fee") != -1000 {
		t.Errorf("fee job %+v, %s earned", j, w.ledgerBalance("revenue:issue_fee"))
	}
	// One answer is lost after the limit is raised, one that is left unanswered raises nothing.
	vendor.Fault("move", vendorfake.TimeoutAfter)
	vendor.Fault("move", vendorfake.ErrorBefore)
	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() {
			if got := b.topUp(fmt.Sprintf("a-load-of-stripe-%d", n), 2500); got.status != 200 {
				t.Errorf("top-up %d: %d %s", n, got.status, got.body)
			}
		})
	}
	both.Wait()
	w.awaitSettled()
	balance(1500 + 2*2450)
	held, approved := vendor.Authorize(at, 6400)
	if _, more := vendor.Authorize(at, 1); !approved || more {
		t.Error("what was bought and topped up is not what can be spent")
	}
	balance(0)
	vendor.Capture(held, 6400)
	balance(0)
	w.checkBooks()
	w.wantFindings("the books of Stripe and ours")
	if asked := w.issuer.books().Requests; len(asked) > 0 {
		t.Errorf("the sandbox was asked for %v", asked)
	}
}

// TestStripeRefusalIsPaidBack, and an unclear answer is not.
func TestStripeRefusalIsPaidBack(t *testing.T) {
	onlyTorture(t, "provider/stripe TestRefusalsHaveNeutralCodes, settlement "+
		"TestRefusedCardIsRefundedOnceAndFreesItsOwner")
	t.Parallel()
	w, vendor := newStripeWorld(t, plan{})
	b := w.buyer()
	had := w.balance(b.address)
	vendor.Fault("open", vendorfake.Refused)
	o, err := b.buyRetrying("refused-by-stripe-1")
	if err != nil {
		t.Fatal(err)
	}
	b.signIn()
	b.awaitStatus(o.OrderID, "refunded")
	if now := w.balance(b.address); now != had || len(vendor.Cards()) != 0 {
		t.Errorf("the buyer has %s of %s, the issuer %+v", now.Dollars(), had.Dollars(), vendor.Cards())
	}
	other := w.buyer()
	vendor.Fault("open", stripefake.Idempotency)
	other.buyCard("unclear-at-stripe-1")
	if len(vendor.Cards()) != 1 {
		t.Errorf("the issuer has %+v", vendor.Cards())
	}
	w.checkBooks()
}

// TestStripeCardThatIsFrozenTakesNoMoney: its state is read before the terms are stated.
func TestStripeCardThatIsFrozenTakesNoMoney(t *testing.T) {
	onlyTorture(t, "provider/stripe TestWhatOthersMadeInactiveStaysInactive, product/card "+
		"TestWhatTheIssuerLockedOrTerminatedIsNotUsed")
	t.Parallel()
	w, vendor := newStripeWorld(t, plan{})
	b := w.buyer()
	o := b.buyCard("frozen-at-stripe-1")
	at := vendor.Cards()[0].ID
	vendor.Edit(at, func(c *stripefake.Card) { c.Status = "inactive" })
	if a := b.topUp("frozen-at-stripe-2", 2500); a.status == 200 {
		t.Errorf("a frozen card is topped up: %s", a.body)
	}
	if status := b.cardStatus(o.Issuance.CardID); status != "FROZEN" {
		t.Errorf("the card is %s", status)
	}
	vendor.Edit(at, func(c *stripefake.Card) { c.Status = "active" })
	b.topUp("frozen-at-stripe-3", 2500).into(t, 200, nil)
	w.awaitSettled()
	if limit := vendor.Cards()[0].Limits[0].Amount; limit != 3950 {
		t.Errorf("the limit is %d", limit)
	}
	w.checkBooks()
}

func TestOwnerFreezesACardOfStripe(t *testing.T) {
	onlyTorture(t, "provider/stripe TestFreezingNextToALoadKeepsTheLimit and its kit")
	t.Parallel()
	w, vendor := newStripeWorld(t, plan{})
	b := w.buyer()
	o := b.buyCard("a-card-of-stripe-1")
	w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "succeeded" })
	at := vendor.Cards()[0].ID
	mark := func(text string) func() {
		return func() {
			vendor.Edit(at, func(c *stripefake.Card) {
				if delete(c.Metadata, "roamcard_frozen"); text != "" {
					c.Metadata["roamcard_frozen"] = text
				}
			})
		}
	}
	own := vendorCard{
		id: o.Issuance.CardID,
		charge: func(cents int64) {
			vendor.Charge(at, cents, stripefake.Merchant{Name: "Corner shop", Category: "5411", Country: "CH"})
		},
		lock: mark(""), unlock: mark("owner"),
	}
	b.ownsCard(own)
	if c := vendor.Cards()[0]; c.Status != "active" || c.Limits[0].Amount != 1500 {
		t.Errorf("the issuer has %+v", c)
	}
	if d := b.readsDetails(own.id, "email"); d.ThreeDSecure.Destination != "c***@programme.example" {
		t.Errorf("codes go to %+v", d.ThreeDSecure)
	}
	b.limitsCard(own, true)
	if c := vendor.Cards()[0]; len(c.Limits) != 1 || c.Limits[0].Amount != 3950 {
		t.Errorf("the issuer has %+v", c)
	}
	wantProblem(t, "a category that Stripe does not have",
		b.put("/api/cards/"+own.id+"/limits", `{"blockedCategories":["0001"]}`), 400, fault.SchemaInvalid)
	w.checkBooks()
	w.wantFindings("the books of Stripe and ours")
}
