package endtoend_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// lastWords is what is left of the tests' own time for a wait that ends with it to say what it waited for.
const lastWords = 10 * time.Second // clock: no limit of a wait

// waitContext ends with a test's wait, and that with the life of what is waited for: when an instance of the test's has
// ended by itself, or shortly before the test binary's own time. How long a condition takes to come true says nothing
// but how busy the machine is.
func waitContext(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	forget := deaths.tell(t, cancel)
	stop := func() {
		forget()
		cancel(nil)
	}
	end, limited := t.Deadline()
	if !limited {
		return ctx, stop
	}
	timed, release := context.WithDeadline(ctx, end.Add(-lastWords))
	return timed, func() {
		release()
		stop()
	}
}

// deaths are the instances that have ended without being asked to, by the test whose they are.
var deaths = obituary{of: map[string]error{}, waits: map[int]mourner{}}

type obituary struct {
	sync.Mutex
	of    map[string]error
	waits map[int]mourner
	next  int
}

// mourner is a wait of a test's.
type mourner struct {
	test   string
	cancel context.CancelCauseFunc
}

// everyTest is whose the instances of lent worlds are.
const everyTest = ""

// testOf is the top-level test that something belongs to.
func testOf(t testing.TB) string {
	if _, lent := t.(*lending); lent {
		return everyTest
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

type ended string

func (e ended) Error() string { return string(e) }

// endedByItself fails a test, whose waits end: what it waits for does not come any more.
func endedByItself(t testing.TB, what string) {
	t.Error(what)
	deaths.Lock()
	defer deaths.Unlock()
	of := testOf(t)
	deaths.of[of] = ended(what)
	for _, w := range deaths.waits {
		if of == everyTest || w.test == of {
			w.cancel(ended(what))
		}
	}
}

// tell cancels a wait when an instance of its test's ends by itself, or has.
func (o *obituary) tell(t *testing.T, cancel context.CancelCauseFunc) (forget func()) {
	o.Lock()
	defer o.Unlock()
	of := testOf(t)
	for _, known := range []string{of, everyTest} {
		if err := o.of[known]; err != nil {
			cancel(err)
		}
	}
	id := o.next
	o.next++
	o.waits[id] = mourner{of, cancel}
	return func() {
		o.Lock()
		defer o.Unlock()
		delete(o.waits, id)
	}
}

// eventually waits until another goroutine or process has brought about a condition.
func eventually(t *testing.T, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := waitContext(t)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, longestLook) { // clock: how often is looked
		done, state := ok()
		if done {
			return
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			t.Fatalf("%v, and still: %s", context.Cause(ctx), state)
		}
	}
}

// longestLook is how long a condition may have held before it is noticed.
const longestLook = 50 * time.Millisecond // clock: no limit of a wait

// torture says that there is time for everything.
func torture() bool { return os.Getenv("ROAMCARD_TORTURE") != "" }

// onlyTorture skips a story that the ordinary run has in another form: because names the tests there that keep the
// rule, or the story of the same kind that is told.
func onlyTorture(t *testing.T, because string) {
	t.Helper()
	if !torture() {
		t.Skip("in make torture: " + because)
	}
}

// rounds is how often a race is run.
func rounds() int {
	if torture() {
		return 100
	}
	return 3
}
