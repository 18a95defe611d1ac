package checkout_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// opening is of a card order, paid later.
func (b buyer) opening(key string) checkout.CreateRequest {
	return checkout.CreateRequest{
		Kind: card.Kind, Owner: b.address, Key: key, Request: json.RawMessage(`{}`), ReuseUnpaid: true,
	}
}

// funding is an opening of a top-up.
func (b buyer) funding(key string, gross money.Cents) checkout.CreateRequest {
	n := b.opening(key)
	n.Kind, n.ReuseUnpaid = topup.Kind, false
	n.Request, _ = json.Marshal(topup.Request{Gross: gross})
	return n
}

func (s *shop) mustOpen(t *testing.T, n checkout.CreateRequest) order.Order {
	t.Helper()
	got, err := s.Create(t.Context(), n)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return got.Order
}

var at = x402.Resource{URL: "https://shop.example/pay/x"}

// terms are what an order asks for.
func (s *shop) terms(t *testing.T, id order.ID) x402.PaymentRequired {
	t.Helper()
	_, err := s.Pay(t.Context(), id, "", at)
	ch, ok := errors.AsType[*checkout.Challenge](err)
	if !ok {
		t.Fatalf("want a challenge, got %v", err)
	}
	required, err := x402.DecodeRequired(ch.Headers().Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	return required
}

func (s *shop) mustPay(t *testing.T, id order.ID, paid string) checkout.PaidOrder {
	t.Helper()
	sold, err := s.Pay(t.Context(), id, paid, at)
	if err != nil {
		t.Fatalf("Pay: %v", err)
	}
	return sold
}

// withCard lets a buyer have an active card whose fee is off.
func (s *shop) withCard(t *testing.T, b buyer) card.Card {
	t.Helper()
	s.reaches(t, s.mustBuy(t, s.paid(t, b, "card")).Order.ID, order.Fulfilled)
	c, err := s.cards.Ensure(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	s.feeJob(t, c)
	return c
}

func TestAnOpenedOrderIsPaidOnceByItsOwner(t *testing.T) {
	s := open(t, options{})
	b, stranger := s.newBuyer(t), s.newBuyer(t)
	o := s.mustOpen(t, b.opening("k"))
	if o.Status != order.PaymentRequired || o.Price != card.Price || o.ExpiresAt == nil ||
		o.ExpiresAt.Sub(o.CreatedAt) != 30*time.Minute {
		t.Fatalf("opened %+v", o)
	}
	required := s.terms(t, o.ID)
	if a := required.Accepts[0]; a.Amount != "25000000" || required.Resource.URL != at.URL || a.Extra["quoteId"] != nil {
		t.Errorf("terms %+v of %+v", a, required.Resource)
	}
	_, err := s.Pay(t.Context(), o.ID, stranger.pay(t, required), at)
	if f := wantFault(t, err, fault.PaymentRejected); strings.Contains(strings.ToLower(f.Error()), b.address.Lower()) {
		t.Errorf("a stranger is told whose order it is: %v", f)
	}
	first := b.pay(t, required)
	sold := s.mustPay(t, o.ID, first)
	if sold.Replayed || sold.Order.ID != o.ID || sold.Payment.Receipt == nil || sold.Order.ExpiresAt != nil {
		t.Errorf("sold %+v", sold)
	}
	s.reaches(t, o.ID, order.Fulfilled)
	for name, again := range map[string]string{"the same header": first, "a new authorization": b.pay(t, required)} {
		if got := s.mustPay(t, o.ID, again); !got.Replayed ||
			checkout.Receipt(got.Payment) != checkout.Receipt(sold.Payment) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, paid := range map[string]string{"no payment": "", "a stranger's": stranger.pay(t, required)} {
		_, err := s.Pay(t.Context(), o.ID, paid, at)
		if f := wantFault(t, err, fault.OrderNotPayable); f.SafeToPayAgain {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if s.spent(b) != price || s.spent(stranger) != 0 {
		t.Errorf("spent %d and %d", s.spent(b), s.spent(stranger))
	}
}

func TestAFundingOrderCreditsTheCardItWasOpenedFor(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	_, err := s.Create(t.Context(), b.funding("", 5000))
	wantFault(t, err, fault.ActiveCardMissing)
	c := s.withCard(t, b)
	one, two := s.mustOpen(t, b.funding("", 5000)), s.mustOpen(t, b.funding("", 5000))
	if one.ID == two.ID {
		t.Fatal("two openings without a key made one order")
	}
	required := s.terms(t, one.ID)
	if a := required.Accepts[0]; a.Amount != "50000000" || !strings.Contains(required.Resource.Description, "49.00") {
		t.Errorf("terms %+v, %q", a, required.Resource.Description)
	}
	s.mustPay(t, one.ID, b.pay(t, required))
	s.reaches(t, one.ID, order.Fulfilled)
	if bal, err := s.cards.Balance(t.Context(), c.ID, b.address); err != nil || bal.Available != 1500+4900 {
		t.Errorf("balance %v, %v", bal.Available, err)
	}
	// The authorization that paid the one does not pay the other.
	spent := b.pay(t, s.terms(t, two.ID))
	s.mustPay(t, two.ID, spent)
	three := s.mustOpen(t, b.funding("", 5000))
	_, err = s.Pay(t.Context(), three.ID, spent, at)
	wantFault(t, err, fault.AuthorizationAlreadyUsed)
	if s.spent(b) != price+2*50_000_000 {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestAKeyOpensOneOrder(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	first := s.mustOpen(t, b.opening("k"))
	if again := s.mustOpen(t, b.opening("k")); again.ID != first.ID {
		t.Errorf("the key opened %s and %s", first.ID, again.ID)
	}
	if without := s.mustOpen(t, b.opening("")); without.ID != first.ID {
		t.Errorf("a second open order %s", without.ID)
	}
	other := b.opening("k")
	other.Request = json.RawMessage(`{"other":1}`)
	_, err := s.Create(t.Context(), other)
	wantFault(t, err, fault.IdempotencyKeyReused)
	elsewhere := b.opening("k")
	elsewhere.Resource = "https://shop.example/other"
	_, err = s.Create(t.Context(), elsewhere)
	wantFault(t, err, fault.IdempotencyKeyReused)
	// Another wallet's key is another key, and an order that is over is answered as it is.
	if foreign := s.mustOpen(t, s.newBuyer(t).opening("k")); foreign.ID == first.ID {
		t.Error("two wallets share an order")
	}
	s.mustPay(t, first.ID, b.pay(t, s.terms(t, first.ID)))
	if paid, err := s.Create(t.Context(), b.opening("k")); err != nil || paid.Order.ID != first.ID ||
		paid.Payment.Receipt == nil {
		t.Errorf("after the payment the key opens %+v, %v", paid, err)
	}
	s.reaches(t, first.ID, order.Fulfilled)
	_, err = s.Create(t.Context(), b.opening(""))
	wantFault(t, err, fault.CardAlreadyExists)
}

func TestAPurchaseWithTheKeyOfAnOpenOrderPaysIt(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	o := s.mustOpen(t, b.opening("k"))
	sold := s.mustBuy(t, s.paid(t, b, "k"))
	if sold.Order.ID != o.ID || sold.Replayed {
		t.Fatalf("sold %+v, opened %s", sold, o.ID)
	}
	if got := s.mustPay(t, o.ID, b.pay(t, s.challenge(t, purchase("other")))); !got.Replayed {
		t.Errorf("paid by its id: %+v", got)
	}
	s.reaches(t, o.ID, order.Fulfilled)
	c, err := s.cards.Ensure(t.Context(), b.address)
	if err != nil {
		t.Fatal(err)
	}
	s.feeJob(t, c)
	funding := s.mustOpen(t, b.funding("t", 5000))
	other := topUp("t", 2500)
	other.Payment = b.pay(t, s.challenge(t, other))
	_, err = s.Buy(t.Context(), other)
	wantFault(t, err, fault.IdempotencyKeyReused)
	same := topUp("t", 5000)
	same.Payment = b.pay(t, s.challenge(t, same))
	if got := s.mustBuy(t, same); got.Order.ID != funding.ID {
		t.Errorf("the purchase made %s beside %s", got.Order.ID, funding.ID)
	}
	if s.spent(b) != 3*price {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestAnOrderThatExpiredIsNotPaid(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	o := s.mustOpen(t, b.opening("k"))
	paid := b.pay(t, s.terms(t, o.ID))
	s.now.Store(int64(31 * time.Minute))
	for name, payment := range map[string]string{"no payment": "", "the owner's": paid} {
		_, err := s.Pay(t.Context(), o.ID, payment, at)
		if f := wantFault(t, err, fault.OrderNotPayable); f.OrderID != string(o.ID) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if got, err := s.Order(t.Context(), o.ID, b.address); err != nil || got.Order.Status != order.Expired {
		t.Errorf("shown as %s, %v", got.Order.Status, err)
	}
	if s.spent(b) != 0 || s.chain.Calls().Submit != 0 {
		t.Errorf("spent %d, calls %+v", s.spent(b), s.chain.Calls())
	}
	if fresh := s.mustOpen(t, b.opening("k")); fresh.ID != o.ID || fresh.Status != order.Expired {
		t.Errorf("its key opens %+v", fresh)
	}
}

func TestWhoeverPaysAnOrderManyTimesPaysOnce(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	o := s.mustOpen(t, b.opening(""))
	required := s.terms(t, o.ID)
	var all sync.WaitGroup
	for range 12 {
		paid := b.pay(t, required)
		all.Go(func() {
			if sold, err := s.Pay(t.Context(), o.ID, paid, at); err != nil || sold.Order.ID != o.ID {
				t.Errorf("paid %+v, %v", sold, err)
			}
		})
	}
	all.Wait()
	if s.spent(b) != price {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestADeadPaymentLeavesTheOrderPayable(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	o := s.mustOpen(t, b.opening("k"))
	s.chain.Next(paymenttest.Cancel)
	dead := b.pay(t, s.terms(t, o.ID))
	_, err := s.Pay(t.Context(), o.ID, dead, at)
	wantFault(t, err, fault.PaymentRejected)
	if ch, ok := errors.AsType[*checkout.Challenge](err); !ok || ch.Headers().Get(x402.HeaderResponse) == "" {
		t.Fatalf("got %v", err)
	}
	_, err = s.Pay(t.Context(), o.ID, dead, at)
	wantFault(t, err, fault.PaymentRejected)
	s.now.Store(int64(31 * time.Minute))
	paid := b.pay(t, s.terms(t, o.ID), func(a *x402.Authorization) { a.ValidBefore += 1860 })
	if sold := s.mustPay(t, o.ID, paid); sold.Order.ID != o.ID || s.spent(b) != price {
		t.Errorf("sold %+v, spent %d", sold, s.spent(b))
	}
}

func TestAnOrderOnItsWayIsNeverAChallenge(t *testing.T) {
	s := open(t, options{wait: 300 * time.Millisecond})
	b, stranger := s.newBuyer(t), s.newBuyer(t)
	for range 5000 { // whatever is sent until the release
		s.chain.Next(paymenttest.Stall)
	}
	o := s.mustOpen(t, b.opening("k"))
	required := s.terms(t, o.ID)
	for _, paid := range []string{b.pay(t, required), b.pay(t, required), "", stranger.pay(t, required)} {
		_, err := s.Pay(t.Context(), o.ID, paid, at)
		if f := wantFault(t, err, fault.SettlementUnknown); f.SafeToPayAgain || f.RetryAfter == 0 {
			t.Errorf("fault %+v", f)
		}
	}
	s.chain.Release()
	s.reaches(t, o.ID, order.Fulfilled)
	if s.spent(b) != price {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestAnUnknownOrderCannotBePaid(t *testing.T) {
	s := open(t, options{})
	for _, id := range []order.ID{"ord_unknown", "' OR 1=1--", "a\x00b", "ord_\u202e", ""} {
		_, err := s.Pay(t.Context(), id, "", at)
		wantFault(t, err, fault.OrderNotFound)
	}
}

func TestWhatCannotBeSoldIsNeitherOpenedNorPaid(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	o := s.mustOpen(t, b.opening("k"))
	paid := b.pay(t, s.terms(t, o.ID))
	s.issuer.SetFloat(card.Price - 1)
	s.now.Store(int64(2 * time.Second)) // the stock is remembered for a moment
	_, err := s.Create(t.Context(), s.newBuyer(t).opening(""))
	wantFault(t, err, fault.FloatUnavailable)
	for _, payment := range []string{"", paid} {
		_, err := s.Pay(t.Context(), o.ID, payment, at)
		wantFault(t, err, fault.FloatUnavailable)
	}
	if again := s.mustOpen(t, b.opening("k")); again.ID != o.ID {
		t.Error("the key's order is gone")
	}
	if s.spent(b) != 0 {
		t.Errorf("spent %d", s.spent(b))
	}
}
