package esim_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// cancelling is a store of one cancellation, and refunds that are paid at the second look.
type cancelling struct {
	mu       sync.Mutex
	args     *esim.CancelArgs
	postings []ledger.Posting
	looks    int
	begun    int
	returned []payment.Return
	out      job.Outcome
	// dead says that no refund can be paid any more, signed that one still may, and shown is what the chain shows.
	dead, signed bool
	shown        map[x402.Hash]money.USDC
	// profile and put are the store's.
	profile func(order.ID) esim.Profile
	put     func(esim.Profile)
	jobs    *esim.Cancellations
}

func (c *cancelling) BeginCancel(_ context.Context, a esim.CancelArgs) (esim.Cancellation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.args == nil || c.args.Stage == esim.StageKept {
		c.args, c.begun = &a, c.begun+1
	}
	return esim.Cancellation{CancelArgs: *c.args, Job: job.Queued}, nil
}

func (c *cancelling) Cancellation(context.Context, order.ID) (esim.Cancellation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.args == nil {
		return esim.Cancellation{}, esim.ErrNotFound
	}
	return esim.Cancellation{CancelArgs: *c.args, Job: c.out.Status}, nil
}

func (c *cancelling) RetryCancel(
	context.Context, order.ID, time.Time, order.OperatorContext,
) (esim.Cancellation, error) {
	return esim.Cancellation{}, esim.ErrNotFound
}

func (c *cancelling) CancelRefunding(
	ctx context.Context, id order.ID,
) (found esim.Cancellation, owner x402.Address, signed bool, err error) {
	found, err = c.Cancellation(ctx, id)
	return found, x402.Address{1}, c.signed, err
}

func (c *cancelling) ConcludeCancel(
	_ context.Context, _ order.ID, transaction x402.Hash, at time.Time, _ order.OperatorContext,
) (esim.Cancellation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := *c.args
	next.Stage, next.Since, next.ByHand = esim.StageRefunded, at, transaction.String()
	c.args, c.postings = &next, append(c.postings, next.Return())
	return esim.Cancellation{CancelArgs: next, Job: job.Queued, Transaction: transaction}, nil
}

// Transferred implements payment.Transfers.
func (c *cancelling) Transferred(
	_ context.Context, _ x402.Address, amount money.USDC, transaction x402.Hash,
) (bool, error) {
	return c.shown[transaction] == amount, nil
}

func (c *cancelling) Cancellations(context.Context, job.Query, order.OperatorContext) ([]job.Row, error) {
	return nil, nil
}

func (c *cancelling) SaveCancel(
	_ context.Context, _ job.Fence, a esim.CancelArgs, postings ...ledger.Posting,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.args, c.postings = &a, append(c.postings, postings...)
	if a.Stage == esim.StageRefunding {
		p := c.profile(a.Order)
		p.Status, p.ActivationData = esim.Cancelled, esim.Sealed{}
		c.put(p)
	}
	return nil
}

func (c *cancelling) Return(_ context.Context, _ *job.Lease, r payment.Return) (order.Progress, error) {
	if c.dead {
		return order.Progress{State: order.Doubtful, Reason: "the refund is dead"}, nil
	}
	if c.looks++; c.looks < 2 {
		return order.Progress{State: order.Waiting, After: time.Second}, nil
	}
	next := r.Next.(esim.CancelArgs)
	c.args, c.postings, c.returned = &next, append(c.postings, r.Postings...), append(c.returned, r)
	return order.Progress{State: order.Delivered}, nil
}

// cancels runs a test with a worker that gives profiles back.
func cancels(t *testing.T, tell func(s *shop, c *cancelling)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, careful)
		c := &cancelling{profile: s.profile, put: s.store.Put}
		c.jobs = &esim.Cancellations{Esims: s.Esims, Store: c, Refunds: c, Chain: c}
		s.made.Work(t, map[job.Kind]job.Handler{
			esim.CancelJob: func(ctx context.Context, l *job.Lease) (out job.Outcome, err error) {
				c.out, err = c.jobs.Run(ctx, l, *c.args)
				return c.out, err
			},
		}, func() { tell(s, c) })
	})
}

// cancellation gives a profile back, and waits until that ends.
func (s *shop) cancellation(c *cancelling, o order.Order, within time.Duration) job.Outcome {
	s.Helper()
	begun, err := c.jobs.Begin(s.Context(), o)
	if err != nil || begun.Stage != esim.StageCancelling {
		s.Fatalf("begun %+v, %v", begun, err)
	}
	if _, err := s.made.Queue.Enqueue(s.Context(), job.New{Args: *c.args, UniqueKey: string(o.ID)}); err != nil {
		s.Fatal(err)
	}
	s.pass(within)
	return c.out
}

func TestUnusedProfileIsRefundedOnceTheSupplierHasCredited(t *testing.T) {
	cancels(t, func(s *shop, c *cancelling) {
		o := s.delivered()
		for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.TimeoutAfter, fulfilmenttest.ErrorBefore} {
			s.supplier.Fault(esimtest.Cancel, mode)
		}
		if out := s.cancellation(c, o, time.Minute); out.Status != job.Succeeded || c.args.Stage != esim.StageRefunded {
			t.Fatalf("%+v, %+v", out, c.args)
		}
		cost := s.profile(o.ID).Cost
		if len(c.returned) != 1 || c.returned[0].Amount != cost || c.args.Credit != cost {
			t.Errorf("returned %+v, want %s once", c.returned, cost)
		}
		want := []ledger.Posting{
			ledger.Cancelled(string(o.ID), cost, cost), ledger.Returned(string(o.ID), cost),
		}
		if diff := cmp.Diff(want, c.postings); diff != "" {
			t.Errorf("postings (-want +got):\n%s", diff)
		}
		for range 2 {
			again, err := c.jobs.Begin(s.Context(), o)
			if err != nil || again.Stage != esim.StageRefunded || c.begun != 1 {
				t.Errorf("cancelled again: %+v, %v, begun %d times", again, err, c.begun)
			}
		}
		if out, err := c.jobs.Run(s.Context(), nil, *c.args); err != nil || out.Status != job.Succeeded ||
			len(c.returned) != 1 {
			t.Errorf("worked on again: %+v, %v, returned %+v", out, err, c.returned)
		}
		if stand, err := s.Deliveries(s.Context(), o); err != nil || stand[o.ID] != esim.DeliveryCancelled {
			t.Errorf("its delivery reads %q, %v", stand[o.ID], err)
		}
		if seen, err := s.Condition(s.Context(), o); err != nil || seen.Status != esim.ProfileCancelled {
			t.Errorf("then the eSIM is %+v, %v", seen, err)
		}
		if _, err := s.Credentials(s.Context(), o); fault.Of(err) != fault.EsimCancelled {
			t.Errorf("its credentials: %v", err)
		}
		got, err := s.HandOver(s.Context(), s.now(o), true, time.Now())
		if err != nil || got.Order.Status != order.Fulfilled || got.Credentials != nil || got.Token == nil {
			t.Errorf("its payer, who asks again, gets %+v, %v", got, err)
		}
		for _, p := range c.postings {
			if err := p.Check(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRefundByHandEndsACancellation(t *testing.T) {
	cancels(t, func(s *shop, c *cancelling) {
		o := s.delivered()
		right, wrong := x402.Hash{1}, x402.Hash{2}
		conclude := func(transaction x402.Hash) (esim.Cancellation, error) {
			return c.jobs.Conclude(s.Context(), o.ID, transaction, order.OperatorContext{Operator: "ada", Key: "k", Reason: "r"})
		}
		if _, err := conclude(right); fault.Of(err) != fault.JobNotFound {
			t.Errorf("an eSIM that is not cancelled: %v", err)
		}
		c.dead = true
		if out := s.cancellation(c, o, time.Minute); out.Status != job.OperatorReview {
			t.Fatalf("a refund that is dead: %+v", out)
		}
		cost := s.profile(o.ID).Cost
		c.shown = map[x402.Hash]money.USDC{right: cost, wrong: cost - 1}
		for _, bad := range []x402.Hash{wrong, {3}} {
			if _, err := conclude(bad); fault.Of(err) != fault.TransferUnproven {
				t.Errorf("by what the chain does not show: %v", err)
			}
		}
		c.signed = true
		if _, err := conclude(right); fault.Of(err) != fault.OrderNotInReview {
			t.Errorf("while a refund may still be paid: %v", err)
		}
		c.signed = false
		for range 2 {
			if got, err := conclude(right); err != nil || got.Stage != esim.StageRefunded || got.ByHand != right.String() {
				t.Errorf("concluded: %+v, %v", got, err)
			}
		}
		if _, err := conclude(wrong); fault.Of(err) != fault.OrderNotInReview {
			t.Errorf("concluded again by another transaction: %v", err)
		}
		want := []ledger.Posting{
			ledger.Cancelled(string(o.ID), cost, cost), ledger.Returned(string(o.ID), cost),
		}
		if diff := cmp.Diff(want, c.postings); diff != "" {
			t.Errorf("postings (-want +got):\n%s", diff)
		}
		if out, err := c.jobs.Run(s.Context(), nil, *c.args); err != nil || out.Status != job.Succeeded ||
			len(c.returned) != 0 {
			t.Errorf("worked on again: %+v, %v, returned %+v", out, err, c.returned)
		}
	})
}

func TestNothingIsRefundedBeforeTheSupplierHasConfirmed(t *testing.T) {
	cancels(t, func(s *shop, c *cancelling) {
		o := s.delivered()
		for range 10_000 {
			s.supplier.Fault(esimtest.Cancel, fulfilmenttest.TimeoutBefore)
		}
		if out := s.cancellation(c, o, 2*deadline); out.Status != job.OperatorReview || c.args.Stage != esim.StageCancelling {
			t.Errorf("%+v, %+v", out, c.args)
		}
		if c.looks != 0 || len(c.postings) != 0 {
			t.Errorf("%d looks at a refund, %v", c.looks, c.postings)
		}
	})
}

func TestInstalledProfileStaysItsOwners(t *testing.T) {
	cancels(t, func(s *shop, c *cancelling) {
		o := s.delivered()
		// The condition is of a moment ago: the supplier has the last word.
		if _, err := s.Condition(s.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.supplier.Use(esim.Purchase{ID: s.profile(o.ID).Account}, 0)
		out := s.cancellation(c, o, 10*time.Second)
		if out.Status != job.Succeeded || c.args.Stage != esim.StageKept || c.looks != 0 {
			t.Errorf("%+v, %+v", out, c.args)
		}
		if len(c.postings) != 0 {
			t.Errorf("posted %v", c.postings)
		}
		s.pass(esim.ConditionTTL)
		if _, err := c.jobs.Begin(s.Context(), o); fault.Of(err) != fault.EsimInstalled {
			t.Errorf("asked again: %v", err)
		}
		if _, err := s.Credentials(s.Context(), o); err != nil {
			t.Errorf("the eSIM is its owner's no more: %v", err)
		}
	})
}

// TestCreditThatIsNotWhatWasPaidIsAnOperators: nothing is refunded on a supplier's word that makes no sense.
func TestCreditThatIsNotWhatWasPaidIsAnOperators(t *testing.T) {
	for name, change := range map[string]func(*esim.Profile){
		"more than it cost": func(p *esim.Profile) { p.Cost-- },
		"nothing":           func(p *esim.Profile) { p.Cost = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			cancels(t, func(s *shop, c *cancelling) {
				o := s.delivered()
				p := s.profile(o.ID)
				change(&p)
				s.store.Put(p)
				out := s.cancellation(c, o, time.Minute)
				if out.Status != job.OperatorReview || c.args.Stage != esim.StageCancelling || c.looks != 0 ||
					len(c.postings) != 0 {
					t.Errorf("%+v, %+v, %d looks at a refund", out, c.args, c.looks)
				}
			})
		})
	}
}

func TestSupplierThatTakesNothingBackIsNotAsked(t *testing.T) {
	cancels(t, func(s *shop, c *cancelling) {
		o := s.delivered()
		without := newShop(s.T, careful, func(p *esim.Provider) { p.Canceller, p.Capabilities.Cancel = nil, false })
		without.store.Orders().Put(o)
		without.store.Put(s.profile(o.ID))
		if without.Capabilities().Cancel || !s.Capabilities().Cancel {
			t.Error("declared before a purchase, as it is not")
		}
		jobs := &esim.Cancellations{Esims: without.Esims, Store: c, Refunds: c}
		if _, err := jobs.Begin(s.Context(), o); fault.Of(err) != fault.EsimControlMissing || c.begun != 0 {
			t.Errorf("%v, begun %d times", err, c.begun)
		}
	})
}
