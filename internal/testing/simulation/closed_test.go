package simulation_test

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/x402"
)

// closed is a sale that operators had closed, from when they were told so until they asked for its opening.
type closed struct {
	// of is the product or the provider, and kinds are what is not sold.
	of       string
	kinds    []string
	from, to time.Time
}

// longestClosed is how long a sale is closed at most, and longestPaused how long nobody can move the token: both are
// over while a buyer still tries.
const longestClosed, longestPaused = 15 * time.Second, 15 * time.Second

// close closes the sale of a product now and then, or what is sold over a provider, and opens it again.
func (w *world) close(over <-chan struct{}) {
	o := &operator{world: w, name: "closer", rng: diceNamed(w.plan.seed, "close")}
	cards, esims := []string{"card_issue", "card_topup"}, []string{"esim", "esim_topup"}
	sales := []closed{
		{of: "card_issue", kinds: cards[:1]}, {of: "card_topup", kinds: cards[1:]}, {of: "esim", kinds: esims[:1]},
		{of: "provider." + w.plan.issuer, kinds: cards}, {of: "provider." + w.plan.supplier, kinds: esims},
	}
	for pause(time.Duration(o.rng.Int64N(int64(2*longestClosed))), over) {
		one := sales[o.rng.IntN(len(sales))]
		set := func(paused bool) bool {
			body := map[string]any{"paused": paused, "reason": "simulated"}
			return o.do("/api/admin/switches/"+one.of, body) == nil
		}
		told := set(true)
		one.from = time.Now()
		pause(time.Duration(o.rng.Int64N(int64(longestClosed))), over)
		if one.to = time.Now(); told {
			w.rules.wasClosed(one)
		}
		for !set(false) && pause(time.Second, w.ending) {
			w.bus.note("%s is still closed", one.of)
		}
	}
}

func (r *rules) wasClosed(one closed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = append(r.closed, one)
}

// checkClosed looks for what was claimed while its sale was closed. skew is by how much a process's clock may be wrong.
func (r *rules) checkClosed(ctx context.Context, conn *pgx.Conn, skew time.Duration) error {
	for _, one := range r.closed {
		var claims int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM timeline t JOIN orders o ON o.id = t.order_id
			WHERE t.from_status IN ('', 'payment_required') AND t.to_status = 'settling' AND t.at > $1 AND t.at < $2
			AND o.kind = ANY($3)`, one.from.Add(skew), one.to.Add(-skew), one.kinds).Scan(&claims)
		if err != nil {
			return err
		}
		if claims > 0 {
			r.broke("what operators have closed is not claimed", "%d orders of %s from %s to %s", claims, one.of, one.from,
				one.to)
		}
	}
	return nil
}

// pauseToken lets nobody move the token now and then, as its issuer can.
func (w *world) pauseToken(over <-chan struct{}) {
	rng := diceNamed(w.plan.seed, "token")
	admin := x402.Address(common.HexToAddress(devnet.WalletsOf(devnet.RoleAdmin)[0].Address))
	say := func(what string) { w.transact(admin, crypto.Keccak256([]byte(what + "()"))[:4]) }
	for pause(time.Duration(rng.Int64N(int64(3*longestPaused))), over) {
		say("pause")
		pause(time.Duration(rng.Int64N(int64(longestPaused))), over)
		say("unpause")
	}
}
