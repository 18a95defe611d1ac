package checkout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestUnpaidRequestStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		required := s.Challenge(t, checkouttest.Purchase("k"))
		if a := required.Accepts[0]; a.Amount != "25000000" || a.Network != x402.NetworkID || a.Scheme != x402.Scheme {
			t.Errorf("terms are %+v", a)
		}
		if _, err := s.Store.Orders.FindByKey(t.Context(), card.Kind, x402.Address{},
			"k"); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("an unpaid request left an order: %v", err)
		}
		if calls := s.Chain.Calls(); calls != (paymenttest.Calls{}) {
			t.Errorf("an unpaid request asked the chain: %+v", calls)
		}
	})
}

func TestPaymentBuysOneCardWithFifteenDollars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		if sold.Replayed || sold.Payment.Receipt == nil || sold.Order.Owner != b.Address {
			t.Errorf("sold %+v", sold)
		}
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
		got, err := s.Cards.Ensure(t.Context(), b.Address)
		if err != nil || got.Status != card.Active {
			t.Fatalf("card %+v, %v", got, err)
		}
		checkouttest.Until(t, "15.00 on the card", func() bool {
			bal, err := s.Cards.Balance(t.Context(), got.ID, b.Address)
			return err == nil && bal.Available == card.Remaining
		})
		if s.Issuer.Executed(got.Ref) != 1 || s.Spent(b) != price {
			t.Errorf("opened %d times, spent %d", s.Issuer.Executed(got.Ref), s.Spent(b))
		}
		held, err := s.Store.Cards.Reserved(t.Context(), "float/card", time.Now().Add(time.Minute))
		if err != nil || held != 0 {
			t.Errorf("float still held: %d, %v", held, err)
		}
	})
}

func TestCheckoutRepeatsAnswerFromRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		p := s.PaidCard(t, b, "k")
		first := s.MustBuy(t, p)
		again := s.PaidCard(t, b, "k")
		for name, repeat := range map[string]checkout.Purchase{"same header": p, "new authorization": again} {
			got := s.MustBuy(t, repeat)
			if !got.Replayed || got.Order.ID != first.Order.ID ||
				!cmp.Equal(checkout.Receipt(got.Payment), checkout.Receipt(first.Payment)) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if s.Spent(b) != price {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestSameKeyWithAnotherBodyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		s.MustBuy(t, s.PaidCard(t, b, "k"))
		other := s.PaidCard(t, b, "k")
		other.Request = json.RawMessage(`{"other":1}`)
		_, err := s.Buy(t.Context(), other)
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		if s.Spent(b) != price {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestAuthorizationBuysOnceWhateverTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		// Stalled, so that only the claim can tell the second purchase, not the chain.
		s.Chain.Next(paymenttest.Stall)
		p := s.PaidCard(t, b, "k1")
		q := p
		q.Key = "k2"
		var results [2]error
		var both sync.WaitGroup
		for i, one := range []checkout.Purchase{p, q} {
			both.Go(func() { _, results[i] = s.Buy(t.Context(), one) })
		}
		checkouttest.Until(t, "one of them is refused", func() bool {
			s.Chain.Release()
			_, err1 := s.Store.Orders.FindByKey(t.Context(), card.Kind, b.Address, "k1")
			_, err2 := s.Store.Orders.FindByKey(t.Context(), card.Kind, b.Address, "k2")
			return err1 == nil || err2 == nil
		})
		both.Wait()
		won, refused := 0, 0
		for _, err := range results {
			switch fault.Of(err) {
			case "":
				won++
			case fault.AuthorizationAlreadyUsed, fault.CardAlreadyExists, fault.PaymentRejected:
				refused++
			default:
				t.Errorf("got %v", err)
			}
		}
		if won != 1 || refused != 1 || s.Spent(b) != price {
			t.Errorf("won %d, refused %d, spent %d", won, refused, s.Spent(b))
		}
	})
}

func TestCheckoutPaidRequestSurvivesClientDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		gone, disconnect := context.WithCancel(t.Context())
		disconnect()
		sold, err := s.Buy(gone, s.PaidCard(t, b, "bought"))
		if err != nil || !sold.Order.Status.Paid() || s.Spent(b) != price {
			t.Errorf("bought %+v, %v, for %v", sold.Order, err, s.Spent(b))
		}
		// A deadline of the client's is no different.
		other := s.NewBuyer(t)
		opened, err := s.Create(t.Context(), newOrder(other, "opened"))
		if err != nil {
			t.Fatal(err)
		}
		late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		sold, err = s.Pay(late, opened.Order.ID, other.Pay(t, termsOf(t, s, opened.Order.ID)), at)
		if err != nil || !sold.Order.Status.Paid() || s.Spent(other) != price {
			t.Errorf("paid %+v, %v, for %v", sold.Order, err, s.Spent(other))
		}
	})
}

func TestConcurrentCopiesOfARequestMakeOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		for round := range 5 {
			b := s.NewBuyer(t)
			p := s.PaidCard(t, b, fmt.Sprint(round))
			ids := make([]order.ID, 20)
			var all sync.WaitGroup
			for i := range ids {
				all.Go(func() {
					sold, err := s.Buy(t.Context(), p)
					if err != nil {
						t.Errorf("copy %d: %v", i, err)
					}
					ids[i] = sold.Order.ID
				})
			}
			all.Wait()
			for _, id := range ids {
				if id != ids[0] {
					t.Fatalf("two orders: %s and %s", id, ids[0])
				}
			}
			if s.Spent(b) != price {
				t.Fatalf("spent %d", s.Spent(b))
			}
		}
	})
}

func TestOwnerBuysOneCardAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		results := make([]error, 8)
		purchases := make([]checkout.Purchase, len(results))
		for i := range purchases {
			purchases[i] = s.PaidCard(t, b, fmt.Sprint("k", i))
		}
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { _, results[i] = s.Buy(t.Context(), purchases[i]) })
		}
		all.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
				continue
			}
			checkouttest.WantFault(t, err, fault.CardAlreadyExists)
		}
		if won != 1 || s.Spent(b) != price {
			t.Errorf("won %d, spent %d", won, s.Spent(b))
		}
	})
}

func TestLastFloatIsReservedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		buyers := make([]checkouttest.Buyer, 6)
		purchases := make([]checkout.Purchase, len(buyers))
		for i := range buyers {
			buyers[i] = s.NewBuyer(t)
			purchases[i] = s.PaidCard(t, buyers[i], "k")
		}
		restock(t, s, card.Price)
		results := make([]error, len(buyers))
		var all sync.WaitGroup
		for i := range buyers {
			all.Go(func() { _, results[i] = s.Buy(t.Context(), purchases[i]) })
		}
		all.Wait()
		won := 0
		for i, err := range results {
			if err == nil {
				won++
				continue
			}
			// While the winner's payment is not settled, the float may come back. Then it is gone.
			if f, ok := fault.As(err); !ok || f.Code != fault.FloatReserved {
				checkouttest.WantFault(t, err, fault.FloatUnavailable)
			}
			_, err = s.Buy(t.Context(), purchases[i])
			checkouttest.WantFault(t, err, fault.FloatUnavailable)
			if s.Spent(buyers[i]) != 0 {
				t.Errorf("buyer %d paid for float that was not there", i)
			}
		}
		if won != 1 {
			t.Errorf("won %d", won)
		}
	})
}

func TestClosedSaleIsReportedBeforeAnyChallenge(t *testing.T) {
	for name, tc := range map[string]struct {
		options checkouttest.Options
		change  func(*checkouttest.Shop)
		want    fault.Code
	}{
		"paused": {options: checkouttest.Options{Paused: true}, want: fault.IssuePaused},
		"no BIN": {change: func(s *checkouttest.Shop) { s.Issuer.SetBINs(card.BIN{Prefix: "400000"}) },
			want: fault.BINUnavailable},
		"no float": {
			change: func(s *checkouttest.Shop) { s.Issuer.SetFloat(card.Price - 1) }, want: fault.FloatUnavailable,
		},
		"no workers": {options: checkouttest.Options{Workers: noWorkers}, want: fault.WorkersUnavailable},
		"no issuer": {
			change: func(s *checkouttest.Shop) { s.Issuer.Fault(cardtest.Stock, fulfilmenttest.TimeoutBefore) },
			want:   fault.DependencyDown,
		},
	} {
		checkouttest.Run(t, name, func(t *testing.T) {
			s := checkouttest.Open(t, tc.options)
			if tc.change != nil {
				tc.change(s)
			}
			_, err := s.Buy(t.Context(), checkouttest.Purchase("k"))
			checkouttest.WantFault(t, err, tc.want)
		})
	}
}

func TestForgedQuoteChangesNoPrice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		for name, id := range map[string]any{"forged": "AAAAAAAAAAAAAAAAAAAAAHsi", "absent": nil, "not a text": 7} {
			required := s.Challenge(t, checkouttest.Purchase(name))
			required.Accepts[0].Extra["quoteId"] = id
			required.Accepts[0].Amount = "1"
			p := checkouttest.Purchase(name)
			p.Payment = b.Pay(t, required)
			_, err := s.Buy(t.Context(), p)
			checkouttest.WantFault(t, err, fault.PaymentRejected)
		}
		if s.Spent(b) != 0 {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

// TestPaymentForSomethingElseIsNotTaken: a payment that says itself what it was signed for buys nothing else of the
// same price, and buys that afterwards.
func TestPaymentForSomethingElseIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b, other := s.NewBuyer(t), s.NewBuyer(t)
		s.MustBuy(t, s.PaidCard(t, b, "card"))
		topUp := checkouttest.TopUp("more", 2500)
		card := s.PaidCard(t, b, "second")
		topUp.Payment = card.Payment
		_, err := s.Buy(t.Context(), topUp)
		checkouttest.WantFault(t, err, fault.PaymentRejected)

		// A client that leaves the quote away has still said for which address it paid.
		unquoted := func(at string) checkout.Purchase {
			p := checkouttest.TopUp("for "+at, 2500)
			p.Resource.URL = "https://shop.example/api/card/topup?via=link"
			required := s.Challenge(t, p)
			required.Accepts[0].Extra, required.Resource.URL = nil, at
			p.Payment = b.Pay(t, required)
			return p
		}
		_, err = s.Buy(t.Context(), unquoted("https://shop.example/api/card/purchase"))
		checkouttest.WantFault(t, err, fault.PaymentRejected)

		first, second := mustCreate(t, s, newOrder(other, "one")), mustCreate(t, s, newOrder(other, "two"))
		page := func(o order.Order) x402.Resource {
			return x402.Resource{URL: "https://shop.example/pay/" + string(o.ID)}
		}
		paid := func(o order.Order) string {
			_, err := s.Pay(t.Context(), o.ID, "", page(o))
			ch, _ := errors.AsType[*checkout.Challenge](err)
			required, err := x402.DecodeRequired(ch.Headers().Get(x402.HeaderRequired))
			if err != nil {
				t.Fatal(err)
			}
			return other.Pay(t, required)
		}
		header := paid(first)
		_, err = s.Pay(t.Context(), second.ID, header, page(second))
		checkouttest.WantFault(t, err, fault.PaymentRejected)
		if s.Spent(b) != price || s.Spent(other) != 0 {
			t.Errorf("spent %d and %d", s.Spent(b), s.Spent(other))
		}
		if _, err := s.Pay(t.Context(), first.ID, header, page(first)); err != nil {
			t.Errorf("the order that it was signed for: %v", err)
		}
		// What others call the address, by names of their own, is theirs.
		for _, at := range []string{"", "https://gateway.example/buy", "https://shop.example/api/card/topup"} {
			if _, err := s.Buy(t.Context(), unquoted(at)); err != nil {
				t.Errorf("paid for %q: %v", at, err)
			}
		}
	})
}

func TestUnknownSettlementIsNeverAChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Wait: 300 * time.Millisecond})
		b := s.NewBuyer(t)
		s.Chain.StallAll()
		p := s.PaidCard(t, b, "k")
		again := s.PaidCard(t, b, "k")
		for range 2 {
			for _, one := range []checkout.Purchase{p, again} {
				_, err := s.Buy(t.Context(), one)
				if f := checkouttest.WantFault(t, err, fault.SettlementUnknown); f.OrderID == "" || f.RetryAfter == 0 ||
					f.SafeToPayAgain {
					t.Errorf("fault %+v", f)
				}
			}
		}
		s.Chain.Release()
		checkouttest.Until(t, "the payment is seen", func() bool { _, err := s.Buy(t.Context(), again); return err == nil })
		if s.Spent(b) != price {
			t.Errorf("spent %d", s.Spent(b))
		}
	})
}

func TestDeadPaymentMayBeReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		s.Chain.Next(paymenttest.Cancel)
		_, err := s.Buy(t.Context(), s.PaidCard(t, b, "k"))
		f := checkouttest.WantFault(t, err, fault.PaymentRejected)
		ch, ok := errors.AsType[*checkout.Challenge](err)
		if !ok || ch.Headers().Get(x402.HeaderResponse) == "" || f.OrderID == "" {
			t.Fatalf("got %v", err)
		}
		if receipt, err := x402.DecodeSettlement(ch.Headers().Get(x402.HeaderResponse)); err != nil || receipt.Success {
			t.Errorf("receipt %+v, %v", receipt, err)
		}
		fulfilmenttest.Pass(time.Millisecond) // what was released just now counts for who has just looked
		sold := s.MustBuy(t, s.PaidCard(t, b, "k"))
		if string(sold.Order.ID) != f.OrderID || s.Spent(b) != price {
			t.Errorf("order %s after %s, spent %d", sold.Order.ID, f.OrderID, s.Spent(b))
		}
		s.Reaches(t, sold.Order.ID, order.Fulfilled)
	})
}

func noWorkers(context.Context) error { return fault.New(fault.WorkersUnavailable, "") }
