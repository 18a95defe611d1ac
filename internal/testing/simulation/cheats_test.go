package simulation_test

import (
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/roamcard/roamcard/internal/x402"
)

// acceptsAll is the code of an account that takes every signature for its own (ERC-1271).
var acceptsAll = common.FromHex("631626ba7e60e01b5f5260205ff3")

// cheats lets some buyers spend what they have signed in another way before it is settled. It reports whether this one
// does.
func (p *purchase) cheats(header string, do func(after time.Duration, f func())) bool {
	b, w := p.of, p.of.world
	rng := diceOf(w.plan.seed, uint64(3000+b.nth))
	if b.cheated || !w.plan.cheats || rng.IntN(2) > 0 {
		return false
	}
	pay, err := x402.DecodeAnyPayment(header)
	if err != nil {
		panic(err) // the buyer wrote it
	}
	p.odd, b.cheated = true, true
	soon, at := time.Duration(rng.Int64N(int64(2*time.Second))), rng.Int()
	switch rng.IntN(3) {
	case 0:
		do(soon, func() { b.spendElsewhere(pay.Authorization) })
	case 1: // what pays for another purchase is in the same block
		other, second := b.purchase(p.path, p.more), b.sign(p.terms)
		paid, err := x402.DecodeAnyPayment(second)
		if err != nil {
			panic(err)
		}
		do(soon, func() {
			b.spendElsewhere(pay.Authorization)
			w.settleForeign(b.sender(), paid)
			_, _ = other.askAt(at, second)
		})
	default:
		do(soon, func() { w.chain.Install(common.Address(b.address), acceptsAll) })
		other, second := b.purchase(p.path, p.more), b.sign(p.terms)
		const later = 20 * time.Second
		// After a restore the money of the first purchase may pay for the second one.
		shown := w.plan.lies == 0 && !w.plan.restores
		do(soon+later, func() {
			if a, err := other.askAt(at, second); err == nil && a.status == http.StatusOK && shown {
				w.note("an account with code, %s, has paid for %s", b.address, other.key)
			}
		})
	}
	return true
}

// spendElsewhere uses an authorization's nonce for a transfer to somebody else.
func (b *buyer) spendElsewhere(a x402.Authorization) {
	a.To = b.world.sink
	b.world.transact(b.address, x402.TransferCall(a, b.signs(a)))
}

// note notes something that must not be.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, fmt.Sprintf(format, args...))
}

const (
	// longestDrought is how long the relayer has next to no gas at most, and dust is what it has then, in wei.
	longestDrought = 20 * time.Second
	dust           = 1_000_000
)

// starve takes the relayer's gas away for a while, and gives it back.
func (w *world) starve(over <-chan struct{}) {
	rng := diceOf(w.plan.seed, 6)
	relayer := common.HexToAddress(relayerAddress())
	for pause(time.Duration(rng.Int64N(int64(2*longestDrought))), over) {
		gas := new(big.Int).Sub(w.chain.Wei(relayer), big.NewInt(dust))
		w.chain.Fund(relayer, 0, new(big.Int).Neg(gas))
		w.bus.note("the relayer has no gas")
		pause(time.Duration(rng.Int64N(int64(longestDrought))), over)
		w.chain.Fund(relayer, 0, gas)
		w.bus.note("the relayer has gas")
	}
}
