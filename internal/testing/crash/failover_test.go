package crash_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// The database server dies, and a standby that lacks its last commits takes over at the same address, on another
// timeline, while the program runs and sells. Buyers repeat their requests, whether they had an answer or not.
func TestFailoverToALaggingStandby(t *testing.T) {
	t.Parallel()
	tortures(t)
	w := newWorld(t)
	dir, err := os.MkdirTemp("", "failover-") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	primary, err := devnet.StartPostgres(t.Context(), devnet.PostgresConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	w.books.DatabaseURL = primary.URL()
	p := w.start(t, relayer, "")
	var before, lost, interrupted []*bill
	for i := range 3 {
		before = append(before, w.bill(t, w.buyer(t), []string{issue, esim}[i%2]))
	}
	for i := range 12 {
		lost = append(lost, w.bill(t, w.buyer(t), []string{issue, esim}[i%2]))
		interrupted = append(interrupted, w.bill(t, w.buyer(t), []string{issue, esim}[i%2]))
	}
	w.buys(t, before, http.StatusOK)
	w.waitIdle(t)
	lostFrom := w.sent(t)
	standby := dir + "-standby"
	copyServer(t, primary, standby)
	recovering(t, standby, "recovery.signal", "restore_command = 'false'")

	w.buys(t, lost, http.StatusOK)
	w.waitIdle(t)
	for _, n := range append(append([]*bill{}, before...), lost...) {
		n.tally = w.tell(t, n.buyer)
	}
	selling := make(chan struct{})
	go func() {
		defer close(selling)
		w.buys(t, interrupted, 0)
	}()
	w.await(t, "sales are on their way", func() error {
		if w.sent(t) < lostFrom+int64(len(lost))+3 {
			return context.DeadlineExceeded
		}
		return nil
	})
	if err := primary.Close(); err != nil {
		t.Fatal(err)
	}
	replace(t, dir, standby)
	promoted, err := devnet.StartPostgres(t.Context(), devnet.PostgresConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = promoted.Close() }) // the test is over
	if promoted.URL() != primary.URL() {
		t.Fatalf("the standby is at %s, the primary was at %s", promoted.URL(), primary.URL())
	}
	<-selling
	w.answers.all = nil
	w.loses(lostFrom, w.sent(t))

	asked := append(append([]*bill{}, lost[:6]...), before...)
	w.repeats(t, asked)
	w.waitIdle(t)
	// Money without goods waits until all goods without money are explained.
	if plan, code := w.recovers(t, "--apply", "--operator", "ada", "--reason",
		"failover"); plan.count("adopt", true) < 6 || code != 0 {
		t.Fatalf("the recovery ended with %d: %+v", code, plan.Steps)
	}
	w.waitIdle(t)
	w.asksUntilPaid(t, interrupted)
	w.repeats(t, lost)
	w.waitIdle(t)
	p.stop(t)
	for _, n := range append(before, lost...) {
		w.stillHas(t, n)
	}
	for _, n := range interrupted {
		if got := w.tell(t, n.buyer); got.Transfers != 1 || got.Orders != 1 || got.Cards+got.Esims != 1 ||
			got.Withdrawals != got.Cards {
			t.Errorf("%s by %s, interrupted: %+v", n.Path, n.buyer.address, got)
		}
	}
	w.checkBooks(t)
}

// replace puts a copy in the place of the server that has ended.
func replace(t *testing.T, dir, standby string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "pg*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the server's folder: %v, %v", found, err)
	}
	shell(t, "mv", found[0], standby+"-dead")
	t.Cleanup(func() { _ = os.RemoveAll(standby + "-dead") })
	shell(t, "mv", standby, found[0])
}
