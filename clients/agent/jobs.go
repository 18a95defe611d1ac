package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

const (
	// The pause before a payment without a clear answer is taken up again, doubling.
	firstAgain, lastAgain = 2 * time.Second, time.Minute
	// keptJobs is how many ended purchases are kept for get_order.
	keptJobs = 256
)

// purchase is what is bought, under its key.
type purchase struct {
	Key, Tool, PlanID string
	Amount            roamcard.Cents
}

// jobs are the purchases of this session. Each continues after its caller has gone, until its outcome is known.
type jobs struct {
	ctx     context.Context
	pay     func(ctx context.Context, want purchase, granted *Terms) (Bought, error)
	running sync.WaitGroup
	mu      sync.Mutex
	all     map[string]*job
	ended   []string
	closed  bool
}

// job is one purchase. Its outcome is published after each attempt while it is unclear.
type job struct {
	want    purchase
	again   chan struct{}
	jobs    *jobs
	over    bool
	told    int // how many outcomes were published
	last    outcome
	changed chan struct{}
}

type outcome struct {
	bought Bought
	err    error
}

func newJobs(ctx context.Context, pay func(context.Context, purchase, *Terms) (Bought, error)) *jobs {
	return &jobs{ctx: ctx, pay: pay, all: map[string]*job{}}
}

// start starts a purchase, or joins the one that runs under its key, which then asks the service again at once. seen is
// how many outcomes were published before.
func (j *jobs) start(want purchase, granted *Terms) (_ *job, seen int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known := j.all[want.Key]; known != nil && !known.over {
		if known.want != want {
			return nil, 0, problem("purchase_key_reused", fixArguments,
				"The purchaseKey belongs to another purchase that is under way; use a new key for a new purchase.")
		}
		select {
		case known.again <- struct{}{}:
		default: // it was told already
		}
		return known, known.told, nil
	}
	if j.closed {
		return nil, 0, context.Canceled
	}
	made := &job{want: want, jobs: j, again: make(chan struct{}, 1), changed: make(chan struct{})}
	j.all[want.Key] = made
	j.running.Go(func() { made.run(j.ctx, granted) })
	return made, 0, nil
}

// find gives the purchase of this session under a key, or nil.
func (j *jobs) find(key string) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all[key]
}

// over reports whether a purchase has ended.
func (j *jobs) over(b *job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return b.over
}

// spawn does something in the background until the session ends, and nothing after that.
func (j *jobs) spawn(do func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.running.Go(do)
	}
}

// wait waits for what runs, once the session has ended.
func (j *jobs) wait() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.running.Wait()
}

// run buys until the outcome is known: an unclear one means the same bytes again.
func (b *job) run(ctx context.Context, granted *Terms) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		bought, err := b.jobs.pay(ctx, b.want, granted)
		unclear := errors.Is(err, roamcard.ErrAmbiguousPayment) && ctx.Err() == nil
		b.publish(outcome{bought, err}, !unclear)
		if !unclear {
			return
		}
		granted = nil // what was approved is signed
		wait := time.NewTimer(pause)
		select {
		case <-b.again:
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

func (b *job) publish(o outcome, over bool) {
	j := b.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	b.last, b.over = o, over
	b.told++
	close(b.changed)
	b.changed = make(chan struct{})
	if !over {
		return
	}
	j.ended = append(j.ended, b.want.Key)
	if len(j.ended) > keptJobs {
		if old := j.all[j.ended[0]]; old != nil && old.over {
			delete(j.all, j.ended[0])
		}
		j.ended = j.ended[1:]
	}
}

// outcome waits for one that was published after the first seen ones; ok is false when none came in time.
func (b *job) outcome(ctx context.Context, seen int, within time.Duration) (o outcome, ok bool) {
	wait := time.NewTimer(within)
	defer wait.Stop()
	for {
		b.jobs.mu.Lock()
		told, last, changed := b.told, b.last, b.changed
		b.jobs.mu.Unlock()
		if told > seen {
			return last, true
		}
		select {
		case <-changed:
		case <-wait.C:
			return outcome{}, false
		case <-ctx.Done():
			return outcome{}, false
		}
	}
}
