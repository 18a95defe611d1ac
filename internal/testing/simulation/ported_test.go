package simulation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// ported is a store at its ports: each of its calls is one of the bus, and nothing below them is. So the same calls are
// made of both stores.
type ported struct {
	process string
	hook    memory.Hook
	// tell tells the database the time before each call.
	tell      func() error
	randomize func(n uint64)
}

// stored is the store at its ports: that in memory, or that in PostgreSQL.
type stored struct {
	orders  ordersPort
	cards   cardsPort
	jobs    jobsPort
	esims   esim.Store
	journal func(supplier string) esim.Journal
}

// The ports that one part of the store has.
type (
	ordersPort interface {
		checkout.Store
		checkout.RecoveredStore
		settlement.Store
	}
	cardsPort interface {
		card.Store
		card.CloseStore
	}
	jobsPort interface {
		job.Queue
		availability.WorkerCounts
	}
)

// overPostgres is the domain of inMemory over the store in PostgreSQL, which all processes share as they share the
// other one: of a process of its own it would have its clock and its wake-ups, which take time.
type overPostgres struct {
	*inPostgres
	domain *inMemory
	store  *store.Store
	clock  *pgx.Conn
}

// tableClockSQL is a clock that one who is not asked can set for all sessions, instead of that of clockSQL.
const tableClockSQL = `
CREATE TABLE simulation.clock (at timestamptz NOT NULL);
INSERT INTO simulation.clock VALUES (pg_catalog.now());
GRANT SELECT ON simulation.clock TO PUBLIC;
CREATE OR REPLACE FUNCTION simulation.now() RETURNS timestamptz STABLE LANGUAGE sql AS
	$$SELECT at FROM simulation.clock$$;
`

// portStore opens the store in the world's database. done closes it.
func (w *world) portStore(ctx context.Context) (done func(), err error) {
	rows := w.records.(*inPostgres)
	w.keepInMemory()
	r := &overPostgres{inPostgres: rows, domain: w.records.(*inMemory)}
	w.records = r
	if r.clock, err = connect(ctx, w.url, dialSocket); err != nil {
		return nil, err
	}
	if err = r.tellTime(); err != nil {
		return nil, err
	}
	c := w.config(withClock(storetest.ServiceURL(w.url)), nil).StoreConfig()
	c.Log, c.Now, c.Tracer = w.log, time.Now, nil
	c.Dial = func(ctx context.Context, network, path string) (net.Conn, error) {
		conn, err := dialSocket(ctx, network, path)
		return &ear{Conn: conn, changed: make(chan struct{}, 1)}, err
	}
	r.store, err = store.Open(ctx, c)
	return func() {
		r.store.Close()
		r.clock.Close(ctx)
	}, err
}

// ear is a connection that hears nothing but answers: the world's time would stand still while it waited for more. All
// processes are woken by the one store that they share.
type ear struct {
	net.Conn
	mu sync.Mutex
	// awaits says that something was sent and that the server is not ready again.
	awaits, closed bool
	deadline       time.Time
	changed        chan struct{}
}

// Write implements net.Conn.
func (e *ear) Write(b []byte) (int, error) {
	e.mu.Lock()
	e.awaits = true
	e.mu.Unlock()
	return e.Conn.Write(b)
}

// Read implements net.Conn.
func (e *ear) Read(b []byte) (n int, err error) {
	for {
		e.mu.Lock()
		awaits, closed, left := e.awaits, e.closed, time.Until(e.deadline)
		if e.deadline.IsZero() {
			left = math.MaxInt64
		}
		e.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case awaits:
			n, err = e.Conn.Read(b)
			e.mu.Lock()
			e.awaits = !isReady(b[:n])
			e.mu.Unlock()
			return n, err
		case left <= 0:
			return 0, os.ErrDeadlineExceeded
		}
		pause(left, e.changed)
	}
}

// isReady reports whether what a server has said ends with the message by which it is ready.
func isReady(b []byte) bool {
	const size = 6
	return len(b) >= size && bytes.Equal(b[len(b)-size:len(b)-1], []byte{'Z', 0, 0, 0, 5})
}

// SetDeadline implements net.Conn, in the world's time.
func (e *ear) SetDeadline(t time.Time) error { return e.change(func() { e.deadline = t }) }

// SetReadDeadline implements net.Conn.
func (e *ear) SetReadDeadline(t time.Time) error { return e.SetDeadline(t) }

// Close implements net.Conn.
func (e *ear) Close() error { return errors.Join(e.change(func() { e.closed = true }), e.Conn.Close()) }

func (e *ear) change(what func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	what()
	select {
	case e.changed <- struct{}{}:
	default:
	}
	return nil
}

// tellTime tells the database the time.
func (r *overPostgres) tellTime() error {
	_, err := r.clock.Exec(context.Background(), "UPDATE simulation.clock SET at = $1", time.Now())
	return err
}

func (r *overPostgres) open(_ context.Context, p *process) (program, error) {
	at := ported{process: p.name, hook: r.domain.call, tell: r.tellTime, randomize: r.bus.randomize}
	return r.domain.shop(p, at.over(stored{
		orders: r.store.Orders(), cards: r.store.Cards(), jobs: r.store.Jobs(), esims: r.store.Esims(),
		journal: func(supplier string) esim.Journal { return r.store.SupplierJournal(supplier) },
	}))
}

// do lets a call happen, which its caller cannot interrupt.
func (p ported) do(ctx context.Context, op string, call func(context.Context) error) error {
	if ctx.Err() != nil {
		return fault.Ended(ctx, fmt.Errorf("begin: %w", ctx.Err()))
	}
	defer p.fresh()
	answer, err := p.hook(ctx, p.process, op)
	if err != nil {
		return err
	}
	if err := p.tell(); err != nil {
		return err
	}
	err = call(context.WithoutCancel(ctx))
	p.fresh()
	return answer(err)
}

// fresh begins the random numbers anew, as a store may have drawn some of them.
func (p ported) fresh() { p.randomize(1<<63 | uint64(time.Now().UnixNano())) }

func one[T any](
	ctx context.Context, p ported, op string, call func(context.Context) (T, error),
) (v T, err error) {
	err = p.do(ctx, op, func(ctx context.Context) (err error) {
		v, err = call(ctx)
		return err
	})
	return v, err
}

type (
	portedOrders struct {
		ported
		in ordersPort
	}
	portedCards struct {
		ported
		in cardsPort
	}
	portedJobs struct {
		ported
		in jobsPort
	}
	portedEsims struct {
		ported
		in esim.Store
	}
	portedJournal struct {
		ported
		in esim.Journal
	}
)

// over are the ports of a store, each call of which is one of the bus.
func (p ported) over(s stored) stored {
	return stored{
		orders: portedOrders{p, s.orders}, cards: portedCards{p, s.cards}, jobs: portedJobs{p, s.jobs},
		esims:   portedEsims{p, s.esims},
		journal: func(supplier string) esim.Journal { return portedJournal{p, s.journal(supplier)} },
	}
}

func (p portedCards) Activate(ctx context.Context, a job.Fence, b card.Card, c []ledger.Posting, d job.New) error {
	return p.do(ctx, "cards.activate", func(ctx context.Context) error { return p.in.Activate(ctx, a, b, c, d) })
}

func (p portedCards) BeginChange(ctx context.Context, a, b uuid.UUID, c time.Duration) error {
	return p.do(ctx, "cards.begin_change", func(ctx context.Context) error { return p.in.BeginChange(ctx, a, b, c) })
}

func (p portedCards) BeginFreezing(ctx context.Context, a, b uuid.UUID, c time.Duration) (time.Time, error) {
	return one(ctx, p.ported, "cards.begin_freezing", func(ctx context.Context) (time.Time, error) {
		return p.in.BeginFreezing(ctx, a, b, c)
	})
}

func (p portedCards) ByNames(ctx context.Context, a string, b []string, c []fulfilment.Ref) ([]card.Card, error) {
	return one(ctx, p.ported, "cards.by_names", func(ctx context.Context) ([]card.Card, error) {
		return p.in.ByNames(ctx, a, b, c)
	})
}

func (p portedCards) Card(ctx context.Context, a uuid.UUID, b x402.Address) (card.Card, error) {
	return one(ctx, p.ported, "cards.find", func(ctx context.Context) (card.Card, error) { return p.in.Card(ctx, a, b) })
}

func (p portedCards) Cards(ctx context.Context, a x402.Address) ([]card.Card, error) {
	return one(ctx, p.ported, "cards.list", func(ctx context.Context) ([]card.Card, error) { return p.in.Cards(ctx, a) })
}

func (p portedCards) Closing(ctx context.Context, a uuid.UUID) (bool, error) {
	return one(ctx, p.ported, "cards.closing", func(ctx context.Context) (bool, error) { return p.in.Closing(ctx, a) })
}

func (p portedCards) EndChange(ctx context.Context, a, b uuid.UUID) error {
	return p.do(ctx, "cards.end_change", func(ctx context.Context) error { return p.in.EndChange(ctx, a, b) })
}

func (p portedCards) EndFreezing(ctx context.Context, a, b uuid.UUID, c card.Freezing) error {
	return p.do(ctx, "cards.end_freezing", func(ctx context.Context) error { return p.in.EndFreezing(ctx, a, b, c) })
}

func (p portedCards) Fail(ctx context.Context, a job.Fence, b uuid.UUID) error {
	return p.do(ctx, "cards.fail", func(ctx context.Context) error { return p.in.Fail(ctx, a, b) })
}

func (p portedCards) FeeOpen(ctx context.Context, a uuid.UUID) (bool, error) {
	return one(ctx, p.ported, "cards.fee_open", func(ctx context.Context) (bool, error) { return p.in.FeeOpen(ctx, a) })
}

func (p portedCards) FeeOwed(ctx context.Context, a job.Fence, b []ledger.Posting) error {
	return p.do(ctx, "cards.fee_owed", func(ctx context.Context) error { return p.in.FeeOwed(ctx, a, b) })
}

func (p portedCards) FeeTaken(ctx context.Context, a job.Fence, b []ledger.Posting) error {
	return p.do(ctx, "cards.fee_taken", func(ctx context.Context) error { return p.in.FeeTaken(ctx, a, b) })
}

func (p portedCards) Issued(ctx context.Context, a ...order.ID) (map[order.ID]card.Card, error) {
	return one(ctx, p.ported, "cards.issued", func(ctx context.Context) (map[order.ID]card.Card, error) {
		return p.in.Issued(ctx, a...)
	})
}

func (p portedCards) Live(ctx context.Context, a x402.Address) (card.Card, error) {
	return one(ctx, p.ported, "cards.live", func(ctx context.Context) (card.Card, error) { return p.in.Live(ctx, a) })
}

func (p portedCards) Observe(ctx context.Context, a ...card.Seen) ([]card.Card, error) {
	return one(ctx, p.ported, "cards.observe", func(ctx context.Context) ([]card.Card, error) {
		return p.in.Observe(ctx, a...)
	})
}

func (p portedCards) Owes(ctx context.Context, a x402.Address) (money.Cents, error) {
	return one(ctx, p.ported, "cards.owes", func(ctx context.Context) (money.Cents, error) { return p.in.Owes(ctx, a) })
}

func (p portedCards) Reserve(ctx context.Context, a job.Fence, b card.Card) (card.Card, error) {
	return one(ctx, p.ported, "cards.reserve", func(ctx context.Context) (card.Card, error) {
		return p.in.Reserve(ctx, a, b)
	})
}

func (p portedCards) Reserved(ctx context.Context, a string, b time.Time) (int64, error) {
	return one(ctx, p.ported, "reservations.reserved", func(ctx context.Context) (int64, error) {
		return p.in.Reserved(ctx, a, b)
	})
}

func (p portedCards) SaveClosing(ctx context.Context, a job.Fence, b card.CloseArgs, c ...ledger.Posting) error {
	return p.do(ctx, "cards.save_closing", func(ctx context.Context) error { return p.in.SaveClosing(ctx, a, b, c...) })
}

func (p portedCards) SetOwnerFrozen(ctx context.Context, a uuid.UUID, b x402.Address, c bool) error {
	return p.do(ctx, "cards.set_owner_frozen", func(ctx context.Context) error {
		return p.in.SetOwnerFrozen(ctx, a, b, c)
	})
}

func (p portedCards) TakeTurn(ctx context.Context, a job.Fence, b card.MovementLock) (money.Cents, error) {
	return one(ctx, p.ported, "cards.take_turn", func(ctx context.Context) (money.Cents, error) {
		return p.in.TakeTurn(ctx, a, b)
	})
}

func (p portedCards) Unpaid(ctx context.Context, a string) (int64, error) {
	return one(ctx, p.ported, "reservations.unpaid", func(ctx context.Context) (int64, error) {
		return p.in.Unpaid(ctx, a)
	})
}

func (p portedEsims) Fail(ctx context.Context, a job.Fence, b uuid.UUID) error {
	return p.do(ctx, "esims.fail", func(ctx context.Context) error { return p.in.Fail(ctx, a, b) })
}

func (p portedEsims) Foreign(ctx context.Context, a string, b int) ([]esim.Profile, error) {
	return one(ctx, p.ported, "esims.foreign", func(ctx context.Context) ([]esim.Profile, error) {
		return p.in.Foreign(ctx, a, b)
	})
}

func (p portedEsims) Install(ctx context.Context, a job.Fence, b esim.Profile, c []ledger.Posting) error {
	return p.do(ctx, "esims.install", func(ctx context.Context) error { return p.in.Install(ctx, a, b, c) })
}

func (p portedEsims) Learn(ctx context.Context, a string, b []esim.Plan) ([]esim.Plan, error) {
	return one(ctx, p.ported, "esims.learn", func(ctx context.Context) ([]esim.Plan, error) {
		return p.in.Learn(ctx, a, b)
	})
}

func (p portedEsims) Order(ctx context.Context, a order.ID) (order.Order, error) {
	return one(ctx, p.ported, "esims.order", func(ctx context.Context) (order.Order, error) { return p.in.Order(ctx, a) })
}

func (p portedEsims) Plan(ctx context.Context, a esim.PlanID) (esim.Plan, error) {
	return one(ctx, p.ported, "esims.plan", func(ctx context.Context) (esim.Plan, error) { return p.in.Plan(ctx, a) })
}

func (p portedEsims) PlanNames(ctx context.Context, a ...esim.PlanID) (map[esim.PlanID]string, error) {
	return one(ctx, p.ported, "esims.plan_names", func(ctx context.Context) (map[esim.PlanID]string, error) {
		return p.in.PlanNames(ctx, a...)
	})
}

func (p portedEsims) Plans(ctx context.Context) (x []esim.Plan, y map[string]time.Time, err error) {
	err = p.do(ctx, "esims.plans", func(ctx context.Context) (err error) {
		x, y, err = p.in.Plans(ctx)
		return err
	})
	return x, y, err
}

func (p portedEsims) Profiles(ctx context.Context, a ...order.ID) (map[order.ID]esim.Profile, error) {
	return one(ctx, p.ported, "esims.profiles", func(ctx context.Context) (map[order.ID]esim.Profile, error) {
		return p.in.Profiles(ctx, a...)
	})
}

func (p portedEsims) Replace(ctx context.Context, a string, b []esim.Plan, c time.Time) error {
	return p.do(ctx, "esims.replace", func(ctx context.Context) error { return p.in.Replace(ctx, a, b, c) })
}

func (p portedEsims) Reseal(ctx context.Context, a uuid.UUID, b, c esim.Sealed) error {
	return p.do(ctx, "esims.reseal", func(ctx context.Context) error { return p.in.Reseal(ctx, a, b, c) })
}

func (p portedEsims) Reserve(ctx context.Context, a job.Fence, b esim.Profile) (esim.Profile, error) {
	return one(ctx, p.ported, "esims.reserve", func(ctx context.Context) (esim.Profile, error) {
		return p.in.Reserve(ctx, a, b)
	})
}

func (p portedEsims) Reserved(ctx context.Context, a string, b time.Time) (int64, error) {
	return one(ctx, p.ported, "reservations.reserved", func(ctx context.Context) (int64, error) {
		return p.in.Reserved(ctx, a, b)
	})
}

func (p portedEsims) Rotate(ctx context.Context, a order.ID, b time.Time) (esim.TokenVersion, error) {
	return one(ctx, p.ported, "esims.rotate", func(ctx context.Context) (esim.TokenVersion, error) {
		return p.in.Rotate(ctx, a, b)
	})
}

func (p portedEsims) Token(ctx context.Context, a order.ID) (x esim.TokenVersion, y bool, err error) {
	err = p.do(ctx, "esims.token", func(ctx context.Context) (err error) {
		x, y, err = p.in.Token(ctx, a)
		return err
	})
	return x, y, err
}

func (p portedEsims) Unpaid(ctx context.Context, a string) (int64, error) {
	return one(ctx, p.ported, "reservations.unpaid", func(ctx context.Context) (int64, error) {
		return p.in.Unpaid(ctx, a)
	})
}

func (p portedEsims) Watch(a order.ID) (wake <-chan struct{}, stop func()) { return p.in.Watch(a) }

func (p portedEsims) Withdraw(ctx context.Context, a esim.PlanID) error {
	return p.do(ctx, "esims.withdraw", func(ctx context.Context) error { return p.in.Withdraw(ctx, a) })
}

func (p portedJobs) Announce(ctx context.Context, a string, b []job.Kind, c time.Duration) error {
	return p.do(ctx, "jobs.announce", func(ctx context.Context) error { return p.in.Announce(ctx, a, b, c) })
}

func (p portedJobs) Beat(ctx context.Context, a job.Fence, b time.Duration) (bool, error) {
	return one(ctx, p.ported, "jobs.beat", func(ctx context.Context) (bool, error) { return p.in.Beat(ctx, a, b) })
}

func (p portedJobs) Claim(
	ctx context.Context, a string, b job.Class, c []job.Kind, d int, e time.Duration,
) ([]job.Row, error) {
	return one(ctx, p.ported, "jobs.claim "+string(b), func(ctx context.Context) ([]job.Row, error) {
		return p.in.Claim(ctx, a, b, c, d, e)
	})
}

func (p portedJobs) ClearParked(ctx context.Context, a job.Kind, b int) (int, error) {
	return one(ctx, p.ported, "jobs.clear", func(ctx context.Context) (int, error) { return p.in.ClearParked(ctx, a, b) })
}

func (p portedJobs) Depth(ctx context.Context) ([]job.Depth, error) {
	return one(ctx, p.ported, "jobs.depth", func(ctx context.Context) ([]job.Depth, error) { return p.in.Depth(ctx) })
}

func (p portedJobs) Enqueue(ctx context.Context, a job.New) (bool, error) {
	return one(ctx, p.ported, "jobs.enqueue", func(ctx context.Context) (bool, error) { return p.in.Enqueue(ctx, a) })
}

func (p portedJobs) Find(ctx context.Context, a job.Kind, b string) (x job.Row, y bool, err error) {
	err = p.do(ctx, "jobs.find", func(ctx context.Context) (err error) {
		x, y, err = p.in.Find(ctx, a, b)
		return err
	})
	return x, y, err
}

func (p portedJobs) Finish(ctx context.Context, a job.Fence, b job.Outcome) error {
	return p.do(ctx, "jobs.finish", func(ctx context.Context) error { return p.in.Finish(ctx, a, b) })
}

func (p portedJobs) Mark(ctx context.Context, a job.Fence, b string) error {
	return p.do(ctx, "jobs.mark", func(ctx context.Context) error { return p.in.Mark(ctx, a, b) })
}

func (p portedJobs) Reap(ctx context.Context, a int) (int, error) {
	return one(ctx, p.ported, "jobs.reap", func(ctx context.Context) (int, error) { return p.in.Reap(ctx, a) })
}

// Wake implements job.Queue.
func (p portedJobs) Wake(ctx context.Context, a job.Class) <-chan struct{} { return p.in.Wake(ctx, a) }

func (p portedJobs) Workers(ctx context.Context) (map[job.Kind]int, error) {
	return one(ctx, p.ported, "jobs.workers", func(ctx context.Context) (map[job.Kind]int, error) {
		return p.in.Workers(ctx)
	})
}

func (p portedJournal) Begin(ctx context.Context, a esim.Sent) error {
	return p.do(ctx, "journal.begin", func(ctx context.Context) error { return p.in.Begin(ctx, a) })
}

func (p portedJournal) Name(ctx context.Context, a fulfilment.Ref, b string) error {
	return p.do(ctx, "journal.name", func(ctx context.Context) error { return p.in.Name(ctx, a, b) })
}

func (p portedJournal) Named(ctx context.Context, a []string) (map[string]esim.Sent, error) {
	return one(ctx, p.ported, "journal.named", func(ctx context.Context) (map[string]esim.Sent, error) {
		return p.in.Named(ctx, a)
	})
}

func (p portedJournal) Sent(ctx context.Context, a fulfilment.Ref) (esim.Sent, error) {
	return one(ctx, p.ported, "journal.sent", func(ctx context.Context) (esim.Sent, error) { return p.in.Sent(ctx, a) })
}

func (p portedJournal) SentBetween(ctx context.Context, a string, b, c time.Time) ([]esim.Sent, error) {
	return one(ctx, p.ported, "journal.sent_between", func(ctx context.Context) ([]esim.Sent, error) {
		return p.in.SentBetween(ctx, a, b, c)
	})
}

func (p portedOrders) Arrive(ctx context.Context, a payment.Arrived) error {
	return p.do(ctx, "orders.arrive", func(ctx context.Context) error { return p.in.Arrive(ctx, a) })
}

func (p portedOrders) Claim(ctx context.Context, a checkout.ClaimRequest) (checkout.ClaimResult, error) {
	return one(ctx, p.ported, "orders.claim", func(ctx context.Context) (checkout.ClaimResult, error) {
		return p.in.Claim(ctx, a)
	})
}

func (p portedOrders) Claimed(ctx context.Context, a string, b x402.Address, c x402.Authorization) (bool, error) {
	return one(ctx, p.ported, "orders.claimed", func(ctx context.Context) (bool, error) {
		return p.in.Claimed(ctx, a, b, c)
	})
}

func (p portedOrders) Create(ctx context.Context, a order.Order, b checkout.Bounds) (order.Order, error) {
	return one(ctx, p.ported, "orders.create", func(ctx context.Context) (order.Order, error) {
		return p.in.Create(ctx, a, b)
	})
}

func (p portedOrders) Find(ctx context.Context, a order.ID) (order.Order, error) {
	return one(ctx, p.ported, "orders.find", func(ctx context.Context) (order.Order, error) { return p.in.Find(ctx, a) })
}

func (p portedOrders) FindByKey(ctx context.Context, a order.Kind, b x402.Address, c string) (order.Order, error) {
	return one(ctx, p.ported, "orders.find_by_key", func(ctx context.Context) (order.Order, error) {
		return p.in.FindByKey(ctx, a, b, c)
	})
}

func (p portedOrders) MarkDead(ctx context.Context, a job.Fence, b payment.Payment, c order.Move) (order.Order, error) {
	return one(ctx, p.ported, "orders.mark_dead", func(ctx context.Context) (order.Order, error) {
		return p.in.MarkDead(ctx, a, b, c)
	})
}

func (p portedOrders) MarkRefundDead(
	ctx context.Context, a job.Fence, b payment.Refund, c order.Move,
) (order.Order, error) {
	return one(ctx, p.ported, "refunds.mark_dead", func(ctx context.Context) (order.Order, error) {
		return p.in.MarkRefundDead(ctx, a, b, c)
	})
}

func (p portedOrders) MarkReturnDead(ctx context.Context, a job.Fence, b payment.Refund) error {
	return p.do(ctx, "refunds.mark_return_dead", func(ctx context.Context) error {
		return p.in.MarkReturnDead(ctx, a, b)
	})
}

func (p portedOrders) Move(ctx context.Context, a job.Fence, b order.Move) (order.Order, error) {
	return one(ctx, p.ported, "orders.move", func(ctx context.Context) (order.Order, error) {
		return p.in.Move(ctx, a, b)
	})
}

func (p portedOrders) Orders(ctx context.Context, a x402.Address, b checkout.Query) ([]order.Order, error) {
	return one(ctx, p.ported, "orders.list", func(ctx context.Context) ([]order.Order, error) {
		return p.in.Orders(ctx, a, b)
	})
}

func (p portedOrders) Payments(ctx context.Context, a ...order.ID) (map[order.ID]payment.Payment, error) {
	return one(ctx, p.ported, "orders.payments", func(ctx context.Context) (map[order.ID]payment.Payment, error) {
		return p.in.Payments(ctx, a...)
	})
}

func (p portedOrders) Rebind(ctx context.Context, a checkout.Rebinding) (order.Order, error) {
	return one(ctx, p.ported, "orders.rebind", func(ctx context.Context) (order.Order, error) {
		return p.in.Rebind(ctx, a)
	})
}

func (p portedOrders) Refunded(
	ctx context.Context, a job.Fence, b payment.Refund, c order.Move, d job.New,
) (order.Order, error) {
	return one(ctx, p.ported, "refunds.refunded", func(ctx context.Context) (order.Order, error) {
		return p.in.Refunded(ctx, a, b, c, d)
	})
}

func (p portedOrders) Refunds(ctx context.Context, a ...order.ID) (map[order.ID]payment.Refund, error) {
	return one(ctx, p.ported, "orders.refunds", func(ctx context.Context) (map[order.ID]payment.Refund, error) {
		return p.in.Refunds(ctx, a...)
	})
}

func (p portedOrders) Reprove(ctx context.Context, a job.Fence, b payment.Payment) error {
	return p.do(ctx, "orders.reprove", func(ctx context.Context) error { return p.in.Reprove(ctx, a, b) })
}

func (p portedOrders) ReproveRefund(ctx context.Context, a job.Fence, b payment.Refund) error {
	return p.do(ctx, "refunds.reprove", func(ctx context.Context) error { return p.in.ReproveRefund(ctx, a, b) })
}

func (p portedOrders) Resume(ctx context.Context, a job.Fence, b order.Order, c []order.Reservation) error {
	return p.do(ctx, "orders.resume", func(ctx context.Context) error { return p.in.Resume(ctx, a, b, c) })
}

func (p portedOrders) Returned(ctx context.Context, a job.Fence, b payment.Refund, c payment.Return, d job.New) error {
	return p.do(ctx, "refunds.returned", func(ctx context.Context) error { return p.in.Returned(ctx, a, b, c, d) })
}

func (p portedOrders) Settle(
	ctx context.Context, a job.Fence, b payment.Payment, c order.Move, d job.New,
) (order.Order, error) {
	return one(ctx, p.ported, "orders.settle", func(ctx context.Context) (order.Order, error) {
		return p.in.Settle(ctx, a, b, c, d)
	})
}

func (p portedOrders) SignRefund(ctx context.Context, a job.Fence, b payment.Refund, c *payment.Refund) error {
	return p.do(ctx, "refunds.sign", func(ctx context.Context) error { return p.in.SignRefund(ctx, a, b, c) })
}

func (p portedOrders) Suspend(ctx context.Context, a job.Fence, b order.ID) error {
	return p.do(ctx, "orders.suspend", func(ctx context.Context) error { return p.in.Suspend(ctx, a, b) })
}

func (p portedOrders) Suspended(ctx context.Context, a order.Order) ([]order.Reservation, error) {
	return one(ctx, p.ported, "orders.suspended", func(ctx context.Context) ([]order.Reservation, error) {
		return p.in.Suspended(ctx, a)
	})
}

func (p portedOrders) Unmatched(ctx context.Context, a checkout.UnmatchedQuery) (payment.Arrived, error) {
	return one(ctx, p.ported, "orders.unmatched", func(ctx context.Context) (payment.Arrived, error) {
		return p.in.Unmatched(ctx, a)
	})
}

func (p portedOrders) Watch(a ...order.ID) (wake <-chan struct{}, stop func()) {
	return p.in.Watch(a...)
}
