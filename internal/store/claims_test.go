package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// claimBatch claims all in one batch, or in as few as they need.
func claimBatch(
	t *testing.T, s *store.Store, all ...checkout.ClaimRequest,
) ([]checkout.ClaimResult, []error) {
	t.Helper()
	storetest.NeedsBatches(t)
	var calls []func() (checkout.ClaimResult, error)
	for _, p := range all {
		calls = append(calls, func() (checkout.ClaimResult, error) { return s.Orders().Claim(t.Context(), p) })
	}
	return crowd(t, s.Claims().Hold, s.Claims().Waiting, calls)
}

// stored are the rows of a claim, without what differs between two databases that store the same.
func stored(t *testing.T, s *store.Store, p checkout.ClaimRequest) map[string]any {
	t.Helper()
	var text []byte
	err := s.Pool().QueryRow(t.Context(), `SELECT jsonb_build_object(
		'order', (SELECT to_jsonb(o) FROM orders o WHERE id = $1),
		'payments', (SELECT jsonb_agg(to_jsonb(p)) FROM payments p WHERE order_id = $1),
		'timeline', (SELECT jsonb_agg(to_jsonb(t) ORDER BY version) FROM timeline t WHERE order_id = $1),
		'jobs', (SELECT jsonb_agg(to_jsonb(j) ORDER BY kind) FROM jobs j WHERE unique_key = $2),
		'reservations', (SELECT jsonb_agg(to_jsonb(r) ORDER BY resource) FROM reservations r WHERE order_id = $1),
		'postings', (SELECT jsonb_agg(to_jsonb(l) ORDER BY id) FROM ledger_postings l WHERE order_id = $1),
		'entries', (SELECT jsonb_agg(to_jsonb(e) ORDER BY account, posting_id) FROM ledger_entries e
			JOIN ledger_postings l ON l.id = e.posting_id WHERE l.order_id = $1),
		'rates', (SELECT jsonb_agg(true) FROM rate_limits WHERE id LIKE '%/' || $3))`,
		p.Order.ID, p.Payment.ID.String(), p.Order.Owner.Lower()).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	var rows map[string]any
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for table, all := range rows {
		each, _ := all.([]any) // the order's row keeps its id
		for _, row := range each {
			if row, ok := row.(map[string]any); ok && table != "payments" && table != "postings" {
				delete(row, "id")
				for _, column := range []string{"run_at", "lease_until"} {
					delete(row, column)
				}
				if table == "jobs" {
					delete(row, "created_at")
				}
			}
		}
	}
	return rows
}

// pair has the same claims and settlements in two stores whose clocks stand still: one by one, and in batches.
type pair struct{ single, batched *store.Store }

func newPair(t *testing.T) pair {
	t.Helper()
	now := time.Now()
	open := func() *store.Store {
		s, err := store.Open(t.Context(), store.Config{URL: storetest.URL(t), Products: storetest.Products(), MaxConns: 8,
			Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	return pair{open(), open()}
}

func TestBatchStoresWhatSingleClaimsAndSettlementsStore(t *testing.T) {
	storetest.NeedsBatches(t)
	both := newPair(t)
	reference, until := uuid.New(), time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)
	var all []checkout.ClaimRequest
	for i := range 6 {
		all = append(all, claimRequest(fmt.Sprint("k", i), owned(i), func(p *checkout.ClaimRequest) {
			p.MaxUndecided, p.Hits = 2, limit.New(limit.Rates{limit.Paid: {Count: 5, Per: time.Hour}},
				time.Now).Hit(limit.Paid, p.Order.Owner.Lower())
			p.Reservations = []order.Reservation{
				{Resource: "card/" + p.Order.Owner.Lower(), Units: 1, Limit: 1},
				{Resource: "float/card", Units: 10, Most: 30, Limit: 10_000, Unsettled: 8000, AsOf: time.Now()},
			}
			p.Order.Item, p.Order.Resource = json.RawMessage(`{"b":[1,"ä\\u0041"], "a":null}`), "https://cards.example/x"
			switch i {
			case 1:
				p.Order.Reference, p.Order.RefundReason, p.Order.Delivery = &reference, "sold out", 2
			case 2:
				p.Reservations, p.MaxUndecided, p.Hits = nil, 0, nil
			case 3, 4:
				p.Order.ExpiresAt = &until
			}
		}))
	}
	for i := 3; i <= 4; i++ { // these exist
		for _, s := range []*store.Store{both.single, both.batched} {
			o, err := s.Orders().Create(t.Context(), all[i].Order, checkout.Bounds{})
			if err != nil {
				t.Fatal(err)
			}
			all[i].Order, all[i].Existing = o, true
		}
	}
	batched, errs := claimBatch(t, both.batched, all...)
	var settles []settlementOf
	for i, p := range all {
		single := claim(t, both.single, p)
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		ignored := cmpopts.IgnoreFields(job.Row{}, "ID", "RunAt", "CreatedAt", "LeaseUntil")
		if diff := cmp.Diff(single, batched[i], ignored); diff != "" {
			t.Errorf("answer %d, one by one and in a batch:\n%s", i, diff)
		}
		if diff := cmp.Diff(stored(t, both.single, p), stored(t, both.batched, p)); diff != "" {
			t.Errorf("claim %d, one by one and in a batch:\n%s", i, diff)
		}
		// One is suspended before it is paid.
		if i == 5 {
			if err := both.single.Orders().Suspend(t.Context(), single.Job.Fence(), p.Order.ID); err != nil {
				t.Fatal(err)
			}
			if err := both.batched.Orders().Suspend(t.Context(), batched[i].Job.Fence(), p.Order.ID); err != nil {
				t.Fatal(err)
			}
		}
		settle := settling(p)
		if i == 4 {
			settle.move.Evidence = map[string]string{"transaction": "0x1"}
		}
		if _, err := settle.in(t, both.single, single.Job.Fence()); err != nil {
			t.Fatal(err)
		}
		settles = append(settles, settle)
	}
	settled, errs := settleBatch(t, both.batched, settles, batched)
	for i, p := range all {
		if errs[i] != nil || settled[i].Status != order.Settled || settled[i].ID != p.Order.ID {
			t.Errorf("settled %+v, %v", settled[i], errs[i])
		}
		if diff := cmp.Diff(stored(t, both.single, p), stored(t, both.batched, p)); diff != "" {
			t.Errorf("settlement %d, one by one and in a batch:\n%s", i, diff)
		}
	}
}

// settlementOf is what a worker records of a claim that is paid.
type settlementOf struct {
	claim   checkout.ClaimRequest
	payment payment.Payment
	move    order.Move
}

func settling(p checkout.ClaimRequest) settlementOf {
	return settlementOf{p, settled(p), move(p, order.Settling, order.Settled)}
}

func (n settlementOf) in(t *testing.T, s *store.Store, f job.Fence) (order.Order, error) {
	return s.Orders().Settle(t.Context(), f, n.payment, n.move, watchJob(n.claim))
}

// settleBatch settles all in one batch, or in as few as they need.
func settleBatch(
	t *testing.T, s *store.Store, all []settlementOf, claims []checkout.ClaimResult,
) ([]order.Order, []error) {
	t.Helper()
	storetest.NeedsBatches(t)
	var calls []func() (order.Order, error)
	for i, n := range all {
		calls = append(calls, func() (order.Order, error) { return n.in(t, s, claims[i].Job.Fence()) })
	}
	return crowd(t, s.Settles().Hold, s.Settles().Waiting, calls)
}

// fresh fails the test unless all claims of some were stored.
func fresh(t *testing.T, s *store.Store, all []checkout.ClaimRequest, got []checkout.ClaimResult, errs []error) {
	t.Helper()
	for i, p := range all {
		if errs[i] != nil || got[i].Claim != checkout.Fresh || got[i].Order.ID != p.Order.ID {
			t.Errorf("claim of %s: %d, %v", p.Order.Key, got[i].Claim, errs[i])
			continue
		}
		row, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
		if err != nil || !found || row.ID != got[i].Job.ID {
			t.Errorf("job of %s: %v, %t, %v", p.Order.Key, row.ID, found, err)
		}
	}
}

// TestRefusedMemberFailsNoOther: each kind of a bad member gets its own answer, and nothing of it is stored.
func TestRefusedMemberFailsNoOther(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	pause(t, s, topup.Kind, true, "1")
	pause(t, s, availability.OfProvider("lithic"), true, "1")
	hour := func(class limit.Class, p *checkout.ClaimRequest) []limit.Hit {
		return limit.New(limit.Rates{class: {Count: 1, Per: time.Hour}}, time.Now).Hit(class, p.Order.Owner.Lower())
	}
	repeated := claimRequest("repeated", owned(1))
	used := claimRequest("used", owned(2))
	busy := claimRequest("busy", owned(3))
	often := claimRequest("often", owned(4), func(p *checkout.ClaimRequest) { p.Hits = hour(limit.Paid, p) })
	for _, p := range []checkout.ClaimRequest{repeated, used, busy, often} {
		claim(t, s, p)
	}
	past := time.Now().Add(-time.Minute)
	expired := claimRequest("expired", owned(5), func(p *checkout.ClaimRequest) { p.Order.ExpiresAt = &past })
	var err error
	if expired.Order, err = s.Orders().Create(t.Context(), expired.Order, checkout.Bounds{}); err != nil {
		t.Fatal(err)
	}
	expired.Existing = true
	scarce := order.Reservation{Resource: "scarce", Units: 2, Limit: 1, Refusal: fault.FloatUnavailable}
	wide := order.Reservation{Resource: "wide", Units: 20, Most: 10, Limit: 19, Refusal: fault.FloatUnavailable}
	unpaid := order.Reservation{Resource: "unpaid", Units: 2, Most: 5, Limit: 1000, Unsettled: 1,
		Refusal: fault.FloatUnavailable}
	bad := []struct {
		claim checkout.ClaimRequest
		want  func(checkout.ClaimResult, error) bool
	}{
		{claimRequest("repeated", owned(1)), func(r checkout.ClaimResult, err error) bool {
			return err == nil && r.Claim == checkout.Repeated && r.Order.ID == repeated.Order.ID
		}},
		{claimRequest("reuses", owned(2), paidBy(used)), func(r checkout.ClaimResult, err error) bool {
			return err == nil && r.Claim == checkout.Reused
		}},
		{claimRequest("one more", owned(3), func(p *checkout.ClaimRequest) { p.MaxUndecided = 1 }),
			func(_ checkout.ClaimResult, err error) bool { return errors.Is(err, checkout.ErrUndecided) }},
		{claimRequest("uncovered", owned(3), func(p *checkout.ClaimRequest) { p.Funds = 49_999_999 }),
			func(_ checkout.ClaimResult, err error) bool { return errors.Is(err, checkout.ErrUncovered) }},
		{claimRequest("too often", owned(4), func(p *checkout.ClaimRequest) { p.Hits = hour(limit.Paid, p) }),
			func(_ checkout.ClaimResult, err error) bool { return refused(err) != nil }},
		{expired, func(r checkout.ClaimResult, err error) bool { return err == nil && r.Claim == checkout.Repeated }},
		{claimRequest("paused", owned(6), func(p *checkout.ClaimRequest) { p.Order.Kind = topup.Kind }),
			func(_ checkout.ClaimResult, err error) bool { return errors.Is(err, availability.ErrPaused) }},
		{claimRequest("over a closed provider", owned(12), over("lithic")),
			func(_ checkout.ClaimResult, err error) bool { return errors.Is(err, availability.ErrPaused) }},
		{claimRequest("scarce", owned(7), reserving(scarce)),
			func(_ checkout.ClaimResult, err error) bool { return isShort(err) }},
		{claimRequest("wide", owned(8), reserving(wide)),
			func(_ checkout.ClaimResult, err error) bool { return isShort(err) }},
		{claimRequest("unpaid", owned(9), reserving(unpaid)),
			func(_ checkout.ClaimResult, err error) bool { return isShort(err) }},
		{claimRequest("nul", owned(10), func(p *checkout.ClaimRequest) { p.Order.Resource = "a\x00b" }),
			func(_ checkout.ClaimResult, err error) bool { return refusedBy(err, "22021") }},
		{claimRequest("no price", owned(11), func(p *checkout.ClaimRequest) { p.Order.Price = 0 }),
			func(_ checkout.ClaimResult, err error) bool { return refusedBy(err, "23514") }},
	}
	good := func(from int, names ...string) (all []checkout.ClaimRequest) {
		for i, name := range names {
			all = append(all, claimRequest(name, owned(from+i), reserving(order.Reservation{Resource: "float", Units: 1,
				Most: 3, Limit: 1000, AsOf: time.Now()})))
		}
		return all
	}
	check := func(name string, from int, members ...int) {
		t.Helper()
		all := good(from, name+"-first", name+"-second")
		for _, i := range members {
			all = append(all, bad[i].claim)
		}
		all = append(all, good(from+2, name+"-last")...)
		got, errs := claimBatch(t, s, all...)
		last := len(all) - 1
		fresh(t, s, all[:2], got, errs)
		fresh(t, s, all[last:], got[last:], errs[last:])
		for at, i := range members {
			if result, err := got[2+at], errs[2+at]; !bad[i].want(result, err) {
				t.Errorf("%s in a batch: %d of %s, %v", bad[i].claim.Order.Key, result.Claim, result.Order.ID, err)
			}
			if _, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling,
				bad[i].claim.Payment.ID.String()); err != nil || found {
				t.Errorf("the job of %s: %t, %v", bad[i].claim.Order.Key, found, err)
			}
		}
	}
	var every []int
	for i := range bad {
		check(fmt.Sprint(i), 100+10*i, i)
		every = append(every, i)
	}
	check("all", 500, every...)
	if n := rows(t, s, "SELECT count(*) FROM orders"); n != 4+1+3*(len(bad)+1) {
		t.Errorf("%d orders", n)
	}
	if n := rows(t, s, "SELECT count(*) FROM payments"); n != 4+3*(len(bad)+1) {
		t.Errorf("%d payments", n)
	}
	if n := rows(t, s, "SELECT count(*) FROM orders o WHERE (SELECT count(*) FROM timeline WHERE order_id = o.id) <> 1 "+
		"AND o.status = 'settling'"); n != 0 {
		t.Errorf("%d orders without their line in the timeline", n)
	}
}

// TestBatchReservesForEachMember what is there for some of them only, in shards and without.
func TestBatchReservesForEachMember(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	for round, c := range []struct {
		most, limit, unsettled int64
		winners                int
	}{
		{0, 70, 0, 7}, {10, 70, 0, 7}, {30, 70, 0, 7}, {10, 100_000, 70, 20}, {0, 1000, 50, 20}, {10, 2000, 0, 20},
	} {
		resource := fmt.Sprint("float/", round)
		var all []checkout.ClaimRequest
		for i := range 20 {
			all = append(all, claimRequest(fmt.Sprint(round, "-", i), owned(i), reserving(order.Reservation{
				Resource: resource, Units: 10, Most: c.most, Limit: c.limit, Unsettled: c.unsettled, AsOf: time.Now(),
				Refusal: fault.FloatUnavailable,
			})))
		}
		_, errs := claimBatch(t, s, all...)
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !isShort(err) {
				t.Error(err)
			}
		}
		held, err := s.Cards().Reserved(t.Context(), resource, time.Now())
		if won != c.winners || held != int64(10*won) || err != nil {
			t.Errorf("round %d: %d claims hold %d, want %d claims, %v", round, won, held, c.winners, err)
		}
	}
}

// TestBatchLeavesRoomForOtherShards: what another process takes in a shard is not committed, and fits afterwards.
func TestBatchLeavesRoomForOtherShards(t *testing.T) {
	storetest.NeedsOneServer(t, "shards have parts of a float")
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	other, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(t.Context()) }()
	for _, sql := range []string{
		"INSERT INTO locks (id) VALUES ('float/x#7')",
		`INSERT INTO reservations (id, order_id, owner, resource, units, created_at)
			VALUES (gen_random_uuid(), 'other', '', 'float/x', 10, now())`,
	} {
		if _, err := other.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// Four of 5 need two shards. Whichever they are, there is no room for what the others may hold.
	var all []checkout.ClaimRequest
	for i := range 4 {
		all = append(all, claimRequest(fmt.Sprint(i), owned(i), reserving(order.Reservation{
			Resource: "float/x", Units: 5, Most: 10, Limit: 25, AsOf: time.Now(), Refusal: fault.FloatUnavailable,
		})))
	}
	ended := make(chan struct{})
	var errs []error
	go func() {
		defer close(ended)
		_, errs = claimBatch(t, s, all...)
	}()
	awaitWaiting(t, s, 1, ended)
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !isShort(err) {
			t.Error(err)
		}
	}
	if won != 3 {
		t.Errorf("%d claims of 5 are stored where 15 are left", won)
	}
}

// TestBatchHasOneClaimOfAnOwner: what is limited per owner holds for those that come at once.
func TestBatchHasOneClaimOfAnOwner(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	greedy := x402.Address{0: 0x66}
	var all []checkout.ClaimRequest
	for i := range 12 {
		p := claimRequest(fmt.Sprint("greedy", i), by(greedy, 2))
		all = append(all, p, claimRequest(fmt.Sprint("other", i), owned(i)))
	}
	_, errs := claimBatch(t, s, all...)
	won := 0
	for i, err := range errs {
		switch {
		case i%2 == 1 && err != nil:
			t.Errorf("another owner's: %v", err)
		case i%2 == 0 && err == nil:
			won++
		case i%2 == 0 && !errors.Is(err, checkout.ErrUndecided):
			t.Error(err)
		}
	}
	if n := rows(t, s, "SELECT count(*) FROM orders"); won != 2 || n != 14 {
		t.Errorf("%d claims of one owner, %d orders", won, n)
	}
}

// TestFailureOfABatchIsToldToAll: nothing of it is stored, and the next one is not concerned.
func TestFailureOfABatchIsToldToAll(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	for _, mode := range []string{"error", "panic"} {
		if err := faultpoint.Arm("claim.before_commit:" + mode); err != nil {
			t.Fatal(err)
		}
		var all []checkout.ClaimRequest
		for i := range 5 {
			all = append(all, claimRequest(mode, owned(i)))
		}
		_, errs := claimBatch(t, s, all...)
		for _, err := range errs {
			// A panic may have come after the commit.
			if err == nil || errors.Is(err, store.ErrUnknownCommit) != (mode == "panic") {
				t.Errorf("%s: %v", mode, err)
			}
		}
		if n := rows(t, s, "SELECT count(*) FROM orders WHERE idempotency_key = '"+mode+"'"); n != 0 {
			t.Errorf("%s: %d orders", mode, n)
		}
		got, errs := claimBatch(t, s, all...)
		fresh(t, s, all, got, errs)
		if n := s.Pool().Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections are not given back", n)
		}
	}
}

// TestRacesOfThreeProcessesHaveOneWinnerEach while others buy: copies of a purchase, keys of an authorization, and
// orders for what one of them can have.
func TestRacesOfThreeProcessesHaveOneWinnerEach(t *testing.T) {
	url := storetest.URL(t)
	stores := []*store.Store{storetest.Open(t, url), storetest.Open(t, url), storetest.Open(t, url)}
	type contest struct {
		name   string
		claims []checkout.ClaimRequest
	}
	var contests []contest
	for i := range 20 {
		c := contest{name: fmt.Sprint("copies ", i)}
		first := claimRequest(c.name, owned(i))
		for range 4 {
			c.claims = append(c.claims, claimRequest(c.name, owned(i), paidBy(first)))
		}
		contests = append(contests, c)
	}
	for i := range 20 {
		c := contest{name: fmt.Sprint("keys ", i)}
		first := claimRequest(c.name, owned(100+i))
		for n := range 4 {
			c.claims = append(c.claims, claimRequest(fmt.Sprint(c.name, "/", n), owned(100+i), paidBy(first)))
		}
		contests = append(contests, c)
	}
	for i := range 10 {
		c := contest{name: fmt.Sprint("hold ", i)}
		for n := range 2 {
			c.claims = append(c.claims, claimRequest(fmt.Sprint(c.name, "/", n), owned(200+i), func(p *checkout.ClaimRequest) {
				p.Reservations = []order.Reservation{{Resource: "card/" + p.Order.Owner.Lower(), Units: 1, Limit: 1,
					Refusal: fault.CardAlreadyExists}}
			}))
		}
		contests = append(contests, c)
	}
	for i := range 30 {
		contests = append(contests, contest{fmt.Sprint("bystander ", i),
			[]checkout.ClaimRequest{claimRequest("k", owned(300+i))}})
	}
	var all []checkout.ClaimRequest
	var of []int
	for n := range 4 { // the same of all contests come at the same time
		for i, c := range contests {
			if n < len(c.claims) {
				all, of = append(all, c.claims[n]), append(of, i)
			}
		}
	}
	winners, losers := make([]int, len(contests)), make([]int, len(contests))
	results, errs := make([]checkout.ClaimResult, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() { results[i], errs[i] = stores[i%3].Orders().Claim(t.Context(), p) })
	}
	group.Wait()
	for i, result := range results {
		switch err := errs[i]; {
		case err == nil && result.Claim == checkout.Fresh:
			winners[of[i]]++
		case err == nil || isShort(err):
			losers[of[i]]++
		default:
			t.Errorf("%s: %v", contests[of[i]].name, err)
		}
	}
	for i, c := range contests {
		if winners[i] != 1 || losers[i] != len(c.claims)-1 {
			t.Errorf("%s: %d winners and %d others of %d", c.name, winners[i], losers[i], len(c.claims))
		}
	}
	for _, sql := range []string{
		"SELECT count(*) FROM orders", "SELECT count(*) FROM payments", "SELECT count(*) FROM jobs",
		"SELECT count(*) FROM timeline",
		"SELECT count(*) FROM orders o JOIN payments p ON p.order_id = o.id AND p.owner = o.owner " +
			"JOIN jobs j ON j.unique_key = p.id::text AND j.owner = o.owner",
	} {
		if n := rows(t, stores[0], sql); n != len(contests) {
			t.Errorf("%s: %d, want %d", sql, n, len(contests))
		}
	}
}
