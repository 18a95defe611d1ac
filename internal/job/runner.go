package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/jitter"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// ErrShutdown is the cause of a handler's cancelled context when the process stops.
var ErrShutdown = errors.New("worker shutting down")

// Config is what a Runner needs. Queue is required, the rest has defaults.
type Config struct {
	Queue Queue
	Log   *slog.Logger
	Now   func() time.Time
	// Slots is how many claimed jobs of each class run at once; adopted ones come on top. Default 8.
	Slots int
	// ClassSlots are the slots of classes that have another number.
	ClassSlots map[Class]int
	// TTL is how long a lease lasts without a heartbeat. Default 20 s.
	TTL time.Duration
	// Poll is how often the queue is asked when nothing wakes the runner. Default 750 ms.
	Poll time.Duration
	// Drain is how long running handlers may go on after a stop before they are cancelled. Default 10 s.
	Drain time.Duration
	// AdoptOnly makes a runner that claims nothing and only runs what it adopts.
	AdoptOnly bool
	// OnParked is called with a job that has used up its attempts, before it is parked, so that its order can be parked
	// too. It runs again if it fails or the process crashes. It is not called for a handler's own Review.
	OnParked func(ctx context.Context, l *Lease, reason string) error
	Tracer   trace.TracerProvider
	Metrics  *telemetry.Metrics
}

// Runner claims jobs and runs them.
type Runner struct {
	Config
	owner  string
	claims atomic.Uint64
	// working is since when jobs are claimed, in nanoseconds; zero is not at present.
	working  atomic.Int64
	tracer   trace.Tracer
	handlers map[Kind]Handler
	periodic []periodic
	queues   map[Class]*queue

	// base outlives Run's context, so that a stop drains instead of cutting off.
	base context.Context
	stop context.CancelCauseFunc

	mu       sync.Mutex
	draining bool
	attempts sync.WaitGroup
	// stopping is closed when the drain begins.
	stopping chan struct{}
}

// NewRunner makes a runner. Register its handlers before Run or Adopt.
func NewRunner(c Config) *Runner {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Tracer == nil {
		c.Tracer = otel.GetTracerProvider()
	}
	c.Slots = orDefault(c.Slots, 8)
	c.TTL = orDefault(c.TTL, 20*time.Second)
	c.Poll = orDefault(c.Poll, 750*time.Millisecond)
	c.Drain = orDefault(c.Drain, 10*time.Second)
	base, stop := context.WithCancelCause(context.Background())
	queues := map[Class]*queue{}
	for _, class := range Classes() {
		queues[class] = newQueue(class, orDefault(c.ClassSlots[class], c.Slots))
	}
	return &Runner{
		Config:   c,
		owner:    ownerName(),
		tracer:   c.Tracer.Tracer("github.com/roamcard/roamcard/internal/job"),
		handlers: map[Kind]Handler{},
		queues:   queues,
		base:     base,
		stop:     stop,
		stopping: make(chan struct{}),
	}
}

func orDefault[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// ownerName differs between two incarnations of a process even on one host with one pid.
func ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.64s/%d/%s", host, os.Getpid(), uuid.NewString())
}

// Owner is the name on this runner's leases, unique to this incarnation of the process.
func (r *Runner) Owner() string { return r.owner }

// Register sets the handler of a kind. A kind registered twice is a programming mistake and panics.
func (r *Runner) Register(kind Kind, h Handler) {
	if _, ok := r.handlers[kind]; ok || h == nil {
		panic(fmt.Sprintf("job: kind %q registered twice or without handler", kind))
	}
	r.handlers[kind] = h
}

// Own makes n be inserted with a lease of this runner. After the insert is committed, Adopt the row.
func (r *Runner) Own(n New) New {
	n.LeaseOwner, n.LeaseTTL, n.Asked = r.owner, r.TTL, r.Now()
	return n
}

// Adopt runs a job that was inserted leased to this runner, under the runner's context and outside of
// its slots. It returns at once. h does this attempt in the place of the kind's handler: it may know what that
// would have to look up. If the lease is lost already, or was never committed, nothing
// runs; a runner that is stopping hands the job back instead.
func (r *Runner) Adopt(row Row, h Handler) {
	if r.begin() {
		go r.runAdopted(row, h)
		return
	}
	if err := r.finish(row.Fence(), Release("adopted while stopping")); err != nil {
		r.Log.Warn("job not handed back", "id", row.ID, "kind", row.Kind, "error", err)
	}
}

func (r *Runner) runAdopted(row Row, h Handler) {
	defer r.attempts.Done()
	if age := r.Now().Sub(row.Asked); age >= 0 && age < r.TTL/4 {
		r.attempt(row, h, row.Asked, true)
		return
	}
	// The insert took long, or an unknown time: the lease is renewed first.
	asked := r.Now()
	ctx, cancel := fault.Within(r.base, r.TTL/2)
	defer cancel()
	held, err := r.Queue.Beat(ctx, row.Fence(), r.TTL)
	if err != nil || !held {
		r.Log.Warn("job not adopted", "id", row.ID, "kind", row.Kind, "held", held, "error", err)
		return
	}
	r.attempt(row, h, asked, true)
}

// Run works until ctx ends, then drains: it claims nothing more, lets the running handlers go on for the
// drain time, cancels the others and hands their jobs back. It returns when no handler runs any more, or
// an error when one ignored its cancelled context; its job is left to the lease.
func (r *Runner) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	if !r.AdoptOnly {
		r.announce(ctx)
		for _, class := range Classes() {
			loops.Go(func() { r.claimLoop(ctx, r.queues[class]) })
		}
		loops.Go(func() { r.repeat(ctx, r.TTL/3, r.announce) })
		loops.Go(func() { r.repeat(ctx, r.TTL/4, r.reap) })
		for _, p := range r.periodic {
			loops.Go(func() { r.periodicLoop(ctx, p) })
		}
	}
	<-ctx.Done()
	loops.Wait()
	return r.drain()
}

// claimGrace is how long a cancelled handler may take to return, and a bookkeeping call to answer.
const claimGrace = 3 * time.Second

func (r *Runner) drain() error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		close(r.stopping)
	}
	r.mu.Unlock()

	if !r.AdoptOnly {
		ctx, cancel := fault.Outlive(r.base, claimGrace)
		defer cancel()
		if err := r.Queue.Announce(ctx, r.owner, r.Kinds(), 0); err != nil {
			r.Log.Warn("worker not signed off", "owner", r.owner, "error", err)
		}
	}

	done := make(chan struct{})
	go func() { r.attempts.Wait(); close(done) }()
	if waitFor(done, r.Drain) {
		r.stop(ErrShutdown)
		return nil
	}
	r.stop(ErrShutdown)
	// Twice the grace: once for the handler to return, once to hand its job back.
	if !waitFor(done, 2*claimGrace) {
		return errors.New("drain jobs: a handler ignored its cancelled context")
	}
	return nil
}

func waitFor(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// claimLoop claims no more than there are free slots. After a full batch there is likely more, so it
// goes on as soon as a slot is free; otherwise it waits for a wake-up or the next poll.
func (r *Runner) claimLoop(ctx context.Context, q *queue) {
	kinds := r.Kinds()
	if len(kinds) == 0 {
		return
	}
	wake := r.Queue.Wake(ctx, q.class)
	for ctx.Err() == nil {
		backlog := true
		if free := r.free(q); free > 0 {
			backlog = r.claim(q, kinds, free) == free
		}
		awake, due, freed := wake, q.due, q.freed
		if backlog {
			awake, due = nil, nil // there is no slot for what a wake-up announces
		} else {
			freed = nil
		}
		timer := time.NewTimer(r.Poll/2 + jitter.Below(r.Poll/2+1) + r.Poll/4)
		select {
		case <-ctx.Done():
		case <-awake:
		case <-due:
		case <-freed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// claim continues after a stop: a cancelled claim could leave its rows leased without a runner.
func (r *Runner) claim(q *queue, kinds []Kind, limit int) int {
	asked := r.Now()
	ctx, cancel := fault.Outlive(r.base, r.TTL/2)
	defer cancel()
	// Each claim has a name of its own. A database that was put back counts attempts from where it was, so this process
	// may claim a job again while an attempt of before still runs in it: that one's fence has to be another.
	by := r.owner + "/" + strconv.FormatUint(r.claims.Add(1), 10)
	rows, err := r.Queue.Claim(ctx, by, q.class, kinds, limit, r.TTL)
	if err != nil {
		r.Log.Error("jobs not claimed", "error", err)
		r.working.Store(0)
		return 0
	}
	r.working.CompareAndSwap(0, r.Now().UnixNano())
	for _, row := range rows {
		if !r.begin() {
			continue // only after drain began, which waits for this loop first
		}
		r.take(q)
		go func() {
			defer r.attempts.Done()
			// The handler may have continued in a slot of another class.
			class := r.attempt(row, r.handlers[row.Kind], asked, false)
			r.leave(r.queues[class])
		}()
	}
	return len(rows)
}

// Working is since when jobs are claimed without an interruption: since the start, or a database that was away.
func (r *Runner) Working() time.Time {
	if since := r.working.Load(); since != 0 {
		return time.Unix(0, since)
	}
	return r.Now()
}

func (r *Runner) announce(ctx context.Context) {
	ctx, cancel := fault.Within(ctx, r.TTL/3)
	defer cancel()
	if err := r.Queue.Announce(ctx, r.owner, r.Kinds(), r.TTL); err != nil && ctx.Err() == nil {
		r.Log.Warn("worker not announced", "owner", r.owner, "error", err)
	}
}

const reapBatch = 100

func (r *Runner) reap(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := r.Queue.Reap(ctx, reapBatch)
		if err != nil && ctx.Err() == nil {
			r.Log.Error("expired jobs not reaped", "error", err)
		}
		if n > 0 {
			r.Log.Warn("expired jobs reaped", "count", n)
		}
		if err != nil || n < reapBatch {
			return
		}
	}
}

func (r *Runner) repeat(ctx context.Context, period time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do(ctx)
		}
	}
}

// Kinds are those that have a handler.
func (r *Runner) Kinds() []Kind {
	kinds := make([]Kind, 0, len(r.handlers))
	for kind := range r.handlers {
		kinds = append(kinds, kind)
	}
	return kinds
}

func (r *Runner) free(q *queue) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return q.slots - q.claimed
}

// begin books an attempt, unless the runner has begun to drain.
func (r *Runner) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.attempts.Add(1)
	return true
}

func (r *Runner) take(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.claimed++
}

func (r *Runner) leave(q *queue) {
	r.mu.Lock()
	q.claimed--
	r.mu.Unlock()
	signal(q.freed)
}
