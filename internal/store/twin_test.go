package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// twins are the store in memory and that in PostgreSQL, which get the same calls.
type twins struct {
	*testing.T
	*rand.Rand
	both  [2]checkouttest.Store
	now   time.Time
	calls int
	// claims are those that were stored, and fences the claims of their jobs in each store.
	claims []checkout.ClaimRequest
	fences map[uuid.UUID][2]job.Fence
	unpaid []order.Order
	cards  []card.Card
	spent  []x402.Authorization
	// leases are the claims of jobs by their unique keys.
	leases   map[string][2]job.Fence
	profiles []esim.Profile
	topups   []esim.Topup
}

// TestStoreInMemoryAnswersAsPostgreSQL lets strangers, owners, workers, operators, suppliers and clocks call in any
// order: from three seeds, and in torture from a hundred others.
func TestStoreInMemoryAnswersAsPostgreSQL(t *testing.T) {
	first, seeds := uint64(0), uint64(3)
	if os.Getenv("ROAMCARD_TORTURE") != "" {
		first, seeds = rand.Uint64(), 100
	}
	for i := range seeds {
		seed := first + i
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := &twins{
				T: t, Rand: rand.New(rand.NewPCG(seed, 0)), now: time.Now().UTC().Truncate(time.Millisecond),
				fences: map[uuid.UUID][2]job.Fence{}, leases: map[string][2]job.Fence{},
			}
			clock := func() time.Time { return w.now }
			s, err := store.Open(t.Context(), store.Config{URL: storetest.URL(t), Products: storetest.Products(), Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			w.both = [2]checkouttest.Store{
				checkouttest.InMemory(memory.NewDisk(nil, nil).Open("", clock)), checkouttest.Of(s),
			}
			steps := []func(){
				w.claim, w.claim, w.claim, w.create, w.work, w.work, w.work, w.work, w.work, w.suspend, w.refund, w.card,
				w.card, w.turn, w.turn, w.arrive, w.look, w.look, w.expire, w.pause,
				w.catalogue, w.profile, w.profile, w.profile, w.seal, w.topup, w.topup, w.cancel, w.cancel, w.cancel, w.close,
				w.close, w.close, w.journal,
			}
			for range 600 {
				w.now = w.now.Add(time.Duration(w.IntN(4000)) * time.Millisecond)
				steps[w.IntN(len(steps))]()
				if t.Failed() {
					return
				}
			}
			w.compareAll()
		})
	}
}

// call calls both stores and compares what they answer, which it returns.
func (w *twins) call(what string, f func(i int, s checkouttest.Store) (any, error)) (any, error) {
	w.Helper()
	w.calls++
	got, err := f(0, w.both[0])
	want, wanted := f(1, w.both[1])
	if class(err) != class(wanted) {
		w.Fatalf("call %d, %s: in memory %v, in PostgreSQL %v", w.calls, what, err, wanted)
	}
	same := gocmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(checkout.ClaimResult{}, "Job")}
	if diff := gocmp.Diff(want, got, same); err == nil && diff != "" {
		w.Fatalf("call %d, %s (-in PostgreSQL +in memory):\n%s", w.calls, what, diff)
	}
	return got, err
}

// class is what callers tell errors by.
func class(err error) string {
	if err == nil {
		return ""
	}
	if short, ok := errors.AsType[*order.Shortage](err); ok {
		return "shortage of " + short.Reservation.Resource + ": " + string(short.Fault().Code)
	}
	if no, ok := errors.AsType[*limit.Refusal](err); ok {
		return fmt.Sprint("refusal: ", no.Limit)
	}
	for _, known := range []error{
		order.ErrNotFound, order.ErrSuspended, job.ErrLeaseLost, checkout.ErrUndecided, checkout.ErrUncovered,
		availability.ErrPaused, card.ErrBusy, card.ErrClosing, card.ErrNotFound, card.ErrChanged, esim.ErrNotFound,
		esim.ErrToppedUp, esim.ErrCancelling, esim.ErrSent, esim.ErrTaken, fulfilment.ErrNoRef, payment.ErrRefundSigned,
		payment.ErrTransferUsed, errNotNow,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "other"
}

func pick[T any](w *twins, all []T) (one T, ok bool) {
	if len(all) == 0 {
		return one, false
	}
	return all[w.IntN(len(all))], true
}

func (w *twins) owner() x402.Address { return x402.Address{0: 0xee, 19: byte(w.IntN(4))} }

// a claim is of few keys of few owners, of a short float, and perhaps with another's authorization.
func (w *twins) claim() {
	owner, key := w.owner(), fmt.Sprint("k", w.IntN(30))
	p := claimRequest(key, func(p *checkout.ClaimRequest) {
		p.Order.Owner, p.Order.CreatedAt, p.Order.UpdatedAt, p.Payment.CreatedAt = owner, w.now, w.now, w.now
		p.Order.Item = []byte(`{}`)
		p.MaxUndecided, p.MaxInFlight, p.InFlightSince = 3*w.IntN(4), 2*w.IntN(4), w.now.Add(-20*time.Second)
		p.Reservations = []order.Reservation{{
			Resource: "float/card", Units: 1 + w.Int64N(3), Most: 3 * w.Int64N(2), Limit: 10 + w.Int64N(60),
			Unsettled: w.Int64N(8), AsOf: w.now.Add(-time.Minute), Refusal: fault.FloatUnavailable,
		}}
		if w.IntN(3) == 0 {
			p.Funds = 30_000_000
		}
		if a, ok := pick(w, w.spent); ok && w.IntN(8) == 0 && a.From == owner {
			p.Payment.Authorization = a
		}
	})
	if o, ok := pick(w, w.unpaid); ok && w.IntN(2) == 0 {
		p.Order, p.Payment.Order, p.Payment.Authorization.From, p.Existing = o, o.ID, o.Owner, true
	}
	var fences [2]job.Fence
	answer, err := w.call("claim", func(i int, s checkouttest.Store) (any, error) {
		r, err := s.Orders.Claim(w.Context(), p)
		fences[i] = r.Job.Fence()
		return r, err
	})
	w.spent = append(w.spent, p.Payment.Authorization)
	if err == nil && answer.(checkout.ClaimResult).Claim == checkout.Fresh {
		w.claims, w.fences[p.Payment.ID] = append(w.claims, p), fences
	}
}

func (w *twins) create() {
	o := unpaid(fmt.Sprint("u", w.IntN(6)), func(o *order.Order) {
		until := w.now.Add(time.Duration(w.IntN(120)) * time.Second)
		o.ID, o.Owner, o.CreatedAt, o.UpdatedAt, o.ExpiresAt = order.NewID(w.now), w.owner(), w.now, w.now, &until
	})
	made, err := w.call("create", func(_ int, s checkouttest.Store) (any, error) {
		return s.Orders.Create(w.Context(), o, checkout.Bounds{ReuseUnpaid: o.ID[5]%2 == 0, MaxUnpaid: 3})
	})
	if err == nil {
		w.unpaid = append(w.unpaid, made.(order.Order))
	}
}

// claimed is a claim of before, and the fences of its job, which may have been lost.
func (w *twins) claimed() (p checkout.ClaimRequest, fences [2]job.Fence, ok bool) {
	if p, ok = pick(w, w.claims); ok {
		fences = w.fences[p.Payment.ID]
		if w.IntN(10) == 0 {
			fences[0].Attempt++
			fences[1].Attempt++
		}
	}
	return p, fences, ok
}

// work takes a step of an order: a right one, mostly.
func (w *twins) work() {
	p, f, ok := w.claimed()
	if !ok {
		return
	}
	o, err := w.both[0].Orders.Find(w.Context(), p.Order.ID)
	if err != nil {
		w.Fatal(err)
	}
	from, next := o.Status, order.Statuses()[w.IntN(len(order.Statuses()))]
	right := map[order.Status][]order.Status{
		order.Settling: {order.Settled, order.Settled, order.PaymentRequired}, order.Settled: {order.Provisioning},
		order.Provisioning: {order.Fulfilled, order.RefundPending, order.OperatorReview},
	}[from]
	if to, ok := pick(w, right); ok && w.IntN(6) > 0 {
		next = to
	}
	m := move(p, from, next)
	m.Refused = next == order.RefundPending
	pay := settled(p)
	w.call(fmt.Sprint("move from ", from, " to ", next), func(i int, s checkouttest.Store) (any, error) {
		switch next {
		case order.Settled:
			return s.Orders.Settle(w.Context(), f[i], pay, m, watchJob(p))
		case order.PaymentRequired:
			pay.DeadReason = payment.ReasonExpired
			return s.Orders.MarkDead(w.Context(), f[i], pay, m)
		}
		return s.Orders.Move(w.Context(), f[i], m)
	})
}

func (w *twins) suspend() {
	p, f, ok := w.claimed()
	if !ok {
		return
	}
	if w.IntN(2) == 0 {
		w.call("suspend", func(i int, s checkouttest.Store) (any, error) {
			return nil, s.Orders.Suspend(w.Context(), f[i], p.Order.ID)
		})
		return
	}
	again := order.Reservation{Resource: "float/card", Limit: w.Int64N(40), AsOf: w.now.Add(-time.Minute),
		Refusal: fault.FloatUnavailable}
	w.call("resume", func(i int, s checkouttest.Store) (any, error) {
		held, err := s.Orders.Suspended(w.Context(), p.Order)
		return held, errors.Join(err, s.Orders.Resume(w.Context(), f[i], p.Order, []order.Reservation{again}))
	})
}

func (w *twins) refund() {
	p, f, ok := w.claimed()
	if !ok {
		return
	}
	known, err := w.both[0].Orders.Refunds(w.Context(), p.Order.ID)
	if err != nil {
		w.Fatal(err)
	}
	r, signed := known[p.Order.ID]
	if !signed || w.IntN(4) == 0 {
		r = signedRefund(p, 1000+uint64(w.IntN(3)))
		r.Authorization.To, r.CreatedAt, r.SignedAt = p.Order.Owner, w.now, w.now
	}
	m := move(p, order.RefundPending, []order.Status{order.Refunded, order.OperatorReview}[w.IntN(2)])
	paid := r
	paid.Receipt = settled(p).Receipt
	w.call("refund", func(i int, s checkouttest.Store) (any, error) {
		switch {
		case !signed:
			return nil, s.Orders.SignRefund(w.Context(), f[i], r, nil)
		case m.To == order.Refunded:
			return s.Orders.Refunded(w.Context(), f[i], paid, m, job.New{Args: workArgs{"w"}, UniqueKey: r.ID.String()})
		}
		return s.Orders.MarkRefundDead(w.Context(), f[i], r, m)
	})
}

func (w *twins) card() {
	p, f, ok := w.claimed()
	if !ok {
		return
	}
	c := newCard(p)
	c.CreatedAt, c.UpdatedAt, c.Load = w.now, w.now, 1500
	if known, ok := pick(w, w.cards); ok && w.IntN(2) == 0 {
		c = known
	}
	act := w.IntN(4)
	got, err := w.call("card", func(i int, s checkouttest.Store) (any, error) {
		switch act {
		case 0:
			c.Account, c.Last4 = "acct", "4242"
			fee := job.New{Args: workArgs{card.FeeJob}, UniqueKey: c.ID.String()}
			return nil, s.Cards.Activate(w.Context(), f[i], c, c.Postings(), fee)
		case 1:
			return nil, s.Cards.Fail(w.Context(), f[i], c.ID)
		}
		return s.Cards.Reserve(w.Context(), f[i], c)
	})
	if made, ok := got.(card.Card); ok && err == nil {
		w.cards = append(w.cards, made)
	}
}

// turn moves or changes a card, or lets its issuer say what it is.
func (w *twins) turn() {
	c, ok := pick(w, w.cards)
	if !ok {
		return
	}
	p, f, _ := w.claimed()
	change, act := uuid.UUID{15: byte(w.IntN(3) + 1)}, w.IntN(8)
	seen := card.Seen{Ref: c.Ref, Status: []card.Status{card.Active, card.Frozen, card.Closed}[w.IntN(12)%3]}
	if w.IntN(2) == 0 {
		seen.AsOf = w.now
	}
	end := card.Freezing{Unknown: w.IntN(2) == 0, Undone: w.IntN(2) == 0}
	w.call(fmt.Sprint("turn ", act), func(i int, s checkouttest.Store) (any, error) {
		switch act {
		case 0, 1:
			turn := card.MovementLock{Card: c.ID, Order: p.Order.ID, Ref: c.Ref, Load: 100, Held: change[15] == 1}
			return s.Cards.TakeTurn(w.Context(), f[i], turn)
		case 2:
			return nil, s.Cards.BeginChange(w.Context(), c.ID, change, 5*time.Second)
		case 3:
			return nil, s.Cards.EndChange(w.Context(), c.ID, change)
		case 4:
			return s.Cards.BeginFreezing(w.Context(), c.ID, change, 5*time.Second)
		case 5:
			return nil, s.Cards.EndFreezing(w.Context(), c.ID, change, end)
		case 6:
			return nil, s.Cards.SetOwnerFrozen(w.Context(), c.ID, c.Owner, true)
		}
		return s.Cards.Observe(w.Context(), seen)
	})
}

func (w *twins) arrive() {
	a := moneyIn()
	a.Authorization.From = w.owner()
	a.Receipt.SettledAt, a.Receipt.Block = w.now, uint64(w.IntN(5))
	if known, ok := pick(w, w.spent); ok && w.IntN(3) == 0 {
		a.Authorization.Nonce, a.Authorization.From = known.Nonce, known.From
	}
	w.call("arrive", func(_ int, s checkouttest.Store) (any, error) { return nil, s.Orders.Arrive(w.Context(), a) })
	q := query()
	q.Payer = w.owner()
	w.call("unmatched", func(_ int, s checkouttest.Store) (any, error) { return s.Orders.Unmatched(w.Context(), q) })
}

func (w *twins) look() {
	owner, asOf := w.owner(), w.now.Add(-time.Minute)
	q := checkout.Query{Active: w.IntN(2) == 0, Limit: 1 + w.IntN(5)}
	for what, read := range map[string]func(ctx context.Context, s checkouttest.Store) (any, error){
		"orders": func(ctx context.Context, s checkouttest.Store) (any, error) { return s.Orders.Orders(ctx, owner, q) },
		"cards":  func(ctx context.Context, s checkouttest.Store) (any, error) { return s.Cards.Cards(ctx, owner) },
		"live":   func(ctx context.Context, s checkouttest.Store) (any, error) { return s.Cards.Live(ctx, owner) },
		"unpaid": func(ctx context.Context, s checkouttest.Store) (any, error) { return s.Cards.Unpaid(ctx, "float/card") },
		"reserved": func(ctx context.Context, s checkouttest.Store) (any, error) {
			return s.Cards.Reserved(ctx, "float/card", asOf)
		},
	} {
		w.call(what, func(_ int, s checkouttest.Store) (any, error) { return read(w.Context(), s) })
	}
}

func (w *twins) expire() {
	w.call("expire", func(_ int, s checkouttest.Store) (any, error) { return s.Orders.Expire(w.Context(), 1+w.calls%3) })
}

// pause stops or resumes the sale of cards; it is resumed more often.
func (w *twins) pause() {
	paused := w.IntN(8) == 0
	act := order.OperatorContext{Operator: "ada", Key: fmt.Sprint(w.calls), Reason: "twins"}
	w.call("pause", func(_ int, s checkouttest.Store) (any, error) {
		if s.Memory != nil {
			return nil, s.Memory.SetSwitch(w.Context(), card.Kind, paused)
		}
		_, err := s.Postgres.Admin().SetSwitch(w.Context(), card.Kind, paused, act)
		return nil, err
	})
}

// compareAll compares all that is stored of each order.
func (w *twins) compareAll() {
	reached := map[order.Status]int{}
	for _, p := range w.claims {
		id := p.Order.ID
		o, _ := w.call("order", func(_ int, s checkouttest.Store) (any, error) { return s.Orders.Find(w.Context(), id) })
		reached[o.(order.Order).Status]++
		w.call("payments", func(_ int, s checkouttest.Store) (any, error) { return s.Orders.Payments(w.Context(), id) })
		w.call("refunds", func(_ int, s checkouttest.Store) (any, error) { return s.Orders.Refunds(w.Context(), id) })
		w.call("card", func(_ int, s checkouttest.Store) (any, error) { return s.Cards.Issued(w.Context(), id) })
		w.call("postings", func(_ int, s checkouttest.Store) (any, error) {
			all := s.Postings(w.T, id)
			slices.SortFunc(all, func(a, b ledger.Posting) int { return cmp.Compare(a.ID, b.ID) })
			for i := range all {
				all[i].At, all[i].Undoes, all[i].Entries = time.Time{}, "", slices.Clone(all[i].Entries)
				slices.SortFunc(all[i].Entries, func(a, b ledger.Entry) int { return cmp.Compare(a.Account, b.Account) })
			}
			return all, nil
		})
		w.call("timeline", func(_ int, s checkouttest.Store) (any, error) {
			if s.Memory != nil {
				return moves(s.Memory.Orders().Timeline(id)), nil
			}
			history, err := s.Postgres.Admin().History(w.Context(), id, order.OperatorContext{Operator: "ada"})
			return moves(history.Timeline), err
		})
	}
	w.Logf("%d calls, orders %v", w.calls, reached)
}

func moves(all []order.Event) (told []string) {
	for _, e := range all {
		told = append(told, fmt.Sprint(e.Version, " ", e.From, " ", e.To, " ", e.Actor, " ", e.Reason, " ", e.At.UTC()))
	}
	return told
}
