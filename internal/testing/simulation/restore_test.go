package simulation_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// restores are a world's database that is put back to a copy of itself, and who recovers what it has lost.
type restores struct {
	// admin is the address of a database of the same server.
	admin string
	// losses are those that have happened, and lost the relayers' account nonces of which the database knows no more.
	losses []history.Loss
	lost   []invariants.Gap
	// recoveries counts the runs of the command.
	recoveries int
}

// safe leaves out of a plan what a restore cannot promise anything about: what only the lost database knew, like
// operators' decisions and owners' changes, providers that cannot say whose their goods are, and transactions that wait
// for longer than a process waits for them.
func (p plan) safe() plan {
	p.issuer, p.supplier, p.settlers, p.operators, p.float, p.fees, p.block = sandboxes, sandboxes, "relayer", 0, 0, 0, 0
	p.spending, p.second, p.slips = false, false, 0
	return p.buyersAlone()
}

// older is the database of a copy.
func older(name string) string { return name + "_older" }

// goBack copies the database and puts the copy in its place later, while no process runs or under running ones. What it
// returns waits for the end of that.
func (w *world) goBack(over <-chan struct{}) (wait func()) {
	if !w.plan.restores {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rng := diceOf(w.plan.seed, 5)
		soon := func() time.Duration { return time.Duration(rng.Int64N(int64(w.plan.over + 20*time.Second))) }
		if !pause(soon(), over) {
			return
		}
		// A copy from before the chain was read for the first time knows of nothing that was paid before.
		for !w.hasRead() {
			if !pause(time.Second, over) {
				return
			}
		}
		copied, from := time.Now(), w.relayed()
		w.databases("copies the database", func(name string) []string {
			return []string{
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'",
				"CREATE DATABASE " + older(name) + " TEMPLATE " + name,
			}
		})
		pause(soon(), over)
		for _, s := range w.slots {
			if p := w.running(s); p != nil && rng.IntN(2) == 0 {
				p.kill()
			}
		}
		w.goDark()
		var lost []invariants.Gap
		for i, next := range w.relayed() {
			relayer := w.relayers()[i]
			lost = append(lost, invariants.Gap{Relayer: relayer, From: from[i], To: max(next, w.stored(relayer))})
		}
		w.databases("puts it back", func(name string) []string {
			return []string{"DROP DATABASE " + name + " WITH (FORCE)", "ALTER DATABASE " + older(name) + " RENAME TO " + name}
		})
		w.lose(history.Loss{Copied: copied, Ended: time.Now(), Restored: time.Now()}, lost)
		w.lighten()
		for pause(soon()/4, over) {
			w.recover(48 * time.Hour)
		}
	}()
	return func() { <-done }
}

// goDark ends all processes for a long time, where the copy is an old one when it is put back. What was done since the
// copy was made is long ago then.
func (w *world) goDark() {
	if w.plan.dark == 0 {
		return
	}
	w.mu.Lock()
	w.lit = make(chan struct{})
	w.mu.Unlock()
	w.bus.note("everything is down for %s", w.plan.dark)
	for _, s := range w.slots {
		if p := w.running(s); p != nil {
			p.kill()
		}
	}
	time.Sleep(w.plan.dark)
}

// lighten ends what goDark has begun.
func (w *world) lighten() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lit != nil {
		close(w.lit)
		w.lit = nil
		w.rules.wasBack(time.Now())
	}
}

// light is closed, or nil, when processes may run.
func (w *world) light() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lit
}

func (w *world) lose(l history.Loss, nonces []invariants.Gap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restores.losses, w.restores.lost = append(w.restores.losses, l), append(w.restores.lost, nonces...)
}

// databases does something to the databases of the world's server, in a turn of its own and with nobody connected.
func (w *world) databases(what string, statements func(name string) []string) {
	w.turn(what)
	for _, s := range w.slots {
		if p := w.running(s); p != nil {
			p.disconnect()
		}
	}
	w.db.close(context.Background())
	at, err := url.Parse(w.url)
	for _, sql := range statements(at.Path[1:]) {
		if err == nil {
			err = run(context.Background(), w.restores.admin, sql, dialSocket)
		}
	}
	fix(w.bus.seed, what, w.bus.granted)
	if err != nil {
		w.t.Errorf("seed %d: %s: %v", w.plan.seed, what, err)
	}
}

// turn waits until it is the turn of whoever looks after the world.
func (w *world) turn(what string) {
	keeper := newProcess("keeper", func() {})
	keeper.immortal = true
	_, _ = w.bus.ask(keeper, what, nil) // nothing of the keeper ends
}

func relayerAddress() string { return walletOf(devnet.RoleRelayer).Address }

// relayers are the accounts that settle: that of all payments, that of smart accounts alone, and that which follows.
func (w *world) relayers() []string {
	all := []string{relayerAddress()}
	if w.plan.smart {
		all = append(all, devnet.WalletsOf(devnet.RoleRelayer)[smartRelayer].Address)
	}
	if w.plan.rotates {
		all = append(all, nextRelayer.address())
	}
	return all
}

// relayed is how many transactions each relayer has in blocks and in the pool.
func (w *world) relayed() (all []int64) {
	for _, relayer := range w.relayers() {
		all = append(all, w.chain.Pending(common.HexToAddress(relayer)))
	}
	return all
}

// stored is the account nonce that follows those of a relayer in the database.
func (w *world) stored(relayer string) (next int64) {
	conn, err := w.db.look(context.Background())
	if err != nil {
		return 0
	}
	const after = "SELECT coalesce(max(nonce) + 1, 0) FROM transactions WHERE lower(relayer) = lower($1)"
	_ = conn.QueryRow(context.Background(), after, relayer).Scan(&next)
	return next
}

// hasRead reports whether a process has read the chain, in a turn of its own.
func (w *world) hasRead() (read bool) {
	const what, marked = "looks whether the chain was read",
		"SELECT EXISTS (SELECT FROM chain_watermarks WHERE heartbeat > 0)"
	w.turn(what)
	if conn, err := w.db.look(context.Background()); err == nil {
		_ = conn.QueryRow(context.Background(), marked).Scan(&read) // then not
	}
	fix(w.bus.seed, what, w.bus.granted)
	return read
}

// disconnect breaks the connections of a process, as a database that ends does.
func (p *process) disconnect() {
	p.mu.Lock()
	wires := slices.Clone(p.wires)
	p.mu.Unlock()
	for _, one := range wires {
		one.cut()
	}
}

// recover is what an operator does after a restore. It reports whether nothing is left to do but about the money of who
// is not to be served.
func (w *world) recover(refundAfter time.Duration) (done bool) {
	r := &w.restores
	r.recoveries++
	p := newProcess(fmt.Sprintf("recover%d", r.recoveries), w.bus.died)
	w.mu.Lock()
	p.settings = maps.Clone(w.settings)
	w.mu.Unlock()
	defer p.kill()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	found, err := w.configOf(p).Recover(ctx, app.RecoverConfig{
		Apply: true, Operator: "ada", Reason: "simulated", RefundAfter: refundAfter,
	}, w.log.With("process", p.name))
	w.bus.note("%s ends: %d steps, %v", p.name, len(found.Steps), err)
	left := slices.DeleteFunc(found.Steps, func(s reconcile.Step) bool { return w.screen.refuses(s.Payer) })
	return err == nil && len(left) == 0
}

// finish waits until all buyers have done. After a restore an operator recovers what was lost, until nothing is left:
// some buyers wait for that.
func (w *world) finish(buyers *sync.WaitGroup) (all bool) {
	if len(w.restores.losses) == 0 {
		buyers.Wait()
		return true
	}
	done := make(chan struct{})
	go func() { defer close(done); buyers.Wait() }()
	const between = 5 * time.Second
	for pause(between, done) {
		w.recover(48 * time.Hour)
	}
	for began := time.Now(); time.Since(began) < longest; time.Sleep(between) {
		if w.recover(time.Millisecond) {
			return true
		}
	}
	return false
}

// longestAbsence is how long after a restore a buyer comes back at most.
const longestAbsence = 20 * time.Second

// askAgain asks once more for all that was paid for, where a restore may have lost it. Some buyers come late, and some
// have forgotten their keys and buy the same under another one first, unless it is a card: a wallet has one, and what
// becomes of a lost one is for an operator to say then.
func (b *buyer) askAgain() {
	if !b.world.plan.restores {
		return
	}
	<-b.world.well
	rng := diceOf(b.world.plan.seed, uint64(8000+b.nth))
	time.Sleep(time.Duration(rng.Int64N(int64(longestAbsence))))
	bought := slices.DeleteFunc(slices.Clone(b.purchases), func(p *purchase) bool { return p.paid == "" })
	if len(bought) > 0 && rng.IntN(3) == 0 {
		if old := bought[rng.IntN(len(bought))]; old.path != "/api/card/purchase" {
			b.purchase(old.path, old.more).buy()
		}
	}
	for _, p := range bought {
		p.buy()
	}
}

// forgotten reports whether an answer may be of what a restore has lost.
func (r restores) forgotten(e history.Event) bool {
	return slices.ContainsFunc(r.losses, func(l history.Loss) bool { return l.Forgets(e) })
}

// signed are the payments that buyers have signed, each for one purchase, in a world that has lost something. What was
// also sent for another purchase, or to the chain by somebody else, is not for one alone.
func (w *world) signed() (all []invariants.Signed) {
	if len(w.restores.losses) == 0 {
		return nil
	}
	keys := map[string]string{}
	for _, f := range w.foreign {
		keys[f.authorization.Nonce.String()] = "another's"
	}
	for _, e := range w.seen {
		if known, ok := keys[e.Nonce]; ok && known != e.Key {
			keys[e.Nonce] = "several"
		} else if e.Paid {
			keys[e.Nonce] = e.Key
		}
	}
	for _, e := range w.seen {
		if e.Paid && keys[e.Nonce] == e.Key {
			all = append(all, invariants.Signed{Payer: e.Payer, Key: e.Key, Nonce: e.Nonce})
		}
	}
	return all
}
