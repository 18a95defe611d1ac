package endtoend_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// TestManyBuyersWaitForEsimsAtOnce lets thousands of paid requests wait at once in a process of their own: each is
// answered in 15 to 16 s, other routes go on, and what a waiter costs in memory is reported. The orders are
// paid beforehand, through an instance at which nobody waits.
func TestManyBuyersWaitForEsimsAtOnce(t *testing.T) {
	if !torture() {
		t.Skip("set ROAMCARD_TORTURE=1")
	}
	const crowd = 2000
	w := newWorld(t,
		plan{change: func(c *app.Config) { c.Esim.Waiters, c.Esim.Poll, c.Wait = 0, time.Minute, 20*time.Second }})
	w.awaitEsimReady(nil)
	w.issuer.call("POST", "esim/pace", map[string]any{"allocateMs": 3_600_000})
	paid := w.payForEsims(crowd)
	waits := w.launch(apptest.Binary(t))
	pid := waits.pid
	w.awaitReady(waits)
	w.send(paid[0].at(w.instances[0])).into(t, 200, nil) // warm
	before := residentKB(t, pid)

	var all sync.WaitGroup
	var early, late, failed atomic.Int64
	for i, p := range paid {
		// They come within four seconds: what is measured is the wait, not how fast two cores check signatures.
		arrives := time.NewTimer(time.Duration(i) * 2 * time.Millisecond) // clock: they come one after the other
		all.Go(func() {
			<-arrives.C
			began := time.Now()
			a := w.send(p.at(waits))
			switch took := time.Since(began); {
			case a.err != nil || a.status != 200:
				failed.Add(1)
			case took < esim.InlineWait:
				early.Add(1)
			case took >= esim.InlineWait+time.Second:
				late.Add(1)
			}
		})
	}
	peak, slowest := int64(0), time.Duration(0)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { // clock: it measures the answers of ten seconds
		began := time.Now()
		w.send(get("/api/esim/plans?countryCode=FR").on(waits)).into(t, 200, nil)
		slowest = max(slowest, time.Since(began))
		peak = max(peak, residentKB(t, pid))
	}
	all.Wait()
	t.Logf("%d waited: %d failed, %d early, %d late; %d KB for each; another route took %s at most", crowd, failed.Load(),
		early.Load(), late.Load(),
		(peak-before)/crowd, slowest)
	if failed.Load()+early.Load()+late.Load() > 0 {
		t.Error("not every waiter was answered in 15 to 16 s")
	}
	if slowest > 5*time.Second {
		t.Errorf("another route took %s", slowest)
	}
}

// paidRequest is a purchase that is paid, to be sent again.
type paidRequest struct{ key, payment string }

func (p paidRequest) at(i *instance) request { return esimPurchase(p.key, p.payment).on(i) }

// payForEsims pays for so many eSIMs, a few at a time.
func (w *world) payForEsims(n int) []paidRequest {
	w.t.Helper()
	terms := w.esimTerms("terms-for-a-crowd-of-travellers")
	b := w.buyer()
	w.fund(b.address, 1_000_000_000_000)
	all := make([]paidRequest, n)
	var working sync.WaitGroup
	for worker := range 16 {
		working.Go(func() {
			for i := worker; i < n; i += 16 {
				p := paidRequest{fmt.Sprintf("a-traveller-in-the-crowd-%d", i), b.esimPayment(terms)}
				for try := 0; ; try++ {
					a := w.send(p.at(nil))
					if a.status == 200 {
						break
					}
					if try > 20 {
						w.t.Errorf("pay: %d %s", a.status, clipped(a.body))
						return
					}
				}
				all[i] = p
			}
		})
	}
	working.Wait()
	return all
}

// residentKB is the memory a process holds.
func residentKB(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatal("no resident memory in /proc")
	return 0
}
