package chain_test

import (
	"context"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// owner is a key whose account is nobody's yet.
func owner(t *testing.T) smartaccounttest.Key {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return smartaccounttest.Key{Private: key}
}

// acceptingAt is the chain that accepts smart accounts, as some nodes show it.
func (b *bench) acceptingAt(nodes ...string) *chain.Chain {
	b.Helper()
	config := chain.Config{
		Domain: domain, Finality: chain.Finality{Paid: "latest", Dead: "safe"}, CallTimeout: 10 * time.Second,
		SmartAccounts: smartaccount.All(), Now: b.now,
	}
	for _, url := range nodes {
		config.Endpoints = append(config.Endpoints, chain.Endpoint{URL: url})
	}
	on, err := chain.New(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(on.Close)
	return on
}

// accepting is the chain that accepts smart accounts, and a relayer on it that puts payments into batches.
func (b *bench) accepting() (*chain.Chain, *chain.Relayer) {
	b.Helper()
	return b.acceptingWithin(chain.Budget{})
}

// acceptingWithin is accepting within budgets.
func (b *bench) acceptingWithin(budget chain.Budget) (*chain.Chain, *chain.Relayer) {
	b.Helper()
	on := b.acceptingAt(b.url)
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: on, Transactions: b.attempts, Keys: []payment.Signer{relayerKey(0)},
		SmartAccountKeys: []payment.Signer{relayerKey(2)}, Budget: budget, ResendAfter: time.Nanosecond, Now: b.now,
		Log: slog.New(slog.DiscardHandler), Settler: settler.Own(domain.Contract),
	})
	if err != nil {
		b.Fatal(err)
	}
	return on, r
}

// account makes a smart account, and gives it money.
func (b *bench) account(nonce int64, owners ...smartaccounttest.Owner) smartaccounttest.Account {
	b.Helper()
	a := smartaccounttest.New(devnet.ChainID, nonce, owners...)
	b.sendAs(buyer(9), smartaccounttest.Factory, a.CreateCall())
	b.fund(a.Address)
	return a
}

// fund gives an account what four payments cost.
func (b *bench) fund(account x402.Address) {
	b.Helper()
	data := append(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], common.LeftPadBytes(account[:], 32)...)
	b.sendAs(buyer(9), token, append(data, common.BigToHash(big.NewInt(int64(4*price))).Bytes()...))
}

// says is what the account's own code says of a signature.
func (b *bench) says(account x402.Address, digest x402.Hash, s x402.Signature) bool {
	b.Helper()
	raw := []byte(s)
	data := append(crypto.Keccak256([]byte("isValidSignature(bytes32,bytes)"))[:4], digest[:]...)
	data = append(data, common.BigToHash(big.NewInt(64)).Bytes()...)
	data = append(data, common.BigToHash(big.NewInt(int64(len(raw)))).Bytes()...)
	data = append(data, common.RightPadBytes(raw, (len(raw)+31)/32*32)...)
	var answer hexutil.Bytes
	err := b.node.CallContext(b.Context(), &answer, "eth_call",
		map[string]any{"to": account.String(), "data": hexutil.Bytes(data)}, "latest")
	return err == nil && len(answer) == 32 && [4]byte(answer) == [4]byte{0x16, 0x26, 0xba, 0x7e}
}

// paysBy is a stored payment of a smart account, signed by the owner at an index.
func (b *bench) paysBy(account smartaccounttest.Account, index int) payment.Payment {
	b.Helper()
	p := b.claim(buyer(9))
	p.ID, p.Authorization.From = uuid.New(), account.Address
	p.Signature = account.Sign(index, domain.Digest(p.Authorization))
	return p
}

// TestSmartAccountsSignatures: what is accepted as an owner's, the account's own code accepts, too; and what is not an
// owner's, or what only a stranger's code says, is refused.
func TestSmartAccountsSignatures(t *testing.T) {
	b := newBench(t)
	on, _ := b.accepting()
	key, passkey, stranger := owner(t), smartaccounttest.NewPasskey(), owner(t)
	account := b.account(0, key, passkey)
	twin := b.account(1, key, passkey)
	digest := x402.Keccak256([]byte("what is signed"))
	asked := account.Digest(digest)
	half := new(big.Int).Rsh(curveOrder(), 1)
	spoilt := func(change func(*smartaccounttest.Passkey)) x402.Signature {
		other := passkey
		change(&other)
		return smartaccounttest.Wrap(1, other.Sign(asked))
	}
	highS := key.Sign(asked)
	s := new(big.Int).Sub(curveOrder(), new(big.Int).SetBytes(highS[32:64]))
	if s.Cmp(half) <= 0 {
		t.Fatal("the key signs in the upper half")
	}
	s.FillBytes(highS[32:64])
	highS[64] = 27 + 28 - highS[64]
	canonical := account.Sign(0, digest)
	elsewhere := smartaccounttest.New(1, 0, key, passkey)
	elsewhere.Address = account.Address

	tests := []struct {
		name string
		by   x402.Signature
		// codeTakes says that the account's code accepts it, and we do not.
		signed, codeTakes bool
	}{
		{"a key", canonical, true, true},
		{"a passkey", account.Sign(1, digest), true, true},
		{"a key that is no owner", smartaccounttest.Wrap(0, stranger.Sign(asked)), false, false},
		{"an owner, for the token", smartaccounttest.Wrap(0, key.Sign(digest)), false, false},
		{"an owner, for another account", twin.Sign(0, digest), false, false},
		{"an owner, for another chain", elsewhere.Sign(0, digest), false, false},
		{"an owner, for something else", account.Sign(0, x402.Keccak256(nil)), false, false},
		{"another owner's index", smartaccounttest.Wrap(1, key.Sign(asked)), false, false},
		{"an index that has no owner", smartaccounttest.Wrap(2, key.Sign(asked)), false, false},
		{"a key's in the upper half", smartaccounttest.Wrap(0, highS), false, true},
		{"with bytes behind it", canonical + "\x00", false, true},
		{"with a word behind it", canonical + x402.Signature(make([]byte, 32)), false, true},
		{"the upper half of an index", x402.Signature(slices.Concat([]byte(canonical[:32]), []byte{1},
			[]byte(canonical[33:]))), false, false},
		{"no wrapper", x402.Signature(key.Sign(asked)), false, false},
		{"bytes", x402.Signature(strings.Repeat("\xff", 200)), false, false},
		{"a passkey's in the upper half", spoilt(func(p *smartaccounttest.Passkey) {
			p.Change = func(a *smartaccounttest.Assertion) { a.S.Sub(p256Order(), a.S) }
		}), false, false},
		{"a passkey nobody touched", spoilt(func(p *smartaccounttest.Passkey) {
			p.Spoil = func(a *smartaccounttest.Assertion) { a.AuthenticatorData[32] = 0x04 }
		}), false, false},
		{"a passkey that was made", spoilt(func(p *smartaccounttest.Passkey) {
			p.Spoil = func(a *smartaccounttest.Assertion) {
				a.ClientDataJSON = strings.Replace(a.ClientDataJSON, "webauthn.get", "webauthn.create", 1)
				a.ChallengeIndex.SetInt64(26)
			}
		}), false, false},
		{"a passkey, for another challenge", spoilt(func(p *smartaccounttest.Passkey) {
			p.Spoil = func(a *smartaccounttest.Assertion) {
				a.ClientDataJSON = strings.Replace(a.ClientDataJSON,
					base64.RawURLEncoding.EncodeToString(asked[:]), base64.RawURLEncoding.EncodeToString(digest[:]), 1)
			}
		}), false, false},
		{"a challenge that stands elsewhere", spoilt(func(p *smartaccounttest.Passkey) {
			p.Change = func(a *smartaccounttest.Assertion) { a.ChallengeIndex.SetInt64(22) }
		}), false, false},
		{"a challenge past the end", spoilt(func(p *smartaccounttest.Passkey) {
			p.Change = func(a *smartaccounttest.Assertion) { a.ChallengeIndex.Lsh(big.NewInt(1), 63) }
		}), false, false},
		{"without an authenticator", spoilt(func(p *smartaccounttest.Passkey) {
			p.Spoil = func(a *smartaccounttest.Assertion) { a.AuthenticatorData = a.AuthenticatorData[:32] }
		}), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := on.SignedBy(t.Context(), account.Address, digest, tt.by)
			if tt.signed != (err == nil) || err != nil && !errors.Is(err, curve.ErrNotSigned) {
				t.Errorf("signed: %v, want %v", err, tt.signed)
			}
			if got := b.says(account.Address, digest, tt.by); got != tt.codeTakes {
				t.Errorf("the account's code says %v, want %v", got, tt.codeTakes)
			}
		})
	}

	t.Run("an owner that has got code", func(t *testing.T) {
		at := common.BytesToAddress(key.Bytes())
		b.control("anvil_setCode", at.Hex(), "0x631626ba7e60e01b5f5260205ff3")
		if err := on.SignedBy(t.Context(), account.Address, digest, canonical); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
		if !b.says(account.Address, digest, canonical) {
			t.Error("the account's code does not ask it")
		}
		b.control("anvil_setCode", at.Hex(), "0x")
	})
	t.Run("an owner that was removed, and comes back", func(t *testing.T) {
		b.control("anvil_setBalance", common.BytesToAddress(key.Bytes()).Hex(), "0xde0b6b3a7640000")
		b.fromOwner(key, account.Address, account.RemoveCall(0))
		if err := on.SignedBy(t.Context(), account.Address, digest, canonical); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
	})
	t.Run("another implementation", func(t *testing.T) {
		b.control("anvil_setStorageAt", twin.Address.String(),
			"0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc",
			common.BytesToHash(token[:]).Hex())
		b.wantOtherKind(on, twin.Address, digest, twin.Sign(0, digest))
	})
	t.Run("no code", func(t *testing.T) {
		if err := on.SignedBy(t.Context(), addressOf(buyer(0)), digest, canonical); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
	})
	t.Run("code that says yes", func(t *testing.T) {
		yes := b.delegate("0x631626ba7e60e01b5f5260205ff3")
		b.wantOtherKind(on, yes, digest, canonical)
	})
	t.Run("no kind is accepted", func(t *testing.T) {
		b.wantOtherKind(b.chain, account.Address, digest, account.Sign(1, digest))
	})
}

func (b *bench) wantOtherKind(on *chain.Chain, account x402.Address, digest x402.Hash, s x402.Signature) {
	b.Helper()
	err := on.SignedBy(b.Context(), account, digest, s)
	if _, other := errors.AsType[*x402.PayerKindError](err); !other {
		b.Errorf("signed: %v, want another kind", err)
	}
}

// fromOwner sends a transaction of a key that has ether.
func (b *bench) fromOwner(k smartaccounttest.Key, to x402.Address, data []byte) {
	b.Helper()
	b.sendAs(devnet.Wallet{
		Address: common.BytesToAddress(k.Bytes()).Hex(), PrivateKey: hexutil.Encode(crypto.FromECDSA(k.Private)),
	}, common.Address(to), data)
}

func curveOrder() *big.Int { return crypto.S256().Params().N }

func TestSmartAccountsPay(t *testing.T) {
	b := newBench(t)
	on, relayer := b.accepting()
	account := b.account(0, owner(t), smartaccounttest.NewPasskey())
	plain := b.claim(buyer(0))
	paid := price
	for index, name := range []string{"a key", "a passkey"} {
		t.Run(name, func(t *testing.T) {
			p := b.paysBy(account, index)
			if err := b.chain.Simulate(t.Context(), p.Authorization, p.Signature); b.reasonOf(err) != x402.ReasonSignature {
				t.Errorf("where none is accepted: %v", err)
			}
			if err := chain.AsRelayer(on, relayer).Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
				t.Fatal(err)
			}
			if err := relayer.Submit(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			receipt := b.settles(p)
			t.Logf("%d gas", b.gasOf(receipt.Transaction))
			paid += price
			b.wantCarried(on, receipt.Transaction, payment.Carried{Authorization: p.Authorization, Signature: p.Signature})
		})
	}
	b.submit(plain)
	settled := b.settles(plain).Transaction
	b.wantPayee(paid)
	b.wantCarried(on, settled, payment.Carried{Authorization: plain.Authorization, Signature: plain.Signature})
	b.wantCarried(on, x402.Hash(b.sendAs(buyer(9), common.Address{9}, nil)), payment.Carried{})
	liar := b.acceptingAt(b.lying(func(q question) string {
		if q.Method == "eth_getTransactionByHash" {
			return b.member(q.Method, settled.String())
		}
		return ""
	}))
	if carried, err := liar.Carried(t.Context(), x402.Hash{1}); err == nil {
		t.Errorf("a node that answers with another transaction is believed: %+v", carried)
	}
}

// wantCarried checks what a transaction moved a payment with.
func (b *bench) wantCarried(on *chain.Chain, transaction x402.Hash, want payment.Carried) {
	b.Helper()
	if got, err := on.Carried(b.Context(), transaction); err != nil || got != want {
		b.Errorf("carried %+v, %v", got, err)
	}
}

// gasOf is what a transaction used.
func (b *bench) gasOf(transaction x402.Hash) uint64 {
	b.Helper()
	var receipt struct{ GasUsed hexutil.Uint64 }
	if err := b.node.CallContext(b.Context(), &receipt, "eth_getTransactionReceipt", transaction.String()); err != nil {
		b.Fatal(err)
	}
	return uint64(receipt.GasUsed)
}

// paused fails unless a payment of a smart account is neither taken nor sent, and one by a key is both.
func (b *bench) paused(on *chain.Chain, r *chain.Relayer, account smartaccounttest.Account, by devnet.Wallet) {
	b.Helper()
	taken := chain.AsRelayer(on, r)
	p, plain := b.paysBy(account, 0), b.claim(by)
	if err := taken.Simulate(b.Context(), p.Authorization, p.Signature); fault.Of(err) != fault.DependencyDown {
		b.Errorf("a smart account's payment is taken: %v", err)
	}
	if err := r.SmartAccountsReady(b.Context()); fault.Of(err) != fault.DependencyDown {
		b.Errorf("ready for smart accounts: %v", err)
	}
	if err := r.Submit(b.Context(), p); err == nil || len(b.attempts.All(p.ID)) != 0 {
		b.Errorf("a smart account's payment is sent: %v", err)
	}
	if err := r.Ready(b.Context()); err != nil {
		b.Errorf("ready for keys: %v", err)
	}
	if err := taken.Simulate(b.Context(), plain.Authorization, plain.Signature); err != nil {
		b.Errorf("a key's payment is not taken: %v", err)
	}
	if err := r.Submit(b.Context(), plain); err != nil {
		b.Errorf("a key's payment is not sent: %v", err)
	}
	b.settles(plain)
}

func TestSmartAccountsHaveARelayerOfTheirOwn(t *testing.T) {
	b := newBench(t)
	on, relayer := b.accepting()
	account := b.account(0, owner(t))
	p, plain := b.paysBy(account, 0), b.claim(buyer(0))
	for _, one := range []payment.Payment{p, plain} {
		if err := relayer.Submit(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		b.settles(one)
	}
	for who, want := range map[*payment.Payment]x402.Address{
		&p: relayerKey(2).Address(), &plain: relayerKey(0).Address(),
	} {
		if got := b.wantAttempts(*who, payment.TransactionOpen)[0].Relayer; got != want {
			t.Errorf("sent by %s, want %s", got, want)
		}
	}
	b.setGas(devnet.WalletsOf(devnet.RoleRelayer)[2], big.NewInt(1))
	b.pass(6) // balances are cached
	b.paused(on, relayer, account, buyer(1))
}

// TestSmartAccountsPauseBeyondTheGasOfADay: what they have spent counts whether it moved money or not, until it is a
// day old, and what keys pay with does not.
func TestSmartAccountsPauseBeyondTheGasOfADay(t *testing.T) {
	b := newBench(t)
	on, relayer := b.acceptingWithin(chain.Budget{SmartAccounts: 1})
	account := b.account(0, owner(t))
	plain := b.claim(buyer(0))
	if err := relayer.Submit(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	b.settles(plain)
	b.closes(relayer, plain)
	if err := relayer.SmartAccountsReady(t.Context()); err != nil {
		t.Errorf("a key's gas counts for smart accounts: %v", err)
	}
	p := b.paysBy(account, 0)
	if err := relayer.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b.settles(p)
	b.closes(relayer, p)
	b.paused(on, relayer, account, buyer(1))
	// Nothing is claimed, so the same signature does later.
	told, ok := fault.As(relayer.SmartAccountsReady(t.Context()))
	if !ok || told.Code != fault.DependencyDown || told.NextAction != fault.RetrySameRequest ||
		told.RetryAfter < time.Minute {
		t.Errorf("told %+v", told)
	}
	b.pass(24*60*60 + 1)
	again := b.paysBy(account, 0)
	if err := chain.AsRelayer(on, relayer).Simulate(t.Context(), again.Authorization, again.Signature); err != nil {
		t.Errorf("a day later: %v", err)
	}
	if err := relayer.Submit(t.Context(), again); err != nil {
		t.Errorf("a day later: %v", err)
	}
	b.settles(again)
}

// unreadable does not say what was spent.
type unreadable struct{ chain.Transactions }

func (unreadable) Spent(context.Context, []x402.Address, time.Time) (int64, error) {
	return 0, errors.New("the database is away")
}

// TestUnreadSpendingIsNoReasonToOnlyWatch: the payment is sent once it can be read again.
func TestUnreadSpendingIsNoReasonToOnlyWatch(t *testing.T) {
	b := newBench(t)
	r, err := chain.NewRelayer(chain.RelayerConfig{
		Chain: b.acceptingAt(b.url), Transactions: unreadable{b.attempts}, Keys: []payment.Signer{relayerKey(0)},
		SmartAccountKeys: []payment.Signer{relayerKey(2)}, Now: b.now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Submit(t.Context(), b.paysBy(b.account(0, owner(t)), 0)); err == nil || errors.Is(err, chain.ErrWatched) {
		t.Errorf("submitted: %v", err)
	}
}

// closes maintains until a payment's transaction is closed.
func (b *bench) closes(r *chain.Relayer, p payment.Payment) {
	b.Helper()
	b.eventually("the transaction is closed", func() bool {
		b.mine(1)
		if err := r.Maintain(b.Context()); err != nil {
			b.Fatal(err)
		}
		all := b.attempts.All(p.ID)
		return all[len(all)-1].Status == payment.TransactionClosed
	})
}

// TestRemovedOwnerDoesNotPay: what was signed before is not sent, and never moves by us.
func TestRemovedOwnerDoesNotPay(t *testing.T) {
	b := newBench(t)
	_, relayer := b.accepting()
	leaves, stays := owner(t), owner(t)
	account := b.account(0, leaves, stays)
	b.control("anvil_setBalance", common.BytesToAddress(stays.Bytes()).Hex(), "0xde0b6b3a7640000")
	p := b.paysBy(account, 0)
	b.fromOwner(stays, account.Address, account.RemoveCall(0))
	if err := relayer.Submit(t.Context(), p); b.reasonOf(err) != x402.ReasonSignature {
		t.Errorf("submitted: %v", err)
	}
	if v := b.verdict(p); v.State != payment.Unused {
		t.Errorf("the payment is %+v, want it unused: its owner may come back", v)
	}
	b.fromOwner(stays, account.Address, account.AddCall(common.BytesToAddress(leaves.Bytes())))
	p.Signature = smartaccounttest.Wrap(2, leaves.Sign(account.Digest(domain.Digest(p.Authorization))))
	if err := relayer.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b.settles(p)
}

// TestSmartAccountsShareNoTransaction: with others that pay by keys at the same time, a smart account has its own.
func TestSmartAccountsShareNoTransaction(t *testing.T) {
	b := newBench(t)
	_, relayer := b.accepting()
	account, other := b.account(0, owner(t)), b.account(1, owner(t))
	b.control("evm_setAutomine", false)
	first := b.claim(buyer(8)) // while its transaction is made, the others come together
	all := append(b.claims(3), b.paysBy(account, 0), b.paysBy(other, 0))
	var submitting sync.WaitGroup
	for _, p := range append([]payment.Payment{first}, all...) {
		submitting.Go(func() {
			if err := relayer.Submit(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	submitting.Wait()
	b.mine(1)
	for _, p := range all {
		b.settles(p)
	}
	for _, p := range all[3:] {
		if own := b.wantAttempts(p, payment.TransactionOpen)[0]; len(own.Payments) != 1 {
			t.Errorf("%d payments are in a smart account's transaction", len(own.Payments))
		}
	}
}

// TestOneNodeDoesNotSayWhoOwns: a node that shows another owner lets nobody in, and keeps the owner out only as long as
// no two others answer.
func TestOneNodeDoesNotSayWhoOwns(t *testing.T) {
	b := newBench(t)
	holder, thief := owner(t), owner(t)
	account := b.account(0, holder)
	digest := x402.Keccak256([]byte("sign in"))
	theirs := account.Sign(0, digest)
	stolen := smartaccounttest.Wrap(0, thief.Sign(account.Digest(digest)))
	lying := b.telling(func(call []byte) (any, bool) {
		// Of the words that are read, only the owner's is an address.
		var asked struct {
			Method string
			Params []any
		}
		if json.Unmarshal(call, &asked) != nil || asked.Method != "eth_getStorageAt" {
			return nil, false
		}
		var word common.Hash
		if err := b.node.CallContext(b.Context(), &word, "eth_getStorageAt", asked.Params...); err != nil {
			return nil, false
		}
		return common.BytesToHash(thief.Bytes()), word == common.BytesToHash(holder.Bytes())
	})
	if err := b.acceptingAt(lying).SignedBy(t.Context(), account.Address, digest, stolen); err != nil {
		t.Fatalf("the node does not lie: %v", err)
	}
	for name, nodes := range map[string][]string{"of two": {lying, b.url}, "of three": {lying, b.url, b.url}} {
		on := b.acceptingAt(nodes...)
		if err := on.SignedBy(t.Context(), account.Address, digest, stolen); err == nil {
			t.Errorf("%s, one lets a thief in", name)
		}
		if err := on.SignedBy(t.Context(), account.Address, digest, theirs); len(nodes) == 3 && err != nil ||
			len(nodes) == 2 && (err == nil || errors.Is(err, curve.ErrNotSigned)) {
			t.Errorf("%s, the owner: %v", name, err)
		}
	}
}

// TestUndeployedSmartAccountPays: its first payment makes the account, whoever makes it meanwhile.
func TestUndeployedSmartAccountPays(t *testing.T) {
	b := newBench(t)
	on, relayer := b.accepting()
	settle := func(p payment.Payment) {
		t.Helper()
		if err := chain.AsRelayer(on, relayer).Simulate(t.Context(), p.Authorization, p.Signature); err != nil {
			t.Fatal(err)
		}
		if err := relayer.Submit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		settled := b.settles(p).Transaction
		t.Logf("%d gas", b.gasOf(settled))
		b.wantCarried(on, settled, payment.Carried{Authorization: p.Authorization, Signature: p.Signature})
		if own := b.wantAttempts(p, payment.TransactionOpen)[0]; len(own.Payments) != 1 {
			t.Errorf("%d payments are in its transaction", len(own.Payments))
		}
	}
	undeployed := func(account smartaccounttest.Account, index int) payment.Payment {
		p := b.paysBy(account, index)
		p.Signature = account.SignUndeployed(index, domain.Digest(p.Authorization))
		return p
	}
	for nonce, name := range []string{"by a key", "by a passkey"} {
		t.Run(name, func(t *testing.T) {
			account := smartaccounttest.New(devnet.ChainID, int64(nonce), owner(t), smartaccounttest.NewPasskey())
			p := undeployed(account, nonce)
			if err := chain.AsRelayer(on, relayer).Simulate(t.Context(), p.Authorization, p.Signature); b.reasonOf(err) !=
				x402.ReasonBalance {
				t.Errorf("without money: %v", err)
			}
			b.fund(account.Address)
			if err := b.chain.Simulate(t.Context(), p.Authorization, p.Signature); b.reasonOf(err) != x402.ReasonSignature {
				t.Errorf("where none is accepted: %v", err)
			}
			settle(p)
			settle(b.paysBy(account, nonce))
			settle(undeployed(account, nonce)) // as a client signs that has not noticed
		})
	}
	t.Run("by a blocked account", func(t *testing.T) {
		account := smartaccounttest.New(devnet.ChainID, 7, owner(t))
		b.fund(account.Address)
		word := common.LeftPadBytes(account.Address[:], 32)
		blocks := append(crypto.Keccak256([]byte("blacklist(address)"))[:4], word...)
		b.sendAs(devnet.WalletsOf(devnet.RoleAdmin)[0], token, blocks)
		p := undeployed(account, 0)
		if err := on.Simulate(t.Context(), p.Authorization, p.Signature); b.reasonOf(err) != payment.ReasonPayerBlocked {
			t.Errorf("refused: %v", err)
		}
		// Who is not told why the token refuses does not know that another payment would be taken.
		var calls atomic.Int32
		unsaid := b.acceptingAt(b.lying(func(q question) string {
			if q.Method == "eth_call" && q.has(settler.MulticallAddress.String()) && calls.Add(1) > 1 {
				return `"error":{"code":-32603,"message":"busy"}`
			}
			return ""
		}))
		err := unsaid.Simulate(t.Context(), p.Authorization, p.Signature)
		if r, refused := errors.AsType[*payment.Rejection](err); err == nil || refused || calls.Load() < 2 {
			t.Errorf("refused where the reason is not known: %+v, %v after %d calls", r, err, calls.Load())
		}
	})
	t.Run("where nothing makes it", func(t *testing.T) {
		account := smartaccounttest.New(devnet.ChainID, 6, owner(t))
		b.fund(account.Address)
		p := undeployed(account, 0)
		var code hexutil.Bytes
		multicall := settler.MulticallAddress.String()
		if err := b.node.CallContext(t.Context(), &code, "eth_getCode", multicall, "latest"); err != nil {
			t.Fatal(err)
		}
		b.control("anvil_setCode", multicall, "0x")
		if err := relayer.Submit(t.Context(), p); err == nil || len(b.attempts.All(p.ID)) != 0 {
			t.Errorf("sent to nobody: %v", err)
		}
		b.control("anvil_setCode", multicall, code)
		settle(p)
	})
	t.Run("made meanwhile", func(t *testing.T) {
		account := smartaccounttest.New(devnet.ChainID, 5, owner(t))
		b.fund(account.Address)
		p := undeployed(account, 0)
		b.sendAs(buyer(9), smartaccounttest.Factory, account.CreateCall())
		settle(p)
	})
}

// TestUndeployedSmartAccountsSignatures: only a known factory's call is made, and only for the account that it makes.
func TestUndeployedSmartAccountsSignatures(t *testing.T) {
	b := newBench(t)
	on, _ := b.accepting()
	holder, stays, other := owner(t), owner(t), owner(t)
	account := smartaccounttest.New(devnet.ChainID, 0, holder, stays)
	digest := x402.Keccak256([]byte("what is signed"))
	inner, call := account.Sign(0, digest), account.CreateCall()
	factory := smartaccounttest.Factory
	wholly := account.SignUndeployed(0, digest)
	if err := on.SignedBy(t.Context(), account.Address, digest, wholly); err != nil {
		t.Fatalf("its own: %v", err)
	}
	twice := append(slices.Clone(call), 0)
	theirs := smartaccounttest.New(devnet.ChainID, 0, other)
	for name, s := range map[string]x402.Signature{
		"the call of an unknown factory": smartaccounttest.MadeBy(token, call, inner),
		"the call that makes another's":  smartaccounttest.MadeBy(factory, theirs.CreateCall(), theirs.Sign(0, digest)),
		"another call of the factory":    smartaccounttest.MadeBy(factory, account.RemoveCall(0), inner),
		"no call":                        smartaccounttest.MadeBy(factory, nil, inner),
		"a call with bytes behind it":    smartaccounttest.MadeBy(factory, twice, inner),
		"another spelling":               "\x00" + wholly,
	} {
		t.Run(name, func(t *testing.T) { b.wantOtherKind(on, account.Address, digest, s) })
	}
	t.Run("no creation", func(t *testing.T) {
		if err := on.SignedBy(t.Context(), account.Address, digest, inner); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
	})
	t.Run("two creations", func(t *testing.T) {
		s := smartaccounttest.MadeBy(factory, call, wholly)
		if err := on.SignedBy(t.Context(), account.Address, digest, s); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
	})
	t.Run("signed by another", func(t *testing.T) {
		s := smartaccounttest.MadeBy(factory, call, smartaccounttest.Wrap(0, other.Sign(account.Digest(digest))))
		if err := on.SignedBy(t.Context(), account.Address, digest, s); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
	})
	t.Run("an owner that there is not", func(t *testing.T) {
		s := smartaccounttest.MadeBy(factory, call, smartaccounttest.Wrap(7, holder.Sign(account.Digest(digest))))
		if err := on.SignedBy(t.Context(), account.Address, digest, s); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("signed: %v", err)
		}
	})
	t.Run("its owner removed, once it is made", func(t *testing.T) {
		b.sendAs(buyer(9), factory, call)
		if err := on.SignedBy(t.Context(), account.Address, digest, wholly); err != nil {
			t.Errorf("once it is made: %v", err)
		}
		b.wantOtherKind(on, account.Address, digest, smartaccounttest.MadeBy(factory, theirs.CreateCall(), inner))
		b.control("anvil_setBalance", common.BytesToAddress(stays.Bytes()).Hex(), "0xde0b6b3a7640000")
		b.fromOwner(stays, account.Address, account.RemoveCall(0))
		if err := on.SignedBy(t.Context(), account.Address, digest, wholly); !errors.Is(err, curve.ErrNotSigned) {
			t.Errorf("removed: %v", err)
		}
	})
}

// TestFeeOfACreationIsRaised: with the same calls, as long as the account's owner has signed them. When the owner was
// removed since, the transaction is given up.
func TestFeeOfACreationIsRaised(t *testing.T) {
	b := newBench(t)
	_, relayer := b.accepting()
	leaves, stays := owner(t), owner(t)
	account := smartaccounttest.New(devnet.ChainID, 0, leaves, stays)
	b.fund(account.Address)
	b.control("anvil_setBalance", common.BytesToAddress(stays.Bytes()).Hex(), "0xde0b6b3a7640000")
	p := b.paysBy(account, 0)
	p.Signature = account.SignUndeployed(0, domain.Digest(p.Authorization))
	b.control("evm_setAutomine", false)
	if err := relayer.Submit(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	bumped := func(to int) *types.Transaction {
		t.Helper()
		b.ahead.Add(15)
		if err := relayer.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
		variants := b.wantAttempts(p, payment.TransactionOpen)[0].Variants
		if len(variants) != to {
			t.Fatalf("%d variants, want %d", len(variants), to)
		}
		return decode(t, variants[to-1])
	}
	first := decode(t, b.wantAttempts(p, payment.TransactionOpen)[0].Variants[0])
	again := bumped(2)
	if !slices.Equal(again.Data(), first.Data()) || again.Gas() != first.Gas() || *again.To() != *first.To() {
		t.Error("with a higher fee, it is another call")
	}
	b.control("anvil_dropAllTransactions")
	b.control("evm_setAutomine", true)
	b.sendAs(buyer(9), smartaccounttest.Factory, account.CreateCall())
	b.fromOwner(stays, account.Address, account.RemoveCall(0))
	if given := bumped(3); len(given.Data()) != 0 {
		t.Errorf("its owner removed, it calls %x", given.Data())
	}
}

func p256Order() *big.Int { return elliptic.P256().Params().N }
