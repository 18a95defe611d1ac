package hostile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/jackc/pgx/v5"
)

// attacker is who can do it.
type attacker string

// The attackers, by what they need.
const (
	stranger    attacker = "stranger"    // an internet address
	payer       attacker = "payer"       // a wallet with money
	owner       attacker = "owner"       // a card or an order
	watcher     attacker = "watcher"     // an eye on the public chain
	node        attacker = "node"        // one of our JSON-RPC endpoints
	facilitator attacker = "facilitator" // whoever settles for us
	provider    attacker = "provider"    // the issuer or the supplier
	operator    attacker = "operator"    // a token of an operator
	keeper      attacker = "signer"      // the machine that signs with our keys
)

// attack is one thing that somebody does at the cost of others.
type attack struct {
	// name is the test's; ref is the number in the checklist of attacks on x402, when it has one.
	name, ref string
	by        attacker
	// aim is the attacker's goal, and defence what prevents it.
	aim, defence string
	// torture says that it takes too long for `make test`, and so does held, which names the package and the test that
	// prove the same rule for less.
	torture bool
	held    string
	do      func(*trial)
}

// trial is one run of an attack on a world.
type trial struct {
	*testing.T
	*world
	wallets []*wallet
	before  figures
	served  []service
	// during is what an attack cost in addition to the honest buyers that were served meanwhile.
	during *figures
}

// wallet makes a wallet of the attack, whose expenses count as its cost.
func (r *trial) wallet(dollars int64) *wallet {
	p := r.world.wallet(dollars)
	r.wallets = append(r.wallets, p)
	return p
}

// mount runs attacks on a world one after the other, each as a test of its name.
func mount(t *testing.T, w *world, attacks []attack) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			if a.held != "" && !whole {
				t.Skipf("%s proves it for less: make torture runs it", a.held)
			}
			if a.torture && !whole {
				t.Skip("takes long: make torture runs it")
			}
			// A failure meanwhile fails the attack's test.
			defer func(t testing.TB) { w.t = t }(w.t)
			w.t = t
			r := &trial{T: t, world: w, before: w.read()}
			begin := time.Now()
			defer func() { a.record(r, time.Since(begin)) }()
			a.do(r)
		})
	}
}

// figures are the counts that an attack changes.
type figures struct {
	Requests, Bytes int64
	CPU             time.Duration
	Memory          int64
	Transactions    int64
	Wei             float64
	Rows            int64
}

func (w *world) read() figures {
	w.t.Helper()
	b := figures{Requests: traffic.requests.Load(), Bytes: traffic.bytes.Load(), Rows: w.rows()}
	for _, p := range w.programs {
		b.CPU += p.cpu()
		b.Memory += p.memory()
	}
	for _, relayer := range w.books.Relayers {
		var count hexutil.Uint64
		w.rpc(&count, "eth_getTransactionCount", relayer, "latest")
		var wei hexutil.Big
		w.rpc(&wei, "eth_getBalance", relayer, "latest")
		left, _ := wei.ToInt().Float64()
		b.Transactions += int64(count)
		b.Wei -= left
	}
	return b
}

// minus is the difference of two readings.
func (f figures) minus(a figures) figures {
	return figures{
		f.Requests - a.Requests, f.Bytes - a.Bytes, f.CPU - a.CPU, f.Memory - a.Memory,
		f.Transactions - a.Transactions, f.Wei - a.Wei, f.Rows - a.Rows,
	}
}

// rows counts what is in the database.
func (w *world) rows() (total int64) {
	w.t.Helper()
	for _, table := range query[string](w, "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'") {
		total += w.count(table)
	}
	return total
}

func (w *world) count(table string) int64 {
	w.t.Helper()
	return query[int64](w, "SELECT count(*) FROM "+table)[0]
}

// query reads one column of the service's database.
func query[T any](w *world, sql string, args ...any) []T {
	w.t.Helper()
	ctx := context.WithoutCancel(w.t.Context())
	conn, err := pgx.Connect(ctx, w.books.DatabaseURL)
	if err != nil {
		w.t.Fatalf("open the database: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return found
}

// besiege serves honest buyers during an attack, and fails the attack's test when they are not served. `make torture`
// alternates rounds without and with the attack, because the speed of the machine varies, and compares them. The attack
// starts again in each round, and ends with its context.
func (r *trial) besiege(attack func(ctx context.Context)) {
	r.Helper()
	var cost figures
	for range sized(1, 5) {
		var quiet quiet
		if whole {
			var err error
			if quiet, err = r.quietly(r.Context()); err != nil {
				r.Fatalf("honest buyers are not served even in quiet: %v", err)
			}
		}
		buyers := r.line() // with money from before the attack
		before := r.read()
		ctx, stop := context.WithCancel(r.Context())
		var busy sync.WaitGroup
		busy.Go(func() { attack(ctx) })
		time.Sleep(300 * time.Millisecond) // clock: the attack begins; what follows fails by no time of it
		attacked, err := serve(r.Context(), buyers)
		stop()
		busy.Wait()
		if err != nil {
			r.Errorf("honest buyers are not served: %v", err)
		}
		cost = sum(cost, r.read().minus(before).minus(quiet.cost))
		if whole {
			r.served = append(r.served, service{
				Quiet: quiet.took, Attacked: attacked, Ratio: float64(attacked) / float64(quiet.took),
			})
		}
	}
	r.during = &cost
	if whole {
		r.tell()
	}
}

func sum(a, b figures) figures { return a.minus(figures{}.minus(b)) }

// tell decides on the rounds of `make torture`, which allows twice the time.
func (r *trial) tell() {
	r.Helper()
	s := median(r.served)
	r.Logf("honest buyers: %s", s)
	if s.Ratio > 2 && s.Attacked > 3*time.Second { // clock: what this torture is about
		r.Errorf("honest buyers wait too long: %s", s)
	}
}

// nothing fails the test when the providers made anything, or the payers' money moved, since before.
func (r *trial) nothing(before goods, payers ...*wallet) {
	r.Helper()
	if now := r.goods(); now != before {
		r.Errorf("the providers made %+v, and had %+v before", now, before)
	}
	for _, p := range payers {
		if moved := p.moved(); moved != 0 {
			r.Errorf("%d units of %s moved", moved, p.address)
		}
	}
}

// paid says that money of a wallet has arrived, by the chain.
func (r *trial) paid(p *wallet) bool { return p.moved() > 0 }

// rest waits until no order of the attack's wallets is in progress.
func (r *trial) rest() {
	r.Helper()
	owners := make([]string, len(r.wallets))
	for i, p := range r.wallets {
		owners[i] = strings.ToLower(p.address.Hex())
	}
	r.await("no order of the attack is on its way", func() error {
		moving := query[string](r.world, `SELECT id || ' is ' || status FROM orders
			WHERE lower(owner) = ANY ($1) AND status IN ('settling', 'settled', 'provisioning', 'refund_pending')
			UNION SELECT j.kind || ' is ' || j.status FROM jobs j JOIN orders o ON o.id = j.payload->>'order'
			WHERE lower(o.owner) = ANY ($1) AND j.kind IN ('order_fulfill', 'card_issue_fee')
				AND j.status IN ('queued', 'processing')`, owners)
		if len(moving) > 0 {
			return errors.New(strings.Join(moving, ", "))
		}
		return nil
	})
}

// record adds a line for the threat model.
func (a attack) record(r *trial, took time.Duration) {
	file := os.Getenv("ROAMCARD_HOSTILE")
	if file == "" {
		return
	}
	cost := r.read().minus(r.before)
	if r.during != nil {
		cost = *r.during
	}
	var paid int64
	for _, p := range r.wallets {
		paid += max(0, p.moved())
	}
	line := map[string]any{
		"name": a.name, "test": r.Name(), "by": a.by, "ref": a.ref, "aim": a.aim, "defence": a.defence, "failed": r.Failed(),
		"seconds": took.Seconds(), "whole": whole, "wallets": len(r.wallets), "paidUnits": paid,
		"requests": cost.Requests, "bytes": cost.Bytes, "cpuMs": cost.CPU.Milliseconds(), "memory": cost.Memory,
		"transactions": cost.Transactions, "gwei": int64(cost.Wei / 1e9), "rows": cost.Rows,
	}
	if len(r.served) > 0 {
		s := median(r.served)
		line["quietMs"], line["attackedMs"], line["ratio"], line["rounds"] = s.Quiet.Milliseconds(),
			s.Attacked.Milliseconds(), s.Ratio, s.Rounds
	}
	text, err := json.Marshal(line)
	if err != nil {
		r.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, string(text))
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		r.Errorf("record the attack: %v", err)
	}
}
