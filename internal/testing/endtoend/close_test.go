package endtoend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
)

// cardClosing is what an operator sees of the closing of a card.
type cardClosing struct {
	ID, CardID, OrderID, Status, Stage, Reason, Reference string
	RemainderUsdCents                                     *int
	RefundedBy                                            string
	Version                                               int
}

// close orders the closing of a card, as the operator.
func (w *world) close(card, key string) (c cardClosing) {
	w.t.Helper()
	w.operatorCall("POST", "/api/admin/cards/"+card+"/close", `{"reason":"the owner asked"}`, key).into(w.t, 200, &c)
	return c
}

func (w *world) awaitClosing(card string, wanted func(cardClosing) bool) (found cardClosing) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		var list struct{ Closings []cardClosing }
		w.operatorCall("GET", "/api/admin/card-closings", "", "").into(w.t, 200, &list)
		i := slices.IndexFunc(list.Closings, func(c cardClosing) bool { return c.CardID == card && wanted(c) })
		if i >= 0 {
			found = list.Closings[i]
		}
		return i >= 0, fmt.Sprintf("%+v", list.Closings)
	})
	return found
}

func closed(c cardClosing) bool { return c.Stage == "closed" && c.Status == "succeeded" }

// TestOperatorClosesCard: what merchants hold is waited for, and what is left goes back to the owner on chain, once.
func TestOperatorClosesCard(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]bool{"purse": false, "limit": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAdminWorld(t, 100_000_000, plan{
				issuer: sandbox.Config{SpendLimits: limits},
				change: func(c *app.Config) { c.IssuerLimits = limits },
			})
			b := w.buyer()
			card := b.buyCard("a-card").Issuance.CardID
			at := w.newestCard()
			b.awaitBalance(card, 1500)
			var o paidOrder
			b.topUp("a-top-up", 2500).into(t, 200, &o)
			b.awaitStatus(o.OrderID, "fulfilled")
			b.awaitBalance(card, 3950)
			w.charge(at, 300, "Corner shop")
			w.issuer.call("POST", "cards/"+at, map[string]any{"holdCents": 400})
			was := w.balance(b.address)

			first := w.close(card, "c1")
			for _, key := range []string{"c1", "c2"} {
				if again := w.close(card, key); again.ID != first.ID {
					t.Errorf("closed again with %s: %+v, first %+v", key, again, first)
				}
			}
			eventually(t, func() (bool, string) {
				s := b.cardStatus(card)
				return s == "FROZEN", s
			})
			for _, act := range []string{"freeze", "unfreeze"} {
				wantProblem(t, act+" of a card that is being closed", b.post("/api/cards/"+card+"/"+act, ``), 409,
					fault.CardLocked)
			}
			wantProblem(t, "a top-up", b.topUp("top-up-meanwhile", 2500), 409, fault.ActiveCardMissing)
			if c := w.awaitClosing(card, func(cardClosing) bool { return true }); c.Stage != "locking" ||
				c.RemainderUsdCents != nil || len(w.payouts(b.address)) != 0 {
				t.Errorf("while a merchant holds 4.00: %+v", c)
			}
			w.issuer.call("POST", "cards/"+at, map[string]any{"takeCents": 100, "releaseCents": 300})

			c := w.awaitClosing(card, closed)
			if c.RemainderUsdCents == nil || *c.RemainderUsdCents != 3550 || c.Version != 1 {
				t.Errorf("closed: %+v", c)
			}
			if got := w.payouts(b.address); len(got) != 1 {
				t.Errorf("the treasury paid in %v", got)
			}
			if now := w.balance(b.address); now-was != money.Cents(3550).USDC() {
				t.Errorf("the owner has %s more", now-was)
			}
			if s := b.cardStatus(card); s != "CLOSED" {
				t.Errorf("the card is %s", s)
			}
			for _, act := range []string{"freeze", "unfreeze", "reveal-challenge"} {
				wantProblem(t, act+" of a closed card", b.post("/api/cards/"+card+"/"+act, `{}`), 409, fault.CardNotActive)
			}
			wantProblem(t, "the balance", b.get("/api/cards/"+card+"/balance"), 409, fault.CardNotActive)
			wantProblem(t, "a top-up", b.topUp("top-up-of-a-closed-card", 2500), 409, fault.ActiveCardMissing)
			if again := w.close(card, "c3"); again.ID != first.ID || !closed(again) {
				t.Errorf("closed again: %+v", again)
			}
			if n := w.count("SELECT count(*) FROM audit WHERE action = 'card.close' AND subject = $1", card); n != 3 {
				t.Errorf("%d audit rows", n)
			}
			w.checkBooks()
			w.wantFindings("after a card is closed")
			b.buyCard("another-card")
			w.checkBooks()
		})
	}
}

// TestClosingWaitsForAnOperatorAndGoesOn: a vendor's refusal, and a treasury without money.
func TestClosingWaitsForAnOperatorAndGoesOn(t *testing.T) {
	onlyTorture(t, "product/card TestRefusedWithdrawalWaitsForAnOperator, store "+
		"TestClosingThatWaitsGoesOnOncePerKey")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	at := w.newestCard()
	b.awaitBalance(card, 1500)
	w.setCardState(at, "locked") // by the issuer's staff: nothing is withdrawn from it
	w.close(card, "c1")
	c := w.awaitClosing(card, func(c cardClosing) bool { return c.Status == "operator_review" })
	if c.Stage != "locking" || c.Version != 2 || c.Reason == "" || len(w.payouts(b.address)) != 0 {
		t.Errorf("refused: %+v, paid %v", c, w.payouts(b.address))
	}
	w.checkBooks()
	w.wantFindings("while a closing waits")
	w.setCardState(at, "live")
	path := "/api/admin/card-closings/" + c.ID + "/retry"
	wantProblem(t, "a retry without a key", w.operatorCall("POST", path, `{"reason":"r"}`, ""), 400,
		fault.IdempotencyKeyMissing)
	for range 2 {
		w.operatorCall("POST", path, `{"reason":"the staff unlocked it"}`, "r1").into(t, 200, nil)
	}
	c = w.awaitClosing(card, closed)
	if *c.RemainderUsdCents != 1500 || len(w.payouts(b.address)) != 1 {
		t.Errorf("closed: %+v, paid %v", c, w.payouts(b.address))
	}
	w.operatorCall("POST", path, `{"reason":"once more"}`, "r2").into(t, 200, &c)
	if !closed(c) {
		t.Errorf("a closed card's closing, retried: %+v", c)
	}
	wantProblem(t, "an unowned card", w.operatorCall("POST", "/api/admin/cards/"+uuid.NewString()+"/close",
		`{"reason":"r"}`, "k"), 404, fault.CardNotFound)
	w.checkBooks()
	w.wantFindings("after a card is closed by a second attempt")
}

// TestEmptyCardIsClosedWithoutARefund, also where there is no treasury.
func TestEmptyCardIsClosedWithoutARefund(t *testing.T) {
	onlyTorture(t, "product/card TestEmptyCardIsJustEnded")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: withOperator})
	b, rich := w.buyer(), w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	b.awaitBalance(card, 1500)
	w.charge(w.newestCard(), 1500, "Corner shop")
	w.close(card, "c1")
	if c := w.awaitClosing(card, closed); *c.RemainderUsdCents != 0 {
		t.Errorf("closed: %+v", c)
	}
	second := rich.buyCard("another-card").Issuance.CardID
	rich.awaitBalance(second, 1500)
	w.close(second, "c2")
	c := w.awaitClosing(second, func(c cardClosing) bool { return c.Status == "operator_review" })
	if c.Stage != "refunding" || c.Reason != "the refund cannot be made: no treasury key is configured" {
		t.Errorf("without a treasury: %+v", c)
	}
	w.checkBooks()
	w.wantFindings("after a card is closed that was empty")
}

// TestClosingIsConcludedByARefundByHand, where there is no treasury: by a transaction that the chain shows.
func TestClosingIsConcludedByARefundByHand(t *testing.T) {
	onlyTorture(t, "product/card TestRefundByHandIsConcluded")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: withOperator})
	b, safe := w.buyer(), w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	b.awaitBalance(card, 1500)
	w.close(card, "c1")
	c := w.awaitClosing(card, func(c cardClosing) bool { return c.Status == "operator_review" })
	wrong := safe.sendTo(b.address, money.Cents(1499).USDC())
	right := safe.sendTo(b.address, money.Cents(1500).USDC())
	conclude := func(transaction, key string) answer {
		return w.operatorCall("POST", "/api/admin/card-closings/"+c.ID+"/conclude",
			fmt.Sprintf(`{"transaction":%q,"reason":"sent from the safe"}`, transaction), key)
	}
	wantProblem(t, "a transfer of another amount", conclude(wrong, "k1"), 409, fault.TransferUnproven)
	wantProblem(t, "no transaction", conclude("0x"+strings.Repeat("1", 64), "k2"), 409, fault.TransferUnproven)
	wantProblem(t, "not a hash", conclude("0x1", "k3"), 400, fault.SchemaInvalid)
	w.wantFindings("while the closing waits")
	for range 2 {
		conclude(right, "k4").into(t, 200, nil)
	}
	done := w.awaitClosing(card, closed)
	if done.RefundedBy != right {
		t.Errorf("concluded by %q, want %q", done.RefundedBy, right)
	}
	if n := w.count("SELECT count(*) FROM audit WHERE action = 'card_closing.conclude' AND after::text LIKE $1",
		"%"+right+"%"); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	if n := w.count("SELECT count(*) FROM ledger_postings WHERE kind = 'remainder_returned'"); n != 1 {
		t.Errorf("%d returns are posted", n)
	}
	w.checkBooks()
	w.wantFindings("after the closing was concluded by hand")
}

// closesVendorCard lets an operator close a card that a test plays the vendor of, and its owner gets what is left.
func (b *buyer) closesVendorCard(card string, cents int) {
	w, t := b.w, b.w.t
	t.Helper()
	was := w.balance(b.address)
	w.close(card, "c1")
	if c := w.awaitClosing(card, closed); c.RemainderUsdCents == nil || *c.RemainderUsdCents != cents {
		t.Errorf("closed: %+v, want %d cents left", c, cents)
	}
	if now := w.balance(b.address); now-was != money.Cents(cents).USDC() {
		t.Errorf("the owner has %s more", now-was)
	}
	if s := b.cardStatus(card); s != "CLOSED" {
		t.Errorf("the card is %s", s)
	}
}

func TestOperatorClosesACardOfStripe(t *testing.T) {
	onlyTorture(t, "product/card TestClosedCardIsEmptiedRefundedAndEnded and the kit of provider/stripe")
	t.Parallel()
	w, vendor := newStripeWorld(t, plan{})
	b := w.buyer()
	o := b.buyCard("a-card-of-stripe-1")
	w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "succeeded" })
	at := vendor.Cards()[0].ID
	vendor.Charge(at, 200, stripefake.Merchant{Name: "Corner shop", Category: "5411", Country: "CH"})
	b.closesVendorCard(o.Issuance.CardID, 1300)
	if c := vendor.Cards()[0]; c.Status != "canceled" {
		t.Errorf("the issuer has %+v", c)
	}
	w.checkBooks()
	w.wantFindings("the books of Stripe and ours")
}

func TestOperatorClosesACardOfLithic(t *testing.T) {
	onlyTorture(t, "product/card TestClosedCardIsEmptiedRefundedAndEnded and the kit of provider/lithic")
	t.Parallel()
	w, fake := newLithicWorld(t, "inline")
	b := w.buyer()
	o := b.buyCard("a-card-of-lithic-1")
	w.awaitSettled()
	at := fake.Cards()[0].Token
	fake.Charge(at, 200, lithicfake.Merchant{Name: "Corner shop", Category: "5411", Country: "CHE"})
	b.closesVendorCard(o.Issuance.CardID, 1300)
	if c := fake.Cards()[0]; c.State != "CLOSED" {
		t.Errorf("the issuer has %+v", c)
	}
	w.wantFindings("the books of Lithic and ours")
}
