package crash_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// sellsAfterPromotion is how soon after the promotion a purchase has to be answered that was begun after it.
const sellsAfterPromotion = 5 * time.Second // clock: what this torture is about

// The primary dies under load, and its synchronous standby is promoted. The processes find it by their own URL.
func TestFailoverToASynchronousStandby(t *testing.T) {
	tortures(t)
	w := newWorld(t)
	pair := replicate(t, true)
	server, worker := w.sellsOver(t, pair.url)
	buyers := w.crowd(t, 6, w.addr)
	buyers.await(12)

	killed := time.Now()
	if err := pair.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	acknowledged := buyers.sold.Load()
	on(t, pair.standby, "SELECT pg_promote(true, 30)")
	promoted := time.Now()
	first := w.buyer(t)
	if err := first.purchaseOnce(t); err != nil {
		t.Fatal(err)
	}
	took := time.Since(promoted)
	report("failover to a synchronous standby: promoted %s after the kill, the first purchase %s after the promotion",
		promoted.Sub(killed).Round(time.Millisecond), took.Round(time.Millisecond))
	if took > sellsAfterPromotion {
		t.Errorf("the first purchase took %s", took)
	}
	buyers.await(12)
	all := append(buyers.ends(), first)
	w.waitIdle(t)
	for _, p := range []*apptest.Process{server, worker} {
		p.Stop(t)
	}
	report("%d purchases were acknowledged before the kill, %d in all; none was lost", acknowledged, len(all))
	w.haveOnce(t, all)
	w.checkBooks(t)
}

// An asynchronous standby lacks the newest commits when it is promoted. What that costs is told, and `roamcard recover`
// brings it back.
func TestFailoverToAnAsynchronousStandby(t *testing.T) {
	tortures(t)
	w := newWorld(t)
	pair := replicate(t, false)
	server, worker := w.sellsOver(t, pair.url)
	buyers := w.crowd(t, 6, w.addr)
	buyers.await(6)
	lostFrom := w.sent(t)
	pair.cut(t)
	behind := time.Now()
	buyers.await(12)
	all := buyers.ends()
	lag := time.Since(behind)
	if err := pair.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	on(t, pair.standby, "SELECT pg_promote(true, 30)")
	w.loses(lostFrom, w.sent(t))
	w.answers.all = nil // what was told of lost orders is not in the books any more
	lost := 0
	for _, b := range all {
		if w.tell(t, b).Orders == 0 {
			lost++
		}
	}
	report("failover to an asynchronous standby that was %s behind: %d of %d acknowledged orders were lost",
		lag.Round(100*time.Millisecond), lost, len(all))
	if lost == 0 {
		t.Error("nothing was lost, so nothing is shown")
	}
	apptest.Await(t, "the service sells again", func() error { return ready(t.Context(), w.addr) })
	w.waitIdle(t)
	if plan, code := w.recovers(t, "--apply", "--operator", "ada", "--reason",
		"failover"); plan.count("adopt", true) == 0 || code != 0 {
		t.Fatalf("the recovery ended with %d: %+v", code, plan.Steps)
	}
	w.waitIdle(t)
	for _, p := range []*apptest.Process{server, worker} {
		p.Stop(t)
	}
	w.haveOnce(t, all)
	w.checkBooks(t)
}

// sellsOver runs a server and a worker over a database, and points the world's books at it.
func (w *world) sellsOver(t *testing.T, database string) (server, worker *apptest.Process) {
	t.Helper()
	w.books.DatabaseURL = database
	w.migrates(t)
	worker = w.launchService(t, apptest.Binary(t), apptest.FreeAddr(t), "worker")
	server = w.launchService(t, apptest.Binary(t), w.addr, "serve", "--no-worker")
	return server, worker
}

func (w *world) migrates(t *testing.T) {
	t.Helper()
	if out, err := w.command(t, "migrate").CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
}

// report tells a measurement also when the test passes.
func report(format string, args ...any) { fmt.Fprintf(os.Stdout, "measured: "+format+"\n", args...) }
