package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
)

// ErrNotSent says that Submit did not make the call. The marker may still be stored, so the next attempt looks
// the call up, as after any unknown outcome.
var ErrNotSent = errors.New("not sent")

// Handler does one attempt of a job. An error means "not known to be done": the job runs again after a
// while. ctx ends when the lease is lost (its cause is ErrLeaseLost) or the process stops.
type Handler func(ctx context.Context, l *Lease) (Outcome, error)

// Lease is a claim being worked on.
type Lease struct {
	queue Queue
	now   func() time.Time
	// enter moves the attempt to a slot of another class.
	enter func(from, to Class) bool
	// stopping is closed when the process begins to stop.
	stopping <-chan struct{}

	mu  sync.Mutex
	row Row
	// because is what the job is said to wait for, if it is put back.
	because string
}

func newLease(queue Queue, now func() time.Time, row Row) *Lease {
	return &Lease{queue: queue, now: now, row: row, enter: func(_, _ Class) bool { return true }}
}

// Row is the job as it was claimed, with the steps marked since.
func (l *Lease) Row() Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row
}

// Enter makes the rest of the attempt, and the job after it, work of a class. It is false when that class has no
// free slot here; the handler then returns HandOver.
func (l *Lease) Enter(class Class) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.enter(l.row.Class, class) {
		return false
	}
	l.row.Class = class
	return true
}

// Because says what the job waits for. It is kept as its last error if the attempt ends with Snooze.
func (l *Lease) Because(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.because = storable(reason)
}

// Reason is what the job waits for, as Because said last; empty when it has not.
func (l *Lease) Reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.because
}

// Wait waits within the attempt, which keeps its slot and writes nothing but heartbeats meanwhile. It is false when the
// attempt should end with Snooze instead: ctx has ended, or the process begins to stop.
func (l *Lease) Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
	case <-l.stopping:
	}
	return false
}

// Fence goes with every write that must happen under this claim only.
func (l *Lease) Fence() Fence { return l.Row().Fence() }

// Step is the marker of the last irreversible call begun by this or an earlier attempt, or empty.
func (l *Lease) Step() string { return l.Row().Step }

// StepAt is when the marker was recorded. A look-up's "not found" counts only when more time has passed
// since than the send timeout, the other side's longest processing and the skew of the clocks together.
func (l *Lease) StepAt() *time.Time { return l.Row().StepAt }

// SendBy is the latest time to send a request with this timeout. Read it before Mark: a process that is suspended
// between the two is then too late, instead of sending long after the marker.
func (l *Lease) SendBy(timeout time.Duration) time.Time { return l.now().Add(timeout) }

// Mark records the step about to be taken. After an error the step must not be taken.
func (l *Lease) Mark(ctx context.Context, step string) error {
	at := l.now().UTC()
	if err := l.queue.Mark(ctx, l.Fence(), step); err != nil {
		return fmt.Errorf("mark %s: %w", step, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row.Step, l.row.StepAt = step, &at
	return nil
}

// Submit makes a call that moves money or creates something: it records step, checks that the timeout has not passed
// yet, and calls send with its deadline. ErrNotSent says that send was not called; any other error is send's own, and
// its outcome is unknown until looked up.
func (l *Lease) Submit(
	ctx context.Context, step string, timeout time.Duration, send func(context.Context) error,
) error {
	deadline := l.SendBy(timeout)
	if err := l.Mark(ctx, step); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	faultpoint.Reach("submit.marked")
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	// The context alone is not enough: it ends when its timer fires, and a process that resumes from a pause may send
	// before that.
	now := l.now()
	if !before(now, deadline) {
		return fmt.Errorf("%w: %s took longer than its timeout of %s", ErrNotSent, step, timeout)
	}
	sendCtx, cancel := fault.Within(ctx, deadline.Sub(now))
	defer cancel()
	return send(sendCtx)
}

// before compares by both clocks, because the monotonic one may stand still while a machine is suspended.
func before(now, deadline time.Time) bool {
	return now.Before(deadline) && now.Round(0).Before(deadline.Round(0))
}
