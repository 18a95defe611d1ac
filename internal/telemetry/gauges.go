package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Gauges are present values, as opposed to counts of what has happened.
type Gauges struct {
	Jobs   []JobGauge
	Orders []OrderGauge
	// ClassAges are how long the oldest due job of each class has been due.
	ClassAges map[string]time.Duration
	Parked    []ParkedGauge
	// FloatCents are what the issuers can still load, by their names; one that does not answer is left out.
	FloatCents map[string]int64
	// BalanceUnits is what the payee holds of the asset, in its smallest unit; nil when the chain does not answer.
	BalanceUnits *int64
	// RefundUnits is what the treasury holds of it, which refunds are paid from; nil without a treasury, too.
	// RefundTreasury is its address.
	RefundUnits    *int64
	RefundTreasury string
	// Gas is the ether of each relayer; one that cannot be read is left out.
	Gas []RelayerGauge
	// ReceivableCents is what owners owe of issue fees; nil when it cannot be read.
	ReceivableCents *int64
	Asset           string
	Findings        []FindingGauge
	// BooksAge is the time since the last comparison of the books, or since the process began before the first; nil where
	// they are not compared.
	BooksAge *time.Duration
	// HeadAges are the ages of the latest blocks that the chain's nodes show, by their places among the configured ones.
	HeadAges map[string]time.Duration
	// CatalogueAges are the times since the plans of each supplier were read.
	CatalogueAges map[string]time.Duration
	Checks        []CheckGauge
	Pool          *PoolGauge
}

// FindingGauge is how many findings of a code are open, and how many of them keep top-ups from being sold.
type FindingGauge struct {
	Code           string
	Open, Blocking int
}

// RelayerGauge is the ether of a relayer's address, in gwei. A retired one only finishes what it began.
type RelayerGauge struct {
	Address string
	Retired bool
	Gwei    int64
}

// JobGauge is how many jobs of a kind are in a state, and how old the oldest is.
type JobGauge struct {
	Kind, State string
	Depth       int
	Age         time.Duration
}

// ParkedGauge is how many jobs of a kind wait for an operator for a reason.
type ParkedGauge struct {
	Kind, Reason string
	Count        int
}

// OrderGauge is how old the oldest order of a product is that is not final.
type OrderGauge struct {
	Product string
	Age     time.Duration
}

// CheckGauge is a readiness check of a product.
type CheckGauge struct {
	Product, Check string
	OK             bool
}

// PoolGauge is the pool of connections to the database.
type PoolGauge struct {
	Used, Idle, Max int64
	// Waits counts the calls that had to wait for a connection, and Waited is how long all of them did.
	Waits  int64
	Waited time.Duration
}

// instruments are those of Gauges.
type instruments struct {
	depth, parked, float, receivable, balance, refunds, gas metric.Int64ObservableGauge
	findings, checks, conns, maxConns                       metric.Int64ObservableGauge
	jobAge, classAge, orderAge, booksAge, headAge, planAge  metric.Float64ObservableGauge
	waits                                                   metric.Int64ObservableCounter
	waited                                                  metric.Float64ObservableCounter
	all                                                     []metric.Observable
}

// Observe asks look for the gauges whenever the metrics are read. It must return in seconds.
func (m *Metrics) Observe(look func(context.Context) Gauges) error {
	if m == nil {
		return nil
	}
	var i instruments
	if err := i.make(m.meter); err != nil {
		return err
	}
	_, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		now := look(ctx)
		i.observeWork(o, now)
		i.observeMoney(o, now)
		i.observeNeeds(o, now)
		return nil
	}, i.all...)
	if err != nil {
		return fmt.Errorf("observe gauges: %w", err)
	}
	return nil
}

func (i *instruments) make(meter metric.Meter) error {
	for _, g := range []struct {
		into       *metric.Int64ObservableGauge
		name, help string
	}{
		{&i.depth, "job.queue.depth", "jobs that have not succeeded"},
		{&i.parked, "job.parked", "jobs that wait for an operator: gave_up after all attempts, or asked for a decision"},
		{&i.float, "issuer.float.usd_cents", "what the card issuer can still load, in US cents"},
		{&i.receivable, "fees.receivable.usd_cents", "issue fees that holders spent before their withdrawal, in US cents"},
		{&i.balance, "treasury.balance", "what the payee holds, in the asset's smallest unit"},
		{&i.refunds, "refund.treasury.balance", "what refunds can be paid from, in the asset's smallest unit"},
		{&i.gas, "relayer.balance.gwei", "ether of a relayer, in gwei"},
		{&i.findings, "reconciliation.findings", "unresolved differences between the books"},
		{&i.checks, "readiness.check", "1 for a readiness check that holds, else 0"},
		{&i.conns, "db.pool.connections", "connections to the database, used or idle"},
		{&i.maxConns, "db.pool.max_connections", "connections to the database that there may be at most"},
	} {
		made, err := meter.Int64ObservableGauge(g.name, metric.WithDescription(g.help))
		if err != nil {
			return fmt.Errorf("make %s: %w", g.name, err)
		}
		*g.into, i.all = made, append(i.all, made)
	}
	for _, g := range []struct {
		into       *metric.Float64ObservableGauge
		name, help string
	}{
		{&i.jobAge, "job.queue.age", "the oldest job that has not succeeded"},
		{&i.classAge, "job.class.age", "how long the oldest due job of a class waits for a slot"},
		{&i.orderAge, "order.age", "the oldest order that is not final"},
		{&i.booksAge, "reconciliation.age", "time since the last reconciliation"},
		{&i.headAge, "chain.head.age", "the latest block that a node shows"},
		{&i.planAge, "catalogue.age", "time since the plans of a supplier were read"},
	} {
		made, err := meter.Float64ObservableGauge(g.name, metric.WithDescription(g.help), metric.WithUnit("s"))
		if err != nil {
			return fmt.Errorf("make %s: %w", g.name, err)
		}
		*g.into, i.all = made, append(i.all, made)
	}
	var err error
	if i.waits, err = meter.Int64ObservableCounter("db.pool.waits",
		metric.WithDescription("calls that waited for a connection to the database")); err != nil {
		return fmt.Errorf("make db.pool.waits: %w", err)
	}
	if i.waited, err = meter.Float64ObservableCounter("db.pool.wait", metric.WithUnit("s"),
		metric.WithDescription("how long calls have waited for a connection to the database")); err != nil {
		return fmt.Errorf("make db.pool.wait: %w", err)
	}
	i.all = append(i.all, i.waits, i.waited)
	return nil
}

// observeWork shows jobs, orders and the findings about them.
func (i *instruments) observeWork(o metric.Observer, now Gauges) {
	for _, j := range now.Jobs {
		of := metric.WithAttributes(attribute.String("kind", j.Kind), attribute.String("state", j.State))
		o.ObserveInt64(i.depth, int64(j.Depth), of)
		o.ObserveFloat64(i.jobAge, j.Age.Seconds(), of)
	}
	for class, age := range now.ClassAges {
		o.ObserveFloat64(i.classAge, age.Seconds(), metric.WithAttributes(attribute.String("class", class)))
	}
	for _, p := range now.Parked {
		o.ObserveInt64(i.parked, int64(p.Count), metric.WithAttributes(attribute.String("kind", p.Kind),
			attribute.String("reason", p.Reason)))
	}
	for _, r := range now.Orders {
		o.ObserveFloat64(i.orderAge, r.Age.Seconds(), metric.WithAttributes(attribute.String("product", r.Product)))
	}
	for _, f := range now.Findings {
		code := attribute.String("code", f.Code)
		o.ObserveInt64(i.findings, int64(f.Blocking), metric.WithAttributes(code, attribute.Bool("blocks", true)))
		o.ObserveInt64(i.findings, int64(f.Open-f.Blocking), metric.WithAttributes(code, attribute.Bool("blocks", false)))
	}
	if now.BooksAge != nil {
		o.ObserveFloat64(i.booksAge, now.BooksAge.Seconds())
	}
}

// observeMoney shows what there is to sell and to pay from.
func (i *instruments) observeMoney(o metric.Observer, now Gauges) {
	for issuer, cents := range now.FloatCents {
		o.ObserveInt64(i.float, cents, metric.WithAttributes(attribute.String("provider", issuer)))
	}
	if now.ReceivableCents != nil {
		o.ObserveInt64(i.receivable, *now.ReceivableCents)
	}
	asset := metric.WithAttributes(attribute.String("asset", now.Asset))
	if now.BalanceUnits != nil {
		o.ObserveInt64(i.balance, *now.BalanceUnits, asset)
	}
	if now.RefundUnits != nil {
		o.ObserveInt64(i.refunds, *now.RefundUnits, asset,
			metric.WithAttributes(attribute.String("treasury", now.RefundTreasury)))
	}
	for _, of := range now.Gas {
		o.ObserveInt64(i.gas, of.Gwei, metric.WithAttributes(attribute.String("relayer", of.Address),
			attribute.Bool("retired", of.Retired)))
	}
}

// observeNeeds shows what sales depend on.
func (i *instruments) observeNeeds(o metric.Observer, now Gauges) {
	for node, age := range now.HeadAges {
		o.ObserveFloat64(i.headAge, age.Seconds(), metric.WithAttributes(attribute.String("node", node)))
	}
	for supplier, age := range now.CatalogueAges {
		o.ObserveFloat64(i.planAge, age.Seconds(), metric.WithAttributes(attribute.String("provider", supplier)))
	}
	for _, c := range now.Checks {
		holds := int64(0)
		if c.OK {
			holds = 1
		}
		o.ObserveInt64(i.checks, holds, metric.WithAttributes(attribute.String("product", c.Product),
			attribute.String("check", c.Check)))
	}
	if p := now.Pool; p != nil {
		o.ObserveInt64(i.conns, p.Used, metric.WithAttributes(attribute.String("state", "used")))
		o.ObserveInt64(i.conns, p.Idle, metric.WithAttributes(attribute.String("state", "idle")))
		o.ObserveInt64(i.maxConns, p.Max)
		o.ObserveInt64(i.waits, p.Waits)
		o.ObserveFloat64(i.waited, p.Waited.Seconds())
	}
}
