package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/x402"
)

// few and many are how many buyers, or sessions of pgbench, are at work at once.
const few, many = 32, 128

// BenchmarkClaim is a paid purchase against a durable PostgreSQL: verified, claimed, settled on a chain that
// settles at once, and on to the card. For comparison, on the same server, pgbench inserts the same three rows.
func BenchmarkClaim(b *testing.B) {
	db := durable(b)
	b.Run("pgbench", func(b *testing.B) { insertThree(b, db.URL(), few) })
	b.Run("claim", func(b *testing.B) { claims(b, db.URL(), few, nil) })
	b.Run("claim-limited", func(b *testing.B) { claims(b, db.URL(), few, ofWallets()) })
	b.Run("settled", func(b *testing.B) { purchases(b, db.URL(), course{clients: few, stay: true}) })
	b.Run("settled-limited", func(b *testing.B) {
		purchases(b, db.URL(), course{clients: few, stay: true, limits: ofWallets()})
	})
	b.Run("apart", func(b *testing.B) { purchases(b, db.URL(), course{clients: few, stay: true, apart: true}) })
	b.Run("fulfilled", func(b *testing.B) { purchases(b, db.URL(), course{clients: few}) })
	b.Run("many/pgbench", func(b *testing.B) { insertThree(b, db.URL(), many) })
	b.Run("many/claim", func(b *testing.B) { claims(b, db.URL(), many, nil) })
	b.Run("many/settled", func(b *testing.B) { purchases(b, db.URL(), course{clients: many, stay: true}) })
}

// ofWallets are the default limits of what one wallet does. All buyers have the same address.
func ofWallets() *limit.Limiter {
	rates, all := limit.Rates{}, limit.Defaults()
	for _, class := range []limit.Class{limit.Paid, limit.Orders, limit.Undecided, limit.InFlight} {
		rates[class] = all[class]
	}
	return limit.New(rates, time.Now)
}

// insertThree makes an order, a payment and a job in one transaction, with the columns and indexes of ours.
func insertThree(b *testing.B, db string, clients int) {
	tell(b, db, `
		DROP TABLE IF EXISTS bench_orders, bench_payments, bench_jobs;
		CREATE TABLE bench_orders (LIKE orders INCLUDING ALL);
		CREATE TABLE bench_payments (LIKE payments INCLUDING ALL);
		CREATE TABLE bench_jobs (LIKE jobs INCLUDING ALL)`)
	var version int
	row(b, db, "SELECT current_setting('server_version_num')::int", &version)
	b.ReportMetric(float64(version), "server-version")
	if program, err := findPgbench(); err == nil {
		b.ReportMetric(runPgbench(b, program, db, clients), "tx/s")
	} else {
		b.ReportMetric(insertByPgx(b, db, clients), "tx/s")
	}
}

// threeInserts are pgbench's statements; every value that is unique in ours is random here.
var threeInserts = []string{
	`INSERT INTO bench_orders (id, operation_id, kind, status, owner, idempotency_key, fingerprint, price_usd_cents,
		item, version, created_at, updated_at)
		VALUES ('ord_' || gen_random_uuid(), gen_random_uuid(), 'card_issue',
			'settling', '0x1111111111111111111111111111111111111111',
			gen_random_uuid()::text, '\x00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff', 2500, '{}', 1,
				now(), now())`,
	`INSERT INTO bench_payments (id, order_id, status, network, asset, owner, pay_to, value, valid_after,
		valid_before, nonce, signature, created_at)
		VALUES (gen_random_uuid(), 'ord_' || gen_random_uuid(), 'claimed',
			'eip155:8453', '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
			'0x1111111111111111111111111111111111111111', '0x2222222222222222222222222222222222222222', 25000000, 0, 2000000000,
			'0x' || replace(gen_random_uuid()::text || gen_random_uuid(), '-', ''), decode(repeat('ab', 65), 'hex'), now())`,
	`INSERT INTO bench_jobs (id, kind, unique_key, payload, status, attempt, max_attempts, run_at, created_at,
		lease_owner, lease_until)
		VALUES (gen_random_uuid(), 'order_fulfill', gen_random_uuid()::text,
			'{"order": "ord_00000000-0000-0000-0000-000000000000"}', 'processing', 1, 1000,
			now(), now(), 'owner', now())`,
}

// findPgbench looks next to the PostgreSQL programs of this machine too.
func findPgbench() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // errs on a malformed pattern only
	if len(found) == 0 {
		return "", exec.ErrNotFound
	}
	return found[len(found)-1], nil
}

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func runPgbench(b *testing.B, program, db string, clients int) float64 {
	b.Helper()
	u, err := url.Parse(db)
	if err != nil {
		b.Fatal(err)
	}
	script := filepath.Join(b.TempDir(), "three.sql")
	var text bytes.Buffer
	text.WriteString("BEGIN;\n")
	for _, insert := range threeInserts {
		text.WriteString(insert + ";\n")
	}
	text.WriteString("COMMIT;\n")
	if err := os.WriteFile(script, text.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), program, "-n", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "2",
		"-t", strconv.Itoa(1+b.N/clients), "-f", script,
		"-h", u.Query().Get("host"), "-p", u.Query().Get("port"), "-U", u.User.Username(), u.Path[1:])
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("pgbench: %v\n%s", err, out)
	}
	tps := tpsLine.FindSubmatch(out)
	if tps == nil {
		b.Fatalf("pgbench does not tell its rate:\n%s", out)
	}
	rate, err := strconv.ParseFloat(string(tps[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}

// insertByPgx does what pgbench does, where there is none.
func insertByPgx(b *testing.B, db string, clients int) float64 {
	b.Helper()
	cfg, err := pgxpool.ParseConfig(db)
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = int32(clients)
	pool, err := pgxpool.NewWithConfig(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	begin := time.Now()
	inParallel(b.N, clients, func(int, int) {
		tx, err := pool.Begin(b.Context())
		for _, insert := range threeInserts {
			if err == nil {
				_, err = tx.Exec(b.Context(), insert)
			}
		}
		if err == nil {
			err = tx.Commit(b.Context())
		}
		if err != nil {
			b.Error(err)
		}
	})
	return float64(b.N) / time.Since(begin).Seconds()
}

// course says how far purchases go.
type course struct {
	// clients is how many buyers are at work at once.
	clients int
	// stay leaves orders at settled; otherwise they go on to the card.
	stay bool
	// apart makes purchases share nothing: no float that all of them draw on.
	apart bool
	// limits count in the database what one wallet does; nil counts nothing.
	limits *limit.Limiter
}

// floatless are cards of an issuer without a float.
type floatless struct{ *card.Cards }

// Reserve implements checkout.Product.
func (f floatless) Reserve(ctx context.Context, owner x402.Address, o order.Offer) (order.Claim, error) {
	a, err := f.Cards.Reserve(ctx, owner, o)
	a.Reservations = slices.DeleteFunc(a.Reservations, func(h order.Reservation) bool {
		return h.Resource == "float/card"
	})
	return a, err
}

// counter is a store that counts how far orders have come.
type counter struct {
	settlement.Store
	// stay leaves orders at settled: what delivers them finds that it has lost its job.
	stay      bool
	fulfilled *sync.WaitGroup
}

// Move implements settlement.Store.
func (c counter) Move(ctx context.Context, f job.Fence, m order.Move) (order.Order, error) {
	if c.stay {
		return order.Order{}, job.ErrLeaseLost
	}
	o, err := c.Store.Move(ctx, f, m)
	if err == nil && m.To == order.Fulfilled {
		c.fulfilled.Done()
	}
	return o, err
}

// purchases buys b.N cards, each for a wallet of its own, and reports how many are settled in a second, or
// fulfilled, and what the database does for one.
func purchases(b *testing.B, db string, c course) {
	before := activityOf(b, db)
	s, err := store.Open(b.Context(), store.Config{URL: db, MaxConns: 16})
	if err != nil {
		b.Fatal(err)
	}
	chain := paymenttest.NewChain(domain(), time.Now)
	var fulfilled sync.WaitGroup
	sells := shop(s, chain, counter{Store: s.Orders(), stay: c.stay, fulfilled: &fulfilled}, c)
	paid := payments(b, chain)
	stop := func() (released int64) { return 0 }
	if c.stay {
		stop = releaseReservations(b, db, "settled_at IS NOT NULL")
	}
	took := make([]time.Duration, b.N)
	fulfilled.Add(b.N)
	begin := time.Now()
	b.ResetTimer()
	inParallel(b.N, c.clients, func(_, i int) {
		started := time.Now()
		if _, err := sells.Buy(b.Context(), paid[i]); err != nil {
			b.Errorf("buy: %v", err)
		}
		took[i] = time.Since(started)
	})
	if !c.stay {
		fulfilled.Wait()
	}
	b.StopTimer()
	reportRate(b, time.Since(begin), took)
	released := stop()
	s.Close()
	reportWork(b, db, before, released)
}

// reportRate reports how many are done in a second, and how long one takes.
func reportRate(b *testing.B, all time.Duration, took []time.Duration) {
	b.ReportMetric(float64(b.N)/all.Seconds(), "tx/s")
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
}

// reportWork reports what the database has done for one, without what was done for the benchmark.
func reportWork(b *testing.B, db string, before activity, ours int64) {
	after := activityOf(b, db)
	b.ReportMetric(float64(after.transactions-before.transactions)/float64(b.N), "transactions/op")
	b.ReportMetric(float64(after.written-before.written-ours)/float64(b.N), "rows/op")
}

// claims stores b.N claims of cards, each for a wallet of its own, with the reservations of purchases and what limits
// count, and nothing else.
func claims(b *testing.B, db string, clients int, limits *limit.Limiter) {
	before := activityOf(b, db)
	s, err := store.Open(b.Context(), store.Config{URL: db, MaxConns: 16})
	if err != nil {
		b.Fatal(err)
	}
	all := make([]checkout.ClaimRequest, b.N)
	for i := range all {
		r := claimOf(fmt.Sprint("key-", i))
		payer := r.Order.Owner.Lower()
		r.Hits = slices.Concat(limits.Hit(limit.Paid, payer), limits.Hit(limit.Orders, payer))
		r.MaxUndecided, r.MaxInFlight = limits.Most(limit.Undecided), limits.Most(limit.InFlight)
		r.InFlightSince = time.Now().Add(-time.Minute)
		all[i] = r
	}
	stop := releaseReservations(b, db, "true")
	took := make([]time.Duration, b.N)
	begin := time.Now()
	b.ResetTimer()
	inParallel(b.N, clients, func(_, i int) {
		started := time.Now()
		if result, err := s.Orders().Claim(b.Context(), all[i]); err != nil || result.Claim != checkout.Fresh {
			b.Errorf("claim: %d, %v", result.Claim, err)
		}
		took[i] = time.Since(started)
	})
	b.StopTimer()
	reportRate(b, time.Since(begin), took)
	released := stop()
	s.Close()
	reportWork(b, db, before, released)
}

// claimOf is the claim of a card by a new wallet.
func claimOf(key string) checkout.ClaimRequest {
	var owner x402.Address
	n, now := newNonce(), time.Now()
	copy(owner[:], n[:])
	id := uuid.New()
	o := order.Order{
		ID: order.NewID(now), Operation: uuid.New(), Kind: card.Kind, Owner: owner, Key: key, Price: card.Price,
		Fingerprint: order.FingerprintOf(card.Kind, json.RawMessage(`{}`)), Item: json.RawMessage(`{}`),
		Resource: "https://cards.example/api/card/purchase", Reference: order.ReferenceOf(card.Kind, owner, key),
		Delivery: 1, CreatedAt: now, UpdatedAt: now,
	}
	p := checkout.ClaimRequest{
		Order: o,
		Payment: payment.Payment{
			ID: id, Order: o.ID, Status: payment.Claimed, Network: x402.NetworkID, Asset: usdc(), CreatedAt: now,
			Signature: x402.KeySignature(make([]byte, 64), 0),
			Authorization: x402.Authorization{From: owner, To: payee, Value: card.Price.USDC(), Nonce: n,
				ValidBefore: uint64(now.Add(time.Hour).Unix())},
		},
		Reservations: []order.Reservation{
			{Resource: "card/" + owner.Lower(), Units: 1, Limit: 1, AsOf: now},
			{Resource: "float/card", Units: 1500, Most: int64(card.MaxLoad), Limit: 1 << 40, AsOf: now},
		},
		Job: settlement.FulfillJob(o.ID, id.String()),
	}
	p.Job.LeaseOwner, p.Job.LeaseTTL = "bench", time.Minute
	return p
}

// releaseReservations releases the reservations for which a condition holds, those of orders that stay where they are,
// until it is stopped, and returns how many. Delivered orders release theirs themselves. Rows that a settlement changes
// in the meantime must not be among them: it would wait for this.
func releaseReservations(b *testing.B, db, which string) (stop func() int64) {
	b.Helper()
	var released int64
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		connected(b, db, func(own context.Context, conn *pgx.Conn) error {
			for ctx.Err() == nil {
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
				tag, err := conn.Exec(own, "UPDATE reservations SET released_at = 'epoch' WHERE released_at IS NULL AND "+which)
				if err != nil {
					return err
				}
				released += tag.RowsAffected()
			}
			return nil
		})
	})
	return func() int64 { cancel(); done.Wait(); return released }
}

var payee = x402.Address{0x70, 0x5a, 19: 1}

func terms() payment.Terms {
	return payment.Terms{
		Network: x402.NetworkID, Asset: usdc(), PayTo: payee, Domain: domain(),
		MaxTimeout: 2 * time.Minute, Margin: payment.MinMargin, MaxValidity: 25 * time.Hour,
	}
}

// shop sells cards of an issuer in memory that issues at once.
func shop(s *store.Store, chain *paymenttest.Chain, orders settlement.Store, c course) *checkout.Checkout {
	quiet := slog.New(slog.DiscardHandler)
	issuer := cardtest.NewIssuer(cardtest.Config{Instant: true, Float: 1 << 40})
	cards := card.New(card.Config{
		Store: s.Cards(), Now: time.Now,
		Providers: []card.Provider{{
			Issuer: issuer, Vault: issuer, Stock: issuer, Traits: issuer.Traits(), Capabilities: issuer.Capabilities(),
		}},
		Workers: availability.Check{Name: "workers", Run: func(context.Context) error { return nil }},
		Poll:    10 * time.Millisecond, CallTimeout: 5 * time.Second, Deadline: time.Hour,
	})
	var sold checkout.Product = cards
	if c.apart {
		sold = floatless{cards}
	}
	runner := job.NewRunner(job.Config{Queue: s.Jobs(), TTL: time.Minute, AdoptOnly: true})
	settles := settlement.New(settlement.Config{
		Store: orders, Products: []settlement.Product{cards}, Chain: chain,
		Collect: eager{payment.NewCollector(payment.CollectorConfig{Chain: chain, Settler: chain, Timeout: time.Minute,
			Log: quiet})},
		Log: quiet, Now: time.Now,
	})
	runner.Register(settlement.Fulfilling, settles.Fulfill)
	return checkout.New(checkout.Config{
		Store: s.Orders(), Products: []checkout.Product{sold}, Terms: terms(), Chain: chain, Settlement: settles,
		Runner: runner, Log: quiet, Now: time.Now, QuoteKey: make([]byte, 32), Wait: time.Minute,
		Limits: c.limits,
	})
}

// eager looks again at once until the chain has decided: this chain settles within the call.
type eager struct{ *payment.Collector }

func (e eager) Collect(ctx context.Context, p payment.Payment) payment.Verdict {
	return paymenttest.Decide(ctx, e.Collector, p, time.Nanosecond, time.Minute)
}

// payments are b.N signed purchases of as many wallets.
func payments(b *testing.B, chain *paymenttest.Chain) []checkout.Purchase {
	b.Helper()
	all := make([]checkout.Purchase, b.N)
	inParallel(b.N, 2, func(_, i int) { all[i] = signed(b, chain, fmt.Sprint("key-", i)) })
	return all
}

// signed is the paid purchase of a new wallet with enough money.
func signed(b *testing.B, chain *paymenttest.Chain, key string) checkout.Purchase {
	b.Helper()
	wallet := newKey(b)
	chain.Fund(addressOf(wallet), card.Price.USDC())
	a := x402.Authorization{
		From: addressOf(wallet), To: payee, Value: card.Price.USDC(), ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
		Nonce: newNonce(),
	}
	signature, err := curve.Sign(domain(), a, wallet)
	header, encodeErr := x402.EncodePayment(x402.Payment{
		Accepted: terms().Requirements(a.Value, nil), Authorization: a, Signature: signature,
	})
	if err := errors.Join(err, encodeErr); err != nil {
		b.Error(err)
	}
	return checkout.Purchase{
		Kind: card.Kind, Key: key, Request: json.RawMessage(`{}`), Payment: header,
		Resource: x402.Resource{URL: "https://cards.example/api/card/purchase"},
	}
}
