package checkout_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// preempt lets somebody else send a purchase's authorization before we see it.
func preempt(t *testing.T, s *checkouttest.Shop, p checkout.Purchase) x402.Authorization {
	t.Helper()
	pay, err := x402.DecodePayment(p.Payment)
	if err != nil {
		t.Fatal(err)
	}
	s.Chain.Settle(pay.Authorization)
	return pay.Authorization
}

// buyAgain is what a payer does when another payment is safe: it asks for the terms, signs once more and repeats.
func buyAgain(t *testing.T, s *checkouttest.Shop, b checkouttest.Buyer, p checkout.Purchase,
	err error) (checkout.PaidOrder, error) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || !f.SafeToPayAgain {
		t.Fatalf("not told to pay again: %v", err)
	}
	p = s.Paid(t, b, p)
	return s.Buy(t.Context(), p)
}

func TestCheckoutPreemptedBuyerPaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		a := preempt(t, s, p)

		_, err := s.Buy(t.Context(), p)
		if f := checkouttest.WantFault(t, err, fault.PaymentUnclaimed); !f.SafeToPayAgain || f.OrderID != "" {
			t.Errorf("told %+v", f)
		}
		kept, err1 := s.Store.Orders.Unmatched(t.Context(), checkout.UnmatchedQuery{
			Network: x402.NetworkID, Asset: checkouttest.Domain().Contract, PayTo: checkouttest.Payee, Payer: b.Address,
			Value: price,
		})
		if err1 != nil || kept.Authorization.Nonce != a.Nonce {
			t.Errorf("kept as arrived: %+v, %v", kept, err1)
		}
		sold, err := buyAgain(t, s, b, p, err)
		if err != nil || !sold.Replayed || !sold.ProvenCaller {
			t.Fatalf("sold %+v, %v, want a replay to its proven payer", sold, err)
		}
		if sold.Payment.Authorization.Nonce != a.Nonce || sold.Payment.Receipt == nil {
			t.Errorf("paid by %+v", sold.Payment)
		}
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
		if got := s.Spent(b); got != price || s.Chain.Calls().Submit != 0 {
			t.Errorf("the buyer spent %s, %d submissions", got, s.Chain.Calls().Submit)
		}
		// From now on it is a purchase like any other.
		again := s.MustBuy(t, repaid(t, s, b, p))
		if again.Order.ID != sold.Order.ID || !again.Replayed || s.Spent(b) != price {
			t.Errorf("repeated: %+v, spent %s", again, s.Spent(b))
		}
	})
}

// repaid is a purchase with another payment of the buyer.
func repaid(t *testing.T, s *checkouttest.Shop, b checkouttest.Buyer, p checkout.Purchase) checkout.Purchase {
	t.Helper()
	p = s.Paid(t, b, p)
	return p
}

// TestCheckoutArrivedMoneyNeedsNoSecondBalance: a buyer who has paid may have nothing left.
func TestCheckoutArrivedMoneyNeedsNoSecondBalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		s.Chain.Fund(b.Address, price-s.Chain.Balance(b.Address))
		p := s.PaidCard(t, b, "k")
		preempt(t, s, p)
		_, err := s.Buy(t.Context(), p)
		if sold, err := buyAgain(t, s, b, p, err); err != nil || !sold.Replayed {
			t.Errorf("sold %+v, %v", sold, err)
		}
		if left := s.Chain.Balance(b.Address); left != 0 {
			t.Errorf("left %s", left)
		}
	})
}

// TestCheckoutSpentAuthorizationProvesNobody: whoever reads the chain can make the same header. It claims no order,
// whatever the key, also once the money is stored as arrived.
func TestCheckoutSpentAuthorizationProvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "the buyer's own key")
		preempt(t, s, p)
		for _, key := range []string{"a stranger's key", "another one", p.Key, p.Key} {
			stolen := p
			stolen.Key = key
			sold, err := s.Buy(t.Context(), stolen)
			checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
			if sold.Order.ID != "" {
				t.Errorf("%s: sold %+v", key, sold)
			}
		}
		if orders, _, err := s.Orders(t.Context(), b.Address, checkout.Query{Limit: 9}); err != nil || len(orders) != 0 {
			t.Errorf("orders %+v, %v", orders, err)
		}
	})
}

func TestCheckoutDerivedNonceProvesItsKey(t *testing.T) {
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
		checkouttest.Run(t, name, func(t *testing.T) {
			s := checkouttest.Open(t, checkouttest.Options{})
			b := s.NewBuyer(t)
			p := checkouttest.Purchase("my-first-card")
			p.Payment = b.Pay(t, s.Challenge(t, p), func(a *x402.Authorization) {
				a.Nonce = x402.DerivedNonce("https://shop.example", "/api/card/purchase", b.Address, c.key, c.attempt)
			})
			a := preempt(t, s, p)
			sold, err := s.Buy(t.Context(), p)
			if !c.proven {
				checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
				return
			}
			if err != nil || !sold.Replayed || sold.ProvenCaller || sold.Payment.Authorization.Nonce != a.Nonce {
				t.Fatalf("sold %+v, %v, want the order without its secrets", sold, err)
			}
			s.Reaches(t, sold.Order.ID, order.Fulfilled)
			if s.Spent(b) != price {
				t.Errorf("spent %s", s.Spent(b))
			}
		})
	}
}

func TestCheckoutSessionProvesThePayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Session: signedIn})
		b, other := s.NewBuyer(t), s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		preempt(t, s, p)
		signedIn := func(ctx context.Context, who x402.Address) context.Context {
			return context.WithValue(ctx, sessionKey{}, who)
		}
		_, err := s.Buy(signedIn(t.Context(), other.Address), p)
		checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
		sold, err := s.Buy(signedIn(t.Context(), b.Address), p)
		if err != nil || !sold.Replayed {
			t.Fatalf("sold %+v, %v", sold, err)
		}
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
	})
}

// TestCheckoutVoidAuthorizationIsSafeToReplace once the chain has proven that it is void.
func TestCheckoutVoidAuthorizationIsSafeToReplace(t *testing.T) {
	for name, use := range map[string]func(*checkouttest.Shop, x402.Authorization){
		"cancelled": func(s *checkouttest.Shop, a x402.Authorization) { s.Chain.Cancel(a.From, a.Nonce) },
		"used for another payee": func(s *checkouttest.Shop, a x402.Authorization) {
			a.To = x402.Address{19: 0x55}
			s.Chain.Settle(a)
		},
		"used for another value": func(s *checkouttest.Shop, a x402.Authorization) {
			a.Value = 1
			s.Chain.Settle(a)
		},
	} {
		checkouttest.Run(t, name, func(t *testing.T) {
			s := checkouttest.Open(t, checkouttest.Options{})
			b := s.NewBuyer(t)
			p := s.PaidCard(t, b, "k")
			pay, err := x402.DecodePayment(p.Payment)
			if err != nil {
				t.Fatal(err)
			}
			use(s, pay.Authorization)
			before := s.Spent(b)
			_, err = s.Buy(t.Context(), p)
			checkouttest.WantFault(t, err, fault.PaymentRejected)
			ch, _ := errors.AsType[*checkout.Challenge](err)
			if told, err := x402.DecodeSettlement(ch.Headers().Get(x402.HeaderResponse)); err != nil || told.Success ||
				told.ErrorReason == "" {
				t.Errorf("proof %+v, %v", told, err)
			}
			if sold, err := buyAgain(t, s, b, p, err); err != nil || sold.Replayed || s.Spent(b) != before+price {
				t.Errorf("sold %+v, %v, spent %s", sold, err, s.Spent(b))
			}
		})
	}
}

// TestCheckoutUnclearUseIsUnknown: the nonce is used, and no node shows what for.
func TestCheckoutUnclearUseIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{VerdictTimeout: 50 * time.Millisecond})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		preempt(t, s, p)
		s.Chain.HideLogs(true)
		_, err := s.Buy(t.Context(), p)
		if f := checkouttest.WantFault(t, err, fault.SettlementUnknown); f.SafeToPayAgain || f.RetryAfter == 0 {
			t.Errorf("told %+v", f)
		}
		s.Chain.HideLogs(false)
		_, err = s.Buy(t.Context(), p)
		if _, err := buyAgain(t, s, b, p, err); err != nil || s.Spent(b) != price {
			t.Errorf("%v, spent %s", err, s.Spent(b))
		}
	})
}

// TestCheckoutExpiredAuthorizationIsLookedUpOnTheChain: that the authorization of a repeated request has expired does
// not show whether the money moved.
func TestCheckoutExpiredAuthorizationIsLookedUpOnTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{VerdictTimeout: 50 * time.Millisecond})
		b, idle := s.NewBuyer(t), s.NewBuyer(t)
		p, unsent := s.PaidCard(t, b, "k"), s.PaidCard(t, idle, "k")
		preempt(t, s, p)
		s.Offset.Store(int64(3 * time.Minute))
		_, err := s.Buy(t.Context(), unsent)
		if f := checkouttest.WantFault(t, err, fault.PaymentRejected); !f.SafeToPayAgain {
			t.Errorf("expired unused: %+v", f)
		}
		_, err = s.Buy(t.Context(), p)
		checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
		s.Offset.Store(0)
		if _, err := buyAgain(t, s, b, p, err); err != nil || s.Spent(b) != price {
			t.Errorf("%v, spent %s", err, s.Spent(b))
		}
	})
}

// TestCheckoutTwoKeysRaceForOneTransfer: each proves the payer, and there is one transfer.
func TestCheckoutTwoKeysRaceForOneTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "first")
		preempt(t, s, p)
		_, err := s.Buy(t.Context(), p)
		checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
		results := make(chan error, 8)
		for i := range cap(results) {
			mine := s.PaidCard(t, b, string(rune('a'+i)))
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
			checkouttest.WantFault(t, err, fault.CardAlreadyExists)
		}
		if bought != 1 || s.Spent(b) != price {
			t.Errorf("%d bought, spent %s", bought, s.Spent(b))
		}
	})
}

// TestCheckoutReorganisedArrivalIsNeverSent: a reorganisation removes the transfer before it is claimed or just after,
// and we have no signature to send.
func TestCheckoutReorganisedArrivalIsNeverSent(t *testing.T) {
	for name, claimed := range map[string]bool{"before the claim": false, "after the claim": true} {
		checkouttest.Run(t, name, func(t *testing.T) {
			var s *checkouttest.Shop
			shown := func(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
				verdict, err := s.Chain.VerifyArrived(ctx, a)
				if claimed {
					s.Chain.Undo(a.Authorization.From, a.Authorization.Nonce)
				}
				return verdict, err
			}
			s = checkouttest.Open(t,
				checkouttest.Options{Wait: time.Second, VerdictTimeout: 50 * time.Millisecond, VerifyArrived: shown})
			b := s.NewBuyer(t)
			p := s.PaidCard(t, b, "k")
			a := preempt(t, s, p)
			_, err := s.Buy(t.Context(), p)
			checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
			if !claimed {
				s.Chain.Undo(a.From, a.Nonce)
			}
			_, err = buyAgain(t, s, b, p, err)
			if f := checkouttest.WantFault(t, err, fault.SettlementUnknown); (f.OrderID != "") != claimed {
				t.Errorf("told %+v", f)
			}
			if n := s.Chain.Calls().Submit; n != 0 {
				t.Errorf("%d submissions", n)
			}
			// Somebody sends it again.
			s.Chain.Settle(a)
			sold := s.MustBuy(t, repaid(t, s, b, p))
			s.Reaches(t, sold.Order.ID, order.Fulfilled)
			if s.Spent(b) != price {
				t.Errorf("spent %s", s.Spent(b))
			}
		})
	}
}

// TestCheckoutUnknownProofIsNotSent: the money has arrived, and whether the payment that proves its payer was seen is
// not known. It is not taken for an ordinary one.
func TestCheckoutUnknownProofIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{VerdictTimeout: 50 * time.Millisecond})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		preempt(t, s, p)
		_, err := s.Buy(t.Context(), p)
		checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
		proof := repaid(t, s, b, p)
		s.Chain.Doubt(true)
		_, err = s.Buy(t.Context(), proof)
		if f := checkouttest.WantFault(t, err, fault.SettlementUnknown); f.SafeToPayAgain || f.RetryAfter == 0 {
			t.Errorf("told %+v", f)
		}
		s.Chain.Doubt(false)
		if sold := s.MustBuy(t, proof); !sold.Replayed || s.Chain.Calls().Submit != 0 || s.Spent(b) != price {
			t.Errorf("replayed %v, %d submissions, spent %s", sold.Replayed, s.Chain.Calls().Submit, s.Spent(b))
		}
	})
}

// invent stores a transfer of the buyer as arrived that one node has made up.
func invent(t *testing.T, s *checkouttest.Shop, b checkouttest.Buyer) payment.Arrived {
	t.Helper()
	at := time.Now().UTC().Add(-time.Minute).Truncate(time.Second)
	a := payment.Arrived{
		Network: x402.NetworkID, Asset: checkouttest.Domain().Contract,
		Authorization: x402.Authorization{From: b.Address, To: checkouttest.Payee, Value: price},
		Receipt: payment.Receipt{
			Transaction: x402.Hash{0xba}, Block: 7, Payer: b.Address, PayTo: checkouttest.Payee, Amount: price, SettledAt: at,
		},
	}
	_, _ = rand.Read(a.Authorization.Nonce[:])
	if err := s.Store.Orders.Arrive(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestCheckoutInventedArrivalPaysForNothing: a transfer that one node has made up pays for nothing. A purchase is
// paid by a real earlier transfer, or else by its own payment.
func TestCheckoutInventedArrivalPaysForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Wait: 2 * time.Second})
		b, other := s.NewBuyer(t), s.NewBuyer(t)
		for range 2 {
			invent(t, s, b)
			invent(t, s, other)
		}
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		if sold.Replayed || s.Chain.Calls().Submit != 1 || s.Spent(b) != price {
			t.Errorf("replayed %v, %d submissions, spent %s", sold.Replayed, s.Chain.Calls().Submit, s.Spent(b))
		}
		p := s.PaidCard(t, other, "k")
		real := preempt(t, s, p)
		_, err := s.Buy(t.Context(), p)
		again, err := buyAgain(t, s, other, p, err)
		if err != nil || !again.Replayed || again.Payment.Authorization.Nonce != real.Nonce || s.Spent(other) != price {
			t.Errorf("sold %+v, %v, spent %s", again, err, s.Spent(other))
		}
	})
}

// TestCheckoutArrivalThatNodesDifferAboutIsNotClaimed: nothing is claimed or sent while it may be there. Once it shows,
// the same request is answered.
func TestCheckoutArrivalThatNodesDifferAboutIsNotClaimed(t *testing.T) {
	for name, there := range map[string]bool{"it is there": true, "it is not": false} {
		checkouttest.Run(t, name, func(t *testing.T) {
			var clear atomic.Bool
			var s *checkouttest.Shop
			shown := func(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
				if !clear.Load() {
					return payment.Verdict{}, nil
				}
				return s.Chain.VerifyArrived(ctx, a)
			}
			s = checkouttest.Open(t, checkouttest.Options{VerdictTimeout: 50 * time.Millisecond, VerifyArrived: shown})
			b := s.NewBuyer(t)
			a := invent(t, s, b)
			if there {
				s.Chain.Settle(a.Bounded(time.Hour))
			}
			before := s.Spent(b)
			p := s.PaidCard(t, b, "k")
			for range 2 {
				_, err := s.Buy(t.Context(), p)
				if f := checkouttest.WantFault(t, err, fault.SettlementUnknown); f.OrderID != "" || f.RetryAfter == 0 ||
					f.SafeToPayAgain {
					t.Errorf("told %+v", f)
				}
			}
			orders, _, err := s.Orders(t.Context(), b.Address, checkout.Query{Limit: 9})
			if err != nil || len(orders) != 0 || s.Chain.Calls().Submit != 0 || s.Spent(b) != before {
				t.Errorf("orders %+v, %v, %d submissions, spent %s", orders, err, s.Chain.Calls().Submit, s.Spent(b))
			}
			clear.Store(true)
			if sold := s.MustBuy(t, p); sold.Replayed != there || s.Spent(b) != price {
				t.Errorf("replayed %v, spent %s", sold.Replayed, s.Spent(b))
			}
		})
	}
}

// openedAndPreempted is an order that a buyer has opened, and its payment, which somebody else has sent to the chain.
func openedAndPreempted(
	t *testing.T, s *checkouttest.Shop, b checkouttest.Buyer,
) (opened checkout.PaidOrder, p checkout.Purchase) {
	t.Helper()
	opened, err := s.Create(t.Context(),
		checkout.CreateRequest{Kind: card.Kind, Owner: b.Address, Key: "opened", Request: checkouttest.Purchase("").Request})
	if err != nil {
		t.Fatal(err)
	}
	p = s.PaidCard(t, b, "opened")
	preempt(t, s, p)
	return opened, p
}

// TestCheckoutArrivedTransferPaysACreatedOrder is the same at /pay.
func TestCheckoutArrivedTransferPaysACreatedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		opened, p := openedAndPreempted(t, s, b)
		_, err := s.Pay(t.Context(), opened.Order.ID, p.Payment, p.Resource)
		checkouttest.WantFault(t, err, fault.PaymentUnclaimed)
		sold, err := s.Pay(t.Context(), opened.Order.ID, b.Pay(t, s.Challenge(t, p)), p.Resource)
		if err != nil || sold.Order.ID != opened.Order.ID || !sold.Replayed {
			t.Fatalf("sold %+v, %v", sold, err)
		}
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
		if s.Spent(b) != price {
			t.Errorf("spent %s", s.Spent(b))
		}
	})
}

// TestCheckoutOrderThatExpiredKeepsWhatArrived: no answer says that paying again is safe.
func TestCheckoutOrderThatExpiredKeepsWhatArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		opened, p := openedAndPreempted(t, s, b)
		s.Offset.Store(int64(time.Hour))
		_, err := s.Pay(t.Context(), opened.Order.ID, p.Payment, p.Resource)
		if f := checkouttest.WantFault(t, err, fault.OrderNotPayable); f.SafeToPayAgain ||
			!strings.Contains(f.Detail, "kept for its payer") {
			t.Errorf("told %+v", f)
		}
		if _, err := s.Store.Orders.Unmatched(t.Context(), checkout.UnmatchedQuery{
			Network: x402.NetworkID, Asset: checkouttest.Domain().Contract, PayTo: checkouttest.Payee, Payer: b.Address,
			Value: price,
		}); err != nil {
			t.Errorf("not kept: %v", err)
		}
	})
}

// TestCheckoutMoneyForWhatIsNotOfferedIsNotAskedForAgain: the amount arrived, and buys nothing at this route.
func TestCheckoutMoneyForWhatIsNotOfferedIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := checkouttest.Purchase("k")
		p.Payment = b.Pay(t, s.Challenge(t, p), func(a *x402.Authorization) { a.Value = 30_000_000 })
		preempt(t, s, p)
		_, err := s.Buy(t.Context(), p)
		if f := checkouttest.WantFault(t, err, fault.TermsChanged); f.SafeToPayAgain {
			t.Errorf("told %+v", f)
		}
		if _, err := s.Store.Orders.Unmatched(t.Context(), checkout.UnmatchedQuery{
			Network: x402.NetworkID, Asset: checkouttest.Domain().Contract, PayTo: checkouttest.Payee, Payer: b.Address,
			Value: 30_000_000,
		}); err != nil {
			t.Errorf("not kept: %v", err)
		}
	})
}

type sessionKey struct{}

// signedIn is the session that a test put into the context.
func signedIn(ctx context.Context, who x402.Address) bool {
	in, ok := ctx.Value(sessionKey{}).(x402.Address)
	return ok && in == who
}
