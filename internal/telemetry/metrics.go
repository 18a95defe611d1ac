package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics are the program's numbers. A nil Metrics counts nothing. Attributes have few values: never a
// wallet, an order, an address or a token.
type Metrics struct {
	meter metric.Meter

	challenges, replays, settlements, transitions metric.Int64Counter
	attempts, signIns, reveals, events, refusals  metric.Int64Counter
	sent, gas, unaffordable                       metric.Int64Counter
	nodes                                         metric.Int64Counter

	requests, procedures, calls, waits metric.Float64Histogram
}

// seconds are the boundaries of what takes from a millisecond to the longest wait.
var seconds = metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
	10, 20, 45)

// NewMetrics makes the instruments.
func NewMetrics(provider metric.MeterProvider) (*Metrics, error) {
	m := &Metrics{meter: provider.Meter("github.com/roamcard/roamcard")}
	var err error
	for _, c := range []struct {
		into       *metric.Int64Counter
		name, help string
	}{
		{&m.challenges, "payment.challenges", "402 answers with payment requirements"},
		{&m.replays, "payment.replays", "paid requests answered from the stored order"},
		{&m.settlements, "payment.settlements",
			"payments that settled or died, or whose outcome a buyer was told is unknown"},
		{&m.transitions, "order.transitions", "status transitions of orders"},
		{&m.attempts, "job.attempts", "attempts at jobs"},
		{&m.signIns, "auth.challenges", "sign-in challenges made, proven and refused"},
		{&m.reveals, "reveal.attempts", "attempts to see a card's number"},
		{&m.events, "activity.events", "product events accepted and refused"},
		{&m.nodes, "chain.node.answers", "answers of each node of the chain, by outcome"},
		{&m.refusals, "http.server.rate_limited", "requests refused by a rate limit"},
		{&m.sent, "relayer.transactions", "transactions of the relayers that ended: closed or reverted"},
		{&m.gas, "relayer.spent.gwei", "gas cost of these transactions, in gwei"},
		{&m.unaffordable, "relayer.budget_exceeded", "transactions not sent because reverted ones have used up a budget"},
	} {
		if *c.into, err = m.meter.Int64Counter(c.name, metric.WithDescription(c.help)); err != nil {
			return nil, fmt.Errorf("make %s: %w", c.name, err)
		}
	}
	for _, h := range []struct {
		into       *metric.Float64Histogram
		name, help string
	}{
		{&m.requests, "http.server.request.duration", "requests by route"},
		{&m.procedures, "rpc.server.call.duration", "calls by procedure, over every transport"},
		{&m.calls, "provider.request.duration", "calls of providers"},
		{&m.waits, "esim.inline_wait.duration", "paid requests that waited for their eSIM"},
	} {
		if *h.into, err = m.meter.Float64Histogram(h.name, metric.WithDescription(h.help), metric.WithUnit("s"),
			seconds); err != nil {
			return nil, fmt.Errorf("make %s: %w", h.name, err)
		}
	}
	m.begin()
	return m, nil
}

// begin shows counters at zero before anything is counted: alerts need a series that exists.
func (m *Metrics) begin() {
	ctx := context.Background()
	for _, outcome := range []string{"closed", "reverted"} {
		of := metric.WithAttributes(attribute.String("outcome", outcome))
		m.sent.Add(ctx, 0, of)
		m.gas.Add(ctx, 0, of)
	}
	for _, budget := range []string{"reverts", "payer", "hour"} {
		m.unaffordable.Add(ctx, 0, metric.WithAttributes(attribute.String("budget", budget)))
	}
}

// Challenged counts an answer that asks for payment.
func (m *Metrics) Challenged(ctx context.Context, product string) {
	if m != nil {
		count(ctx, m.challenges, attribute.String("product", product))
	}
}

// Replayed counts a purchase answered from its record.
func (m *Metrics) Replayed(ctx context.Context, product string) {
	if m != nil {
		count(ctx, m.replays, attribute.String("product", product))
	}
}

// Settled counts a payment's outcome: paid, dead, or unknown to a buyer who waited long enough.
func (m *Metrics) Settled(ctx context.Context, product, outcome string) {
	if m != nil {
		count(ctx, m.settlements, attribute.String("product", product), attribute.String("outcome", outcome))
	}
}

// Moved counts a transition of an order.
func (m *Metrics) Moved(ctx context.Context, product, from, to string) {
	if m != nil {
		count(ctx, m.transitions, attribute.String("product", product), attribute.String("from", from),
			attribute.String("to", to))
	}
}

// Attempted counts an attempt at a job.
func (m *Metrics) Attempted(ctx context.Context, kind, outcome string) {
	if m != nil {
		count(ctx, m.attempts, attribute.String("kind", kind), attribute.String("outcome", outcome))
	}
}

// SignIn counts a sign-in challenge: issued, verified or refused.
func (m *Metrics) SignIn(ctx context.Context, outcome string) {
	if m != nil {
		count(ctx, m.signIns, attribute.String("outcome", outcome))
	}
}

// Revealed counts an attempt to see a card's number: shown or refused.
func (m *Metrics) Revealed(ctx context.Context, outcome string) {
	if m != nil {
		count(ctx, m.reveals, attribute.String("outcome", outcome))
	}
}

// Event counts a product event: accepted or refused.
func (m *Metrics) Event(ctx context.Context, outcome string) {
	if m != nil {
		count(ctx, m.events, attribute.String("outcome", outcome))
	}
}

// Limited counts a request refused because there were too many of its class.
func (m *Metrics) Limited(ctx context.Context, class string) {
	if m != nil {
		count(ctx, m.refusals, attribute.String("class", class))
	}
}

// Sent counts a relayer's transaction that is final or replaced, and what it cost.
func (m *Metrics) Sent(ctx context.Context, outcome string, wei int64) {
	if m != nil {
		of := metric.WithAttributes(attribute.String("outcome", outcome))
		m.sent.Add(ctx, 1, of)
		m.gas.Add(ctx, wei/1_000_000_000, of)
	}
}

// Unaffordable counts a transaction that was not sent, by the budget that is used up: reverts, payer or hour.
func (m *Metrics) Unaffordable(ctx context.Context, budget string) {
	if m != nil {
		count(ctx, m.unaffordable, attribute.String("budget", budget))
	}
}

// NodeAnswered counts an answer of a node, or what was found of it: ok, failed, pruned, lagging, forked, other_chain
// or contradicted. Node is its place among the configured ones, from 1.
func (m *Metrics) NodeAnswered(ctx context.Context, node, outcome string) {
	if m != nil {
		count(ctx, m.nodes, attribute.String("node", node), attribute.String("outcome", outcome))
	}
}

// Request is a request that was served. Route is a pattern, never a path.
type Request struct {
	Method, Route string
	Status        int
	Call          Call
	Took          time.Duration
}

// Served counts a request and its call.
func (m *Metrics) Served(ctx context.Context, r Request) {
	if m == nil {
		return
	}
	took := r.Took.Seconds()
	m.requests.Record(ctx, took, metric.WithAttributes(attribute.String("http.request.method", r.Method),
		attribute.String("http.route", r.Route), attribute.Int("http.response.status_code", r.Status)))
	if r.Call.Procedure == "" {
		return
	}
	code := r.Call.Code
	if code == "" {
		code = "ok"
	}
	m.procedures.Record(ctx, took, metric.WithAttributes(attribute.String("rpc.system.name", "connectrpc"),
		attribute.String("rpc.method", r.Call.Method()), attribute.String("rpc.response.status_code", code),
		attribute.String("error.type", r.Call.Problem)))
}

// Asked counts a call of a provider: ok, refused, or unknown when no clear answer came.
func (m *Metrics) Asked(ctx context.Context, provider, op, outcome string, took time.Duration) {
	if m != nil {
		m.calls.Record(ctx, took.Seconds(), metric.WithAttributes(
			attribute.String("provider", provider), attribute.String("op", op), attribute.String("outcome", outcome)))
	}
}

// Waited counts a paid request that waited for its eSIM: delivered, ended otherwise, or answered while it is pending.
func (m *Metrics) Waited(ctx context.Context, outcome string, took time.Duration) {
	if m != nil {
		m.waits.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}

func count(ctx context.Context, c metric.Int64Counter, attrs ...attribute.KeyValue) {
	c.Add(ctx, 1, metric.WithAttributes(attrs...))
}

// Gauges are present values, as opposed to counts of what has happened.
type Gauges struct {
	Jobs   []JobGauge
	Orders []OrderGauge
	// FloatCents are what the issuers can still load, by their names; one that does not answer is left out.
	FloatCents map[string]int64
	// BalanceUnits is what the payee holds of the asset, in its smallest unit; nil when the chain does not answer.
	BalanceUnits *int64
	// ReceivableCents is what owners owe of issue fees; nil when it cannot be read.
	ReceivableCents *int64
	Asset           string
	Findings        []FindingGauge
	// BooksAge is the time since the last comparison of the books; nil before the first.
	BooksAge *time.Duration
}

// FindingGauge is how many findings of a code are open, and how many of them keep top-ups from being sold.
type FindingGauge struct {
	Code           string
	Open, Blocking int
}

// JobGauge is how many jobs of a kind are in a state, and how old the oldest is.
type JobGauge struct {
	Kind, State string
	Depth       int
	Age         time.Duration
}

// OrderGauge is how old the oldest order of a product is that is not final.
type OrderGauge struct {
	Product string
	Age     time.Duration
}

// Observe asks look for the gauges whenever the metrics are read. It must return in seconds.
func (m *Metrics) Observe(look func(context.Context) Gauges) error {
	if m == nil {
		return nil
	}
	var depth, float, balance, receivable, findings metric.Int64ObservableGauge
	var jobAge, orderAge, booksAge metric.Float64ObservableGauge
	var all []metric.Observable
	for _, g := range []struct {
		into             *metric.Int64ObservableGauge
		name, unit, help string
	}{
		{&depth, "job.queue.depth", "", "jobs that have not succeeded"},
		{&float, "issuer.float.usd_cents", "", "what the card issuer can still load, in US cents"},
		{&receivable, "fees.receivable.usd_cents", "", "issue fees that holders spent before their withdrawal, in US cents"},
		{&balance, "treasury.balance", "", "what the payee holds, in the asset's smallest unit"},
		{&findings, "reconciliation.findings", "", "unresolved differences between the books"},
	} {
		made, err := m.meter.Int64ObservableGauge(g.name, metric.WithDescription(g.help), metric.WithUnit(g.unit))
		if err != nil {
			return fmt.Errorf("make %s: %w", g.name, err)
		}
		*g.into, all = made, append(all, made)
	}
	for _, g := range []struct {
		into       *metric.Float64ObservableGauge
		name, help string
	}{
		{&jobAge, "job.queue.age", "the oldest job that has not succeeded"},
		{&orderAge, "order.age", "the oldest order that is not final"},
		{&booksAge, "reconciliation.age", "time since the last reconciliation"},
	} {
		made, err := m.meter.Float64ObservableGauge(g.name, metric.WithDescription(g.help), metric.WithUnit("s"))
		if err != nil {
			return fmt.Errorf("make %s: %w", g.name, err)
		}
		*g.into, all = made, append(all, made)
	}
	_, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		now := look(ctx)
		for _, j := range now.Jobs {
			of := metric.WithAttributes(attribute.String("kind", j.Kind), attribute.String("state", j.State))
			o.ObserveInt64(depth, int64(j.Depth), of)
			o.ObserveFloat64(jobAge, j.Age.Seconds(), of)
		}
		for _, r := range now.Orders {
			o.ObserveFloat64(orderAge, r.Age.Seconds(), metric.WithAttributes(attribute.String("product", r.Product)))
		}
		for _, f := range now.Findings {
			code := attribute.String("code", f.Code)
			o.ObserveInt64(findings, int64(f.Blocking), metric.WithAttributes(code, attribute.Bool("blocks", true)))
			o.ObserveInt64(findings, int64(f.Open-f.Blocking), metric.WithAttributes(code, attribute.Bool("blocks", false)))
		}
		if now.BooksAge != nil {
			o.ObserveFloat64(booksAge, now.BooksAge.Seconds())
		}
		for issuer, cents := range now.FloatCents {
			o.ObserveInt64(float, cents, metric.WithAttributes(attribute.String("provider", issuer)))
		}
		if now.ReceivableCents != nil {
			o.ObserveInt64(receivable, *now.ReceivableCents)
		}
		if now.BalanceUnits != nil {
			o.ObserveInt64(balance, *now.BalanceUnits, metric.WithAttributes(attribute.String("asset", now.Asset)))
		}
		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("observe gauges: %w", err)
	}
	return nil
}
