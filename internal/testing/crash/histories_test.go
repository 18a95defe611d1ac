package crash_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

var (
	lasting = flag.Duration("lasting", 10*time.Minute, "for how long TestHistories begins rounds")
	stormy  = flag.Duration("stormy", 40*time.Second, "for how long things go wrong in each round of TestHistories")
	clients = flag.Int("clients", 20, "how many official clients buy at once in TestHistories")
)

// market are three servers that live and die on one database and one chain, official clients that buy from them, and
// all that these have asked and were told. It goes by rounds: things go wrong for a while, then everything is well
// again, what was begun ends, each buyer asks once more for all that it has bought, and what has happened is checked.
type market struct {
	t        *testing.T
	w        *world
	seed     uint64
	front    *front
	database *durable
	servers  []*server
	// chain is held by whoever makes it other than it makes itself: replaces blocks, makes none, or gives wallets money.
	chain sync.Mutex
	// round counts from 1.
	round int

	mu        sync.Mutex
	wallets   []wallet
	purchases []*purchase
	happened  history.World
	counts    map[string]int
}

// TestHistories lets official clients buy from three servers while these, their database, the chain and the providers
// fail at random, and checks what every one of them was told. It needs ROAMCARD_TORTURE=1. ROAMCARD_SEED repeats what
// is drawn, but not the order in which processes do what they do.
func TestHistories(t *testing.T) {
	tortures(t)
	m := newMarket(t)
	for began := time.Now(); time.Since(began) < *lasting && !t.Failed(); {
		m.goesOn()
		t.Logf("round %d: %s after %s: %v", m.round, verdict(t), time.Since(began).Round(time.Second), m.told())
	}
	report("histories of %d rounds, seed %d: %v", m.round, m.seed, m.told())
}

func verdict(t *testing.T) string {
	if t.Failed() {
		return "found"
	}
	return "nothing"
}

func newMarket(t *testing.T) *market {
	t.Helper()
	m := &market{t: t, w: newWorld(t), seed: drawnSeed(t), counts: map[string]int{}}
	m.database = newDurable(t)
	m.w.books.DatabaseURL = m.database.url()
	for range 3 {
		m.servers = append(m.servers, &server{market: m, addr: apptest.FreeAddr(t)})
	}
	m.front = newFront(m)
	m.w.addr = m.front.addr // what the servers call themselves
	m.w.migrates(t)
	m.provider("POST", "float", map[string]any{"cents": 1_000_000_000})
	for _, s := range m.servers {
		s.startWell()
	}
	return m
}

// dice are those of one part of a round: what is added draws nothing from the others.
func (m *market) dice(part string, of ...any) *rand.Rand {
	name := fnv.New64a()
	fmt.Fprint(name, part, m.round, of)
	return rand.New(rand.NewPCG(m.seed, name.Sum64()))
}

// goesOn is one round.
func (m *market) goesOn() {
	m.round++
	m.purchases = nil
	m.fund()
	storm, calm := context.WithTimeout(m.t.Context(), *stormy)
	defer calm()
	m.front.turn(m.dice("front"))
	var nature, buyers sync.WaitGroup
	m.t.Cleanup(buyers.Wait) // whatever ends the test, nobody buys after it
	for _, s := range m.servers {
		nature.Go(func() { s.supervise(storm) })
	}
	m.nature(storm, &nature)
	for i := range *clients {
		buyers.Go(func() { m.client(i).live(storm) })
	}
	<-storm.Done()
	m.front.turn(nil)
	nature.Wait()
	if m.checkHistory(); m.t.Failed() {
		return
	}
	m.well()
	m.until(&buyers)
	m.front.doubles.Wait()
	m.askAgain(storm)
	if len(m.happened.Losses) > 0 {
		m.recover("--return-after", "1ms")
	}
	m.rest()
	m.check()
}

// until waits for buyers who finish what they have begun. Some of them wait for what only an operator's recovery finds.
func (m *market) until(buyers *sync.WaitGroup) {
	m.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); buyers.Wait() }()
	err := apptest.Eventually(m.t, func() error {
		select {
		case <-done:
			return nil
		default:
		}
		if len(m.happened.Losses) > 0 {
			m.recovers()
		}
		return cmp.Or(m.waiting(), context.DeadlineExceeded)
	})
	if err != nil {
		m.check() // what is broken says more than who waits for it
		m.t.Fatalf("seed %d, round %d: served: not every buyer is answered: %v", m.seed, m.round, err)
	}
}

// askAgain lets every buyer ask once more for all of a round: whoever has lost an answer may come at any time.
func (m *market) askAgain(storm context.Context) {
	m.t.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	for range *clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(m.purchases)); i = next.Add(1) - 1 {
				m.purchases[i].buy(storm, m.dice("again", i))
			}
		})
	}
	m.until(&all)
}

// recovers does what an operator does after a restore, and reports whether anything was left to do.
func (m *market) recovers(more ...string) error {
	args := append([]string{"--apply", "--operator", "ada", "--reason", "the drill"}, more...)
	if plan, code := m.w.recovers(m.t, args...); code != 0 || len(plan.Steps) > 0 {
		return fmt.Errorf("the recovery ends with %d: %+v", code, plan.Steps)
	}
	return nil
}

func (m *market) recover(more ...string) {
	m.t.Helper()
	apptest.Await(m.t, "a recovery finds nothing to do", func() error { return m.recovers(more...) })
}

// rest waits until no order is in progress, and every payment is in a block that stays.
func (m *market) rest() {
	m.t.Helper()
	m.w.waitIdle(m.t)
	conn := connect(m.t, m.w.books.DatabaseURL)
	defer func() { _ = conn.Close(m.t.Context()) }()
	apptest.Await(m.t, "every payment is final", func() (err error) {
		var open int
		if err = conn.QueryRow(m.t.Context(), `SELECT count(*) FROM jobs WHERE kind IN ('payment_confirm', 'refund_confirm')
			AND status IN ('queued', 'processing')`).Scan(&open); err == nil && open > 0 {
			err = fmt.Errorf("%d are not", open)
		}
		return err
	})
}

// check compares all books, and looks at what every buyer was told since the beginning.
func (m *market) check() {
	m.t.Helper()
	seen := m.front.history()
	m.w.answers.all, m.w.books.Signed = nil, nil
	for _, e := range seen {
		if e.Paid && !m.front.stolen(e.Key) {
			m.w.books.Signed = append(m.w.books.Signed, invariants.Signed{Payer: e.Payer, Key: e.Key, Nonce: e.Nonce})
		}
		lost := slices.ContainsFunc(m.happened.Losses, func(l history.Loss) bool { return l.Forgets(e) })
		if e.Status == 0 || lost {
			continue
		}
		m.w.saw(invariants.Answer{
			Payer: e.Payer, Key: e.Key, Paid: e.Paid, Status: e.Status, OrderID: e.Order, Transaction: e.Transaction,
			Amount: e.Amount, At: e.From,
		})
	}
	m.w.books.Reorganised = m.happened.Reorganised
	for _, v := range m.w.check(m.t) {
		m.t.Errorf("seed %d, round %d: %s", m.seed, m.round, v)
	}
	m.checkHistory()
}

// checkHistory looks whether what every buyer was told so far can have happened.
func (m *market) checkHistory() {
	m.t.Helper()
	for _, one := range history.Check(m.front.history(), m.happened) {
		m.t.Errorf("seed %d, round %d: history: this cannot have happened to one purchase:", m.seed, m.round)
		for _, e := range one {
			m.t.Logf("  %s to %s: %+v %+v", e.From.Format("05.000"), e.To.Format("05.000"), e.Request, e.Reply)
		}
	}
}

// count notes that something has happened.
func (m *market) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

// told is what has happened so far.
func (m *market) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.counts)
}

// pause waits, and reports whether time is left after that.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// upTo draws a duration below most.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}
