package endtoend_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// buyRetrying repeats one purchase, as the answers advise, until it is sold.
func (b *buyer) buyRetrying(key string) (paidOrder, error) {
	return b.retry(key, header(b.w.t, b.payment()))
}

// retry repeats a purchase with the same payment, at each process in turn, until it is sold.
func (b *buyer) retry(key, payment string) (paidOrder, error) {
	a := untilClear(b.w.t, answer.worthRepeating, func(n int) answer {
		return b.w.send(purchase(key, payment).on(b.w.instances[n%len(b.w.instances)]))
	})
	if a.err != nil || a.status != http.StatusOK {
		return paidOrder{}, fmt.Errorf("not sold: %d %s (%v)", a.status, clipped(a.body), a.err)
	}
	var o paidOrder
	a.into(b.w.t, http.StatusOK, &o)
	return o, nil
}

// wantSold buys with a fresh authorization, repeating the request as the answers advise, and must end with an order.
func (b *buyer) wantSold(key string) {
	b.w.t.Helper()
	b.wantRetrySold(key, header(b.w.t, b.payment()))
}

// wantRetrySold is wantSold with a given payment.
func (b *buyer) wantRetrySold(key, payment string) {
	b.w.t.Helper()
	if _, err := b.retry(key, payment); err != nil {
		b.w.t.Errorf("%s: %v", key, err)
	}
}

// buyDuring lets n buyers buy while something goes wrong, and checks that each gets one card for one payment.
func (w *world) buyDuring(n int, disturb func()) {
	w.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		b := w.buyer()
		all.Go(func() {
			pause(time.Duration(i) * 60 * time.Millisecond) // clock: the buyers come one after the other
			b.wantSold(fmt.Sprint("load-", i))
		})
	}
	func() {
		defer all.Wait() // whatever becomes of the disturbance, nobody buys after the test
		disturb()
	}()
	w.awaitSettled()
	if got := len(w.transfers()); got != n {
		w.t.Errorf("%d transfers for %d buyers", got, n)
	}
	for _, e := range w.orders() {
		if e.status != "fulfilled" || e.fee != "succeeded" {
			w.t.Errorf("order %+v, want fulfilled and its fee withdrawn", e)
		}
	}
	w.checkBooks()
}

// awaitOrders waits until so many orders are claimed.
func (w *world) awaitOrders(orders int) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		var n int
		// The test's own connections may be broken, too.
		err := w.db.QueryRow(context.WithoutCancel(w.t.Context()), "SELECT count(*) FROM orders").Scan(&n)
		return err == nil && n >= orders, fmt.Sprint(n, " orders, ", err)
	})
}

// ownDatabase is a server of the test's own, durable, in a folder that survives it.
func ownDatabase(t *testing.T) (server *devnet.Postgres, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rc-db-") // short, so that the socket stays in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server runs as another user
		t.Fatal(err)
	}
	server = startDatabase(t, dir)
	if _, err := store.Migrate(t.Context(), server.URL(), nil); err != nil {
		t.Fatal(err)
	}
	return server, dir
}

func startDatabase(t *testing.T, dir string) *devnet.Postgres {
	t.Helper()
	server, err := devnet.StartPostgres(t.Context(), devnet.PostgresConfig{Dir: dir})
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

func TestDatabaseRestartLosesNoPurchase(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "store TestKilledBackendRollsBack and TestJobsAreDoneOnceThoughConnectionsDie, "+
		"testing/simulation TestSeeds")
	for name, end := range map[string]func(t *testing.T, server *devnet.Postgres, dir string){
		"asked to": func(t *testing.T, server *devnet.Postgres, _ string) {
			if err := server.Close(); err != nil {
				t.Errorf("stop PostgreSQL: %v", err)
			}
		},
		"killed": func(t *testing.T, server *devnet.Postgres, dir string) {
			if err := syscall.Kill(postmaster(t, dir), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-server.Done()
			server.Close() // it says that it was killed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := ownDatabase(t)
			w := newWorld(t, plan{instances: 2, databaseURL: server.URL()})
			w.buyDuring(12, func() {
				for _, orders := range []int{2, 6} {
					w.awaitOrders(orders)
					end(t, server, dir)
					server = startDatabase(t, dir)
					w.db.Reset()
				}
			})
		})
	}
}

// postmaster is the server's process, from the file that it writes itself.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pg*", "postmaster.pid"))
	if err != nil || len(files) != 1 {
		t.Fatalf("find the server's process: %v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.SplitN(string(text), "\n", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestTerminatedBackendsLoseNoPurchase(t *testing.T) {
	onlyTorture(t, "store TestKilledBackendRollsBack and TestJobsAreDoneOnceThoughConnectionsDie")
	t.Parallel()
	w := newWorld(t, plan{instances: 2})
	w.buyDuring(12, func() {
		w.awaitOrders(1)
		for range 12 {
			pause(120 * time.Millisecond) // clock: spaces out the cuts
			_, err := w.db.Exec(context.WithoutCancel(t.Context()),
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = "+
					"'roamcard'")
			if err != nil {
				t.Errorf("terminate the backends: %v", err)
			}
		}
	})
}

// TestAmbiguousCommitIsLookedUp cuts connections at COMMIT, in turn before and after it is executed.
func TestAmbiguousCommitIsLookedUp(t *testing.T) {
	onlyTorture(t, "store TestLostCommitIsUnknown and TestStepsThatAreCutOffAreStoredOrNot")
	t.Parallel()
	direct := storetest.URL(t)
	cutter := newCommitCutter(t, direct)
	w := newWorld(t,
		plan{instances: 2, databaseURL: direct, change: func(c *app.Config) { c.DatabaseURL = secret.New(cutter.url) }})
	cutter.every.Store(4)
	w.buyDuring(12, func() {
		eventually(t, func() (bool, string) {
			return cutter.cuts.Load() >= 6, fmt.Sprint(cutter.cuts.Load(), " commits were cut")
		})
		cutter.every.Store(0)
	})
}

// TestTransientDatabaseErrorsAreRetried makes the database refuse a share of all changes, with each of the
// codes that only ask to wait.
func TestTransientDatabaseErrorsAreRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01", "55P03", "57014", "53100", "25006"} {
		t.Run(code, func(t *testing.T) {
			if code != "40001" {
				onlyTorture(t, "40001, store TestFailureBeforeTheCommitIsItsOwn")
			}
			t.Parallel()
			w := newWorld(t, plan{})
			exec := func(sql string) {
				t.Helper()
				if _, err := w.db.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			exec(`CREATE FUNCTION give_way() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN IF random() < 0.1 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '` + code + `'; END IF; RETURN NEW; END $$`)
			tables := []string{"orders", "payments", "transactions", "transaction_members", "cards", "reservations", "timeline",
				"jobs"}
			for _, table := range tables {
				exec("CREATE TRIGGER give_way BEFORE INSERT OR UPDATE ON " + table + " FOR EACH ROW EXECUTE FUNCTION give_way()")
			}
			w.buyDuring(8, func() {
				w.awaitOrders(8)
				pause(time.Second) // clock: errors go on while all are under way
				for _, table := range tables {
					exec("DROP TRIGGER give_way ON " + table)
				}
			})
		})
	}
}

// TestDeafServersDeliver: no wake-up passes between two processes. What one of them leaves to the other, the decision
// that its buyer waits for and the fee's job, is found by polling.
func TestDeafServersDeliver(t *testing.T) {
	t.Parallel()
	deaf := newDeafener(t, storetest.URL(t))
	w := newWorld(t, plan{bare: true, databaseURL: deaf.url, chain: ownChain(t), change: func(c *app.Config) {
		c.Wait = 50 * time.Second
	}})
	server := w.config
	server.NoWorker = true
	for _, config := range []app.Config{server, w.config} {
		w.start(config)
	}
	for _, i := range w.instances {
		w.awaitReady(i)
	}
	b := w.buyer()
	first := purchase("deaf", header(t, b.payment()))
	w.pauseMining()
	answered := make(chan answer, 1)
	go func() { answered <- w.send(first) }()
	// The worker has the job once the process that answers has looked at the chain in vain.
	eventually(t, func() (bool, string) {
		n := w.count("SELECT coalesce(max(attempt), 0) FROM jobs WHERE owner = $1", b.address.Lower())
		return n > 1, fmt.Sprint(n, " runs of the order's job")
	})
	w.resumeMining()
	wantStatus(t, "the buyer who waits", <-answered, 200)
	w.awaitSettled()
	for _, e := range w.orders() {
		if e.status != "fulfilled" || e.fee != "succeeded" {
			t.Errorf("order %+v, want fulfilled and its fee withdrawn", e)
		}
	}
	if deaf.lost.Load() == 0 {
		t.Error("nobody was deaf: no notification was lost")
	}
	w.checkBooks()
}
