package checkout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// here is the context of a request from an address.
func here(t *testing.T, address string) context.Context {
	t.Helper()
	return limit.WithAddress(t.Context(), address)
}

// throttled says whether a request was one too many.
func throttled(err error) bool {
	no, ok := errors.AsType[*limit.Refusal](err)
	return ok && no.Fault.RetryAfter > 0
}

// TestInvalidPaymentCountsAsUnpaid counts payments that are malformed or not signed by the payer, for any order.
func TestInvalidPaymentCountsAsUnpaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Limits: limit.Rates{limit.Unpaid: {Count: 3, Per: time.Hour}}})
		b := s.NewBuyer(t)
		terms := s.Challenge(t, checkouttest.Purchase("k"))
		o := mustCreate(t, s, newOrder(b, ""))
		notTheOwners := s.NewBuyer(t).Pay(t, termsOf(t, s, o.ID))
		for name, ask := range map[string]func(ctx context.Context, i int) error{
			"garbage": func(ctx context.Context, i int) error {
				p := checkouttest.Purchase(fmt.Sprint("k", i))
				p.Payment = "x"
				_, err := s.Buy(ctx, p)
				return err
			},
			"for another payee": func(ctx context.Context, i int) error {
				p := checkouttest.Purchase(fmt.Sprint("k", i))
				p.Payment = b.Pay(t, terms, func(a *x402.Authorization) { a.To = b.Address })
				_, err := s.Buy(ctx, p)
				return err
			},
			"garbage for an order": func(ctx context.Context, _ int) error { _, err := s.Pay(ctx, o.ID, "x", at); return err },
			"not the owner's": func(ctx context.Context, _ int) error {
				_,
					err := s.Pay(ctx, o.ID, notTheOwners, at)
				return err
			},
		} {
			for i, want := range []bool{false, false, false, true, true} {
				if err := ask(here(t, name), i); throttled(err) != want {
					t.Errorf("%s, time %d: %v", name, i+1, err)
				}
			}
			if err := ask(here(t, "elsewhere than "+name), 9); throttled(err) {
				t.Errorf("%s, elsewhere: %v", name, err)
			}
		}
	})
}

// TestPaymentsAreCountedBeforeTheirSignature: at the limit of an address only claimed purchases are looked at,
// and only their payer gets an answer.
func TestPaymentsAreCountedBeforeTheirSignature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Limits: limit.Rates{limit.PaidAddress: {Count: 2, Per: time.Hour}}})
		b, stranger := s.NewBuyer(t), s.NewBuyer(t)
		ctx := here(t, "an address")
		terms := s.Challenge(t, checkouttest.Purchase("k"))
		buy := func(ctx context.Context, key, payment string) (checkout.PaidOrder, error) {
			p := checkouttest.Purchase(key)
			p.Payment = payment
			return s.Buy(ctx, p)
		}
		bought, err := buy(ctx, "k", b.Pay(t, terms))
		if err != nil {
			t.Fatal(err)
		}
		forged := b.Pay(t, terms, func(a *x402.Authorization) { a.From = stranger.Address })
		if _, err := buy(ctx, "k", forged); throttled(err) || fault.Of(err) != fault.PaymentRejected {
			t.Errorf("a forged one within the rate: %v", err)
		}
		for _, payment := range []string{forged, stranger.Pay(t, terms)} {
			if _, err := buy(ctx, "k2", payment); !throttled(err) {
				t.Errorf("one too many: %v", err)
			}
		}
		forgedForB := stranger.Pay(t, terms, func(a *x402.Authorization) { a.From = b.Address })
		for _, key := range []string{"k", "another"} {
			if _, err := buy(ctx, key, forgedForB); !throttled(err) {
				t.Errorf("a forged one for %q: %v", key, err)
			}
		}
		for range 10 {
			if again, err := buy(ctx, "k", b.Pay(t, terms)); err != nil || again.Order.ID != bought.Order.ID || !again.Replayed {
				t.Errorf("a repeat: %+v, %v", again, err)
			}
		}
		if _, err := buy(here(t, "another address"), "k3", stranger.Pay(t, terms)); err != nil {
			t.Errorf("from another address: %v", err)
		}
	})
}

// TestRepeatIsSlowedAndNotRefused asks for one order far more often than needed.
func TestRepeatIsSlowedAndNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Limits: limit.Rates{limit.Repeat: {Count: 2, Per: 10 * time.Second}}})
		p := s.PaidCard(t, s.NewBuyer(t), "k")
		s.MustBuy(t, p)
		began := time.Now()
		for i := range 4 {
			if _, err := s.Buy(here(t, "an address"), p); err != nil {
				t.Errorf("repeat %d: %v", i, err)
			}
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("two repeats too many took %s", took)
		}
	})
}

// TestRefusedPaymentsAreCountedByAddressAlone keeps copies of a refused payment from the chain. They do not use up
// the rate of the payer, since anyone can repeat a spent payment.
func TestRefusedPaymentsAreCountedByAddressAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Limits: limit.Rates{limit.PaidAddress: {Count: 2, Per: time.Hour},
			limit.Paid: {Count: 1, Per: time.Hour}}})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, ""))
		terms := termsOf(t, s, o.ID)
		poor := b.Pay(t, terms, func(a *x402.Authorization) { a.Value++ })
		for i, want := range []bool{false, false, true, true} {
			if _, err := s.Pay(here(t, "a stranger"), o.ID, poor, at); throttled(err) != want {
				t.Errorf("time %d: %v", i+1, err)
			}
		}
		if _, err := s.Pay(here(t, "the owner"), o.ID, b.Pay(t, terms), at); err != nil {
			t.Errorf("the payer's own payment: %v", err)
		}
	})
}

// TestUnpaidOrdersAreBounded: unpaid orders are bounded by owner and by address; an existing order is returned again.
func TestUnpaidOrdersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t,
			checkouttest.Options{MaxUnpaid: 3, Limits: limit.Rates{limit.OrdersAddress: {Count: 7, Per: time.Hour}}})
		b := s.NewBuyer(t)
		newKeyed := func(key string) checkout.CreateRequest { n := newOrder(b, key); n.ReuseUnpaid = false; return n }
		for i := range 5 {
			if _, err := s.Create(here(t, "an address"), newKeyed(fmt.Sprint("k", i))); throttled(err) != (i >= 3) {
				t.Errorf("order %d: %v", i, err)
			}
		}
		for range 3 {
			mustCreate(t, s, newKeyed("k0"))
		}
		many := 0
		for range 9 {
			b = s.NewBuyer(t)
			if _, err := s.Create(here(t, "a third address"), newKeyed("k")); !throttled(err) {
				many++
			}
		}
		if many != 7 {
			t.Errorf("%d owners have created orders from one address", many)
		}
	})
}

// TestCopiesThatWaitForSettlementAreBounded: the others are answered while the payment is stalled, as those are in the
// end whose payment stays so.
func TestCopiesThatWaitForSettlementAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Limits: limit.Rates{limit.Waiting: {Count: 2}}})
		s.Chain.StallAll()
		p := s.PaidCard(t, s.NewBuyer(t), "k")
		first := make(chan error, 1)
		go func() { _, err := s.Buy(t.Context(), p); first <- err }()
		checkouttest.Until(t, "the payment is claimed", func() bool {
			_, err := s.Store.Orders.FindByKey(t.Context(), p.Kind, payerOf(t, p), p.Key)
			return err == nil
		})
		copies := make(chan error, 6)
		for range cap(copies) {
			go func() { _, err := s.Buy(t.Context(), p); copies <- err }()
		}
		for i := range 4 {
			if err := <-copies; fault.Of(err) != fault.SettlementUnknown {
				t.Errorf("copy %d: %v", i, err)
			}
		}
		s.Chain.Release()
		for range 2 {
			if err := <-copies; err != nil {
				t.Errorf("one that waited: %v", err)
			}
		}
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
	})
}

func payerOf(t *testing.T, p checkout.Purchase) x402.Address {
	t.Helper()
	pay, err := x402.DecodePayment(p.Payment)
	if err != nil {
		t.Fatal(err)
	}
	return pay.Authorization.From
}

// marked notes what the chain is asked for.
type marked struct {
	payment.Chain
	uses *[]limit.Use
}

func (c marked) Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) error {
	*c.uses = append(*c.uses, limit.UseOf(ctx))
	return c.Chain.Simulate(ctx, a, s)
}

// TestVerificationLeavesTheNodesToSettlement: who signs with an empty wallet asks the chain no more than owners may.
func TestVerificationLeavesTheNodesToSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var uses []limit.Use
		s := checkouttest.Open(t, checkouttest.Options{})
		s.Checkout.Chain = marked{s.Chain, &uses}
		terms := s.Challenge(t, checkouttest.Purchase("k"))
		p := checkouttest.Purchase("k")
		p.Payment = s.NewBuyer(t).Pay(t, terms)
		if _, err := s.Buy(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if len(uses) == 0 || slices.ContainsFunc(uses, func(use limit.Use) bool { return use != limit.ForOwner }) {
			t.Errorf("verified as %v", uses)
		}
	})
}
