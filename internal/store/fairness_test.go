package store_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// by makes a claim a wallet's, which may have so many undecided payments.
func by(wallet x402.Address, undecided int) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) {
		p.Order.Owner, p.Payment.Authorization.From, p.MaxUndecided = wallet, wallet, undecided
	}
}

// claimAll claims all at once.
func claimAll(
	t *testing.T, s *store.Store, all []checkout.ClaimRequest,
) (claimed []checkout.ClaimResult, errs []error) {
	t.Helper()
	claimed, errs = make([]checkout.ClaimResult, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() { claimed[i], errs[i] = s.Orders().Claim(t.Context(), p) })
	}
	group.Wait()
	return claimed, errs
}

// TestUndecidedPaymentsPerPayerAreBounded: however many come at once, over whichever processes, and only as long as
// they are undecided.
func TestUndecidedPaymentsPerPayerAreBounded(t *testing.T) {
	s := storetest.New(t)
	const most = 4
	greedy, modest := x402.Address{0: 0x66, 19: 1}, x402.Address{0: 0x77, 19: 1}
	var all []checkout.ClaimRequest
	for i := range 12 {
		all = append(all, claimRequest(fmt.Sprint("greedy-", i), by(greedy, most)))
	}
	all = append(all, claimRequest("modest", by(modest, most)))
	claimed, errs := claimAll(t, s, all)
	var taken []int
	for i, err := range errs[:12] {
		switch {
		case err == nil:
			taken = append(taken, i)
		case !errors.Is(err, checkout.ErrUndecided):
			t.Errorf("claim: %v", err)
		}
	}
	if len(taken) != most {
		t.Fatalf("%d payments are undecided, want %d", len(taken), most)
	}
	if errs[12] != nil {
		t.Errorf("another payer's: %v", errs[12])
	}
	// One that is paid and one that is void make room, each for one.
	paid, void := taken[0], taken[1]
	if err := errOf(s.Orders().Settle(t.Context(), claimed[paid].Job.Fence(), settled(all[paid]),
		move(all[paid], order.Settling, order.Settled), watchJob(all[paid]))); err != nil {
		t.Fatalf("settle: %v", err)
	}
	dead := all[void].Payment
	dead.Status, dead.DeadReason = payment.Dead, payment.ReasonExpired
	if err := errOf(s.Orders().MarkDead(t.Context(), claimed[void].Job.Fence(), dead,
		move(all[void], order.Settling, order.PaymentRequired))); err != nil {
		t.Fatalf("mark dead: %v", err)
	}
	for i := range 3 {
		_, err := s.Orders().Claim(t.Context(), claimRequest(fmt.Sprint("next-", i), by(greedy, most)))
		if (i < 2) != (err == nil) || err != nil && !errors.Is(err, checkout.ErrUndecided) {
			t.Errorf("number %d after two were decided: %v", i, err)
		}
	}
}

// inFlight limits the payments of a payer that were claimed within the last so long.
func inFlight(most int, within time.Duration) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) {
		p.MaxInFlight, p.InFlightSince = most, p.Payment.CreatedAt.Add(-within)
	}
}

// TestLimitsOfAPayerHoldOverTwoProcesses: each by itself, for claims that come at once through two stores.
func TestLimitsOfAPayerHoldOverTwoProcesses(t *testing.T) {
	url := storetest.URL(t)
	stores := []*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
	const most = 3
	turns := func(class limit.Class) func(*checkout.ClaimRequest) {
		rates := limit.New(limit.Rates{class: {Count: most, Per: time.Hour}}, time.Now)
		return func(p *checkout.ClaimRequest) { p.Turns = rates.Turn(class, p.Order.Owner.Lower()) }
	}
	isRefused := func(err error) bool { return refused(err) != nil }
	for i, c := range []struct {
		name    string
		limit   func(*checkout.ClaimRequest)
		refused func(error) bool
	}{
		{"paid", turns(limit.Paid), isRefused},
		{"orders", turns(limit.Orders), isRefused},
		{"in flight", inFlight(most, time.Hour), func(err error) bool {
			no := refused(err)
			return no != nil && no.Limit == most && no.Code == fault.RateLimited && no.State.RetryAfter > 0
		}},
		{"undecided", func(p *checkout.ClaimRequest) { p.MaxUndecided = most },
			func(err error) bool { return errors.Is(err, checkout.ErrUndecided) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := make([]error, 12)
			var all sync.WaitGroup
			for n := range errs {
				p := claimRequest(fmt.Sprint(c.name, n), by(x402.Address{0: 0x66, 19: byte(i)}, 0), c.limit)
				all.Go(func() { _, errs[n] = stores[n%2].Orders().Claim(t.Context(), p) })
			}
			all.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
				} else if !c.refused(err) {
					t.Errorf("refused with %v", err)
				}
			}
			if won != most {
				t.Errorf("%d claims of at most %d", won, most)
			}
		})
	}
}

// TestPaymentIsInFlightUntilItIsDecidedOrItsRequestHasEnded, in a batch and by itself.
func TestPaymentIsInFlightUntilItIsDecidedOrItsRequestHasEnded(t *testing.T) {
	s := storetest.New(t)
	wallet := x402.Address{0: 0x66, 19: 1}
	later := func(by time.Duration) func(*checkout.ClaimRequest) {
		return func(p *checkout.ClaimRequest) {
			p.Payment.CreatedAt, p.InFlightSince = p.Payment.CreatedAt.Add(by), p.InFlightSince.Add(by)
		}
	}
	next := func(key string, after time.Duration, room bool) (checkout.ClaimRequest, checkout.ClaimResult) {
		t.Helper()
		p := claimRequest(key, by(wallet, 0), inFlight(1, time.Minute), later(after))
		claimed, errs := claimBatch(t, s, p, claimRequest("with "+key, owned(1), inFlight(0, 0)))
		if no := refused(errs[0]); (errs[0] == nil) != room || !room && no == nil || errs[1] != nil {
			t.Errorf("%s: %v", key, errs)
		}
		return p, claimed[0]
	}
	first, claimed := next("first", 0, true)
	next("at once", time.Second, false)
	if err := errOf(s.Orders().Settle(t.Context(), claimed.Job.Fence(), settled(first),
		move(first, order.Settling, order.Settled), watchJob(first))); err != nil {
		t.Fatalf("settle: %v", err)
	}
	next("once it is paid", 2*time.Second, true)
	next("then", 3*time.Second, false)
	next("once nobody waits for that", 2*time.Minute, true)
}

// TestUnpaidOrdersReserveABoundedShareOfTheFloat: in one shard or over all of them, an owner's unpaid orders never
// reserve more. Paid orders do not count, nor do those of others: strangers who do not pay leave everybody the float.
func TestUnpaidOrdersReserveABoundedShareOfTheFloat(t *testing.T) {
	s := storetest.New(t)
	for round, most := range []int64{0, 10, 100} { // one lock, far from the edge in shards, and always at it
		const units, unsettled, limit = 10, 200, 1000
		greedy := x402.Address{0: 0x66, 18: byte(round), 19: 1}
		one := func(key string, change ...func(*checkout.ClaimRequest)) checkout.ClaimRequest {
			return claimRequest(fmt.Sprint(round, "-", key), append(change, reserving(order.Reservation{
				Resource: fmt.Sprint("float/", round), Units: units, Most: most, Limit: limit,
				Unsettled: unsettled, AsOf: time.Now(), Refusal: fault.FloatUnavailable}))...)
		}
		var all []checkout.ClaimRequest
		for i := range 40 {
			all = append(all, one(fmt.Sprint(i), by(greedy, 0)))
		}
		claimed, errs := claimAll(t, s, all)
		var taken []int
		for i, err := range errs {
			short, ok := errors.AsType[*order.Shortage](err)
			switch {
			case err == nil:
				taken = append(taken, i)
			case !ok || short.Fault().Code != fault.FloatReserved:
				t.Errorf("claim: %v", err)
			}
		}
		if len(taken) != unsettled/units {
			t.Fatalf("most %d: %d unpaid orders reserve %d, want %d", most, len(taken), len(taken)*units, unsettled)
		}
		for _, i := range taken[:5] {
			if err := errOf(s.Orders().Settle(t.Context(), claimed[i].Job.Fence(), settled(all[i]),
				move(all[i], order.Settling, order.Settled), watchJob(all[i]))); err != nil {
				t.Fatalf("settle: %v", err)
			}
		}
		// A float that only others than payers hold is reserved, and not sold out: what is paid has to be known.
		if n := rows(t, s, fmt.Sprintf(
			"SELECT count(*) FROM reservations WHERE resource = 'float/%d' AND settled_at IS NOT NULL", round)); n != 5 {
			t.Errorf("most %d: %d reservations are of paid orders, want 5", most, n)
		}
		for i := range 6 {
			_, err := s.Orders().Claim(t.Context(), one(fmt.Sprint("next-", i), by(greedy, 0)))
			if (i < 5) != (err == nil) {
				t.Errorf("most %d: number %d after five were paid: %v", most, i, err)
			}
		}
		// What is paid is still promised to its buyers.
		if held, err := s.Cards().Reserved(t.Context(), fmt.Sprint("float/", round), time.Now()); err != nil ||
			held != unsettled+5*units {
			t.Errorf("most %d: %d is held, %v", most, held, err)
		}
		const left = (limit - unsettled - 5*units) / units
		for i := range left + 1 {
			_, err := s.Orders().Claim(t.Context(), one(fmt.Sprint("stranger-", i), owned(1000*round+i)))
			if (i < left) != (err == nil) {
				t.Fatalf("most %d: stranger %d of %d: %v", most, i, left, err)
			}
		}
	}
}

// TestMoneyOfAPayerIsPromisedOnce: over two processes, one by one and in a batch. Whoever holds the price of one
// purchase claims one; nothing is stored of another until the first is decided.
func TestMoneyOfAPayerIsPromisedOnce(t *testing.T) {
	url := storetest.URL(t)
	stores := []*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
	wallet := x402.Address{0: 0x66, 19: 1}
	holding := func(funds money.USDC) func(*checkout.ClaimRequest) {
		return func(p *checkout.ClaimRequest) { p.Funds = funds }
	}
	const price = 25_000_000
	for round, funds := range []money.USDC{0, price, 2*price - 1, 2 * price, 3*price - 1} {
		wallet[18] = byte(round)
		errs := make([]error, 6)
		all, claimed := make([]checkout.ClaimRequest, len(errs)), make([]checkout.ClaimResult, len(errs))
		var group sync.WaitGroup
		for i := range errs {
			all[i] = claimRequest(fmt.Sprint(round, "-", i), by(wallet, 0), holding(funds))
			group.Go(func() { claimed[i], errs[i] = stores[i%2].Orders().Claim(t.Context(), all[i]) })
		}
		group.Wait()
		first, taken := -1, 0
		for i, err := range errs {
			switch {
			case err == nil:
				first = i
				taken++
			case !errors.Is(err, checkout.ErrUncovered):
				t.Errorf("claim: %v", err)
			}
		}
		if want := max(1, int(funds/price)); taken != want {
			t.Fatalf("%d claims of a wallet that holds %s, want %d", taken, funds, want)
		}
		if n := rows(t, stores[0], "SELECT count(*) FROM orders WHERE owner = '"+wallet.Lower()+"'"); n != taken {
			t.Errorf("%d orders of %d claims", n, taken)
		}
		if taken > 1 {
			continue
		}
		if err := errOf(stores[0].Orders().Settle(t.Context(), claimed[first].Job.Fence(), settled(all[first]),
			move(all[first], order.Settling, order.Settled), watchJob(all[first]))); err != nil {
			t.Fatal(err)
		}
		if _, err := stores[0].Orders().Claim(t.Context(), claimRequest(fmt.Sprint(round, "-next"), by(wallet, 0),
			holding(0))); err != nil {
			t.Errorf("once the first is paid: %v", err)
		}
	}
}

func TestLossesCountPerPayerForAnHour(t *testing.T) {
	s := storetest.New(t)
	wallet := x402.Address{0: 0x55, 19: 1}
	mine, mineToo, others := claimRequest("a", by(wallet, 0)), claimRequest("b", by(wallet, 0)),
		claimRequest("c", by(x402.Address{0: 0x56}, 0))
	for _, p := range []checkout.ClaimRequest{mine, mineToo, others} {
		claim(t, s, p)
	}
	revert := func(id uuid.UUID, spent int64) {
		t.Helper()
		a, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{id}, relayerA, window,
			func(n uint64, _ []uuid.UUID) (payment.Variant, error) {
				return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
			})
		if err == nil {
			err = s.Transactions().Close(t.Context(), a[0].ID, payment.TransactionReverted, spent, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	revert(mine.Payment.ID, 3)
	revert(mineToo.Payment.ID, 5)
	revert(others.Payment.ID, 100)
	hour := time.Now().Add(-time.Hour)
	if got, err := s.Transactions().Lost(t.Context(), mine.Payment, hour); err != nil ||
		got != (payment.Losses{Reverts: 1, Payer: 8, All: 108}) {
		t.Errorf("losses %+v, %v", got, err)
	}
	if got, err := s.Transactions().Lost(t.Context(), mine.Payment, time.Now().Add(time.Minute)); err != nil ||
		got != (payment.Losses{Reverts: 1}) {
		t.Errorf("losses after the hour %+v, %v: the authorization's own count as long as it is", got, err)
	}
	revert(mineToo.Payment.ID, math.MaxInt64)
	most := payment.Losses{Reverts: 1, Payer: math.MaxInt64, All: math.MaxInt64}
	if got, err := s.Transactions().Lost(t.Context(), mine.Payment, hour); err != nil || got != most {
		t.Errorf("losses beyond what can be %+v, %v", got, err)
	}
}

// window is the room of a relayer that has sent little.
var window = payment.Window{Size: 16}

var relayerA = x402.Address{0: 0xaa, 19: 1}

// TestPruningKeepsTheAccountNonce: whatever is deleted, the next transaction's nonce is one that was never used, also
// where the chain counts behind.
func TestPruningKeepsTheAccountNonce(t *testing.T) {
	s := storetest.New(t)
	sign := func(uint64, []uuid.UUID) (payment.Variant, error) {
		return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
	}
	prepare := func(key string) payment.Transaction {
		t.Helper()
		p := claimRequest(key)
		claim(t, s, p)
		a, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{p.Payment.ID}, relayerA, window, sign)
		if err != nil {
			t.Fatal(err)
		}
		return a[0]
	}
	var last payment.Transaction
	for i := range 5 {
		last = prepare(fmt.Sprint("ended-", i))
		if err := s.Transactions().Close(t.Context(), last.ID,
			[]payment.TransactionStatus{payment.TransactionClosed, payment.TransactionReverted}[i%2], 1, nil); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			prepare("open") // stays whatever its age
		}
	}
	prune := func(before time.Time, limit, want int) {
		t.Helper()
		if n, err := s.Transactions().Prune(t.Context(), before, limit); err != nil || n != want {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	prune(time.Now().Add(-time.Hour), 10, 0)
	prune(time.Now().Add(time.Minute), 3, 3)
	prune(time.Now().Add(time.Minute), 10, 1)
	prune(time.Now().Add(time.Minute), 10, 0)
	if a := prepare("next"); a.Nonce != last.Nonce+1 {
		t.Errorf("the next nonce is %d after %d", a.Nonce, last.Nonce)
	}
	open, err := s.Transactions().Open(t.Context(), relayerA, 0)
	if err != nil || len(open) != 2 {
		t.Errorf("%d open attempts, %v, want 2", len(open), err)
	}
}

func TestPrunedTransactionsStayPruned(t *testing.T) {
	s := storetest.New(t)
	for i := range 3 {
		p := claimRequest(fmt.Sprint("k", i))
		claim(t, s, p)
		a, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{p.Payment.ID}, relayerA, window,
			func(uint64, []uuid.UUID) (payment.Variant, error) {
				return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
			})
		if err == nil {
			err = s.Transactions().Close(t.Context(), a[0].ID, payment.TransactionClosed, 1, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := faultpoint.Arm("transactions.pruned:error"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Transactions().Prune(t.Context(), time.Now().Add(time.Minute), 1); err == nil {
		t.Error("the fault did not strike")
	}
	if n, err := s.Transactions().Prune(t.Context(), time.Now().Add(time.Minute), 10); err != nil || n != 1 {
		t.Errorf("pruned %d after that, %v, want the one left", n, err)
	}
}
