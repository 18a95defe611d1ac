package checkouttest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// What payers without money reserve is released, however many they are. It is promised to others then: who pays after
// all reserves again, if there is something left.
func suspendedReservationsPromiseNothing(t *testing.T, db Database) {
	s := db.Open(t, nil)
	const many = 120
	float := func(limit int64) order.Reservation {
		return order.Reservation{Resource: "float/card", Units: 1, Most: 2, Limit: limit, AsOf: time.Now().Add(-time.Minute),
			Refusal: fault.FloatUnavailable}
	}
	held := func(want int64) {
		t.Helper()
		got, err := s.Cards.Reserved(t.Context(), "float/card", time.Now().Add(time.Minute))
		if err != nil || got != want {
			t.Errorf("%d held, want %d: %v", got, want, err)
		}
	}
	var poor []checkout.ClaimRequest
	var fences []job.Fence
	for i := range many {
		p := NewClaim(fmt.Sprint("poor-", i), Owned(i), Reserving(float(1000)))
		fences, poor = append(fences, Claim(t, s, p).Job.Fence()), append(poor, p)
	}
	held(many)
	for i, p := range poor {
		for range 2 { // at every look
			if err := s.Orders.Suspend(t.Context(), fences[i], p.Order.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	held(0)
	settle := func(i int) order.Order {
		t.Helper()
		o, err := s.Orders.Settle(t.Context(), fences[i], SettledBy(poor[i]), MoveOf(poor[i], order.Settling, order.Settled),
			WatchJob(poor[i]))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	begins := func(i int) error {
		return ErrOf(s.Orders.Move(t.Context(), fences[i], MoveOf(poor[i], order.Settled, order.Provisioning)))
	}
	first, second := settle(0), settle(1)
	held(0)
	if err := begins(0); !errors.Is(err, order.ErrSuspended) {
		t.Errorf("a delivery without a reservation begins: %v", err)
	}
	all, err := s.Orders.Suspended(t.Context(), first)
	if err != nil || len(all) != 1 || all[0].Resource != "float/card" || all[0].Units != 1 {
		t.Fatalf("suspended %+v, %v", all, err)
	}
	again := []order.Reservation{float(1)}
	if err := s.Orders.Resume(t.Context(), fences[0], first, again); err != nil {
		t.Fatal(err)
	}
	held(1)
	if err := s.Orders.Resume(t.Context(), fences[1], second, again); !IsShort(err) {
		t.Errorf("one more than there is was reserved again: %v", err)
	}
	if err := s.Orders.Resume(t.Context(), fences[0], second, again); err == nil {
		t.Error("another's job reserved again")
	}
	held(1)
	for i, want := range []error{nil, order.ErrSuspended} {
		if err := begins(i); !errors.Is(err, want) {
			t.Errorf("delivery %d: %v, want %v", i, err, want)
		}
	}
	if unpaid, err := s.Cards.Unpaid(t.Context(), "float/card"); err != nil || unpaid != 0 {
		t.Errorf("%d of the share of a paid order is not paid, %v", unpaid, err)
	}
}

// shortageSaysWhetherUnpaidOrdersCauseIt: what is not paid may be there in a moment, what is paid will not.
func shortageSaysWhetherUnpaidOrdersCauseIt(t *testing.T, db Database) {
	s := db.Open(t, nil)
	one := func(key string, n int) checkout.ClaimRequest {
		return NewClaim(key, Owned(n), Reserving(order.Reservation{
			Resource: "float/card", Units: 10, Limit: 15, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
		}))
	}
	told := func() fault.Code {
		t.Helper()
		_, err := s.Orders.Claim(t.Context(), one("honest", 2))
		short, ok := errors.AsType[*order.Shortage](err)
		if !ok {
			t.Fatalf("claim: %v", err)
		}
		return short.Fault().Code
	}
	p := one("stranger", 1)
	f := Claim(t, s, p).Job.Fence()
	if got := told(); got != fault.FloatReserved {
		t.Errorf("%s while a stranger has not paid", got)
	}
	if err := ErrOf(s.Orders.Settle(t.Context(), f, SettledBy(p), MoveOf(p, order.Settling, order.Settled),
		WatchJob(p))); err != nil {
		t.Fatal(err)
	}
	if got := told(); got != fault.FloatUnavailable {
		t.Errorf("%s once it is sold", got)
	}
}

// By makes a claim a wallet's, which may have so many undecided payments.
func By(wallet x402.Address, undecided int) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) {
		p.Order.Owner, p.Payment.Authorization.From, p.MaxUndecided = wallet, wallet, undecided
	}
}

// claimAll claims all at once.
func claimAll(
	t *testing.T, s Store, all []checkout.ClaimRequest,
) (claimed []checkout.ClaimResult, errs []error) {
	t.Helper()
	claimed, errs = make([]checkout.ClaimResult, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() { claimed[i], errs[i] = s.Orders.Claim(t.Context(), p) })
	}
	group.Wait()
	return claimed, errs
}

// undecidedPaymentsPerPayerAreBounded: however many come at once, over whichever processes, and only as long as
// they are undecided.
func undecidedPaymentsPerPayerAreBounded(t *testing.T, db Database) {
	s := db.Open(t, nil)
	const most = 4
	greedy, modest := x402.Address{0: 0x66, 19: 1}, x402.Address{0: 0x77, 19: 1}
	var all []checkout.ClaimRequest
	for i := range 12 {
		all = append(all, NewClaim(fmt.Sprint("greedy-", i), By(greedy, most)))
	}
	all = append(all, NewClaim("modest", By(modest, most)))
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
	if err := ErrOf(s.Orders.Settle(t.Context(), claimed[paid].Job.Fence(), SettledBy(all[paid]),
		MoveOf(all[paid], order.Settling, order.Settled), WatchJob(all[paid]))); err != nil {
		t.Fatalf("settle: %v", err)
	}
	dead := all[void].Payment
	dead.Status, dead.DeadReason = payment.Dead, payment.ReasonExpired
	if err := ErrOf(s.Orders.MarkDead(t.Context(), claimed[void].Job.Fence(), dead,
		MoveOf(all[void], order.Settling, order.PaymentRequired))); err != nil {
		t.Fatalf("mark dead: %v", err)
	}
	for i := range 3 {
		_, err := s.Orders.Claim(t.Context(), NewClaim(fmt.Sprint("next-", i), By(greedy, most)))
		if (i < 2) != (err == nil) || err != nil && !errors.Is(err, checkout.ErrUndecided) {
			t.Errorf("number %d after two were decided: %v", i, err)
		}
	}
}

// InFlight limits the payments of a payer that were claimed within the last so long.
func InFlight(most int, within time.Duration) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) {
		p.MaxInFlight, p.InFlightSince = most, p.Payment.CreatedAt.Add(-within)
	}
}

// limitsOfAPayerHoldOverTwoProcesses: each by itself, for claims that come at once through two stores.
func limitsOfAPayerHoldOverTwoProcesses(t *testing.T, db Database) {
	stores := []Store{db.Open(t, nil), db.Open(t, nil)}
	const most = 3
	hits := func(class limit.Class) func(*checkout.ClaimRequest) {
		rates := limit.New(limit.Rates{class: {Count: most, Per: time.Hour}}, time.Now)
		return func(p *checkout.ClaimRequest) { p.Hits = rates.Hit(class, p.Order.Owner.Lower()) }
	}
	isRefused := func(err error) bool { return refused(err) != nil }
	for i, c := range []struct {
		name    string
		limit   func(*checkout.ClaimRequest)
		refused func(error) bool
	}{
		{"paid", hits(limit.Paid), isRefused},
		{"orders", hits(limit.Orders), isRefused},
		{"in flight", InFlight(most, time.Hour), func(err error) bool {
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
				p := NewClaim(fmt.Sprint(c.name, n), By(x402.Address{0: 0x66, 19: byte(i)}, 0), c.limit)
				all.Go(func() { _, errs[n] = stores[n%2].Orders.Claim(t.Context(), p) })
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

// unpaidOrdersReserveABoundedShareOfTheFloat: in one shard or over all of them, an owner's unpaid orders never
// reserve more. Paid orders do not count, nor do those of others: strangers who do not pay leave everybody the float.
func unpaidOrdersReserveABoundedShareOfTheFloat(t *testing.T, db Database) {
	s := db.Open(t, nil)
	for round, most := range []int64{0, 10, 100} { // one lock, far from the edge in shards, and always at it
		const units, unsettled, limit = 10, 200, 1000
		greedy := x402.Address{0: 0x66, 18: byte(round), 19: 1}
		one := func(key string, change ...func(*checkout.ClaimRequest)) checkout.ClaimRequest {
			return NewClaim(fmt.Sprint(round, "-", key), append(change, Reserving(order.Reservation{
				Resource: fmt.Sprint("float/", round), Units: units, Most: most, Limit: limit,
				Unsettled: unsettled, AsOf: time.Now(), Refusal: fault.FloatUnavailable}))...)
		}
		var all []checkout.ClaimRequest
		for i := range 40 {
			all = append(all, one(fmt.Sprint(i), By(greedy, 0)))
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
			if err := ErrOf(s.Orders.Settle(t.Context(), claimed[i].Job.Fence(), SettledBy(all[i]),
				MoveOf(all[i], order.Settling, order.Settled), WatchJob(all[i]))); err != nil {
				t.Fatalf("settle: %v", err)
			}
		}
		// A float that only others than payers hold is reserved, and not sold out: what is paid has to be known.
		unpaid, err := s.Cards.Unpaid(t.Context(), fmt.Sprint("float/", round))
		if err != nil || unpaid != unsettled-5*units {
			t.Errorf("most %d: %d of unpaid orders, %v, want what five paid ones do not have", most, unpaid, err)
		}
		for i := range 6 {
			_, err := s.Orders.Claim(t.Context(), one(fmt.Sprint("next-", i), By(greedy, 0)))
			if (i < 5) != (err == nil) {
				t.Errorf("most %d: number %d after five were paid: %v", most, i, err)
			}
		}
		// What is paid is still promised to its buyers.
		if held, err := s.Cards.Reserved(t.Context(), fmt.Sprint("float/", round), time.Now()); err != nil ||
			held != unsettled+5*units {
			t.Errorf("most %d: %d is held, %v", most, held, err)
		}
		const left = (limit - unsettled - 5*units) / units
		for i := range left + 1 {
			_, err := s.Orders.Claim(t.Context(), one(fmt.Sprint("stranger-", i), Owned(1000*round+i)))
			if (i < left) != (err == nil) {
				t.Fatalf("most %d: stranger %d of %d: %v", most, i, left, err)
			}
		}
	}
}

// moneyOfAPayerIsPromisedOnce: over two processes, one by one and in a batch. Whoever holds the price of one
// purchase claims one; nothing is stored of another until the first is decided.
func moneyOfAPayerIsPromisedOnce(t *testing.T, db Database) {
	stores := []Store{db.Open(t, nil), db.Open(t, nil)}
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
			all[i] = NewClaim(fmt.Sprint(round, "-", i), By(wallet, 0), holding(funds))
			group.Go(func() { claimed[i], errs[i] = stores[i%2].Orders.Claim(t.Context(), all[i]) })
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
		stored, err := stores[0].Orders.Orders(t.Context(), wallet, checkout.Query{Limit: 9})
		if err != nil || len(stored) != taken {
			t.Errorf("%d orders of %d claims, %v", len(stored), taken, err)
		}
		if taken > 1 {
			continue
		}
		if err := ErrOf(stores[0].Orders.Settle(t.Context(), claimed[first].Job.Fence(), SettledBy(all[first]),
			MoveOf(all[first], order.Settling, order.Settled), WatchJob(all[first]))); err != nil {
			t.Fatal(err)
		}
		if _, err := stores[0].Orders.Claim(t.Context(), NewClaim(fmt.Sprint(round, "-next"), By(wallet, 0),
			holding(0))); err != nil {
			t.Errorf("once the first is paid: %v", err)
		}
	}
}

// refused is the refusal in an error, or nil.
func refused(err error) *limit.Refusal {
	no, _ := errors.AsType[*limit.Refusal](err)
	return no
}

// Owned makes a claim that of a wallet of a number.
func Owned(n int) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) { p.Order.Owner = x402.Address{17: byte(n >> 8), 18: byte(n), 19: 0xee} }
}
