package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	settled, delivered, cost           metric.Float64Histogram
}

// seconds are the boundaries of what takes from a millisecond to the longest wait.
var seconds = metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
	10, 20, 45)

// waits are those of what a buyer waits for, up to a day; prices are those of gas, in gwei.
var (
	waits  = metric.WithExplicitBucketBoundaries(0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600, 4*3600, 24*3600)
	prices = metric.WithExplicitBucketBoundaries(10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000,
		1_000_000, 10_000_000)
)

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
		{&m.unaffordable, "relayer.budget_exceeded", "transactions not sent because a budget of gas is used up"},
	} {
		if *c.into, err = m.meter.Int64Counter(c.name, metric.WithDescription(c.help)); err != nil {
			return nil, fmt.Errorf("make %s: %w", c.name, err)
		}
	}
	for _, h := range []struct {
		into             *metric.Float64Histogram
		name, unit, help string
		bounds           metric.HistogramOption
	}{
		{&m.requests, "http.server.request.duration", "s", "requests by route", seconds},
		{&m.procedures, "rpc.server.call.duration", "s", "calls by procedure, over every transport", seconds},
		{&m.calls, "provider.request.duration", "s", "calls of providers", seconds},
		{&m.waits, "esim.inline_wait.duration", "s", "paid requests that waited for their eSIM", seconds},
		{&m.settled, "order.settlement.duration", "s", "from the claim of a payment to its proof", waits},
		{&m.delivered, "order.delivery.duration", "s", "from the claim of a payment to the end of its order", waits},
		{&m.cost, "relayer.payment.gwei", "", "gas cost of a payment that was settled, in gwei", prices},
	} {
		if *h.into, err = m.meter.Float64Histogram(h.name, metric.WithDescription(h.help), metric.WithUnit(h.unit),
			h.bounds); err != nil {
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
	for _, budget := range []string{"reverts", "payer", "hour", "smart_accounts"} {
		m.unaffordable.Add(ctx, 0, metric.WithAttributes(attribute.String("budget", budget)))
	}
	refused := metric.WithAttributes(attribute.String("outcome", "refused"))
	m.signIns.Add(ctx, 0, refused)
	m.reveals.Add(ctx, 0, refused)
}

// BeginProduct shows the payments for a product at zero. A counter that appears with its first count has not risen for
// an alert.
func (m *Metrics) BeginProduct(product string) {
	if m == nil {
		return
	}
	for _, outcome := range []string{"paid", "dead", "unknown"} {
		m.settlements.Add(context.Background(), 0, metric.WithAttributes(attribute.String("product", product),
			attribute.String("outcome", outcome)))
	}
}

// BeginNode shows outcomes of a node's answers at zero, for the same reason.
func (m *Metrics) BeginNode(node string, outcomes ...string) {
	if m == nil {
		return
	}
	for _, outcome := range outcomes {
		m.nodes.Add(context.Background(), 0, metric.WithAttributes(attribute.String("node", node),
			attribute.String("outcome", outcome)))
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

// Proven records how long a payment took from its claim to its proof. A trace of it becomes the bucket's exemplar, as
// with the two that follow.
func (m *Metrics) Proven(ctx context.Context, product string, took time.Duration) {
	if m != nil {
		m.settled.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("product", product)))
	}
}

// Ended records how long an order took from the claim of its payment to its end: fulfilled, refunded or
// operator_review.
func (m *Metrics) Ended(ctx context.Context, product, outcome string, took time.Duration) {
	if m != nil {
		m.delivered.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("product", product),
			attribute.String("outcome", outcome)))
	}
}

// Cost records what settling one payment cost in gas.
func (m *Metrics) Cost(ctx context.Context, wei float64) {
	if m != nil {
		m.cost.Record(ctx, wei/1e9)
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

// NodeAnswered counts an answer of a node, or what was found of it: ok, busy, failed, pruned, lagging, forked,
// other_chain or contradicted. Node is its place among the configured ones, from 1.
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

// shapeless are the codes of calls that are none: what strangers try costs one series each, at whatever procedure.
var shapeless = []string{"invalid_argument", "unimplemented", "out_of_range"}

// Served counts a request and its call. Refused requests are one series for each status, and refused calls have their
// procedure unless they are malformed: otherwise anybody could make a series for each route, method and refusal.
func (m *Metrics) Served(ctx context.Context, r Request) {
	if m == nil {
		return
	}
	took := r.Took.Seconds()
	if r.Status >= 400 && r.Status < 500 {
		r.Method, r.Route = "", ""
	}
	m.requests.Record(ctx, took, metric.WithAttributes(attribute.String("http.request.method", r.Method),
		attribute.String("http.route", r.Route), attribute.Int("http.response.status_code", r.Status)))
	if r.Call.Procedure == "" {
		return
	}
	code, method := cmp.Or(r.Call.Code, "ok"), r.Call.Method()
	if slices.Contains(shapeless, code) {
		method = ""
	}
	m.procedures.Record(ctx, took, metric.WithAttributes(attribute.String("rpc.system.name", "connectrpc"),
		attribute.String("rpc.method", method), attribute.String("rpc.response.status_code", code),
		attribute.String("error.type", r.Call.Problem)))
}

// Asked counts a call of a provider: ok, refused, unknown when no clear answer came, or abandoned when its caller went
// before there was one, which says nothing about the provider.
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
