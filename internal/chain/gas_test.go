package chain_test

import (
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// relayerOf is a relayer with several of the development chain's keys.
func (b *bench) relayerOf(wallets ...devnet.Wallet) *chain.Relayer {
	b.Helper()
	var keys []payment.Signer
	for _, w := range wallets {
		keys = append(keys, curve.NewLocalSigner(keyOf(w)))
	}
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: b.chain, Transactions: b.attempts, Keys: keys, MinBalance: big.NewInt(1e15),
		ResendAfter: time.Nanosecond, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) setGas(w devnet.Wallet, wei *big.Int) {
	b.Helper()
	b.control("anvil_setBalance", w.Address, "0x"+wei.Text(16))
}

func TestRelayerChoosesKeyWithGas(t *testing.T) {
	b := newBench(t)
	wallets := devnet.WalletsOf(devnet.RoleRelayer)
	poor, rich := wallets[0], wallets[1]
	b.setGas(poor, big.NewInt(1))
	r := b.relayerOf(poor, rich)
	if err := r.Ready(t.Context()); err != nil {
		t.Errorf("one key has gas: %v", err)
	}
	for i := range 6 {
		p := b.claim(buyer(i))
		if err := r.Submit(t.Context(), p); err != nil {
			t.Fatalf("submit: %v", err)
		}
		if got := b.wantAttempts(p, payment.TransactionOpen)[0].Relayer; got != addressOf(rich) {
			t.Errorf("payment %d goes to %s, which is short of gas", i, got)
		}
		b.settles(p)
	}
}

func TestGasBalancesAreOfEachKey(t *testing.T) {
	b := newBench(t)
	wallets := devnet.WalletsOf(devnet.RoleRelayer)[:2]
	want := map[x402.Address]int64{}
	for i, w := range wallets {
		b.setGas(w, big.NewInt(int64(i)*1e15))
		want[addressOf(w)] = int64(i) * 1e15
	}
	// A retired key pays for the transactions that it began.
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: b.chain, Transactions: b.attempts, Keys: []payment.Signer{curve.NewLocalSigner(keyOf(wallets[0]))},
		Retired: []payment.Signer{curve.NewLocalSigner(keyOf(wallets[1]))}, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.GasBalances(t.Context())
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %v", got, err)
	}
	for address, wei := range want {
		if got[address].Int64() != wei {
			t.Errorf("%s has %s, want %d", address, got[address], wei)
		}
	}
}

func TestRelayerSettlesClaimBelowMinimumBalance(t *testing.T) {
	b := newBench(t)
	only := devnet.WalletsOf(devnet.RoleRelayer)[0]
	// Below the minimum, yet enough for a few transactions at the development chain's fees.
	b.setGas(only, big.NewInt(9e14))
	r := b.relayerOf(only)
	if err := r.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), addressOf(only).String()) {
		t.Errorf("ready: %v, want the key named", err)
	}
	p := b.claim(buyer(0))
	if err := r.Submit(t.Context(), p); err != nil {
		t.Fatalf("submit: %v", err)
	}
	b.settles(p)
}

func TestRelayerSignsNothingWithoutGas(t *testing.T) {
	b := newBench(t)
	wallets := devnet.WalletsOf(devnet.RoleRelayer)[:2]
	for _, w := range wallets {
		b.setGas(w, big.NewInt(1))
	}
	p := b.claim(buyer(0))
	if err := b.relayerOf(wallets...).Submit(t.Context(), p); err == nil ||
		!strings.Contains(err.Error(), "short of gas") {
		t.Errorf("submit: %v", err)
	}
	b.wantAttempts(p)
}

func TestCheckKeysNamesMissingKey(t *testing.T) {
	b := newBench(t)
	wallets := devnet.WalletsOf(devnet.RoleRelayer)
	check := func(wallets ...devnet.Wallet) error {
		return b.relayerOf(wallets...).CheckKeys(t.Context(), b.attempts)
	}
	keyless := func() error { return (*chain.Relayer)(nil).CheckKeys(t.Context(), b.attempts) }
	if err := keyless(); err != nil {
		t.Errorf("no attempt, no key: %v", err)
	}
	p := b.claim(buyer(0))
	b.submit(p)
	if err := check(wallets[1], wallets[0]); err != nil {
		t.Errorf("with the key: %v", err)
	}
	if err := check(wallets[1]); err == nil || !strings.Contains(err.Error(), addressOf(wallets[0]).String()) {
		t.Errorf("without the key: %v, want its address named", err)
	}
	if err := keyless(); err == nil {
		t.Error("without any key")
	}
	b.settles(p)
	if err := check(wallets[1]); err == nil {
		t.Error("its block may still be replaced")
	}
	// As after the database was put back: the record has it open, and the key was retired since.
	b.mine(2)
	if err := check(wallets[1]); err != nil {
		t.Errorf("once it is final: %v", err)
	}
	if err := b.relayerOf(wallets[1]).Maintain(t.Context()); err != nil {
		t.Error(err)
	}
	b.wantAttempts(p, payment.TransactionClosed)
}

func TestRelayerResendsAttemptOfUnknownKeyUnchanged(t *testing.T) {
	b := newBench(t)
	wallets := devnet.WalletsOf(devnet.RoleRelayer)
	p := b.claim(buyer(0))
	_ = b.newRelayer(dyingStore{b.attempts}).Submit(t.Context(), p)
	stored := b.wantAttempts(p, payment.TransactionOpen)[0].Variants[0]
	if err := b.relayerOf(wallets[1]).Submit(t.Context(), p); err != nil {
		t.Fatalf("submit: %v", err)
	}
	if got := b.settles(p).Transaction; got != stored.Hash {
		t.Errorf("settled by %s, want the stored %s", got, x402.Hash(stored.Hash))
	}
	b.wantAttempts(p, payment.TransactionOpen)
}

// TestPoorRelayerLeavesNobodyToOneNodesRefusal: two nodes show that only the relayer's gas is missing, and one that the
// token refuses the transfer. That one is outvoted, as it is while there is gas.
func TestPoorRelayerLeavesNobodyToOneNodesRefusal(t *testing.T) {
	b := newBench(t)
	key := buyer(1)
	b.setGas(key, big.NewInt(0))
	p := b.claim(buyer(0))
	refuses := b.lying(func(q question) string {
		if q.Method != "eth_call" || !q.has("0xe3ee160e") {
			return ""
		}
		return `"error":{"code":3,"message":"execution reverted: ERC20: transfer amount exceeds balance"}`
	})
	on := b.over(refuses, b.url, b.url)
	relayer, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: on, Transactions: b.attempts, Keys: []payment.Signer{curve.NewLocalSigner(keyOf(key))},
		MinBalance: big.NewInt(1e15), Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = chain.AsRelayer(on, relayer).Simulate(t.Context(), p.Authorization, p.Signature)
	if err != nil {
		t.Errorf("refused: %v", err)
	}
}
