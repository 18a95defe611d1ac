package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// What a wallet may have in a bounded world, at every moment and over all processes.
const (
	mostUndecided = 3
	mostUnpaid    = 3
	// unsettledPercent is the share of a float that what it has not paid may take, and leastUnsettled how many purchases
	// it may have on their way whatever they take.
	unsettledPercent = 20
	leastUnsettled   = 4
	// scarceFloat is what the sandbox's supplier has of ours where nobody's payments are counted, in millionths of a
	// dollar: some purchases of the cheapest plan.
	scarceFloat = 3_000_000
	// firstGreedy is the number of the first wallet that wants all at once, and greedy how many there are.
	firstGreedy = 700
	greedy      = 3
)

// supplierFloat is what the sandbox's supplier has of ours at first; zero is plenty.
func (p plan) supplierFloat() money.USDC {
	if p.bounded && !p.counted {
		return scarceFloat
	}
	return 0
}

// scarce reports whether not everybody who buys can be served.
func (p *purchase) scarce() bool {
	of := p.of.world.plan
	return of.float != 0 || of.supplierFloat() != 0 && strings.Contains(p.path, "esim")
}

// bounds are the settings of a bounded world.
func (p plan) bounds(settings map[string]string) {
	if !p.bounded {
		return
	}
	settings["order.max_unpaid"] = fmt.Sprint(mostUnpaid)
	settings["float.unsettled_percent"] = fmt.Sprint(unsettledPercent)
	if p.counted {
		settings["limits"] = fmt.Sprintf("x100000,in_flight=off,undecided=%d", mostUndecided)
	}
}

// want is what a wallet does that wants all at once: it buys more than it may have on its way, with more or less than
// that costs, or makes more orders than it may leave unpaid. Each copy comes through any process.
func (w *world) want(nth int) {
	b := w.newBuyer(firstGreedy + nth)
	time.Sleep(time.Duration(b.rng.Int64N(int64(w.plan.over) + int64(20*time.Second))))
	m := &member{buyer: b}
	all := func(n int, do func(*member)) {
		var each sync.WaitGroup
		for i := range n {
			as := &member{buyer: b.own(uint64(firstGreedy * (i + 1))), session: m.session}
			as.bought = ownKeys * (i + 1)
			after := time.Duration(b.rng.Int64N(int64(200 * time.Millisecond)))
			each.Go(func() { time.Sleep(after); do(as) })
		}
		each.Wait()
	}
	switch b.rng.IntN(3) {
	case 0:
		all(7, func(as *member) { as.purchase("/api/esim/purchase", nil).buy() })
	case 1:
		w.beggar(m)
		all(4, func(as *member) { as.purchase("/api/esim/purchase", nil).buy() })
	default:
		if m.signIn() {
			all(2*mostUnpaid+2, func(as *member) {
				key := fmt.Sprintf("hoard-%d-%d", nth, as.bought)
				_, _ = as.until(http.MethodPost, "/api/esim/orders", map[string]string{"Idempotency-Key": key}, map[string]any{})
			})
		}
	}
}

// beggar leaves a wallet with the price of two eSIMs at most.
func (w *world) beggar(m *member) {
	_, terms, ok := m.asks("/api/esim/purchase", nil)
	if !ok {
		return
	}
	price, err := money.ParseUSDC(terms.Accepts[0].Amount)
	if err != nil {
		return
	}
	keeps := int64(price)*2 - 1
	w.transact(m.address, transferCall(w.sink, funds-keeps))
	time.Sleep(arrival)
	if w.chain.Balance(common.Address(m.address)) != keeps {
		return // it is in no block yet, or in none any more
	}
	w.rules.mu.Lock()
	defer w.rules.mu.Unlock()
	w.rules.poor = append(w.rules.poor, poor{m.address, keeps})
}

// enrich gives a wallet as much as it had at first.
func (w *world) enrich(wallet x402.Address) {
	w.rules.mu.Lock()
	w.rules.poor = slices.DeleteFunc(w.rules.poor, func(p poor) bool { return p.wallet == wallet })
	w.rules.mu.Unlock()
	w.chain.Fund(common.Address(wallet), funds, nil)
}

// poor is a wallet with what it had once, of which it has spent nothing but by purchases.
type poor struct {
	wallet x402.Address
	had    int64
}

// audit looks at every moment for a wallet that has more than it may.
func (w *world) audit(over <-chan struct{}) {
	auditor := newProcess("auditor", func() {})
	auditor.immortal = true
	rng := diceOf(w.plan.seed, auditDice)
	for pause(time.Duration(rng.Int64N(int64(800*time.Millisecond))), over) {
		if _, err := w.bus.ask(auditor, "look", nil); err != nil {
			return
		}
		if err := w.lookForMore(context.Background()); err != nil {
			w.bus.note("auditor: %v", err)
		}
		fix(w.bus.seed, "look", w.bus.granted)
	}
}

// auditDice are the dice of who looks.
const auditDice = 4998

func (w *world) lookForMore(ctx context.Context) error {
	conn, err := w.db.look(ctx)
	if err != nil {
		return err
	}
	look := func(rule, sql string, args ...any) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, one := range found {
			w.rules.broke(rule, "%s", one)
		}
		return err
	}
	if w.plan.counted {
		err = look("a wallet has few undecided payments", `SELECT owner || ' has ' || count(*) FROM payments
			WHERE status = 'claimed' GROUP BY owner HAVING count(*) > $1`, mostUndecided)
	}
	if err == nil {
		// A clock that is ahead has forgotten what another one still counts.
		err = look("a wallet has few unpaid orders", `SELECT owner || ' has ' || count(*) FROM orders
			WHERE status = 'payment_required' AND expires_at > $1 GROUP BY owner HAVING count(*) > $2`,
			time.Now().Add(2*w.plan.skew), mostUnpaid)
	}
	if err == nil {
		err = look("what a wallet has not paid takes its share of a float", `SELECT p.owner || ' has ' || sum(r.units)
			FROM payments p JOIN reservations r ON r.order_id = p.order_id AND r.owner = p.owner AND r.released_at IS NULL
			WHERE p.status = 'claimed' AND r.settled_at IS NULL AND r.resource LIKE 'float/%'
			GROUP BY p.owner, r.resource
			HAVING count(*) > $1 AND sum(r.units) > greatest(max(r.units) * $1, CASE
				WHEN r.resource LIKE 'float/esim%' THEN $2::bigint ELSE $3::bigint END)`,
			leastUnsettled, w.shareOf(w.plan.supplier, scarceFloat), w.shareOf(w.plan.issuer, int64(w.plan.float)))
	}
	w.rules.mu.Lock()
	all := w.rules.poor
	w.rules.mu.Unlock()
	for _, p := range all {
		// What it has given away may be its own again where blocks are replaced, and a node that is behind shows it still.
		if err == nil && w.replacedBlocks() == 0 && w.plan.lags == 0 {
			err = look("a wallet has no more on its way than it has", `SELECT owner || ' has ' || sum(value) FROM payments
				WHERE owner = $1 AND status = 'claimed' AND arrived_at IS NULL GROUP BY owner HAVING sum(value) > $2 + (
					SELECT coalesce(sum(value), 0) FROM refunds WHERE owner = $1)`, p.wallet.Lower(), p.had)
		}
	}
	return err
}

// shareOf is the most that what a wallet has not paid may take of a provider's float; no bound where it has plenty.
func (w *world) shareOf(provider string, float int64) int64 {
	if provider != sandboxes || float == 0 || w.plan.counted {
		return 1 << 60
	}
	return float * unsettledPercent / 100
}
