package endtoend_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
)

// lending is the life of a world that is lent: it ends with the last test, or when there are enough others.
type lending struct {
	testing.TB // of the test that was the first to borrow, which has ended in the meantime
	all        *lender
	cleanups   []func()
}

// spare is how many worlds of a kind wait for a borrower: each looks for jobs all the time.
const spare = 2

// lender has the worlds that tests share, one after the other. A world costs a database, its connections and a quarter
// of a second of the processors; most tests need nothing of it but wallets of their own.
type lender struct {
	sync.Mutex
	// free are the worlds that nobody has, by their number of instances.
	free map[int][]*world
	// taken are those of tests that have failed or have not ended.
	taken  map[*world]bool
	failed bool
}

var lent = &lender{free: map[int][]*world{}, taken: map[*world]bool{}}

// borrowWorld lends a test a world of so many instances with the operator ann and without a treasury, for itself. The
// test finds it at rest and with the orders, cards and events of those before it, so it counts only what is its own;
// it leaves settings, switches, instances and the chain's clock as they were. Faults of the issuer's are cleared and
// the invariants checked when it is given back. After a failure it is lent to nobody.
func borrowWorld(t *testing.T, instances int) *world {
	t.Helper()
	w := lent.take(instances)
	if w == nil {
		w = makeWorld(t, &lending{TB: t, all: lent}, plan{instances: instances, change: func(c *app.Config) {
			c.Operators = []auth.Operator{{Name: "ann", Hash: sha256.Sum256([]byte(operatorToken))}}
		}})
		lent.note(w)
	}
	mine := *w
	mine.t, mine.issuer = t, &issuer{t: t, url: w.issuer.url}
	mine.instances = slices.Clone(w.instances)
	mine.since = mine.blockNumber() + 1
	t.Cleanup(func() {
		mine.issuer.clearFaults()
		mine.issuer.clearEsimFaults()
		mine.issuer.setFloat(10_000_000)
		mine.issuer.openBIN(true)
		mine.checkBooks()
		if !t.Failed() {
			lent.giveBack(instances, w)
		}
	})
	return &mine
}

// take is a world that nobody has, or nil.
func (l *lender) take(instances int) *world {
	l.Lock()
	defer l.Unlock()
	free := l.free[instances]
	if len(free) == 0 {
		return nil
	}
	w := free[len(free)-1]
	l.free[instances] = free[:len(free)-1]
	l.taken[w] = true
	return w
}

func (l *lender) note(w *world) {
	l.Lock()
	defer l.Unlock()
	l.taken[w] = true
}

// giveBack keeps a world for the next borrower, or ends it.
func (l *lender) giveBack(instances int, w *world) {
	l.Lock()
	delete(l.taken, w)
	enough := len(l.free[instances]) >= spare
	if !enough {
		l.free[instances] = append(l.free[instances], w)
	}
	l.Unlock()
	if enough {
		w.life.(*lending).end()
	}
}

// end ends all worlds, and reports whether nothing went wrong with them outside of a test.
func (l *lender) end() bool {
	all := slices.Collect(maps.Keys(l.taken))
	for _, free := range l.free {
		all = append(all, free...)
	}
	for _, w := range all {
		w.life.(*lending).end()
	}
	return !l.failed
}

// end does what is to be done at the end of this life.
func (l *lending) end() {
	for _, cleanup := range slices.Backward(l.cleanups) {
		cleanup()
	}
}

// Cleanup implements testing.TB.
func (l *lending) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Context implements testing.TB.
func (l *lending) Context() context.Context { return context.Background() }

// Helper implements testing.TB.
func (l *lending) Helper() {}

// Error implements testing.TB: it belongs to no test, so it fails all of them.
func (l *lending) Error(args ...any) {
	l.all.Lock()
	defer l.all.Unlock()
	l.all.failed = true
	fmt.Fprintln(os.Stderr, append([]any{"a lent world:"}, args...)...)
}

// Errorf implements testing.TB.
func (l *lending) Errorf(format string, args ...any) { l.Error(fmt.Sprintf(format, args...)) }

// Fatalf implements testing.TB.
func (l *lending) Fatalf(format string, args ...any) {
	panic("a lent world: " + fmt.Sprintf(format, args...))
}

// Fatal implements testing.TB.
func (l *lending) Fatal(args ...any) { panic("a lent world: " + fmt.Sprint(args...)) }
