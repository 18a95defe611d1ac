package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func hits(class limit.Class, count int, per time.Duration) []limit.Hit {
	return limit.New(limit.Rates{class: {Count: count, Per: per}}, time.Now).Hit(class, payer.Lower())
}

// refused is the refusal in an error, or nil.
func refused(err error) *limit.Refusal {
	no, _ := errors.AsType[*limit.Refusal](err)
	return no
}

func rows(t *testing.T, s *store.Store, sql string) (n int) {
	t.Helper()
	if err := s.Pool().QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHitsAreCountedOverAllProcesses races orders of one owner through two stores.
func TestHitsAreCountedOverAllProcesses(t *testing.T) {
	url := storetest.URL(t)
	stores := []*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
	b := checkout.Bounds{Hits: hits(limit.Orders, 10, time.Hour)}
	errs := make([]error, 40)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = stores[i%2].Orders().Create(t.Context(), unpaid(fmt.Sprint("k", i)), b) })
	}
	all.Wait()
	opened := 0
	for _, err := range errs {
		switch no := refused(err); {
		case err == nil:
			opened++
		case no == nil:
			t.Errorf("open: %v", err)
		case no.Limit != 10 || no.Fault.RetryAfter <= 0 || no.Fault.RetryAfter > 6*time.Minute:
			t.Errorf("refused with %+v", no.State)
		}
	}
	if n := rows(t, stores[0], "SELECT count(*) FROM orders"); opened != 10 || n != 10 {
		t.Errorf("%d orders were created, %d are stored", opened, n)
	}
	// The same order again counts as no new one.
	if _, err := stores[1].Orders().Create(t.Context(), unpaid("k0"), b); err != nil && refused(err) == nil {
		t.Errorf("again: %v", err)
	}
	// Hits come back with time.
	if _, err := stores[0].Pool().Exec(t.Context(),
		"UPDATE rate_limits SET resets_at = resets_at - interval '12 minutes'"); err != nil {
		t.Fatal(err)
	}
	for i, free := range []bool{true, true, false} {
		if _, err := stores[i%2].Orders().Create(t.Context(), unpaid(fmt.Sprint("later", i)), b); (err == nil) != free {
			t.Errorf("later %d: %v", i, err)
		}
	}
}

// TestClaimOverTheRateClaimsNothing keeps order, payment, job and float out of reach, and does not count itself.
func TestClaimOverTheRateClaimsNothing(t *testing.T) {
	s, _ := clocked(t, storetest.URL(t))
	paid := hits(limit.Paid, 1, time.Hour)
	claim(t, s, claimRequest("first", func(p *checkout.ClaimRequest) { p.Hits = paid }))
	second := claimRequest("second", func(p *checkout.ClaimRequest) { p.Hits = paid })
	if _, err := s.Orders().Claim(t.Context(), second); refused(err) == nil {
		t.Fatalf("a second claim: %v", err)
	}
	unclaimed(t, checkouttest.Of(s), second)
	if _, err := s.Orders().Find(t.Context(), second.Order.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("its order: %v", err)
	}
	// A repeat is no claim, whatever the rate.
	again := claimRequest("first", func(p *checkout.ClaimRequest) { p.Hits = paid })
	if got := claim(t, s, again); got.Claim != checkout.Repeated {
		t.Errorf("a repeat: %+v", got)
	}
}

func TestChallengesAndRevealsAreCountedWhereTheyAreStored(t *testing.T) {
	url := storetest.URL(t)
	stores := []*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
	one := hits(limit.Challenge, 1, time.Hour)
	challenge := func() auth.Challenge {
		now := time.Now().UTC().Truncate(time.Millisecond)
		return auth.Challenge{
			ID: uuid.New(), Purpose: auth.PurposeSignIn, Wallet: x402.Address{19: 1}, Scheme: auth.EIP191, Message: "m",
			Nonce:    uuid.NewString(),
			IssuedAt: now, ExpiresAt: now.Add(time.Minute),
		}
	}
	first := challenge()
	if err := stores[0].Challenges().Create(t.Context(), first, one...); err != nil {
		t.Fatal(err)
	}
	if err := stores[1].Challenges().Create(t.Context(), challenge(), one...); refused(err) == nil {
		t.Errorf("a second challenge: %v", err)
	}
	if n := rows(t, stores[0], "SELECT count(*) FROM challenges"); n != 1 {
		t.Errorf("%d challenges are stored", n)
	}
	reveal := hits(limit.Reveal, 1, time.Hour)
	// One that consumes nothing counts only where it is to be counted in any case.
	if spent, err := stores[0].Challenges().Consume(t.Context(), uuid.New(), time.Now(), reveal...); spent || err != nil {
		t.Fatal(spent, err)
	}
	if err := stores[0].Challenges().Void(t.Context(), uuid.New(), time.Now(), reveal...); err != nil {
		t.Fatal(err)
	}
	if err := stores[1].Challenges().Void(t.Context(), first.ID, time.Now(), reveal...); refused(err) == nil {
		t.Errorf("a second void reveal: %v", err)
	}
	if spent, err := stores[1].Challenges().Consume(t.Context(), first.ID, time.Now(), reveal...); spent ||
		refused(err) == nil {
		t.Errorf("a second reveal: %t, %v", spent, err)
	}
	if spent, err := stores[1].Challenges().Consume(t.Context(), first.ID, time.Now()); !spent || err != nil {
		t.Errorf("its challenge was spent by the refusal: %t, %v", spent, err)
	}
}

// TestUnpaidOrdersPerOwnerAreBounded of all kinds, also when they are asked for at once, and more once some expire.
func TestUnpaidOrdersPerOwnerAreBounded(t *testing.T) {
	url := storetest.URL(t)
	s, ahead := clocked(t, url)
	other := storetest.Open(t, url)
	b := checkout.Bounds{MaxUnpaid: 5}
	kinds := storetest.Kinds()
	errs := make([]error, 24)
	var all sync.WaitGroup
	for i := range errs {
		o := unpaid(fmt.Sprint("k", i), func(o *order.Order) { o.Kind = kinds[i%len(kinds)] })
		by := []*store.Store{s, other}[i%2]
		all.Go(func() { _, errs[i] = by.Orders().Create(t.Context(), o, b) })
	}
	all.Wait()
	opened := 0
	for _, err := range errs {
		if no := refused(err); err == nil {
			opened++
		} else if no == nil || no.Limit != 5 || no.Fault.RetryAfter < 50*time.Minute ||
			!strings.Contains(no.Detail, "5 orders") {
			t.Errorf("%v", err)
		}
	}
	if opened != 5 {
		t.Errorf("%d orders were created", opened)
	}
	stranger := unpaid("k", func(o *order.Order) { o.Owner = x402.Address{19: 99} })
	if _, err := s.Orders().Create(t.Context(), stranger, b); err != nil {
		t.Errorf("another owner's: %v", err)
	}
	ahead.Store(int64(2 * time.Hour))
	late := unpaid("late")
	until := late.ExpiresAt.Add(3 * time.Hour)
	late.ExpiresAt = &until
	if _, err := s.Orders().Create(t.Context(), late, b); err != nil {
		t.Errorf("once the others have expired: %v", err)
	}
}

// TestExpiredUnpaidOrderIsPruned in batches and with its line in the timeline, and no other order.
func TestExpiredUnpaidOrderIsPruned(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	for i := range 5 {
		opened(t, s, unpaid(fmt.Sprint("old", i)), false)
	}
	paid := opened(t, s, unpaid("paid"), false)
	claim(t, s, paying(paid))
	dead := opened(t, s, unpaid("dead"), false)
	p := paying(dead)
	claim(t, s, p)
	gone := p.Payment
	gone.Status, gone.DeadReason = payment.Dead, payment.ReasonExpired
	if err := errOf(s.Orders().MarkDead(t.Context(), claimOf(t, checkouttest.Of(s), p), gone,
		move(p, order.Settling, order.PaymentRequired))); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(2 * time.Hour))
	expire(t, checkouttest.Of(s), 10)
	ahead.Store(int64(3 * time.Hour))
	young := unpaid("young", func(o *order.Order) { o.UpdatedAt = o.UpdatedAt.Add(3 * time.Hour) })
	opened(t, s, young, false)
	expire(t, checkouttest.Of(s), 10)
	lines := rows(t, s, "SELECT count(*) FROM timeline")

	before := time.Now().Add(150 * time.Minute)
	for i, want := range []int{2, 2, 1, 0} {
		if n, err := s.Orders().PruneExpired(t.Context(), before, 2); err != nil || n != want {
			t.Errorf("batch %d: %d, %v, want %d", i, n, err, want)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM orders"); n != 3 {
		t.Errorf("%d orders are left", n)
	}
	if n := rows(t, s, "SELECT count(*) FROM timeline"); n != lines-5 {
		t.Errorf("%d of %d lines are left", n, lines)
	}
	for _, o := range []order.Order{paid, dead, young} {
		if _, err := s.Orders().Find(t.Context(), o.ID); err != nil {
			t.Errorf("order %s: %v", o.Key, err)
		}
	}
	// What the timeline says of other orders stays, where it has triggers.
	for _, sql := range []string{
		"DELETE FROM timeline WHERE to_status <> 'expired'", "UPDATE timeline SET to_status = 'expired'",
	} {
		if !storetest.Distributed() && execErr(t, s, sql) == nil {
			t.Errorf("done: %s", sql)
		}
	}
	// The key is free again.
	if again := opened(t, s, unpaid("old0"), false); again.Status != order.PaymentRequired {
		t.Errorf("%+v", again)
	}
}

func TestUnusedCountsAndLocksArePruned(t *testing.T) {
	s := storetest.New(t)
	for _, sql := range []string{
		"INSERT INTO rate_limits (id, resets_at) SELECT 'orders/' || n, now() - interval '1 s' FROM generate_series(1, 5) n",
		"INSERT INTO rate_limits (id, resets_at) VALUES ('orders/young', now() + interval '1 h')",
		"INSERT INTO locks (id) SELECT 'open/card_issue/' || n FROM generate_series(1, 5) n",
		"INSERT INTO locks (id) VALUES ('card#7'), ('float#0')",
	} {
		if _, err := s.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// A lock that is held stays.
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "INSERT INTO locks (id) VALUES ('open/card_issue/1') ON CONFLICT (id) DO UPDATE "+
		"SET id = excluded.id WHERE false"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{3, 2, 0} {
		if n, err := s.PruneRates(t.Context(), 3); err != nil || n != want {
			t.Errorf("rates, batch %d: %d, %v", i, n, err)
		}
	}
	for i, want := range []int{3, 1, 0} {
		if n, err := s.PruneLocks(t.Context(), 3); err != nil || n != want {
			t.Errorf("locks, batch %d: %d, %v", i, n, err)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM locks WHERE id IN ('card#7', 'float#0', 'open/card_issue/1')"); n != 3 {
		t.Errorf("%d of 3 locks are left", n)
	}
}

// TestOwnersShareTheirLocks keeps the table of locks from growing with the owners.
func TestOwnersShareTheirLocks(t *testing.T) {
	s := storetest.New(t)
	for i := range 600 {
		o := unpaid("k", func(o *order.Order) { o.Owner = x402.Address{18: byte(i >> 8), 19: byte(i)} })
		if _, err := s.Orders().Create(t.Context(), o, checkout.Bounds{ReuseUnpaid: true, MaxUnpaid: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM locks"); n > 512 {
		t.Errorf("%d locks for 600 owners", n)
	}
}

// TestKeptEventsAreBounded, the newest, however young the others are.
func TestKeptEventsAreBounded(t *testing.T) {
	s := storetest.New(t)
	const insert = `INSERT INTO events (id, name, visitor, path, properties, at)
		SELECT gen_random_uuid(), 'n', '', '', '{}', now() - n * interval '1 s' FROM generate_series(1, 2600) n`
	if _, err := s.Pool().Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ most, deleted, left int }{{2600, 0, 2600}, {3000, 0, 2600}, {100, 2500, 100},
		{100, 0, 100}, {0, 0, 100}} {
		a := activity.New(activity.Config{Store: s.Events(), Now: time.Now, MostStored: c.most})
		if n, err := a.Prune(t.Context()); err != nil || n != c.deleted {
			t.Errorf("of at most %d: %d deleted, %v", c.most, n, err)
		}
		if n := rows(t, s, "SELECT count(*) FROM events"); n != c.left {
			t.Errorf("of at most %d: %d left", c.most, n)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM events WHERE at < now() - interval '150 s'"); n != 0 {
		t.Errorf("%d old ones were kept", n)
	}
}
