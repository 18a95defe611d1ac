package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// world is one run: what outlives every crash, the processes, and the buyers.
type world struct {
	t     *testing.T
	plan  plan
	bus   *bus
	chain *node.Chain
	bank  http.Handler
	// asked counts what the bank was asked, by all but those who look.
	asked atomic.Int64
	// facilitator settles in some worlds.
	facilitator *facilitator
	// screen names payers in some worlds.
	screen *screen
	// liars are the nodes.
	liars   []*liar
	records records
	// url and db are those of a database, where the records are in one.
	url string
	db  *database
	// token is the chain at its ports; nil where processes ask nodes.
	token *token
	log   *slog.Logger

	mu    sync.Mutex
	slots []*slot
	// settings are what the operator has changed in the configuration.
	settings map[string]string
	// trading are the buyers who have not done yet what they do while things go wrong. well is closed when they no longer
	// do, and ending when no process is started again.
	trading sync.WaitGroup
	well    chan struct{}
	ending  chan struct{}
	// rested says that everything had ended at last.
	rested bool
	// removed are the nonces of what removed owners of smart accounts have signed, with the time of their removal.
	removed map[string]time.Time
	// waiting are honest purchases that did not end, and under those under way.
	waiting []string
	under   map[*purchase]bool
	// sink is where emptied wallets send their money.
	sink    x402.Address
	seen    []history.Event
	foreign []foreign
	// sent are the payments that buyers have sent, and rules what must hold of what others are told.
	sent  []presented
	rules rules
	// replaced counts the reorganisations.
	replaced int
	// down are hosts that do not answer.
	down     map[string]bool
	crashes  int
	restores restores
	// lit is closed when processes may run again; nil while they may.
	lit chan struct{}
	// delayed are orders at providers that are on their way, although who sent them has given up or died.
	delayed sync.WaitGroup
}

// plan is what the seed says of a run.
type plan struct {
	seed uint64
	// theme is what the world is about.
	theme     string
	processes int
	buyers    int
	weather   weather
	// issuer and supplier make what is sold.
	issuer, supplier string
	// float is what the sandbox has of ours at first, in cents: then not everybody can be served. Zero is plenty.
	float money.Cents
	// nodes is how many nodes of the chain there are.
	nodes int
	// lies is how often in a minute one of the nodes begins to be false; liar says that one of them always is.
	lies float64
	liar bool
	// reorganisations, lags, outages, changes of fees and stops of processes: how many there are in a minute.
	reorganisations, lags, outages, fees, stops float64
	// stopped is how long a process that stops does so at most.
	stopped time.Duration
	// slips is how many requests in a minute a provider answers wrongly.
	slips float64
	// block is how many transactions a block takes; zero is as many as there are.
	block int
	// restores says that the database is put back to a copy of itself once.
	restores bool
	// dark is for how long nothing runs before that.
	dark time.Duration
	// nextIssuer and nextSupplier are those that follow, where an operator changes them.
	nextIssuer, nextSupplier string
	// rotates says that an operator changes keys, and starts one process after the other again.
	rotates bool
	// closes says that operators close sales and open them again, and pauses that the token's issuer pauses it.
	closes, pauses bool
	// hostile buyers do more than a client should; in some worlds they cheat, too.
	hostile, cheats bool
	// droughts are times in which the relayer has no gas.
	droughts bool
	// screens says that a service is asked about payers, and names some.
	screens bool
	// settlers are the operator's setting of who brings payments to the chain.
	settlers string
	// operators is how many operators decide what waits for one, and pace how long each does nothing at most.
	operators int
	pace      time.Duration
	// second says that decisions about much wait for a second one.
	second bool
	// skew is the most by which a process's clock is wrong, forward or back.
	skew time.Duration
	// spending says that merchants take at once what is on the sandbox's cards.
	spending bool
	// over is how long buyers begin, and opens when the first of them may.
	over, opens time.Duration
	// until is when things stop going wrong, at the latest: as long as buyers do not end, they go on before.
	until time.Duration
	// owners says that buyers do something with what they have bought, most how many do so at most, and strangers is how
	// many want what is not theirs.
	owners    bool
	most      int
	strangers int
	// refusing says that providers refuse more, and that operators decide what waits twice at once. holds says that
	// merchants hold parts of what is on the sandbox's cards. byHand says that there is no treasury: operators refund by
	// hand.
	refusing, holds, byHand bool
	// doubt says that the sandbox leaves half of what buyers ask for first undecided, for ever.
	doubt bool
	// smart says that some wallets are smart accounts, of which some are made by their first payment, and some lose the
	// owner that has signed.
	smart bool
	// bounded says that wallets may have little at once, and that some want more. counted says that their payments are
	// counted, else the shares of floats are.
	bounded, counted bool
	// ported says that each call of the store's ports is one of the bus, whichever store it is, and nothing below.
	ported bool
}

// slot is a place where one process runs at a time, as an orchestrator has it.
type slot struct {
	name string
	rng  *rand.Rand
	runs int
	now  *process
	// settings are what the next process of the slot finds changed in its configuration.
	settings map[string]string
}

// clock is the time of the world: virtual while its bubble lives, and the last one of it afterwards.
type clock struct {
	mu    sync.Mutex
	ended time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended.IsZero() {
		return c.ended
	}
	return time.Now()
}

func (c *clock) stop(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = at
}

// outcome is what a run was.
type outcome struct {
	trace      string
	lines      []string
	violations []invariants.Violation
	bought     int
	granted    int
	fates      map[fate]int
	crashes    int
	lasted     time.Duration
	err        error
}

// simulate runs a world to its rest, and looks for what is broken.
func simulate(t *testing.T, s *server, p plan) outcome {
	t.Helper()
	warmUp.Do(func() {
		runWorld(t, s, plan{
			processes: 1, buyers: 4, nodes: 3, hostile: true, over: time.Second, issuer: sandboxes, supplier: sandboxes,
			weather: weather{latency: time.Millisecond},
		}, false)
	})
	return runWorld(t, s, p, true)
}

func runWorld(t *testing.T, s *server, p plan, checked bool) (out outcome) {
	t.Helper()
	time0 := &clock{}
	w := &world{
		t: t, plan: p, sink: x402.Address{19: 0xee}, down: map[string]bool{}, under: map[*purchase]bool{},
		removed: map[string]time.Time{}, settings: map[string]string{},
	}
	if s != nil {
		w.restores.admin = s.admin
		drop := w.keepInPostgres(s)
		defer drop()
		if p.ported {
			if err := run(t.Context(), w.url, tableClockSQL, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	collectGarbage()
	forget()
	lastID = 0 // as when a program starts: ids are the same whenever their world is
	synctest.Test(t, func(t *testing.T) {
		fix(p.seed, "world", 0)
		began := time.Now()
		// Made here, because virtual time stands still while anything waits for a channel of somewhere else.
		bank, err := sandbox.NewServer(sandbox.Config{Now: time0.now, Float: p.float, SupplierFloat: p.supplierFloat()})
		if err != nil {
			t.Fatal(err)
		}
		defer bank.Close()
		providers := bankers(bank, time0.now)
		w.bank = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != books {
				defer w.asked.Add(1)
			}
			providers.ServeHTTP(rw, r)
		})
		w.ending, w.well = make(chan struct{}), make(chan struct{})
		w.bus = newBus(p.seed, func(n uint64) { cryptotest.SetGlobalRandom(t, p.seed+n) })
		w.bus.weather = p.weather
		w.log = telemetry.NewLogger(logTo(), slog.LevelInfo, false)
		w.chain = node.New(node.Config{Start: began, Now: time0.now, MaxTransactions: p.block})
		w.facilitator, w.screen = w.newFacilitator(time0.now), w.newScreen()
		w.liars = w.newLiars()
		switch {
		case s == nil:
			w.keepInMemory()
		case p.ported:
			done, err := w.portStore(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer done()
		default:
			w.db.bus = w.bus
		}
		stop := make(chan struct{})
		go w.direct(stop)
		w.bus.run(stop)
		if w.db != nil {
			w.db.close(t.Context())
			w.db.dial = nil // for those who look afterwards
		}
		out.lasted = time.Since(began)
		time0.stop(time.Now())
	})
	release()
	w.bus.order()
	out.trace, out.lines, out.granted, out.fates = w.bus.trace.hash(), w.bus.trace.lines, w.bus.granted, w.bus.fates
	out.crashes = w.crashes
	out.bought = w.bought()
	if !checked {
		return out
	}
	if w.seen, out.err = w.binding(t.Context()); out.err != nil {
		return out
	}
	out.violations, out.err = w.check(t.Context())
	if !w.rested {
		out.violations = append(out.violations, invariants.Violation{
			ID: "rest", Rule: "once everything is well, everything ends", Message: "it goes on after " + longest.String(),
		})
	}
	for _, of := range w.waiting {
		out.violations = append(out.violations, invariants.Violation{
			ID: "served", Rule: "who keeps to the rules is served", Message: of,
		})
	}
	happened := history.World{Reorganised: p.reorganisations > 0, Losses: w.restores.losses}
	for _, e := range w.seen {
		if e.Code == "internal" {
			out.violations = append(out.violations, invariants.Violation{
				ID: "served", Rule: "nobody is told of a mistake of the program", Message: fmt.Sprintf("%+v", e),
			})
		}
	}
	for _, one := range history.Check(w.seen, happened) {
		out.violations = append(out.violations, invariants.Violation{
			ID: "history", Rule: "all that buyers saw of one key happened in some order", Message: fmt.Sprintf("%+v", one),
		})
	}
	return out
}

// direct lets buyers come, then the world come to rest, and ends it.
func (w *world) direct(stop chan<- struct{}) {
	defer close(stop)
	var processes, buyers sync.WaitGroup
	for i := range w.plan.processes {
		s := &slot{name: string(rune('a' + i)), rng: diceOf(w.plan.seed, uint64(100+i))}
		w.slots = append(w.slots, s)
		processes.Go(func() { w.supervise(s) })
	}
	w.trading.Add(w.plan.buyers)
	var all []*buyer
	for i := range w.plan.buyers {
		b := w.newBuyer(i)
		all = append(all, b)
		b.named = w.screen.names(b)
		if w.plan.owners && i < w.plan.most {
			w.trading.Add(1)
			b.owner = newOwner(b)
			all = append(all, b.owner.buyer)
			buyers.Go(b.owner.live)
		}
		buyers.Go(func() { b.live(); b.askAgain() })
	}
	quiet := make(chan struct{})
	processes.Go(func() { w.nature(quiet) })
	if w.token != nil {
		processes.Go(func() { w.token.maintain(w.ending) })
	}
	if w.plan.lies > 0 {
		processes.Go(func() { w.deceive(quiet) })
	}
	if w.plan.droughts {
		processes.Go(func() { w.starve(quiet) })
	}
	if w.plan.slips > 0 {
		processes.Go(func() { w.slip(quiet) })
	}
	if w.plan.spending {
		processes.Go(func() { w.spend(quiet) })
	}
	if w.plan.holds {
		processes.Go(func() { w.hold(quiet) })
	}
	for i := range w.plan.operators {
		buyers.Go(func() { w.operate(i, quiet) }) // what one has begun may end late
	}
	if w.plan.rotates {
		processes.Go(func() { w.rotate(quiet) })
	}
	if w.plan.closes {
		processes.Go(func() { w.close(quiet) })
	}
	if w.plan.pauses {
		processes.Go(func() { w.pauseToken(quiet) })
	}
	wentBack := w.goBack(quiet)
	if w.plan.bounded {
		processes.Go(func() { w.audit(quiet) })
		for i := range greedy {
			buyers.Go(func() { w.want(i) })
		}
	}
	if w.plan.owners && w.plan.operators > 0 {
		processes.Go(w.endTopUps)
	}
	for i := range w.plan.strangers {
		buyers.Go(func() { w.estrange(i, quiet) })
	}
	traded := make(chan struct{})
	processes.Go(func() { w.trading.Wait(); close(traded) })
	pause(w.plan.until, traded)
	close(quiet)
	wentBack()
	w.calm()
	w.delayed.Wait()
	close(w.well)
	w.rested = w.finish(&buyers) && w.rest()
	if w.rested && len(w.restores.losses) == 0 {
		for _, b := range all {
			b.repeatAll()
		}
	}
	close(w.ending)
	for _, s := range w.slots {
		if p := w.running(s); p != nil {
			p.kill()
		}
	}
	processes.Wait()
}

// begins notes that a purchase is under way, or no longer.
func (w *world) begins(p *purchase, under bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if under {
		w.under[p] = true
	} else {
		delete(w.under, p)
	}
}

func (w *world) isWell() bool {
	select {
	case <-w.well:
		return true
	default:
		return false
	}
}

// calm ends all faults.
func (w *world) calm() {
	w.bus.mu.Lock()
	w.bus.weather = weather{latency: w.plan.weather.latency}
	w.bus.mu.Unlock()
	w.bus.note("calm")
}

// longest is how long a world may take to come to rest: longer than a payment is valid and a provider is waited for.
const longest = 15 * time.Minute

// rest waits until no order is in progress, as long as that may take. Whoever looks has a turn, as everybody has.
func (w *world) rest() (came bool) {
	observer := newProcess("observer", func() {})
	observer.immortal = true
	for until := time.Now().Add(longest); time.Now().Before(until); time.Sleep(time.Second) {
		if _, err := w.bus.ask(observer, "look", nil); err != nil {
			return false
		}
		settled, err := w.records.settled(context.Background())
		fix(w.bus.seed, "look", w.bus.granted)
		if err == nil && settled {
			return true
		}
	}
	return false
}

// shortestDown is how long a process is down at least.
const shortestDown = 500 * time.Millisecond

// supervise starts the program again whenever it dies.
func (w *world) supervise(s *slot) {
	// No two of them start in the same moment.
	for down := time.Duration(s.rng.Int64N(int64(100 * time.Millisecond))); pause(down, w.ending); {
		if dark := w.light(); dark != nil {
			<-dark
		}
		s.runs++
		p := newProcess(fmt.Sprintf("%s%d", s.name, s.runs), w.bus.died)
		w.mu.Lock()
		s.now, p.settings = p, s.settings
		w.mu.Unlock()
		err := p.live(func(ctx context.Context) (program, error) { return w.records.open(ctx, p) })
		if p.isDead() {
			w.mu.Lock()
			w.crashes++
			w.mu.Unlock()
		} else if err != nil {
			w.bus.note("%s ended: %s", p.name, strings.SplitN(err.Error(), "\n", 2)[0])
		}
		p.kill()
		// It is down from its death on, not from when the last of it has ended, which is nobody's to see.
		down = time.Until(p.end.Add(shortestDown + time.Duration(s.rng.Int64N(int64(5*time.Second)))))
	}
}

// bought counts the orders that buyers were told of.
func (w *world) bought() int {
	orders := map[string]bool{}
	for _, e := range w.seen {
		if e.Order != "" {
			orders[e.Order] = true
		}
	}
	return len(orders)
}

func (w *world) running(s *slot) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.now
}

// site is the origin that buyers know.
const site = "http://shop.sim"

// client is how a process asks what is outside of it.
func (w *world) client(p *process) *http.Client {
	hosts := map[string]http.Handler{
		"providers.sim": w.bank, "facilitator.sim": w.facilitator, "screening.sim": w.screen,
	}
	for _, l := range w.liars {
		hosts[l.name+".sim"] = l
	}
	return &http.Client{Transport: &way{of: p, bus: w.bus, hosts: hosts, down: w.isDown, delayed: &w.delayed}}
}

// clockOf is the clock of a process's machine. The database has its own. Some are set once, by what was wrong.
func (w *world) clockOf(p *process) func() time.Time {
	if w.plan.skew == 0 {
		return time.Now
	}
	wrong := func(rng *rand.Rand) time.Duration {
		return time.Duration(rng.Int64N(int64(2*w.plan.skew))) - w.plan.skew
	}
	first := wrong(diceOf(w.plan.seed, uint64(7000+int(p.name[0]))))
	rng := diceNamed(w.plan.seed, "sets the clock of "+p.name[:1])
	set := w.bus.trace.began.Add(w.plan.opens + time.Duration(rng.Int64N(int64(w.plan.over+waitFor))))
	if rng.IntN(3) > 0 {
		return func() time.Time { return time.Now().Add(first) }
	}
	then := wrong(rng)
	return func() time.Time {
		now := time.Now()
		if now.Before(set) {
			return now.Add(first)
		}
		return now.Add(then)
	}
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i+1) }

// nodes are the addresses of the chain's.
func (w *world) nodes() string {
	var all []string
	for i := range w.plan.nodes {
		all = append(all, "http://"+nodeName(i)+".sim")
	}
	return strings.Join(all, ",")
}

// front sends a buyer's request to one of the processes. It is refused by one that is down, and broken off by one that
// dies.
func (w *world) front(ctx context.Context, at int, r *http.Request) (*http.Response, error) {
	p := w.running(w.slots[at%len(w.slots)])
	if p == nil {
		return nil, errBroken
	}
	h := p.takes()
	if h == nil {
		return nil, errBroken
	}
	answered := make(chan *http.Response, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer p.requests.Done()
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r.WithContext(ctx))
		answered <- rec.Result()
	}()
	select {
	case response := <-answered:
		return response, nil
	case <-p.dead:
		return nil, errBroken
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transact makes an account call the token itself, past the service.
func (w *world) transact(from x402.Address, call []byte) common.Hash {
	token := domain().Contract
	w.bus.note("%s calls the token: %x", from, call[:4])
	return w.chain.Execute(common.Address(from), common.Address(token), call)
}

// foreign is a payment that somebody else has sent to the chain.
type foreign struct {
	authorization x402.Authorization
	transaction   common.Hash
}

// settleForeign makes somebody else send a payment to the chain.
func (w *world) settleForeign(by x402.Address, p x402.Payment) (sent common.Hash) {
	sent = w.transact(by, x402.TransferCall(p.Authorization, p.Signature))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foreign = append(w.foreign, foreign{p.Authorization, sent})
	if w.token != nil {
		w.token.note(p.Authorization, sent)
	}
	return sent
}

// isForeign reports whether somebody else than the service has sent a transaction.
func (w *world) isForeign(transaction common.Hash) bool {
	if w.facilitator.hasSent(transaction) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.foreign, func(f foreign) bool { return f.transaction == transaction })
}

// unclaimed is what others have sent to the chain and no order has claimed, in millionths of a dollar.
func (w *world) unclaimed(ctx context.Context) (sum int64, err error) {
	for _, f := range w.foreign {
		claimed, err := w.records.claimed(ctx, f)
		if err != nil {
			return 0, err
		}
		if r := w.chain.Receipt(f.transaction); !claimed && r != nil && r.Status == types.ReceiptStatusSuccessful {
			sum += int64(f.authorization.Value)
		}
	}
	return sum, nil
}

// unserved notes an honest purchase that did not end, although everything was well.
func (w *world) unserved(p *purchase) {
	w.note("%s of %s for %s is %q", p.key, p.of.address, p.path, p.state)
}

// saw notes a request with its answer, or without one.
func (w *world) saw(e history.Event) {
	e.To = time.Now()
	w.mu.Lock()
	w.seen = append(w.seen, e)
	w.mu.Unlock()
	w.bus.note("buyer %.8s %s: %d %s %s", e.Payer, e.Key, e.Status, e.Code, e.State)
}

// check reads all books and reports what does not hold.
func (w *world) check(ctx context.Context) ([]invariants.Violation, error) {
	chain := httptest.NewServer(w.chain.Node("truth"))
	defer chain.Close()
	bank := httptest.NewServer(w.bank)
	defer bank.Close()
	b := invariants.Books{
		RPCURL: chain.URL, SandboxURL: bank.URL, USDC: devnet.USDCAddress,
		PayTo: walletOf(devnet.RolePayee).Address, Treasury: walletOf(devnet.RoleTreasury).Address,
		Relayers: w.relayers(),
	}
	if w.plan.rotates {
		b.Treasuries = []string{nextTreasury.address()}
	}
	w.records.tell(&b)
	if w.plan.second {
		b.SecondAbove = approvedAbove
	}
	b.Reorganised, b.Skew = w.plan.reorganisations > 0, 2*w.plan.skew
	b.Lost, b.Signed = w.restores.lost, w.signed()
	var err error
	if b.Unmatched, err = w.unclaimed(ctx); err != nil {
		return nil, err
	}
	b.Issuers = booksOf(bank.URL, "/control/books", w.plan.issuer, w.plan.nextIssuer)
	b.Suppliers = booksOf(bank.URL, "/control/esim/books", w.plan.supplier, w.plan.nextSupplier)
	for _, e := range w.seen {
		if e.Status != 0 && !w.restores.forgotten(e) {
			b.Answers = append(b.Answers, invariants.Answer{
				Payer: e.Payer, Key: e.Key, Paid: e.Paid, Status: e.Status, OrderID: e.Order, Transaction: e.Transaction,
				// What the database has of times was written by clocks that may have been ahead.
				Amount: e.Amount, At: e.From.Add(-w.plan.skew),
			})
		}
	}
	found, err := invariants.Check(ctx, b)
	if err != nil {
		return nil, errors.Join(errors.New("read the books"), err)
	}
	if w.token != nil {
		return found, nil // nobody is there whom the rules are about
	}
	conn, err := w.db.look(ctx)
	if err != nil {
		return nil, err
	}
	err = w.checkScreened(ctx, conn)
	broken, unread := w.rules.check(ctx, conn, w.plan.issuer == stripe.Name, w.plan.skew)
	return slices.Concat(found, broken), errors.Join(err, unread)
}

func logTo() io.Writer {
	if *wholeLog {
		return os.Stderr
	}
	return io.Discard
}
