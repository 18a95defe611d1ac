package checkout_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// newOrder asks for a card order that is paid later.
func newOrder(b checkouttest.Buyer, key string) checkout.CreateRequest {
	return checkout.CreateRequest{
		Kind: card.Kind, Owner: b.Address, Key: key, Request: json.RawMessage(`{}`), ReuseUnpaid: true,
	}
}

// newTopUp asks for an order of a top-up.
func newTopUp(b checkouttest.Buyer, key string, gross money.Cents) checkout.CreateRequest {
	n := newOrder(b, key)
	n.Kind, n.ReuseUnpaid = topup.Kind, false
	n.Request, _ = json.Marshal(topup.Request{Gross: gross})
	return n
}

func mustCreate(t *testing.T, s *checkouttest.Shop, n checkout.CreateRequest) order.Order {
	t.Helper()
	got, err := s.Create(t.Context(), n)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return got.Order
}

var at = x402.Resource{URL: "https://shop.example/pay/x"}

// termsOf are what an order asks for.
func termsOf(t *testing.T, s *checkouttest.Shop, id order.ID) x402.PaymentRequired {
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

func mustPay(t *testing.T, s *checkouttest.Shop, id order.ID, paid string) checkout.PaidOrder {
	t.Helper()
	sold, err := s.Pay(t.Context(), id, paid, at)
	if err != nil {
		t.Fatalf("Pay: %v", err)
	}
	return sold
}

func TestCreatedOrderIsPaidOnceByItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b, stranger := s.NewBuyer(t), s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, "k"))
		if o.Status != order.PaymentRequired || o.Price != card.Price || o.ExpiresAt == nil ||
			o.ExpiresAt.Sub(o.CreatedAt) != 30*time.Minute {
			t.Fatalf("opened %+v", o)
		}
		required := termsOf(t, s, o.ID)
		if a := required.Accepts[0]; a.Amount != "25000000" || required.Resource.URL != at.URL || a.Extra["quoteId"] != nil ||
			a.Extra["paymentFlow"] != "upfront" {
			t.Errorf("terms %+v of %+v", a, required.Resource)
		}
		_, err := s.Pay(t.Context(), o.ID, stranger.Pay(t, required), at)
		if f := checkouttest.WantFault(t, err,
			fault.WrongPayer); !f.SafeToPayAgain || strings.Contains(strings.ToLower(f.Error()), b.Address.Lower()) {
			t.Errorf("a stranger is told whose order it is: %v", f)
		}
		first := b.Pay(t, required)
		sold := mustPay(t, s, o.ID, first)
		if sold.Replayed || sold.Order.ID != o.ID || sold.Payment.Receipt == nil || sold.Order.ExpiresAt != nil {
			t.Errorf("sold %+v", sold)
		}
		s.Reaches(t, o.ID, order.Fulfilled)
		for name, again := range map[string]string{"the same header": first, "a new authorization": b.Pay(t, required)} {
			if got := mustPay(t, s, o.ID, again); !got.Replayed ||
				!cmp.Equal(checkout.Receipt(got.Payment), checkout.Receipt(sold.Payment)) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		for name, paid := range map[string]string{"no payment": "", "a stranger's": stranger.Pay(t, required)} {
			_, err := s.Pay(t.Context(), o.ID, paid, at)
			if f := checkouttest.WantFault(t, err, fault.OrderNotPayable); f.SafeToPayAgain {
				t.Errorf("%s: %+v", name, f)
			}
			answer, ok := errors.AsType[interface {
				error
				Headers() http.Header
			}](err)
			if !ok {
				t.Errorf("%s: no receipt", name)
				continue
			}
			receipt, err := x402.DecodeSettlement(answer.Headers().Get(x402.HeaderResponse))
			want := checkout.Receipt(sold.Payment)
			want.Payer = "" // for whoever has the link
			if err != nil || !cmp.Equal(receipt, want) {
				t.Errorf("%s: receipt %+v, %v, want %+v", name, receipt, err, want)
			}
		}
		if s.Spent(b) != price || s.Spent(stranger) != 0 {
			t.Errorf("spent %d and %d", s.Spent(b), s.Spent(stranger))
		}
	})
}

func TestTopUpOrderCreditsTheCardItWasCreatedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		_, err := s.Create(t.Context(), newTopUp(b, "", 5000))
		checkouttest.WantFault(t, err, fault.ActiveCardMissing)
		c := s.WithCard(t, b)
		one, two := mustCreate(t, s, newTopUp(b, "", 5000)), mustCreate(t, s, newTopUp(b, "", 5000))
		if one.ID == two.ID {
			t.Fatal("two requests without a key made one order")
		}
		required := termsOf(t, s, one.ID)
		if a := required.Accepts[0]; a.Amount != "50000000" || !strings.Contains(required.Resource.Description, "49.00") {
			t.Errorf("terms %+v, %q", a, required.Resource.Description)
		}
		mustPay(t, s, one.ID, b.Pay(t, required))
		s.Reaches(t, one.ID, order.Fulfilled)
		if bal, err := s.Cards.Balance(t.Context(), c.ID, b.Address); err != nil || bal.Available != 1500+4900 {
			t.Errorf("balance %v, %v", bal.Available, err)
		}
		// The authorization that paid the one does not pay the other.
		spent := b.Pay(t, termsOf(t, s, two.ID))
		mustPay(t, s, two.ID, spent)
		three := mustCreate(t, s, newTopUp(b, "", 5000))
		_, err = s.Pay(t.Context(), three.ID, spent, at)
		checkouttest.WantFault(t, err, fault.AuthorizationAlreadyUsed)
		if s.Spent(b) != price+2*50_000_000 {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestKeyCreatesOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		first := mustCreate(t, s, newOrder(b, "k"))
		if again := mustCreate(t, s, newOrder(b, "k")); again.ID != first.ID {
			t.Errorf("the key opened %s and %s", first.ID, again.ID)
		}
		if without := mustCreate(t, s, newOrder(b, "")); without.ID != first.ID {
			t.Errorf("a second open order %s", without.ID)
		}
		other := newOrder(b, "k")
		other.Request = json.RawMessage(`{"other":1}`)
		_, err := s.Create(t.Context(), other)
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		elsewhere := newOrder(b, "k")
		elsewhere.Resource = "https://shop.example/other"
		_, err = s.Create(t.Context(), elsewhere)
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		// Another wallet's key is another key, and an order that is over is answered as it is.
		if foreign := mustCreate(t, s, newOrder(s.NewBuyer(t), "k")); foreign.ID == first.ID {
			t.Error("two wallets share an order")
		}
		mustPay(t, s, first.ID, b.Pay(t, termsOf(t, s, first.ID)))
		if paid, err := s.Create(t.Context(), newOrder(b, "k")); err != nil || paid.Order.ID != first.ID ||
			paid.Payment.Receipt == nil {
			t.Errorf("after the payment the key opens %+v, %v", paid, err)
		}
		s.Reaches(t, first.ID, order.Fulfilled)
		_, err = s.Create(t.Context(), newOrder(b, ""))
		checkouttest.WantFault(t, err, fault.CardAlreadyExists)
	})
}

// TestPaymentIdentifierIsTheKey: a payment that names another purchase than the request is not taken, whether or not
// there is an order, and one that names the same is as one that names none.
func TestPaymentIdentifierIsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		const key = "purchase-of-0001"
		p := s.PaidCard(t, b, key)
		named := func(id string) checkout.Purchase {
			q := p
			q.Payment = identified(t, p.Payment, id)
			return q
		}
		_, err := s.Buy(t.Context(), named("purchase-of-0002"))
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		if s.Spent(b) != 0 {
			t.Error("it was taken")
		}
		sold := s.MustBuy(t, named(key))
		for _, again := range []checkout.Purchase{named(key), p} {
			if got := s.MustBuy(t, again); got.Order.ID != sold.Order.ID || !got.Replayed {
				t.Errorf("a repeat is %+v", got.Order)
			}
		}
		_, err = s.Buy(t.Context(), named("purchase-of-0002"))
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
	})
}

// identified adds an id to a payment, by payment-identifier.
func identified(t *testing.T, payment, id string) string {
	t.Helper()
	pay, err := x402.DecodePayment(payment)
	if err != nil {
		t.Fatal(err)
	}
	info := map[string]any{"required": false, "id": id}
	pay.Extensions = map[string]any{x402.PaymentIdentifier: map[string]any{"info": info}}
	header, err := x402.EncodePayment(pay)
	if err != nil {
		t.Fatal(err)
	}
	return header
}

func TestPurchaseWithTheKeyOfAnUnpaidOrderPaysIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, "k"))
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		if sold.Order.ID != o.ID || sold.Replayed {
			t.Fatalf("sold %+v, opened %s", sold, o.ID)
		}
		if got := mustPay(t, s, o.ID, b.Pay(t, s.Challenge(t, checkouttest.Purchase("other")))); !got.Replayed {
			t.Errorf("paid by its id: %+v", got)
		}
		s.Reaches(t, o.ID, order.Fulfilled)
		c, err := s.Cards.Ensure(t.Context(), b.Address)
		if err != nil {
			t.Fatal(err)
		}
		s.FeeJob(t, c)
		funding := mustCreate(t, s, newTopUp(b, "t", 5000))
		other := checkouttest.TopUp("t", 2500)
		other = s.Paid(t, b, other)
		_, err = s.Buy(t.Context(), other)
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		same := checkouttest.TopUp("t", 5000)
		same = s.Paid(t, b, same)
		if got := s.MustBuy(t, same); got.Order.ID != funding.ID {
			t.Errorf("the purchase made %s in addition to %s", got.Order.ID, funding.ID)
		}
		if s.Spent(b) != 3*price {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestExpiredOrderIsNotPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, "k"))
		paid := b.Pay(t, termsOf(t, s, o.ID))
		s.Offset.Store(int64(31 * time.Minute))
		for name, payment := range map[string]string{"no payment": "", "the owner's": paid} {
			_, err := s.Pay(t.Context(), o.ID, payment, at)
			if f := checkouttest.WantFault(t, err, fault.OrderNotPayable); f.OrderID != string(o.ID) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if got, err := s.Order(t.Context(), o.ID, b.Address); err != nil || got.Order.Status != order.Expired {
			t.Errorf("shown as %s, %v", got.Order.Status, err)
		}
		if s.Spent(b) != 0 || s.Chain.Calls().Submit != 0 {
			t.Errorf("spent %d, calls %+v", s.Spent(b), s.Chain.Calls())
		}
		if fresh := mustCreate(t, s, newOrder(b, "k")); fresh.ID != o.ID || fresh.Status != order.Expired {
			t.Errorf("its key opens %+v", fresh)
		}
	})
}

func TestConcurrentPaymentsOfAnOrderPayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, ""))
		required := termsOf(t, s, o.ID)
		var all sync.WaitGroup
		for range 12 {
			paid := b.Pay(t, required)
			all.Go(func() {
				if sold, err := s.Pay(t.Context(), o.ID, paid, at); err != nil || sold.Order.ID != o.ID {
					t.Errorf("paid %+v, %v", sold, err)
				}
			})
		}
		all.Wait()
		if s.Spent(b) != price {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestDeadPaymentLeavesTheOrderPayable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, "k"))
		s.Chain.Next(paymenttest.Cancel)
		dead := b.Pay(t, termsOf(t, s, o.ID))
		_, err := s.Pay(t.Context(), o.ID, dead, at)
		checkouttest.WantFault(t, err, fault.PaymentRejected)
		if ch, ok := errors.AsType[*checkout.Challenge](err); !ok || ch.Headers().Get(x402.HeaderResponse) == "" {
			t.Fatalf("got %v", err)
		}
		_, err = s.Pay(t.Context(), o.ID, dead, at)
		checkouttest.WantFault(t, err, fault.PaymentRejected)
		s.Offset.Store(int64(31 * time.Minute))
		paid := b.Pay(t, termsOf(t, s, o.ID), func(a *x402.Authorization) { a.ValidBefore += 1860 })
		if sold := mustPay(t, s, o.ID, paid); sold.Order.ID != o.ID || s.Spent(b) != price {
			t.Errorf("sold %+v, spent %d", sold, s.Spent(b))
		}
	})
}

func TestOrderInSettlementIsNeverAChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Wait: 300 * time.Millisecond})
		b, stranger := s.NewBuyer(t), s.NewBuyer(t)
		s.Chain.StallAll()
		o := mustCreate(t, s, newOrder(b, "k"))
		required := termsOf(t, s, o.ID)
		for _, paid := range []string{b.Pay(t, required), b.Pay(t, required), "", stranger.Pay(t, required)} {
			_, err := s.Pay(t.Context(), o.ID, paid, at)
			if f := checkouttest.WantFault(t, err, fault.SettlementUnknown); f.SafeToPayAgain || f.RetryAfter == 0 {
				t.Errorf("fault %+v", f)
			}
		}
		s.Chain.Release()
		s.Reaches(t, o.ID, order.Fulfilled)
		if s.Spent(b) != price {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestUnknownOrderCannotBePaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		for _, id := range []order.ID{"ord_unknown", "' OR 1=1--", "a\x00b", "ord_\u202e", ""} {
			_, err := s.Pay(t.Context(), id, "", at)
			checkouttest.WantFault(t, err, fault.OrderNotFound)
		}
	})
}

func TestUnavailableProductIsNeitherCreatedNorPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, "k"))
		paid := b.Pay(t, termsOf(t, s, o.ID))
		s.Issuer.SetFloat(card.Price - 1)
		s.Offset.Store(int64(2 * time.Second)) // the cached stock expires
		_, err := s.Create(t.Context(), newOrder(s.NewBuyer(t), ""))
		checkouttest.WantFault(t, err, fault.FloatUnavailable)
		for _, payment := range []string{"", paid} {
			_, err := s.Pay(t.Context(), o.ID, payment, at)
			checkouttest.WantFault(t, err, fault.FloatUnavailable)
		}
		if again := mustCreate(t, s, newOrder(b, "k")); again.ID != o.ID {
			t.Error("the key's order is gone")
		}
		if s.Spent(b) != 0 {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

// TestStrangerIsNotAnsweredWithItsOwnOrder: keys are each owner's own, so a stranger may have used the same.
func TestStrangerIsNotAnsweredWithItsOwnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b, stranger := s.NewBuyer(t), s.NewBuyer(t)
		s.MustBuy(t, s.PaidCard(t, stranger, "shared"))
		o := mustCreate(t, s, newOrder(b, "shared"))
		_, err := s.Pay(t.Context(), o.ID, stranger.Pay(t, termsOf(t, s, o.ID)), at)
		checkouttest.WantFault(t, err, fault.WrongPayer)
	})
}
