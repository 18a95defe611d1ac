package fulfilmenttest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store/memory"
)

// delivering is the kind of the jobs of Deliveries.
const delivering job.Kind = "deliver"

type deliverArgs struct{ Order order.Order }

func (deliverArgs) Kind() job.Kind { return delivering }

// Deliveries runs the deliveries of one product, as checkout does for all, from jobs in memory.
type Deliveries struct {
	Store *memory.Store
	Queue memory.Jobs
	// Deliver is the product's. Ended, which may be nil, gets the outcome of each delivery before the order has its new
	// status: a card is free for the next movement with that, and its postings must be there by then.
	Deliver func(context.Context, *job.Lease, order.Order) (order.Progress, error)
	Ended   func(order.Order, order.Progress)
	// Slots is how many run at once; the runner's default if zero.
	Slots int

	mu   sync.Mutex
	done map[order.ID]order.Progress
}

// NewDeliveries makes Deliveries with an empty queue. Deliver is to be set before they run.
func NewDeliveries() *Deliveries {
	s := memory.New(nil)
	return &Deliveries{Store: s, Queue: s.Jobs(), done: map[order.ID]order.Progress{}}
}

// Work runs a test together with a worker of the deliveries and of other jobs. It is called in a bubble of synctest.
func (d *Deliveries) Work(t *testing.T, others map[job.Kind]job.Handler, test func()) {
	t.Helper()
	r := job.NewRunner(job.Config{Queue: d.Queue, Slots: d.Slots})
	r.Register(delivering, d.deliver)
	for kind, handler := range others {
		r.Register(kind, handler)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	test()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Begin lets a paid order be delivered.
func (d *Deliveries) Begin(t *testing.T, o order.Order) {
	t.Helper()
	o.Status = order.Provisioning
	d.Store.Orders().Put(o)
	if _, err := d.Queue.Enqueue(t.Context(), job.New{Args: deliverArgs{o}, UniqueKey: string(o.ID)}); err != nil {
		t.Fatal(err)
	}
}

// Of is how the delivery of an order ended; it is Waiting until then.
func (d *Deliveries) Of(id order.ID) order.Progress {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[id]
}

// Pass advances time until all goroutines wait.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (d *Deliveries) deliver(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[deliverArgs](l.Row())
	if err != nil {
		return job.Outcome{}, err
	}
	at, err := d.Deliver(ctx, l, a.Order)
	if err != nil {
		return job.Outcome{}, err
	}
	if at.State == order.Waiting {
		return job.Snooze(at.After), nil
	}
	a.Order.Status = map[order.ProgressState]order.Status{
		order.Delivered: order.Fulfilled, order.Refused: order.RefundPending, order.Doubtful: order.OperatorReview,
	}[at.State]
	if d.Ended != nil {
		d.Ended(a.Order, at)
	}
	d.Store.Orders().Put(a.Order)
	d.mu.Lock()
	d.done[a.Order.ID] = at
	d.mu.Unlock()
	return job.Done(), nil
}
