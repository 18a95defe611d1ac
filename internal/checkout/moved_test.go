package checkout_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// preempt lets somebody else send a purchase's authorization before we see it.
func (s *shop) preempt(t *testing.T, p checkout.Purchase) x402.Authorization {
	t.Helper()
	pay, err := x402.DecodePayment(p.Payment)
	if err != nil {
		t.Fatal(err)
	}
	s.chain.Settle(pay.Authorization)
	return pay.Authorization
}

// buyAgain is what a payer does who is told that another payment is safe: it asks for the terms, signs once more and
// repeats.
func (s *shop) buyAgain(t *testing.T, b buyer, p checkout.Purchase, err error) (checkout.PaidOrder, error) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || !f.SafeToPayAgain {
		t.Fatalf("not told to pay again: %v", err)
	}
	p.Payment = b.pay(t, s.challenge(t, p))
	return s.Buy(t.Context(), p)
}

// priceOf is what a card costs.
const priceOf = 25_000_000

func TestCheckoutPreemptedBuyerPaysOnce(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	p := s.paid(t, b, "k")
	a := s.preempt(t, p)

	_, err := s.Buy(t.Context(), p)
	if f := wantFault(t, err, fault.PaymentUnclaimed); !f.SafeToPayAgain || f.OrderID != "" {
		t.Errorf("told %+v", f)
	}
	kept, err1 := s.store.Orders().Unmatched(t.Context(), checkout.UnmatchedQuery{
		Network: x402.NetworkID, Asset: domain().Contract, PayTo: payee, Payer: b.address, Value: priceOf,
	})
	if err1 != nil || kept.Authorization.Nonce != a.Nonce {
		t.Errorf("kept as arrived: %+v, %v", kept, err1)
	}
	sold, err := s.buyAgain(t, b, p, err)
	if err != nil || !sold.Replayed || !sold.ProvenCaller {
		t.Fatalf("sold %+v, %v, want a replay to its proven payer", sold, err)
	}
	if sold.Payment.Authorization.Nonce != a.Nonce || sold.Payment.Receipt == nil {
		t.Errorf("paid by %+v", sold.Payment)
	}
	s.reaches(t, sold.Order.ID, order.Fulfilled)
	if got := s.spent(b); got != priceOf || s.chain.Calls().Submit != 0 {
		t.Errorf("the buyer spent %s, %d submissions", got, s.chain.Calls().Submit)
	}
	// From now on it is a purchase like any other.
	again := s.mustBuy(t, s.repaid(t, b, p))
	if again.Order.ID != sold.Order.ID || !again.Replayed || s.spent(b) != priceOf {
		t.Errorf("repeated: %+v, spent %s", again, s.spent(b))
	}
}

// repaid is a purchase with another payment of the buyer.
func (s *shop) repaid(t *testing.T, b buyer, p checkout.Purchase) checkout.Purchase {
	t.Helper()
	p.Payment = b.pay(t, s.challenge(t, p))
	return p
}

// TestCheckoutArrivedMoneyNeedsNoSecondBalance: who has paid may have nothing left to pay with.
func TestCheckoutArrivedMoneyNeedsNoSecondBalance(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	s.chain.Fund(b.address, priceOf-s.chain.Balance(b.address))
	p := s.paid(t, b, "k")
	s.preempt(t, p)
	_, err := s.Buy(t.Context(), p)
	if sold, err := s.buyAgain(t, b, p, err); err != nil || !sold.Replayed {
		t.Errorf("sold %+v, %v", sold, err)
	}
	if left := s.chain.Balance(b.address); left != 0 {
		t.Errorf("left %s", left)
	}
}

// TestCheckoutSpentAuthorizationProvesNobody: whoever reads the chain can make the very header. It places no order,
// whatever the key, also once the money is stored as arrived.
func TestCheckoutSpentAuthorizationProvesNobody(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	p := s.paid(t, b, "the buyer's own key")
	s.preempt(t, p)
	for _, key := range []string{"a stranger's key", "another one", p.Key, p.Key} {
		stolen := p
		stolen.Key = key
		sold, err := s.Buy(t.Context(), stolen)
		wantFault(t, err, fault.PaymentUnclaimed)
		if sold.Order.ID != "" {
			t.Errorf("%s: sold %+v", key, sold)
		}
	}
	if orders, _, err := s.Orders(t.Context(), b.address, checkout.Query{Limit: 9}); err != nil || len(orders) != 0 {
		t.Errorf("orders %+v, %v", orders, err)
	}
}

func TestCheckoutDerivedNonceProvesItsKey(t *testing.T) {
	s := open(t, options{})
	for name, c := range map[string]struct {
		attempt int
		key     string
		proven  bool
	}{
		"first":           {0, "my-first-card", true},
		"after a dead":    {2, "my-first-card", true},
		"another key":     {0, "another-card", false},
		"too many before": {1000, "my-first-card", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.newBuyer(t)
			p := purchase("my-first-card")
			p.Payment = b.pay(t, s.challenge(t, p), func(a *x402.Authorization) {
				a.Nonce = x402.DerivedNonce("https://shop.example", "/api/card/purchase", b.address, c.key, c.attempt)
			})
			a := s.preempt(t, p)
			sold, err := s.Buy(t.Context(), p)
			if !c.proven {
				wantFault(t, err, fault.PaymentUnclaimed)
				return
			}
			if err != nil || !sold.Replayed || sold.ProvenCaller || sold.Payment.Authorization.Nonce != a.Nonce {
				t.Fatalf("sold %+v, %v, want the order without its secrets", sold, err)
			}
			s.reaches(t, sold.Order.ID, order.Fulfilled)
			if s.spent(b) != priceOf {
				t.Errorf("spent %s", s.spent(b))
			}
		})
	}
}

func TestCheckoutSessionProvesThePayer(t *testing.T) {
	s := open(t, options{})
	b, other := s.newBuyer(t), s.newBuyer(t)
	p := s.paid(t, b, "k")
	s.preempt(t, p)
	signedIn := func(ctx context.Context, who x402.Address) context.Context {
		return context.WithValue(ctx, sessionKey{}, who)
	}
	_, err := s.Buy(signedIn(t.Context(), other.address), p)
	wantFault(t, err, fault.PaymentUnclaimed)
	sold, err := s.Buy(signedIn(t.Context(), b.address), p)
	if err != nil || !sold.Replayed {
		t.Fatalf("sold %+v, %v", sold, err)
	}
	s.reaches(t, sold.Order.ID, order.Fulfilled)
}

// TestCheckoutVoidAuthorizationIsSafeToReplace is today's answer, once the chain has proven it.
func TestCheckoutVoidAuthorizationIsSafeToReplace(t *testing.T) {
	for name, spoil := range map[string]func(*shop, x402.Authorization){
		"cancelled": func(s *shop, a x402.Authorization) { s.chain.Cancel(a.From, a.Nonce) },
		"used for another payee": func(s *shop, a x402.Authorization) {
			a.To = x402.Address{19: 0x55}
			s.chain.Settle(a)
		},
		"used for another value": func(s *shop, a x402.Authorization) {
			a.Value = 1
			s.chain.Settle(a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options{})
			b := s.newBuyer(t)
			p := s.paid(t, b, "k")
			pay, err := x402.DecodePayment(p.Payment)
			if err != nil {
				t.Fatal(err)
			}
			spoil(s, pay.Authorization)
			before := s.spent(b)
			_, err = s.Buy(t.Context(), p)
			wantFault(t, err, fault.PaymentRejected)
			ch, _ := errors.AsType[*checkout.Challenge](err)
			if told, err := x402.DecodeSettlement(ch.Headers().Get(x402.HeaderResponse)); err != nil || told.Success ||
				told.ErrorReason == "" {
				t.Errorf("proof %+v, %v", told, err)
			}
			if sold, err := s.buyAgain(t, b, p, err); err != nil || sold.Replayed || s.spent(b) != before+priceOf {
				t.Errorf("sold %+v, %v, spent %s", sold, err, s.spent(b))
			}
		})
	}
}

// TestCheckoutUnclearUseIsUnknown: the nonce is used, and no node shows what for.
func TestCheckoutUnclearUseIsUnknown(t *testing.T) {
	s := open(t, options{look: 50 * time.Millisecond})
	b := s.newBuyer(t)
	p := s.paid(t, b, "k")
	s.preempt(t, p)
	s.chain.HideLogs(true)
	_, err := s.Buy(t.Context(), p)
	if f := wantFault(t, err, fault.SettlementUnknown); f.SafeToPayAgain || f.RetryAfter == 0 {
		t.Errorf("told %+v", f)
	}
	s.chain.HideLogs(false)
	_, err = s.Buy(t.Context(), p)
	if _, err := s.buyAgain(t, b, p, err); err != nil || s.spent(b) != priceOf {
		t.Errorf("%v, spent %s", err, s.spent(b))
	}
}

// TestCheckoutExpiredAuthorizationIsJudged: a request that is repeated after its payment's time says nothing of where
// the money is.
func TestCheckoutExpiredAuthorizationIsJudged(t *testing.T) {
	s := open(t, options{look: 50 * time.Millisecond})
	b, idle := s.newBuyer(t), s.newBuyer(t)
	p, unsent := s.paid(t, b, "k"), s.paid(t, idle, "k")
	s.preempt(t, p)
	s.now.Store(int64(3 * time.Minute))
	_, err := s.Buy(t.Context(), unsent)
	if f := wantFault(t, err, fault.PaymentRejected); !f.SafeToPayAgain {
		t.Errorf("expired unused: %+v", f)
	}
	_, err = s.Buy(t.Context(), p)
	wantFault(t, err, fault.PaymentUnclaimed)
	s.now.Store(0)
	if _, err := s.buyAgain(t, b, p, err); err != nil || s.spent(b) != priceOf {
		t.Errorf("%v, spent %s", err, s.spent(b))
	}
}

// TestCheckoutTwoKeysRaceForOneTransfer: each proves the payer, and the money is there once.
func TestCheckoutTwoKeysRaceForOneTransfer(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	p := s.paid(t, b, "first")
	s.preempt(t, p)
	_, err := s.Buy(t.Context(), p)
	wantFault(t, err, fault.PaymentUnclaimed)
	results := make(chan error, 8)
	for i := range cap(results) {
		mine := s.paid(t, b, string(rune('a'+i)))
		go func() {
			_, err := s.Buy(context.WithoutCancel(t.Context()), mine)
			results <- err
		}()
	}
	bought := 0
	for range cap(results) {
		err := <-results
		if err == nil {
			bought++
			continue
		}
		wantFault(t, err, fault.CardAlreadyExists)
	}
	if bought != 1 || s.spent(b) != priceOf {
		t.Errorf("%d bought, spent %s", bought, s.spent(b))
	}
}

// TestCheckoutReorganisedArrivalIsNeverSent: what had arrived is gone again, before it is claimed or just after, and
// nobody gave us a signature for it.
func TestCheckoutReorganisedArrivalIsNeverSent(t *testing.T) {
	for name, claimed := range map[string]bool{"before the claim": false, "after the claim": true} {
		t.Run(name, func(t *testing.T) {
			var s *shop
			shown := func(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
				verdict, err := s.chain.VerifyArrived(ctx, a)
				if claimed {
					s.chain.Undo(a.Authorization.From, a.Authorization.Nonce)
				}
				return verdict, err
			}
			s = open(t, options{wait: time.Second, look: 50 * time.Millisecond, shown: shown})
			b := s.newBuyer(t)
			p := s.paid(t, b, "k")
			a := s.preempt(t, p)
			_, err := s.Buy(t.Context(), p)
			wantFault(t, err, fault.PaymentUnclaimed)
			if !claimed {
				s.chain.Undo(a.From, a.Nonce)
			}
			_, err = s.buyAgain(t, b, p, err)
			if f := wantFault(t, err, fault.SettlementUnknown); (f.OrderID != "") != claimed {
				t.Errorf("told %+v", f)
			}
			if n := s.chain.Calls().Submit; n != 0 {
				t.Errorf("%d submissions", n)
			}
			// Somebody sends it again.
			s.chain.Settle(a)
			sold := s.mustBuy(t, s.repaid(t, b, p))
			s.reaches(t, sold.Order.ID, order.Fulfilled)
			if s.spent(b) != priceOf {
				t.Errorf("spent %s", s.spent(b))
			}
		})
	}
}

// invent keeps a transfer of the buyer's as arrived that one node has made up.
func (s *shop) invent(t *testing.T, b buyer) payment.Arrived {
	t.Helper()
	at := time.Now().UTC().Add(-time.Minute).Truncate(time.Second)
	a := payment.Arrived{
		Network: x402.NetworkID, Asset: domain().Contract,
		Authorization: x402.Authorization{From: b.address, To: payee, Value: priceOf},
		Receipt: payment.Receipt{
			Transaction: x402.Hash{0xba}, Block: 7, Payer: b.address, PayTo: payee, Amount: priceOf, SettledAt: at,
		},
	}
	_, _ = rand.Read(a.Authorization.Nonce[:])
	if err := s.store.Orders().Arrive(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestCheckoutInventedArrivalPaysForNothing: what one node has made up is not there. The payer's purchase is paid by
// its own payment, and by what has really arrived before that.
func TestCheckoutInventedArrivalPaysForNothing(t *testing.T) {
	s := open(t, options{wait: 2 * time.Second})
	b, other := s.newBuyer(t), s.newBuyer(t)
	for range 2 {
		s.invent(t, b)
		s.invent(t, other)
	}
	sold := s.mustBuy(t, s.paid(t, b, "k"))
	if sold.Replayed || s.chain.Calls().Submit != 1 || s.spent(b) != priceOf {
		t.Errorf("replayed %v, %d submissions, spent %s", sold.Replayed, s.chain.Calls().Submit, s.spent(b))
	}
	p := s.paid(t, other, "k")
	real := s.preempt(t, p)
	_, err := s.Buy(t.Context(), p)
	again, err := s.buyAgain(t, other, p, err)
	if err != nil || !again.Replayed || again.Payment.Authorization.Nonce != real.Nonce || s.spent(other) != priceOf {
		t.Errorf("sold %+v, %v, spent %s", again, err, s.spent(other))
	}
}

// TestCheckoutArrivalThatNodesDifferAboutIsNotClaimed: nothing is claimed or sent while it may be there. Once it shows,
// the same request is answered.
func TestCheckoutArrivalThatNodesDifferAboutIsNotClaimed(t *testing.T) {
	for name, there := range map[string]bool{"it is there": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			var clear atomic.Bool
			var s *shop
			shown := func(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
				if !clear.Load() {
					return payment.Verdict{}, nil
				}
				return s.chain.VerifyArrived(ctx, a)
			}
			s = open(t, options{look: 50 * time.Millisecond, shown: shown})
			b := s.newBuyer(t)
			a := s.invent(t, b)
			if there {
				s.chain.Settle(a.Bounded(time.Hour))
			}
			before := s.spent(b)
			p := s.paid(t, b, "k")
			for range 2 {
				_, err := s.Buy(t.Context(), p)
				if f := wantFault(t, err, fault.SettlementUnknown); f.OrderID != "" || f.RetryAfter == 0 || f.SafeToPayAgain {
					t.Errorf("told %+v", f)
				}
			}
			orders, _, err := s.Orders(t.Context(), b.address, checkout.Query{Limit: 9})
			if err != nil || len(orders) != 0 || s.chain.Calls().Submit != 0 || s.spent(b) != before {
				t.Errorf("orders %+v, %v, %d submissions, spent %s", orders, err, s.chain.Calls().Submit, s.spent(b))
			}
			clear.Store(true)
			if sold := s.mustBuy(t, p); sold.Replayed != there || s.spent(b) != priceOf {
				t.Errorf("replayed %v, spent %s", sold.Replayed, s.spent(b))
			}
		})
	}
}

// TestCheckoutArrivedMoneyPaysAnOpenedOrder is the same at /pay.
func TestCheckoutArrivedMoneyPaysAnOpenedOrder(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	opened, err := s.Create(t.Context(),
		checkout.CreateRequest{Kind: card.Kind, Owner: b.address, Key: "opened", Request: purchase("").Request})
	if err != nil {
		t.Fatal(err)
	}
	p := s.paid(t, b, "opened")
	s.preempt(t, p)
	_, err = s.Pay(t.Context(), opened.Order.ID, p.Payment, p.Resource)
	wantFault(t, err, fault.PaymentUnclaimed)
	sold, err := s.Pay(t.Context(), opened.Order.ID, b.pay(t, s.challenge(t, p)), p.Resource)
	if err != nil || sold.Order.ID != opened.Order.ID || !sold.Replayed {
		t.Fatalf("sold %+v, %v", sold, err)
	}
	s.reaches(t, sold.Order.ID, order.Fulfilled)
	if s.spent(b) != priceOf {
		t.Errorf("spent %s", s.spent(b))
	}
}

// TestCheckoutOrderThatExpiredKeepsWhatArrived: nobody is told that paying again is safe.
func TestCheckoutOrderThatExpiredKeepsWhatArrived(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	opened, err := s.Create(t.Context(),
		checkout.CreateRequest{Kind: card.Kind, Owner: b.address, Key: "opened", Request: purchase("").Request})
	if err != nil {
		t.Fatal(err)
	}
	p := s.paid(t, b, "opened")
	s.preempt(t, p)
	s.now.Store(int64(time.Hour))
	_, err = s.Pay(t.Context(), opened.Order.ID, p.Payment, p.Resource)
	if f := wantFault(t, err, fault.OrderNotPayable); f.SafeToPayAgain {
		t.Errorf("told %+v", f)
	}
	if _, err := s.store.Orders().Unmatched(t.Context(), checkout.UnmatchedQuery{
		Network: x402.NetworkID, Asset: domain().Contract, PayTo: payee, Payer: b.address, Value: priceOf,
	}); err != nil {
		t.Errorf("not kept: %v", err)
	}
}

// TestCheckoutMoneyForWhatIsNotOfferedIsNotAskedForAgain: the amount arrived, and buys nothing at this route.
func TestCheckoutMoneyForWhatIsNotOfferedIsNotAskedForAgain(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	p := purchase("k")
	p.Payment = b.pay(t, s.challenge(t, p), func(a *x402.Authorization) { a.Value = 30_000_000 })
	s.preempt(t, p)
	_, err := s.Buy(t.Context(), p)
	if f := wantFault(t, err, fault.TermsChanged); f.SafeToPayAgain {
		t.Errorf("told %+v", f)
	}
	if _, err := s.store.Orders().Unmatched(t.Context(), checkout.UnmatchedQuery{
		Network: x402.NetworkID, Asset: domain().Contract, PayTo: payee, Payer: b.address, Value: 30_000_000,
	}); err != nil {
		t.Errorf("not kept: %v", err)
	}
}

type sessionKey struct{}

// signedIn is the session that a test put into the context.
func signedIn(ctx context.Context, who x402.Address) bool {
	in, ok := ctx.Value(sessionKey{}).(x402.Address)
	return ok && in == who
}
