package crash_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// launchService runs a program as a deployment does, `serve` or `worker` with the world's settings, until it is ready.
func (w *world) launchService(t *testing.T, program, addr string, args ...string) *apptest.Process {
	t.Helper()
	p := apptest.StartProgram(t, program, w.serviceEnv(addr), args...)
	t.Cleanup(func() { p.Kill(t) })
	if args[0] == "worker" {
		return p
	}
	p.Await(t, "the service is ready", func() error { return ready(t.Context(), addr) })
	return p
}

// serviceEnv are the settings of a program in a deployment.
func (w *world) serviceEnv(addr string) []string {
	return append(w.settings(),
		"ROAMCARD_ADDR="+addr, "ROAMCARD_LIMITS=off", "ROAMCARD_LOG__LEVEL=warn",
		"ROAMCARD_ISSUER__CALL_TIMEOUT=2s", "ROAMCARD_ISSUER__VISIBILITY_DELAY=3s", "ROAMCARD_WORKER__LEASE=5s")
}

func ready(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/ready", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body) // it is for a message
		return fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return nil
}

// purchaseOnce buys once, as a client that repeats its request until it is answered.
func (b *buyer) purchaseOnce(t *testing.T) error {
	t.Helper()
	if err := apptest.Eventually(t, func() error { return b.challenge(t.Context()) }); err != nil {
		return fmt.Errorf("no terms: %w", err)
	}
	payment := b.sign(t)
	err := apptest.Eventually(t, func() error {
		status, _, _, err := b.ask(t.Context(), payment)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	return nil
}

// crowd are honest buyers who buy one after the other.
type crowd struct {
	t    *testing.T
	w    *world
	stop chan struct{}
	all  sync.WaitGroup
	// addrs are where they buy, in turn.
	addrs atomic.Value
	// sold counts the purchases that were answered with an order.
	sold   atomic.Int64
	mu     sync.Mutex
	buyers []*buyer
}

// crowd lets n buyers at a time buy a card or an eSIM, each for the first time, at the processes in turn.
func (w *world) crowd(t *testing.T, n int, addrs ...string) *crowd {
	t.Helper()
	c := &crowd{t: t, w: w, stop: make(chan struct{})}
	c.addrs.Store(addrs)
	for i := range n {
		c.all.Go(func() {
			for turn := i; ; turn++ {
				select {
				case <-c.stop:
					return
				default:
				}
				at := c.addrs.Load().([]string)
				c.buy(turn, at[turn%len(at)])
			}
		})
	}
	return c
}

func (c *crowd) buy(turn int, addr string) {
	b := c.w.buyer(c.t)
	b.begunAt, b.travelling = addr, turn%3 == 0
	b.at = func() string { // as a proxy does that leaves out who drains
		if left := c.addrs.Load().([]string); !slices.Contains(left, addr) {
			return left[0]
		}
		return addr
	}
	c.mu.Lock()
	c.buyers = append(c.buyers, b)
	c.mu.Unlock()
	if err := b.purchaseOnce(c.t); err != nil {
		c.t.Errorf("%s at %s: %v", b.address, addr, err)
		return
	}
	c.sold.Add(1)
}

// await waits until so many more purchases are answered.
func (c *crowd) await(more int64) {
	c.t.Helper()
	until := c.sold.Load() + more
	apptest.Await(c.t, fmt.Sprint(more, " more purchases"), func() error {
		if n := c.sold.Load(); n < until {
			return fmt.Errorf("%d are missing", until-n)
		}
		return nil
	})
}

// ends lets the buyers finish what they have begun.
func (c *crowd) ends() []*buyer {
	c.t.Helper()
	close(c.stop)
	c.all.Wait()
	return c.buyers
}

// haveOnce checks by the chain's, the issuer's and our books that each buyer paid once and has one thing.
func (w *world) haveOnce(t *testing.T, buyers []*buyer) {
	t.Helper()
	for _, b := range buyers {
		if got := w.tell(t, b); got.Transfers != 1 || got.Orders != 1 || got.Cards+got.Esims != 1 ||
			got.Withdrawals != got.Cards || got.Refunds != 0 {
			t.Errorf("%s has %+v", b.address, got)
		}
	}
}
