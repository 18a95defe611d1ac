package checkout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

const price = 25_000_000

func TestAnUnpaidRequestStoresNothing(t *testing.T) {
	s := open(t, options{})
	required := s.challenge(t, purchase("k"))
	if a := required.Accepts[0]; a.Amount != "25000000" || a.Network != x402.NetworkID || a.Scheme != x402.Scheme {
		t.Errorf("terms are %+v", a)
	}
	if _, err := s.store.Orders().FindByKey(t.Context(), card.Kind, x402.Address{},
		"k"); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("an unpaid request left an order: %v", err)
	}
	if calls := s.chain.Calls(); calls != (paymenttest.Calls{}) {
		t.Errorf("an unpaid request asked the chain: %+v", calls)
	}
}

func TestOnePaymentBuysOneCardWithFifteenDollarsOnIt(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k"))
	if sold.Replayed || sold.Payment.Receipt == nil || sold.Order.Owner != b.address {
		t.Errorf("sold %+v", sold)
	}
	s.reaches(t, sold.Order.ID, order.Fulfilled)
	got, err := s.cards.Ensure(t.Context(), b.address)
	if err != nil || got.Status != card.Active {
		t.Fatalf("card %+v, %v", got, err)
	}
	until(t, "15.00 on the card", func() bool {
		bal, err := s.cards.Balance(t.Context(), got.ID, b.address)
		return err == nil && bal.Available == card.Remaining
	})
	if s.issuer.Executed(got.Ref) != 1 || s.spent(b) != price {
		t.Errorf("opened %d times, spent %d", s.issuer.Executed(got.Ref), s.spent(b))
	}
	if held, err := s.store.Cards().Reserved(t.Context(), "float/card", time.Now()); err != nil || held != 0 {
		t.Errorf("float still held: %d, %v", held, err)
	}
}

func TestRepeatsAreAnsweredFromTheRecord(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	p := s.paid(t, b, "k")
	first := s.mustBuy(t, p)
	again := s.paid(t, b, "k")
	for name, repeat := range map[string]checkout.Purchase{"same header": p, "new authorization": again} {
		got := s.mustBuy(t, repeat)
		if !got.Replayed || got.Order.ID != first.Order.ID ||
			checkout.Receipt(got.Payment) != checkout.Receipt(first.Payment) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if s.spent(b) != price {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestTheSameKeyWithAnotherBodyIsRefused(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	s.mustBuy(t, s.paid(t, b, "k"))
	other := s.paid(t, b, "k")
	other.Request = json.RawMessage(`{"other":1}`)
	_, err := s.Buy(t.Context(), other)
	wantFault(t, err, fault.IdempotencyKeyReused)
	if s.spent(b) != price {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestOneAuthorizationBuysOneThingWhateverTheKey(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	// Stalled, so that only the claim can tell the second purchase, not the chain.
	s.chain.Next(paymenttest.Stall)
	p := s.paid(t, b, "k1")
	q := p
	q.Key = "k2"
	var results [2]error
	var both sync.WaitGroup
	for i, one := range []checkout.Purchase{p, q} {
		both.Go(func() { _, results[i] = s.Buy(t.Context(), one) })
	}
	until(t, "one of them is refused", func() bool {
		s.chain.Release()
		_, err1 := s.store.Orders().FindByKey(t.Context(), card.Kind, b.address, "k1")
		_, err2 := s.store.Orders().FindByKey(t.Context(), card.Kind, b.address, "k2")
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
	if won != 1 || refused != 1 || s.spent(b) != price {
		t.Errorf("won %d, refused %d, spent %d", won, refused, s.spent(b))
	}
}

func TestCheckoutPaidRequestSurvivesClientDisconnect(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	gone, disconnect := context.WithCancel(t.Context())
	disconnect()
	sold, err := s.Buy(gone, s.paid(t, b, "bought"))
	if err != nil || !sold.Order.Status.Paid() || s.spent(b) != price {
		t.Errorf("bought %+v, %v, for %v", sold.Order, err, s.spent(b))
	}
	// A deadline of the client's is no different.
	other := s.newBuyer(t)
	opened, err := s.Create(t.Context(), other.opening("opened"))
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	sold, err = s.Pay(late, opened.Order.ID, other.pay(t, s.terms(t, opened.Order.ID)), at)
	if err != nil || !sold.Order.Status.Paid() || s.spent(other) != price {
		t.Errorf("paid %+v, %v, for %v", sold.Order, err, s.spent(other))
	}
}

func TestTwentyCopiesOfARequestMakeOneOrder(t *testing.T) {
	s := open(t, options{})
	for round := range 5 {
		b := s.newBuyer(t)
		p := s.paid(t, b, fmt.Sprint(round))
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
		if s.spent(b) != price {
			t.Fatalf("spent %d", s.spent(b))
		}
	}
}

func TestAnOwnerBuysOneCardAtATime(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	results := make([]error, 8)
	purchases := make([]checkout.Purchase, len(results))
	for i := range purchases {
		purchases[i] = s.paid(t, b, fmt.Sprint("k", i))
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
		wantFault(t, err, fault.CardAlreadyExists)
	}
	if won != 1 || s.spent(b) != price {
		t.Errorf("won %d, spent %d", won, s.spent(b))
	}
}

func TestTheLastFloatIsPromisedOnce(t *testing.T) {
	s := open(t, options{})
	buyers := make([]buyer, 6)
	purchases := make([]checkout.Purchase, len(buyers))
	for i := range buyers {
		buyers[i] = s.newBuyer(t)
		purchases[i] = s.paid(t, buyers[i], "k")
	}
	s.restock(t, card.Price)
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
		wantFault(t, err, fault.FloatUnavailable)
		if s.spent(buyers[i]) != 0 {
			t.Errorf("buyer %d paid for float that was not there", i)
		}
	}
	if won != 1 {
		t.Errorf("won %d", won)
	}
}

func TestThePurchaseIsClosedBeforeAnyChallenge(t *testing.T) {
	for name, tc := range map[string]struct {
		options options
		spoil   func(*shop)
		want    fault.Code
	}{
		"paused":     {options: options{paused: true}, want: fault.IssuePaused},
		"no BIN":     {spoil: func(s *shop) { s.issuer.SetBINs(card.BIN{Prefix: "400000"}) }, want: fault.BINUnavailable},
		"no float":   {spoil: func(s *shop) { s.issuer.SetFloat(card.Price - 1) }, want: fault.FloatUnavailable},
		"no workers": {options: options{workers: none}, want: fault.WorkersUnavailable},
		"no issuer": {
			spoil: func(s *shop) { s.issuer.Fault(cardtest.Stock, fulfilmenttest.TimeoutBefore) },
			want:  fault.DependencyDown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, tc.options)
			if tc.spoil != nil {
				tc.spoil(s)
			}
			_, err := s.Buy(t.Context(), purchase("k"))
			wantFault(t, err, tc.want)
		})
	}
}

func TestAForgedOrForeignQuoteChangesNoPrice(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	for name, id := range map[string]any{"forged": "AAAAAAAAAAAAAAAAAAAAAHsi", "absent": nil, "not a text": 7} {
		required := s.challenge(t, purchase(name))
		required.Accepts[0].Extra["quoteId"] = id
		required.Accepts[0].Amount = "1"
		p := purchase(name)
		p.Payment = b.pay(t, required)
		_, err := s.Buy(t.Context(), p)
		wantFault(t, err, fault.PaymentRejected)
	}
	if s.spent(b) != 0 {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestWhateverTheChainDoesThePaymentIsTakenOnce(t *testing.T) {
	for name, f := range map[string]paymenttest.Fault{
		"answer lost": paymenttest.Lose, "refused": paymenttest.Refuse, "dropped": paymenttest.Drop,
		"reverted": paymenttest.Revert, "preempted": paymenttest.Preempt,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, options{})
			b := s.newBuyer(t)
			p := s.paid(t, b, "k")
			s.chain.Next(f)
			sold := s.mustBuy(t, p)
			s.reaches(t, sold.Order.ID, order.Fulfilled)
			if got := s.mustBuy(t, p); got.Order.ID != sold.Order.ID || !got.Replayed || s.spent(b) != price {
				t.Errorf("repeat %+v, spent %d", got, s.spent(b))
			}
		})
	}
}

func TestAnUnknownSettlementIsNeverAChallenge(t *testing.T) {
	s := open(t, options{wait: 300 * time.Millisecond})
	b := s.newBuyer(t)
	for range 5000 { // whatever is sent until the release
		s.chain.Next(paymenttest.Stall)
	}
	p := s.paid(t, b, "k")
	again := s.paid(t, b, "k")
	for range 2 {
		for _, one := range []checkout.Purchase{p, again} {
			_, err := s.Buy(t.Context(), one)
			if f := wantFault(t, err, fault.SettlementUnknown); f.OrderID == "" || f.RetryAfter == 0 || f.SafeToPayAgain {
				t.Errorf("fault %+v", f)
			}
		}
	}
	s.chain.Release()
	until(t, "the payment is seen", func() bool { _, err := s.Buy(t.Context(), again); return err == nil })
	if s.spent(b) != price {
		t.Errorf("spent %d", s.spent(b))
	}
}

func TestADeadPaymentMayBeReplaced(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	s.chain.Next(paymenttest.Cancel)
	_, err := s.Buy(t.Context(), s.paid(t, b, "k"))
	f := wantFault(t, err, fault.PaymentRejected)
	ch, ok := errors.AsType[*checkout.Challenge](err)
	if !ok || ch.Headers().Get(x402.HeaderResponse) == "" || f.OrderID == "" {
		t.Fatalf("got %v", err)
	}
	if receipt, err := x402.DecodeSettlement(ch.Headers().Get(x402.HeaderResponse)); err != nil || receipt.Success {
		t.Errorf("receipt %+v, %v", receipt, err)
	}
	sold := s.mustBuy(t, s.paid(t, b, "k"))
	if string(sold.Order.ID) != f.OrderID || s.spent(b) != price {
		t.Errorf("order %s after %s, spent %d", sold.Order.ID, f.OrderID, s.spent(b))
	}
	s.reaches(t, sold.Order.ID, order.Fulfilled)
}

func TestADeadProcessLeavesItsOrderToAnother(t *testing.T) {
	dead := open(t, options{dead: true, wait: 50 * time.Millisecond})
	b := dead.newBuyer(t)
	p := dead.paid(t, b, "k")
	_, err := dead.Buy(t.Context(), p)
	f := wantFault(t, err, fault.SettlementUnknown)
	if dead.spent(b) != 0 {
		t.Fatal("money moved without a worker")
	}
	alive := open(t, options{store: dead.store, chain: dead.chain, issuer: dead.issuer})
	alive.reaches(t, order.ID(f.OrderID), order.Fulfilled)
	if sold := alive.mustBuy(t, p); !sold.Replayed || alive.spent(b) != price {
		t.Errorf("sold %+v, spent %d", sold, alive.spent(b))
	}
}

func TestWhateverTheIssuerDoesThereIsOneCardAndOneFee(t *testing.T) {
	for _, op := range []fulfilmenttest.Op{cardtest.Open, cardtest.Move} {
		for _, mode := range []fulfilmenttest.Mode{
			fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore,
			fulfilmenttest.TimeoutAfter,
			fulfilmenttest.Malformed, fulfilmenttest.RateLimited, fulfilmenttest.UnknownState, fulfilmenttest.Duplicate,
		} {
			t.Run(fmt.Sprint(op, " ", mode), func(t *testing.T) {
				t.Parallel()
				s := open(t, options{})
				b := s.newBuyer(t)
				p := s.paid(t, b, "k")
				if !s.issuer.Fault(op, mode) {
					t.Skip("the issuer in memory cannot do that")
				}
				sold := s.mustBuy(t, p)
				s.reaches(t, sold.Order.ID, order.Fulfilled)
				got, err := s.cards.Ensure(t.Context(), b.address)
				if err != nil {
					t.Fatal(err)
				}
				fee := s.feeJob(t, got)
				args, err := job.Decode[card.FeeArgs](fee)
				if err != nil {
					t.Fatal(err)
				}
				if opened, taken := s.issuer.Executed(got.Ref), s.issuer.Executed(args.Ref()); opened != 1 || taken != 1 ||
					fee.Status != job.Succeeded {
					t.Errorf("opened %d times, fee taken %d times, job %s (%s)", opened, taken, fee.Status, fee.LastError)
				}
			})
		}
	}
}

// feeJob waits until a card's fee job is final.
func (s *shop) feeJob(t *testing.T, c card.Card) job.Row {
	t.Helper()
	var row job.Row
	until(t, "fee job final", func() bool {
		var found bool
		var err error
		row, found, err = s.store.Jobs().Find(t.Context(), card.FeeJob, c.ID.String())
		if err != nil {
			t.Fatal(err)
		}
		return found && row.FinishedAt != nil
	})
	return row
}

func TestACardThatIsRefusedForGoodGoesToAnOperator(t *testing.T) {
	s := open(t, options{})
	b := s.newBuyer(t)
	sold := s.mustBuy(t, s.paid(t, b, "k~002"))
	s.reaches(t, sold.Order.ID, order.OperatorReview)
	if _, err := s.cards.Ensure(t.Context(), b.address); fault.Of(err) != fault.PaidIssueRequired {
		t.Errorf("the refused card lives: %v", err)
	}
}

func TestAnOpeningThatLeavesNoTraceGoesToAnOperator(t *testing.T) {
	// An issuer that does not deduplicate is never asked twice.
	s := open(t, options{habits: fulfilment.Traits{VisibilityDelay: time.Millisecond}})
	b := s.newBuyer(t)
	p := s.paid(t, b, "k")
	s.issuer.Fault(cardtest.Open, fulfilmenttest.TimeoutBefore)
	sold := s.mustBuy(t, p)
	s.reaches(t, sold.Order.ID, order.OperatorReview)
	if n := s.issuer.Calls(cardtest.Open); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
