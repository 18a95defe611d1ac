package endtoend_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// lostModes are the ways in which the answer to a load is lost or says something else than what was done, by the names
// that the fakes of the vendors share.
var lostModes = []string{
	"timeout_after", "timeout_before", "error_after", "wrong_amount", "error_before", "conflict", "rate_limited",
	"unauthorized", "malformed", "truncated", "huge", "unknown_state", "inexact_amount", "wrong_currency", "wrong_unit",
	"wrong_owner", "partial",
}

// loadedCard is a world with one card of a vendor, and what there is on it.
type loadedCard struct {
	*world
	fault func(op, mode string) bool
	// look is the operation by which a load is looked for.
	look string
	// spendable is what the vendor lets the card's owner spend, in cents; loads are how often it was loaded.
	spendable func() int64
	loads     func() int
}

// TestLostAnswerOfATopUpLoadsTheCardOnce: whatever becomes of the answer to a load, and of the look for it, the card of
// a real vendor gets what was paid for, once.
func TestLostAnswerOfATopUpLoadsTheCardOnce(t *testing.T) {
	onlyTorture(t, "settlement TestIssuerFaultsLeaveOneLoad, and the kits of provider/lithic and stripe")
	t.Parallel()
	for name, newWorld := range map[string]func(*testing.T) loadedCard{
		lithic.Name: func(t *testing.T) loadedCard {
			w, fake := newLithicWorld(t, "inline")
			return loadedCard{w,
				func(op, mode string) bool { return fake.Fault(op, vendorfake.Mode(mode)) }, "moved",
				func() int64 { return fake.Cards()[0].Balance }, func() int { return len(fake.Transfers()) - 2 },
			}
		},
		stripe.Name: func(t *testing.T) loadedCard {
			w, fake := newStripeWorld(t, plan{})
			return loadedCard{w,
				func(op, mode string) bool { return fake.Fault(op, vendorfake.Mode(mode)) }, "card",
				func() int64 { return fake.Cards()[0].Limits[0].Amount },
				func() int { return int(fake.Cards()[0].Limits[0].Amount-1500) / 2450 },
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.buyer()
			b.buyCard("a-card-to-be-loaded")
			w.awaitSettled()
			modes := lostModes
			if !torture() {
				modes = modes[:4]
			}
			for n, mode := range modes {
				w.losesALoad(b, mode, n+1)
			}
			w.wantFindings("the books of the vendor and ours")
		})
	}
}

// losesALoad tops the card up for the nth time, and loses the answer to the load, and then one to the look for it.
func (w loadedCard) losesALoad(b *buyer, mode string, n int) {
	w.t.Helper()
	if !w.fault("move", mode) {
		w.t.Fatalf("the vendor has no mode %s", mode)
	}
	w.fault(w.look, "timeout_before")
	key := "a-load-with-" + mode
	if a := b.topUp(key, 2500); a.status != 200 {
		w.t.Errorf("%s: %d %s", mode, a.status, clipped(a.body))
	}
	w.awaitSettled()
	status := queryOne[string](w.world, "SELECT status FROM orders WHERE owner = $1 AND idempotency_key = $2",
		b.address.Lower(), key)
	if spendable, want := w.spendable(), int64(1500+2450*n); status != "fulfilled" || spendable != want || w.loads() != n {
		w.t.Errorf("%s: the order is %s, %d cents can be spent, and %d loads were made; want %d cents and %d loads",
			mode, status, spendable, w.loads(), want, n)
	}
}
