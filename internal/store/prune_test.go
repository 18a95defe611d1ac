package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// story is an order's timeline, by the statuses that its lines moved to.
func story(t *testing.T, s *store.Store, p checkout.ClaimRequest) (to []string) {
	t.Helper()
	rows, err := s.Pool().Query(t.Context(), "SELECT to_status FROM timeline WHERE order_id = $1 ORDER BY version",
		p.Order.ID)
	if err == nil {
		to, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// pruneTimelines prunes in batches of three orders until there is nothing left, and returns how many were walked.
func pruneTimelines(t *testing.T, s *store.Store, before time.Time) (all int) {
	t.Helper()
	for {
		n, err := s.Orders().PruneTimeline(t.Context(), before, 3)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		all += n
	}
}

// TestTimelineOfFinalOrderIsPruned: its last line and those of operators stay. An order that is not final keeps all,
// however old it is, and so does a final one that is young; each has its turn once it is final and old.
func TestTimelineOfFinalOrderIsPruned(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	ahead.Store(-int64(96 * time.Hour))
	worked, _ := paidOrder(t, s, "worked", order.Provisioning, order.Fulfilled)
	refunded, _ := paidOrder(t, s, "refunded", order.RefundPending, order.Refunded)
	inReview, _ := paidOrder(t, s, "in review", order.Provisioning, order.OperatorReview)
	open, _ := paidOrder(t, s, "open", order.Provisioning)
	byHand, _ := paidOrder(t, s, "by hand", order.Provisioning, order.OperatorReview)
	resumed, fence := paidOrder(t, s, "resumed", order.Provisioning, order.OperatorReview)
	decide := func(p checkout.ClaimRequest, to order.Status) {
		t.Helper()
		if err := s.Admin().Decide(t.Context(), decided(p, to, ann), ann); err != nil {
			t.Fatal(err)
		}
	}
	decide(byHand, order.Fulfilled)
	decide(resumed, order.Provisioning)
	for _, claimed := range mustClaim(t, s) {
		if claimed.UniqueKey == resumed.Payment.ID.String() {
			fence = claimed.Fence()
		}
	}
	if err := errOf(s.Orders().Move(t.Context(), fence, move(resumed, order.Provisioning, order.Fulfilled))); err != nil {
		t.Fatal(err)
	}
	ahead.Store(0)
	young, _ := paidOrder(t, s, "young", order.Provisioning, order.Fulfilled)

	want := func(p checkout.ClaimRequest, to ...string) {
		t.Helper()
		if got := story(t, s, p); !slices.Equal(got, to) {
			t.Errorf("the timeline of %q is %q, want %q", p.Order.Key, got, to)
		}
	}
	before := time.Now().Add(-48 * time.Hour)
	if n := pruneTimelines(t, s, before); n != 6 {
		t.Errorf("%d orders were walked, want 6", n)
	}
	want(worked, "fulfilled")
	want(refunded, "refunded")
	want(inReview, "settling", "settled", "provisioning", "operator_review")
	want(open, "settling", "settled", "provisioning")
	want(byHand, "fulfilled")
	want(resumed, "provisioning", "fulfilled")
	want(young, "settling", "settled", "provisioning", "fulfilled")
	if n := pruneTimelines(t, s, before); n != 0 {
		t.Errorf("%d orders were walked again", n)
	}

	// It is final now, and old later.
	ahead.Store(-int64(47 * time.Hour))
	decide(inReview, order.Fulfilled)
	want(inReview, "settling", "settled", "provisioning", "operator_review", "fulfilled")
	if n := pruneTimelines(t, s, before.Add(2*time.Hour)); n != 1 {
		t.Errorf("%d orders were walked after the decision, want 1", n)
	}
	want(inReview, "fulfilled")
	// The order of today is past every retention by this clock, and its lines are not.
	pruneTimelines(t, s, time.Now().Add(time.Hour))
	want(young, "settling", "settled", "provisioning", "fulfilled")
	if h, err := s.Admin().History(t.Context(), worked.Order.ID, ann); err != nil || len(h.Timeline) != 1 ||
		h.Timeline[0].To != order.Fulfilled {
		t.Errorf("what operators see of it: %+v, %v", h.Timeline, err)
	}
}

// mustClaim claims all jobs that fulfill orders and are due.
func mustClaim(t *testing.T, s *store.Store) []job.Row {
	t.Helper()
	var all []job.Row
	for _, class := range job.Classes() {
		found, err := s.Jobs().Claim(t.Context(), "worker", class, []job.Kind{"order_fulfill"}, 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestTimelineIsPrunedWithItsProgressOrNotAtAll: a run that fails before its commit leaves the lines, and the next one
// begins where it did.
func TestTimelineIsPrunedWithItsProgressOrNotAtAll(t *testing.T) {
	storetest.NeedsOneServer(t, "each shard is pruned by itself, before the progress is stored")
	s, ahead := clocked(t, storetest.URL(t))
	ahead.Store(-int64(96 * time.Hour))
	var all []checkout.ClaimRequest
	for i := range 4 {
		p, _ := paidOrder(t, s, fmt.Sprint("k", i), order.Provisioning, order.Fulfilled)
		all = append(all, p)
	}
	if err := faultpoint.Arm("timeline.before_commit:error"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Orders().PruneTimeline(t.Context(), time.Now(), 3); err == nil {
		t.Fatal("the fault did not strike")
	}
	for _, p := range all {
		if got := story(t, s, p); len(got) != 4 {
			t.Errorf("%q is left after the failure", got)
		}
	}
	if n := pruneTimelines(t, s, time.Now()); n != 4 {
		t.Errorf("%d orders were walked, want 4", n)
	}
	for _, p := range all {
		if got := story(t, s, p); len(got) != 1 {
			t.Errorf("%q is left", got)
		}
	}
}

// TestProcessesPruneTimelinesTogether: each order is walked by one of them.
func TestProcessesPruneTimelinesTogether(t *testing.T) {
	url := storetest.URL(t)
	s, ahead := clocked(t, url)
	ahead.Store(-int64(96 * time.Hour))
	const orders = 9
	for i := range orders {
		paidOrder(t, s, fmt.Sprint("k", i), order.Provisioning, order.Fulfilled)
	}
	// They have the time of their last change in common, which no page may lose orders to.
	exec(t, s, "UPDATE orders SET updated_at = (SELECT min(updated_at) FROM orders)")
	var walked [3]int
	var processes sync.WaitGroup
	for i := range walked {
		other := storetest.Open(t, url)
		processes.Go(func() { walked[i] = pruneTimelines(t, other, time.Now()) })
	}
	processes.Wait()
	if walked[0]+walked[1]+walked[2] != orders {
		t.Errorf("walked %v of %d orders", walked, orders)
	}
	if n := rows(t, s, "SELECT count(*) FROM timeline"); n != orders {
		t.Errorf("%d lines are left of %d orders", n, orders)
	}
}

// TestTimelineRefusesToBeShortened by any other statement than that which prunes.
func TestTimelineRefusesToBeShortened(t *testing.T) {
	storetest.NeedsTriggers(t)
	s, ahead := clocked(t, storetest.URL(t))
	ahead.Store(-int64(96 * time.Hour))
	final, _ := paidOrder(t, s, "final", order.Provisioning, order.OperatorReview)
	if err := s.Admin().Decide(t.Context(), decided(final, order.Fulfilled, ann), ann); err != nil {
		t.Fatal(err)
	}
	paidOrder(t, s, "open", order.Provisioning)
	ahead.Store(0)
	paidOrder(t, s, "young", order.Provisioning, order.Fulfilled)
	for name, sql := range map[string]string{
		"the last line":            "DELETE FROM timeline WHERE to_status = 'fulfilled' AND at < now() - interval '2 days'",
		"a line of an operator":    "DELETE FROM timeline WHERE actor = 'operator:ann'",
		"a line of an open order":  "DELETE FROM timeline USING orders o WHERE o.id = order_id AND status = 'provisioning'",
		"a line of today":          "DELETE FROM timeline WHERE to_status = 'settled' AND at > now() - interval '2 hours'",
		"all of them":              "TRUNCATE timeline",
		"a change of an old line":  "UPDATE timeline SET reason = 'x' WHERE to_status = 'settled'",
		"a line made to look old":  "UPDATE timeline SET at = at - interval '9 days'",
		"a line without its order": "UPDATE timeline SET order_id = 'x'",
	} {
		if err := execErr(t, s, sql); !isRestricted(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func execErr(t *testing.T, s *store.Store, sql string, args ...any) error {
	t.Helper()
	_, err := s.Pool().Exec(t.Context(), sql, args...)
	return err
}

// isRestricted reports whether a trigger refused a change.
func isRestricted(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "23001"
}

// TestReadsArePrunedFromTheAuditTrail: what operators decided stays, however old it is.
func TestReadsArePrunedFromTheAuditTrail(t *testing.T) {
	s, ahead := clocked(t, storetest.URL(t))
	ahead.Store(-int64(96 * time.Hour))
	looker := order.OperatorContext{Operator: "bob"}
	p, _ := paidOrder(t, s, "k", order.Provisioning, order.OperatorReview)
	look := func() {
		t.Helper()
		if _, err := s.Admin().History(t.Context(), p.Order.ID, looker); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Admin().Queue(t.Context(), admin.QueueQuery{Status: order.OperatorReview, Limit: 1},
			looker); err != nil {
			t.Fatal(err)
		}
		if err := s.ExpiredChallenges().Looked(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, ann), ann); err != nil {
		t.Fatal(err)
	}
	if err := s.ExpiredChallenges().Pruned(t.Context(), "ann", 0); err != nil {
		t.Fatal(err)
	}
	ahead.Store(0)
	look()
	prune := func(before time.Time, want int) {
		t.Helper()
		if n, err := s.PruneReads(t.Context(), before, 2); err != nil || n != want {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	prune(time.Now().Add(-200*time.Hour), 0)
	prune(time.Now().Add(-48*time.Hour), 2)
	prune(time.Now().Add(time.Hour), 1) // those of today stay, whatever the time that is given
	prune(time.Now().Add(time.Hour), 0)
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE actor = 'ann'"); n != 2 {
		t.Errorf("%d of 2 acts are left", n)
	}
	if n := rows(t, s, "SELECT count(*) FROM audit WHERE actor = 'bob'"); n != 3 {
		t.Errorf("%d of 3 reads of today are left", n)
	}
}

// TestAuditOfActsRefusesToBeShortened: a row with a reason, a key or a change is no read.
func TestAuditOfActsRefusesToBeShortened(t *testing.T) {
	s := storetest.New(t)
	for column, value := range map[string]string{"reason": "why", "idempotency_key": "k", "before": "{}", "after": "{}"} {
		exec(t, s, "INSERT INTO audit (id, at, actor, action, subject, "+column+
			") VALUES ($1, now() - interval '9 days', 'a', 'b', $3, $2)", uuid.New(), value, column)
	}
	exec(t, s, "INSERT INTO audit (id, at, actor, action, subject) VALUES ($1, now(), 'a', 'b', 'today')", uuid.New())
	for _, row := range []string{"reason", "idempotency_key", "before", "after", "today"} {
		if err := execErr(t, s, "DELETE FROM audit WHERE subject = $1", row); !isRestricted(err) {
			t.Errorf("the row with %s: %v", row, err)
		}
	}
	if n, err := s.PruneReads(t.Context(), time.Now(), 10); err != nil || n != 0 {
		t.Errorf("pruned %d, %v", n, err)
	}
}
