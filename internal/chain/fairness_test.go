package chain_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// What a payer may have delegated to. The first answers isValidSignature as a plain account would: it recovers the
// signer and compares it with itself. The others say yes while the gas price is zero, and while the transaction
// comes from nobody, as in a careless simulation.
const (
	ownSignature = "0x6004355f5260a43560f81c602052604060646040376020" +
		"608060805f60015afa608051301402631626ba7e0260e01b5f5260205ff3"
	forNothing = "0x3a15631626ba7e0260e01b5f5260205ff3"
	fromNobody = "0x3215631626ba7e0260e01b5f5260205ff3"
)

// delegate installs code, and returns its address.
func (b *bench) delegate(code string) x402.Address {
	b.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	at := curve.AddressOf(key)
	b.control("anvil_setCode", at.String(), code)
	return at
}

// delegates gives a wallet the code of an EIP-7702 delegation.
func (b *bench) delegates(w devnet.Wallet, to x402.Address) {
	b.Helper()
	b.control("anvil_setCode", w.Address, "0xef0100"+hex.EncodeToString(to[:]))
	b.mine(1)
}

// vouching is the chain with an allowlist, and a relayer on it.
func (b *bench) vouching(budget chain.Budget, delegates ...x402.Address) (*chain.Chain, *chain.Relayer) {
	b.Helper()
	on, err := chain.New(b.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: b.url}}, Domain: domain, Finality: chain.Finality{Paid: "latest", Dead: "safe"},
		CallTimeout: 10 * time.Second, Delegates: delegates, Now: b.now,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(on.Close)
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: on, Transactions: b.attempts, Keys: []payment.Signer{relayerKey(0)},
		ResendAfter: time.Nanosecond, Budget: budget, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return on, r
}

func TestSimulateRefusesCodeThatIsNotAllowed(t *testing.T) {
	b := newBench(t)
	honest := b.delegate(ownSignature)
	b.delegates(buyer(0), honest)
	p := b.claim(buyer(0))
	if reason := b.reasonOf(b.chain.Simulate(t.Context(), p.Authorization, p.Signature)); reason != x402.ReasonSignature {
		t.Errorf("without an allowlist: %q", reason)
	}
	on, relayer := b.vouching(chain.Budget{}, b.delegate(ownSignature), honest)
	verifying := chain.AsRelayer(on, relayer)
	if err := verifying.Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
		t.Fatalf("on the allowlist: %v", err)
	}
	if err := relayer.Submit(t.Context(), p); err != nil {
		t.Fatalf("submit: %v", err)
	}
	b.settles(p)

	forged := b.claim(buyer(0))
	forged.Signature = b.sign(forged.Authorization, buyer(1))
	if reason := b.reasonOf(verifying.Simulate(t.Context(), forged.Authorization,
		forged.Signature)); reason != x402.ReasonSignature {
		t.Errorf("signed by another: %q", reason)
	}
	// The same code is another matter where nobody vouches for it: as the account's own, or at another address.
	next := b.claim(buyer(0))
	refused := func(name string) {
		t.Helper()
		b.mine(1)
		if reason := b.reasonOf(verifying.Simulate(t.Context(), next.Authorization,
			next.Signature)); reason != x402.ReasonSignature {
			t.Errorf("%s: %q", name, reason)
		}
	}
	b.control("anvil_setCode", buyer(0).Address, ownSignature)
	refused("the code itself")
	b.delegates(buyer(0), b.delegate(ownSignature))
	refused("another delegate")
}

// TestSimulationMatchesSentTransaction refuses code on the allowlist that tells a simulation from a transaction. It
// costs no gas.
func TestSimulationMatchesSentTransaction(t *testing.T) {
	for name, code := range map[string]string{"by the gas price": forNothing, "by the sender": fromNobody} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			liar := b.delegate(code)
			b.delegates(buyer(0), liar)
			on, relayer := b.vouching(chain.Budget{}, liar)
			p := b.claim(buyer(0))
			if err := on.Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
				t.Fatalf("nobody's simulation: %v, want the lie", err)
			}
			if reason := b.reasonOf(chain.AsRelayer(on, relayer).Simulate(t.Context(), p.Authorization,
				p.Signature)); reason != x402.ReasonSignature {
				t.Errorf("the relayer's simulation: %q", reason)
			}
			if reason := b.reasonOf(relayer.Submit(t.Context(), p)); reason != x402.ReasonSignature {
				t.Errorf("submit: %q", reason)
			}
			b.wantAttempts(p)
		})
	}
}

func TestSubmitRefusesCodeInstalledAfterClaim(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	if err := chain.AsRelayer(b.chain, b.relayer).Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
		t.Fatalf("at the claim: %v", err)
	}
	b.delegates(buyer(0), b.delegate(ownSignature)) // which would even let it pass
	if reason := b.reasonOf(b.relayer.Submit(t.Context(), p)); reason != x402.ReasonSignature {
		t.Errorf("submit: %q", reason)
	}
	b.wantAttempts(p)
	b.control("anvil_setCode", buyer(0).Address, "0x")
	b.mine(1)
	b.submit(p)
	b.settles(p)
}

// TestMaintainDoesNotBumpAfterCodeIsInstalled installs code at the payer of the oldest waiting transaction. An empty
// transaction replaces it, so that later payments settle, and counts as a revert.
func TestMaintainDoesNotBumpAfterCodeIsInstalled(t *testing.T) {
	b := newBench(t)
	p, next := b.claim(buyer(0)), b.claim(buyer(1))
	b.control("evm_setAutomine", false)
	b.submit(p)
	b.submit(next)
	b.control("anvil_dropAllTransactions")
	b.delegates(buyer(0), b.delegate(ownSignature))
	b.ahead.Add(11)
	b.maintain()
	variants := b.wantAttempts(p, payment.TransactionOpen)[0].Variants
	if len(variants) != 2 {
		t.Fatalf("%d variants, want 2", len(variants))
	}
	before, after := decode(t, variants[0]), decode(t, variants[1])
	if len(after.Data()) != 0 || after.Nonce() != before.Nonce() || after.GasFeeCap().Cmp(before.GasFeeCap()) <= 0 {
		t.Errorf("replaced by %x, account nonce %d, fee %s", after.Data(), after.Nonce(), after.GasFeeCap())
	}
	b.mine(1)
	b.settles(next)
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("%+v, want unused", v)
	}
	b.maintain()
	b.wantAttempts(p, payment.TransactionReverted)
	if lost, err := b.attempts.Lost(t.Context(), p, time.Time{}); err != nil || lost.Reverts != 1 || lost.Payer == 0 {
		t.Errorf("losses %+v, %v", lost, err)
	}
	if reason := b.reasonOf(b.relayer.Submit(t.Context(), p)); reason != x402.ReasonSignature {
		t.Errorf("submit: %q", reason)
	}
	b.control("anvil_setCode", buyer(0).Address, "0x")
	b.mine(1)
	b.submit(p)
	b.mine(1)
	b.settles(p)
}

// TestMaintainNeedsTwoNodesToGiveUp lets one node invent code at a payer. The waiting transaction still gets a higher
// fee.
func TestMaintainNeedsTwoNodesToGiveUp(t *testing.T) {
	for _, others := range []int{1, 2} {
		t.Run(fmt.Sprint("of ", others+1), func(t *testing.T) {
			b := newBench(t)
			p := b.claim(buyer(0))
			b.control("evm_setAutomine", false)
			b.submit(p)
			nodes := []string{b.lying(func(q question) string {
				if q.Method == "eth_getCode" {
					return `"result":"0xef0100` + strings.Repeat("11", 20) + `"`
				}
				return ""
			})}
			for range others {
				nodes = append(nodes, b.url)
			}
			b.chain = b.over(nodes...)
			b.relayer = b.newRelayer(b.attempts)
			b.ahead.Add(11)
			b.maintain()
			variants := b.wantAttempts(p, payment.TransactionOpen)[0].Variants
			if len(variants) != 2 || len(decode(t, variants[len(variants)-1]).Data()) == 0 {
				t.Errorf("%d variants, want a second one with the same call", len(variants))
			}
			b.mine(1)
			b.settles(p)
		})
	}
}

// reverts has a payment's next transaction revert: the payer has nothing when it is included, and its money back after.
func (b *bench) reverts(r *chain.Relayer, p payment.Payment, from devnet.Wallet) {
	b.Helper()
	b.control("evm_setAutomine", false)
	if err := r.Submit(b.Context(), p); err != nil {
		b.Fatalf("submit: %v", err)
	}
	b.setBalance(addressOf(from), 0)
	b.mine(1)
	b.setBalance(addressOf(from), 10*price)
	b.control("evm_setAutomine", true)
	b.mine(1)
	if err := r.Maintain(b.Context()); err != nil {
		b.Fatalf("maintain: %v", err)
	}
}

// setBalance writes what an account holds into the token's slot 2.
func (b *bench) setBalance(of x402.Address, amount money.USDC) {
	b.Helper()
	var at [64]byte
	copy(at[12:], of[:])
	at[63] = 2
	b.control("anvil_setStorageAt", token.Hex(), crypto.Keccak256Hash(at[:]), common.BigToHash(amount.Big()))
}

func TestSubmitStopsAfterSecondRevert(t *testing.T) {
	b := newBench(t)
	_, relayer := b.vouching(chain.Budget{})
	p := b.claim(buyer(1))
	b.reverts(relayer, p, buyer(1))
	b.reverts(relayer, p, buyer(1))
	for range 3 {
		if err := relayer.Submit(t.Context(), p); !errors.Is(err, chain.ErrWatched) || !errors.Is(err, payment.ErrMissed) {
			t.Fatalf("submit after two reverts: %v", err)
		}
	}
	b.wantAttempts(p, payment.TransactionReverted, payment.TransactionReverted)
	if v := b.verdict(p); v.State != payment.Unused {
		t.Fatalf("%+v, want unused: it is not void", v)
	}
	// The payer's next authorization is another matter, and a stranger may still settle this one.
	next := b.claim(buyer(1))
	if err := relayer.Submit(t.Context(), next); err != nil {
		t.Errorf("the next authorization: %v", err)
	}
	b.settles(next)
	b.stranger(p.Authorization, p.Signature)
	b.settles(p)
}

func TestSubmitStopsAtPayersRevertBudget(t *testing.T) {
	b := newBench(t)
	on, relayer := b.vouching(chain.Budget{Payer: 1})
	first, second, others := b.claim(buyer(1)), b.claim(buyer(1)), b.claim(buyer(2))
	for _, p := range []payment.Payment{second, others} { // known by their payer
		if _, err := b.attempts.Lost(t.Context(), p, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	b.reverts(relayer, first, buyer(1))
	for name, p := range map[string]payment.Payment{"the same": first, "another of the payer's": second} {
		if err := relayer.Submit(t.Context(), p); !errors.Is(err, chain.ErrWatched) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nothing would be sent for another one of the payer's, so it is not taken either.
	taken := func(p payment.Payment) error {
		return chain.AsRelayer(on, relayer).Simulate(t.Context(), p.Authorization, p.Signature)
	}
	if f, ok := fault.As(taken(b.claim(buyer(1)))); !ok || f.Code != fault.DependencyDown || f.RetryAfter == 0 {
		t.Errorf("taken from the payer: %+v", f)
	}
	if err := taken(others); err != nil {
		t.Errorf("taken from another payer: %v", err)
	}
	if err := relayer.Submit(t.Context(), others); err != nil {
		t.Errorf("another payer's: %v", err)
	}
	b.settles(others)
	b.ahead.Store(3601) // an hour later it counts no more
	again := b.claim(buyer(1))
	if err := taken(again); err != nil {
		t.Errorf("taken an hour later: %v", err)
	}
	if err := relayer.Submit(t.Context(), again); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

// TestSubmitSendsOnceBeyondHourlyBudget checks that a payer who wastes gas does not keep others from paying.
func TestSubmitSendsOnceBeyondHourlyBudget(t *testing.T) {
	b := newBench(t)
	_, relayer := b.vouching(chain.Budget{Hour: 1, Reverts: 10})
	wasted, honest := b.claim(buyer(1)), b.claim(buyer(2))
	b.reverts(relayer, wasted, buyer(1))
	if err := relayer.Submit(t.Context(), wasted); !errors.Is(err, chain.ErrWatched) {
		t.Errorf("a second transaction: %v", err)
	}
	if err := relayer.Submit(t.Context(), honest); err != nil {
		t.Errorf("another's first: %v", err)
	}
	b.settles(honest)
}

func TestClosedAttemptKeepsItsCost(t *testing.T) {
	b := newBench(t)
	_, relayer := b.vouching(chain.Budget{})
	before := b.gas()
	p := b.claim(buyer(1))
	b.reverts(relayer, p, buyer(1))
	lost, err := b.attempts.Lost(t.Context(), p, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if spent := new(big.Int).Sub(before, b.gas()); spent.Sign() <= 0 || spent.Int64() != lost.Payer ||
		lost.All != lost.Payer || lost.Reverts != 1 {
		t.Errorf("losses %+v, the relayer has spent %s", lost, spent)
	}
}

// gas is what the relayer has for gas.
func (b *bench) gas() *big.Int {
	b.Helper()
	var balance string
	if err := b.node.CallContext(b.Context(), &balance, "eth_getBalance", devnet.WalletsOf(devnet.RoleRelayer)[0].Address,
		"latest"); err != nil {
		b.Fatal(err)
	}
	wei, ok := new(big.Int).SetString(balance, 0)
	if !ok {
		b.Fatalf("balance %s", balance)
	}
	return wei
}

// TestSimulateWithoutRelayerGasRefusesNobody checks that our lack of gas is not reported as a fault of the payer.
func TestSimulateWithoutRelayerGasRefusesNobody(t *testing.T) {
	b := newBench(t)
	wallets := devnet.WalletsOf(devnet.RoleRelayer)
	b.setGas(wallets[0], big.NewInt(1))
	p := b.claim(buyer(0))
	if err := chain.AsRelayer(b.chain, b.relayerOf(wallets[0], wallets[1])).Simulate(t.Context(), p.Authorization,
		p.Signature); err != nil {
		t.Errorf("another key has gas: %v", err)
	}
	poor := chain.AsRelayer(b.chain, b.relayerOf(wallets[0]))
	if err := poor.Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
		t.Errorf("no key has gas: %v", err)
	}
	p.Signature = b.sign(p.Authorization, buyer(1))
	if reason := b.reasonOf(poor.Simulate(t.Context(), p.Authorization, p.Signature)); reason != x402.ReasonSignature {
		t.Errorf("no key has gas, and another has signed: %q", reason)
	}
}
