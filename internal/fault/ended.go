package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrTimeout is the cause of a context that ended by a bound of the service's own, see Within. It is a
// context.DeadlineExceeded for errors.Is.
var ErrTimeout error = timeout{}

type timeout struct{}

// Error implements error.
func (timeout) Error() string { return "the service's own timeout" }

// Is makes it a context.DeadlineExceeded, which net/http reports the cause of a context instead of.
func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout implements the error of a net.Conn, as context.DeadlineExceeded does.
func (timeout) Timeout() bool { return true }

// Within bounds ctx by a time of the service's own. When that ends first, the outcome of what was called is unknown to
// us, and the other side may be down. When ctx ends first, whoever called has stopped waiting: see Gone.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, ErrTimeout)
}

// Outlive is a context of the service's own: it ends after d, and neither with ctx nor at its deadline.
func Outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return Within(context.WithoutCancel(ctx), d)
}

// Gone reports whether ctx ended because its caller stopped waiting: by the caller's deadline, or because it was
// cancelled. What was going on then says nothing about whom we called: it is no outage. False for what Within ended.
func Gone(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout)
}

// Ended judges the error of an outward call that got no answer, by whose context ended. It adds the fault
// deadline_exceeded or canceled when ctx is Gone and err came of that, and leaves every other error as it is.
func Ended(ctx context.Context, err error) error {
	if err == nil || !Gone(ctx) || !interrupted(err) {
		return err
	}
	if f, ok := As(err); ok && f.Status < http.StatusInternalServerError {
		return err // an answer, or judged already
	}
	return fmt.Errorf("%w: %w", EndOf(ctx), err)
}

// EndOf is the fault of a call whose caller is Gone.
func EndOf(ctx context.Context) *Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return New(DeadlineExceeded, "")
	}
	return New(Canceled, "")
}

// interrupted reports an error of a context that ended.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// OfCaller reports a fault that is the end of the caller's own wait: no failure of ours, or of what we depend on.
func (f *Fault) OfCaller() bool { return f.Code == DeadlineExceeded || f.Code == Canceled }
