package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// delivery is a settled order on its way to its card, in one store.
type delivery struct {
	*testing.T
	store *store.Store
	claim checkout.ClaimRequest
	fence job.Fence
	card  card.Card
}

// deliveries settle orders. Their cards are the same in every store.
func deliveries(t *testing.T, s *store.Store, all []settlementOf, at time.Time) []*delivery {
	t.Helper()
	out := make([]*delivery, len(all))
	for i, n := range all {
		p := n.claim
		fence := claim(t, s, p).Job.Fence()
		if _, err := n.in(t, s, fence); err != nil {
			t.Fatal(err)
		}
		name := uuid.NewSHA1(uuid.NameSpaceURL, []byte(p.Order.ID))
		out[i] = &delivery{t, s, p, fence, card.Card{
			ID: name, Order: p.Order.ID, Owner: p.Order.Owner, Status: card.Pending, Ref: fulfilment.Ref(name),
			Load: card.Price, Provider: "sandbox", Programme: "x", Holder: "h", CreatedAt: at, UpdatedAt: at,
		}}
	}
	return out
}

func (d *delivery) begin() error {
	return errOf(d.store.Orders().Move(d.Context(), d.fence, move(d.claim, order.Settled, order.Provisioning)))
}

func (d *delivery) reserve() error {
	got, err := d.store.Cards().Reserve(d.Context(), d.fence, d.card)
	if err == nil && (got.ID != d.card.ID || got.Status != card.Pending || got.Load != d.card.Load) {
		return fmt.Errorf("reserved %+v", got)
	}
	return err
}

func (d *delivery) mark() error { return d.store.Jobs().Mark(d.Context(), d.fence, "open") }

func (d *delivery) activate() error {
	made := d.card
	made.Account, made.Last4 = "acc_"+made.ID.String(), "4242"
	args := card.FeeArgs{Card: made.ID, Order: string(made.Order), Account: made.Account, Amount: card.Fee, Version: 1}
	fee := job.New{Args: args, UniqueKey: made.ID.String()}
	return d.store.Cards().Activate(d.Context(), d.fence, made, made.Postings(), fee)
}

func (d *delivery) fulfill() error {
	o, err := d.store.Orders().Move(d.Context(), d.fence, move(d.claim, order.Provisioning, order.Fulfilled))
	if err == nil && (o.ID != d.claim.Order.ID || o.Status != order.Fulfilled) {
		return fmt.Errorf("moved %+v", o)
	}
	return err
}

func (d *delivery) finish() error { return d.store.Jobs().Finish(d.Context(), d.fence, job.Done()) }

// steps are those of a delivery, in order.
var steps = []struct {
	name string
	take func(*delivery) error
}{
	{"begin", (*delivery).begin},
	{"reserve", (*delivery).reserve},
	{"mark", (*delivery).mark},
	{"activate", (*delivery).activate},
	{"fulfill", (*delivery).fulfill},
	{"finish", (*delivery).finish},
}

// changeBatch takes a step of all in one batch.
func changeBatch(t *testing.T, s *store.Store, all []*delivery, take func(*delivery) error) []error {
	t.Helper()
	var calls []func() (struct{}, error)
	for _, d := range all {
		calls = append(calls, func() (struct{}, error) { return struct{}{}, take(d) })
	}
	_, errs := crowd(t, s.Changes().Hold, s.Changes().Waiting, calls)
	return errs
}

// delivered are the rows of a delivery, without what differs between two databases that store the same.
func (d *delivery) delivered() any {
	d.Helper()
	rows := stored(d.T, d.store, d.claim)
	for _, row := range rows["jobs"].([]any) {
		delete(row.(map[string]any), "step_at")
		delete(row.(map[string]any), "finished_at")
	}
	var text []byte
	err := d.store.Pool().QueryRow(d.Context(), `SELECT jsonb_build_object(
		'card', (SELECT to_jsonb(c) FROM cards c WHERE order_id = $1),
		'fee', (SELECT to_jsonb(j) - 'id' - 'run_at' - 'created_at' FROM jobs j WHERE kind = $2 AND unique_key = $3))`,
		d.claim.Order.ID, card.FeeJob, d.card.ID.String()).Scan(&text)
	if err != nil {
		d.Fatal(err)
	}
	var goods map[string]any
	if err := json.Unmarshal(text, &goods); err != nil {
		d.Fatal(err)
	}
	return []any{rows, goods}
}

// TestBatchStoresWhatSingleStepsStore takes each step of deliveries in two stores, one by one and in a batch, twice.
func TestBatchStoresWhatSingleStepsStore(t *testing.T) {
	storetest.NeedsBatches(t)
	both := newPair(t)
	at := time.Now().UTC().Truncate(time.Microsecond)
	var all []settlementOf
	for i := range 6 {
		all = append(all, settling(claimRequest(fmt.Sprint("k", i), owned(i), func(p *checkout.ClaimRequest) {
			p.Reservations = []order.Reservation{
				{Resource: "card/" + p.Order.Owner.Lower(), Units: 1, Limit: 1},
				{Resource: "float/card", Units: 10, Most: 30, Limit: 10_000, AsOf: at},
			}
		})))
	}
	single, batched := deliveries(t, both.single, all, at), deliveries(t, both.batched, all, at)
	for _, step := range steps {
		for time := range 2 {
			errs := changeBatch(t, both.batched, batched, step.take)
			for i := range all {
				err := step.take(single[i])
				if (err == nil) != (errs[i] == nil) || time == 0 && err != nil {
					t.Errorf("%s of %d, time %d: one by one %v, in a batch %v", step.name, i, time, err, errs[i])
				}
				if diff := cmp.Diff(single[i].delivered(), batched[i].delivered()); diff != "" {
					t.Errorf("%s of %d, time %d, one by one and in a batch:\n%s", step.name, i, time, diff)
				}
			}
		}
	}
}

// TestStepThatFailsTakesNoOtherAlong: a lost lease and an end of it at each step, and an order that has moved.
func TestStepThatFailsTakesNoOtherAlong(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	owner := 0
	for at, step := range steps {
		for name, spoil := range map[string]func(*delivery){
			"another worker has the job": func(d *delivery) { d.fence.Attempt++ },
			"the lease is over": func(d *delivery) {
				if step.name == "finish" {
					d.fence.Owner = "another" // a worker whose lease is over may still finish, until another takes the job
				}
				exec(t, s, "UPDATE jobs SET lease_until = now() - interval '1 s' WHERE id = $1", d.fence.ID)
			},
		} {
			t.Run(step.name+", "+name, func(t *testing.T) {
				var claims []settlementOf
				for range 5 {
					owner++
					claims = append(claims, settling(claimRequest("k", owned(owner))))
				}
				all := deliveries(t, s, claims, time.Now().UTC())
				for _, earlier := range steps[:at] {
					for _, d := range all {
						if err := earlier.take(d); err != nil {
							t.Fatal(err)
						}
					}
				}
				const bad = 2
				spoil(all[bad])
				before := all[bad].delivered()
				errs := changeBatch(t, s, all, step.take)
				for i, err := range errs {
					if i == bad != (err != nil) || i == bad && !errors.Is(err, job.ErrLeaseLost) {
						t.Errorf("member %d: %v", i, err)
					}
				}
				if diff := cmp.Diff(before, all[bad].delivered()); diff != "" {
					t.Errorf("the bad one has changed:\n%s", diff)
				}
			})
		}
	}
}

// TestOrderThatHasMovedFailsAlone: its move is refused by the server, and the others of the batch are stored.
func TestOrderThatHasMovedFailsAlone(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	var claims []settlementOf
	for i := range 4 {
		claims = append(claims, settling(claimRequest("k", owned(i))))
	}
	all := deliveries(t, s, claims, time.Now().UTC())
	exec(t, s, "UPDATE orders SET status = 'operator_review' WHERE id = $1", claims[1].claim.Order.ID)
	errs := changeBatch(t, s, all, (*delivery).begin)
	for i, d := range all {
		want := order.Provisioning
		if i == 1 {
			want = order.OperatorReview
		}
		if got := statusOf(t, s, d.claim.Order.ID); got != want || (errs[i] != nil) != (i == 1) {
			t.Errorf("order %d is %s: %v", i, got, errs[i])
		}
	}
}

// TestFailureBeforeTheCommitIsItsOwn: of a batch, the one whose step fails before anything is sent is left out.
func TestFailureBeforeTheCommitIsItsOwn(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	var claims []settlementOf
	for i := range 4 {
		claims = append(claims, settling(claimRequest("k", owned(i))))
	}
	all := deliveries(t, s, claims, time.Now().UTC())
	if err := faultpoint.Arm("move.before_commit:error@3"); err != nil {
		t.Fatal(err)
	}
	errs := changeBatch(t, s, all, (*delivery).begin)
	if err := faultpoint.Arm("move.before_commit:error@1000"); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i, d := range all {
		want := order.Provisioning
		if errs[i] != nil {
			failed++
			want = order.Settled
		}
		if got := statusOf(t, s, d.claim.Order.ID); got != want {
			t.Errorf("order %d is %s: %v", i, got, errs[i])
		}
	}
	if failed != 1 || !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, faultpoint.ErrInjected) }) {
		t.Errorf("failed: %v", errs)
	}
}

// TestStepsThatAreCutOffAreStoredOrNot: the connection ends before or after the server has a batch. Whoever is told
// that nothing was stored is told the truth, and a step that is taken again then is stored once.
func TestStepsThatAreCutOffAreStoredOrNot(t *testing.T) {
	storetest.NeedsBatches(t)
	target := storetest.URL(t)
	direct := storetest.Open(t, target)
	for n, forward := range []bool{false, true} {
		var broken atomic.Bool
		s := storetest.Open(t, proxied(t, target, func(sent []byte) cut {
			switch {
			case !bytes.Contains(sent, executing(store.MoveStatement)) || broken.Swap(true):
				return pass
			case forward:
				return cutAfter
			}
			return cutBefore
		}))
		var claims []settlementOf
		for i := range 4 {
			claims = append(claims, settling(claimRequest("k", owned(10*n+i))))
		}
		all := deliveries(t, direct, claims, time.Now().UTC())
		through := make([]*delivery, len(all))
		for i, d := range all {
			copied := *d
			copied.store, through[i] = s, &copied
		}
		errs := changeBatch(t, s, through, (*delivery).begin)
		if forward {
			eventually(t, "the batch is stored", func() bool {
				return statusOf(t, direct, claims[0].move.Order) == order.Provisioning
			})
		}
		for i, d := range all {
			is := statusOf(t, direct, d.claim.Order.ID) == order.Provisioning
			if is != forward || is && errs[i] != nil && !errors.Is(errs[i], store.ErrUnknownCommit) || !is && errs[i] == nil {
				t.Errorf("forwarded %t, member %d is stored: %t, %v", forward, i, is, errs[i])
			}
			if again := d.begin(); (again == nil) == forward {
				t.Errorf("forwarded %t, member %d again: %v", forward, i, again)
			}
		}
	}
}
