package simulation_test

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// What the configuration has at first of keys that are no accounts.
var (
	quoteKey   = strings.Repeat("5a", 32)
	tokenKey   = strings.Repeat("7e", 32)
	sealingKey = "k1:" + strings.Repeat("c4", 32)
)

// successor is the account that follows one that settles or refunds.
type successor byte

const (
	nextRelayer  successor = 0x91
	nextTreasury successor = 0x92
)

func (s successor) key() *ecdsa.PrivateKey { return crypto.ToECDSAUnsafe([]byte{31: byte(s)}) }

func (s successor) address() string { return curve.AddressOf(s.key()).String() }

// setting is its key as a setting has it.
func (s successor) setting() string { return hexutil.Encode(crypto.FromECDSA(s.key())) }

// stage is a step of a rotation: the settings that every process gets, one after the other, and what is checked before.
type stage struct {
	settings map[string]string
	// check is a query of whether the step may be taken; empty is always. $1 is when the last process was started again.
	check string
	// forgets says that a database from before the step needs what it takes away, and waits that it is not taken within
	// an hour of a restore.
	forgets, waits bool
	// retires is the relayer that sends nothing new once every process has the settings.
	retires string
}

// rotations are those of docs/operations/rotate.md, in the same steps with the same checks. Those of quotes and of
// tokens end with the second: the third comes when no world lasts any more.
func (p plan) rotations() [][]stage {
	relayer, treasury := walletOf(devnet.RoleRelayer), walletOf(devnet.RoleTreasury)
	all := [][]stage{{
		{settings: map[string]string{"relayer.retired": nextRelayer.setting()}},
		{settings: map[string]string{"relayer.keys": nextRelayer.setting(), "relayer.retired": relayer.PrivateKey},
			retires: relayer.Address},
		{settings: map[string]string{"relayer.retired": ""}, check: fmt.Sprintf(`SELECT $1::timestamptz IS NOT NULL
			AND NOT EXISTS (SELECT FROM transactions WHERE lower(relayer) = lower('%s') AND status = 'open')`,
			relayer.Address)},
	}, {
		{settings: map[string]string{"treasury.retired": nextTreasury.setting()}},
		{settings: map[string]string{"treasury.key": nextTreasury.setting(), "treasury.retired": treasury.PrivateKey},
			waits: true},
		{settings: map[string]string{"treasury.retired": treasury.Address}, check: `SELECT $1::timestamptz IS NOT NULL
			AND NOT EXISTS (SELECT FROM orders WHERE status = 'refund_pending')
			AND NOT EXISTS (SELECT FROM jobs WHERE kind = 'refund_confirm' AND status <> 'succeeded')`},
	}, {
		{settings: map[string]string{"quote.key": quoteKey + "," + strings.Repeat("6b", 32)}},
		{settings: map[string]string{"quote.key": strings.Repeat("6b", 32) + "," + quoteKey}},
	}, {
		{settings: map[string]string{"esim.token_key": tokenKey + "," + strings.Repeat("8f", 32)}},
		{settings: map[string]string{"esim.token_key": strings.Repeat("8f", 32) + "," + tokenKey}},
	}, {
		{settings: map[string]string{"esim.keys": sealingKey + ",k2:" + strings.Repeat("d5", 32)}},
		{settings: map[string]string{"esim.keys": "k2:" + strings.Repeat("d5", 32) + "," + sealingKey}},
		{settings: map[string]string{"esim.keys": "k2:" + strings.Repeat("d5", 32)}, check: `SELECT EXISTS
			(SELECT FROM jobs WHERE kind = 'esim_reseal' AND status = 'succeeded' AND created_at > $1)`, forgets: true},
	}}
	if p.nextIssuer != "" {
		all = append(all, p.succession(issuersSold, issuersRetired, p.issuer, p.nextIssuer))
	}
	if p.nextSupplier != "" {
		all = append(all, p.succession(suppliersSold, suppliersRetired, p.supplier, p.nextSupplier))
	}
	return all
}

// settling is how others settle, as docs/operations/settlers.md says: not in most worlds, nor where smart accounts pay,
// whose payments this facilitator does not take.
func (p plan) settling() (all []stage) {
	rng := diceNamed(p.seed, "settling")
	if p.smart || rng.IntN(3) > 0 {
		return nil
	}
	for range 1 + rng.IntN(3) {
		order := oneOf(rng, settlers[4:]...)
		url := facilitators
		if order == "relayer" {
			url = ""
		}
		all = append(all, stage{settings: map[string]string{"settlement.order": order, "facilitator.url": url}})
	}
	return all
}

// succession is how one provider follows another: it is added at the end, or preferred at once.
func (p plan) succession(sold, retired, was, is string) []stage {
	all := []stage{
		{settings: map[string]string{sold: was + "," + is}},
		{settings: map[string]string{sold: is + "," + was}},
		{settings: map[string]string{sold: is, retired: was}},
	}
	return all[diceNamed(p.seed, "succession").IntN(2):]
}

// longestCheck is how long an operator waits for what a step needs, before something else is done first.
const longestCheck = 40 * time.Second

// rotate changes some of the keys, one after the other.
func (w *world) rotate(over <-chan struct{}) {
	rng := diceNamed(w.plan.seed, "rotate")
	w.chain.Fund(common.HexToAddress(nextRelayer.address()), 0, big.NewInt(1e18))
	w.chain.Fund(common.HexToAddress(nextTreasury.address()), 100*funds, nil)
	all := w.plan.rotations()
	var last time.Time
	chosen := rng.Perm(len(all))
	if follows := len(all) - 1; w.plan.nextIssuer != "" || w.plan.nextSupplier != "" {
		chosen = append([]int{follows}, slices.DeleteFunc(chosen, func(i int) bool { return i == follows })...)
	}
	chosen = chosen[:1+rng.IntN(3)]
	if other := w.plan.settling(); other != nil {
		all, chosen = append(all, other), slices.Insert(chosen, rng.IntN(len(chosen)+1), len(all))
	}
	for _, i := range chosen {
		for nth, s := range all[i] {
			if !pause(time.Duration(rng.Int64N(int64(10*time.Second))), over) || !w.may(s, last, over) {
				break
			}
			w.bus.note("the operator takes step %d of rotation %d", nth+1, i)
			if last = w.roll(rng, s.settings, over); last.IsZero() {
				return
			}
			if s.retires != "" {
				w.rules.hasRetired(retirement{s.retires, last})
			}
		}
	}
}

// retirement is a relayer that has sent nothing new since a time.
type retirement struct {
	relayer string
	since   time.Time
}

func (r *rules) hasRetired(one retirement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = append(r.retired, one)
}

// checkRetired looks for transactions of relayers that had retired. skew is by how much a process's clock may be wrong.
func (r *rules) checkRetired(ctx context.Context, conn *pgx.Conn, skew time.Duration) error {
	for _, one := range r.retired {
		var sent int
		err := conn.QueryRow(ctx, "SELECT count(*) FROM transactions WHERE lower(relayer) = lower($1) AND created_at > $2",
			one.relayer, one.since.Add(skew)).Scan(&sent)
		if err != nil {
			return err
		}
		if sent > 0 {
			r.broke("a retired relayer sends nothing new", "%d transactions of %s since %s", sent, one.relayer, one.since)
		}
	}
	return nil
}

// may waits until a step may be taken.
func (w *world) may(s stage, last time.Time, over <-chan struct{}) (is bool) {
	w.mu.Lock()
	restored := len(w.restores.losses) > 0
	w.mu.Unlock()
	if s.forgets && w.plan.restores || s.waits && restored {
		return false
	}
	for until := time.Now().Add(longestCheck); s.check != "" && !is && time.Now().Before(until); {
		w.turn("checks a step")
		if conn, err := w.db.look(context.Background()); err == nil {
			_ = conn.QueryRow(context.Background(), s.check, last).Scan(&is) // then not
		}
		fix(w.bus.seed, "checks a step", w.bus.granted)
		if !is && !pause(time.Second, over) {
			return false
		}
	}
	return s.check == "" || is
}

// roll gives all processes settings, one after the other, and starts them again: most end as they are asked to, and
// some are killed. It returns when the last one was started again; the zero time says that it is over before.
func (w *world) roll(rng *rand.Rand, settings map[string]string, over <-chan struct{}) (last time.Time) {
	w.mu.Lock()
	maps.Copy(w.settings, settings)
	next := maps.Clone(w.settings)
	w.mu.Unlock()
	for _, i := range rng.Perm(len(w.slots)) {
		s, was := w.slots[i], (*process)(nil)
		w.mu.Lock()
		s.settings = next
		w.mu.Unlock()
		if was = w.running(s); was != nil && rng.IntN(4) > 0 {
			was.leave()
		} else if was != nil {
			was.kill()
		}
		w.bus.note("%s has other settings", s.name)
		for until := time.Now().Add(longestStart); time.Now().Before(until); {
			if !pause(time.Second/2, over) {
				return time.Time{}
			}
			if now := w.running(s); now != was && now.serving() != nil {
				break
			}
		}
		last = time.Now()
	}
	return last
}

// longestStart is how long an operator waits for a process, before the next one is started again.
const longestStart = 15 * time.Second
