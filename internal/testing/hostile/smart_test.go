package hostile_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// smart is a smart account, which pays by its owner's key. Another owner may take that away.
type smart struct {
	*wallet
	account smartaccounttest.Account
}

// TestHostileSmartAccounts attacks a service that takes the payments of smart accounts.
func TestHostileSmartAccounts(t *testing.T) {
	if !whole {
		t.Skip("chain proves the rules for less: make torture runs it")
	}
	w := newWorld(t)
	own := devnet.WalletsOf(devnet.RoleRelayer)[2]
	w.books.Relayers = append(w.books.Relayers, own.Address)
	// Gas is dear on this chain, and what pauses smart accounts would end the attacks.
	w.start("PAYMENT__SMART_ACCOUNTS", smartaccount.All().String(), "RELAYER__SMART_ACCOUNT_KEYS", own.PrivateKey,
		"RELAYER__SMART_ACCOUNT_GAS", "1000000000")
	mount(t, w, smartAccounts())
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

// smartAccounts are attacks of payers with code, where some kinds of them may pay.
func smartAccounts() []attack {
	return []attack{
		{
			name: "sixty-owners-who-leave", ref: "A28, A29", by: payer, do: ownersLeave, torture: true,
			held: "chain TestRemovedOwnerDoesNotPay",
			aim:  "claims that never settle occupy everything: the owner is removed in the moment before our transaction",
			defence: "a relayer of their own, one undecided payment each, one transaction for each look at the owner; what is " +
				"void holds nothing",
		},
		{
			name: "upgraded-before-the-transaction", ref: "A28, A29", by: payer, do: accountsUpgrade, torture: true,
			held:    "chain TestSmartAccountsSignatures",
			aim:     "code that says what it likes answers for an account that was of an accepted kind when it was looked at",
			defence: "code, implementation and owner are read again before each transaction",
		},
		{
			name: "accounts-of-no-kind", ref: "A28, A29", by: payer, do: othersCode, torture: true,
			held: "chain TestSmartAccountsSignatures",
			aim: "our gas and our nodes' time: code that burns all gas, answers with 100 kB, or says yes in simulations only, " +
				"by gas price, by sender, and in every second block",
			defence: "a payer's code is never asked who has signed; one of no accepted kind is refused once and for all",
		},
		{
			name: "signatures-spelt-otherwise", ref: "A26, A28", by: payer, do: accountsSpell, torture: true,
			held: "chain TestUndeployedSmartAccountsSignatures",
			aim: "two orders for one payment, or somebody else's account, by another spelling of a signature or of a " +
				"creation",
			defence: "one spelling is canonical; a creation is decoded and made again, and its address has to be the payer's",
		},
	}
}

// deployed makes smart accounts with money. Each has two owners, and the second stays.
func (r *trial) deployed(n int) []smart {
	r.Helper()
	sender := devnet.WalletsOf(devnet.RoleBuyer)[18].Address
	r.rpc(nil, "anvil_impersonateAccount", sender)
	all := make([]smart, n)
	for i := range all {
		all[i] = r.made(int64(i))
		r.rpc(nil, "eth_sendTransaction", map[string]any{
			"from": sender, "to": smartaccounttest.Factory.Hex(), "data": hexutil.Encode(all[i].account.CreateCall()),
			"gas": "0x7a120",
		})
	}
	for _, a := range all {
		r.await("the account is deployed", func() error {
			var code string
			if r.rpc(&code, "eth_getCode", a.address.Hex(), "latest"); len(code) <= 2 {
				return errors.New("it has no code")
			}
			return nil
		})
	}
	return all
}

// made is a smart account that is not deployed yet, with money.
func (r *trial) made(nonce int64) smart {
	r.Helper()
	leaves, _ := newKey(r)
	stays, _ := newKey(r)
	p := r.wallet(0)
	a := smartaccounttest.New(devnet.ChainID, nonce, smartaccounttest.Key{Private: leaves},
		smartaccounttest.Key{Private: stays})
	p.key, p.address = leaves, common.Address(a.Address)
	p.funds(1_000_000_000)
	return smart{p, a}
}

// pays makes a payment of the account, by the signature that sign makes of its digest.
func (s smart) pays(r *trial, o terms, sign func(digest x402.Hash) x402.Signature, changes ...func(*payment)) payment {
	r.Helper()
	return s.wallet.pays(r, o, append(changes, func(m *payment) {
		hash := crypto.Keccak256(crypto.Keccak256([]byte(transferType)), m.words())
		m.Signature = []byte(sign(x402.Hash(crypto.Keccak256([]byte{0x19, 0x01}, m.Domain[:], hash))))
	})...)
}

// byOwner signs by the owner that may leave.
func (s smart) byOwner(digest x402.Hash) x402.Signature { return s.account.Sign(0, digest) }

// storms has accounts pay at once, and each change in the moment before our transaction of its payment.
func (r *trial) storms(ctx context.Context, accounts []smart, change func(smart)) {
	var busy sync.WaitGroup
	for _, s := range accounts {
		body := keyed(uuid.NewString())
		header := s.pays(r, s.terms(r, esimPath, body), s.byOwner, brief).header(r)
		r.proxy.once("eth_sendRawTransaction", s.address.Hex()[2:], func() { change(s) })
		busy.Go(func() {
			if a := s.offers(ctx, esimPath, body, header); a.status == http.StatusOK {
				r.Errorf("a payment that cannot settle: %.300s", a.body)
			}
		})
	}
	busy.Wait()
	<-ctx.Done()
}

// besiegedBy serves honest buyers while sixty accounts pay and change in each round, and expects that nothing moved,
// for two transactions each at most.
func (r *trial) besiegedBy(change func(smart)) {
	const each, most = 60, 2
	before := r.goods()
	rounds := sized(1, 5)
	all := r.deployed(rounds * each)
	round := 0
	sent := r.read().Transactions
	r.besiege(func(ctx context.Context) {
		accounts := all[round*each:][:each]
		round++
		r.storms(ctx, accounts, change)
	})
	// Those of honest buyers share transactions, and are fewer than each has its own.
	allowed := int64(rounds * (each*most + 4*honest()))
	if n := r.read().Transactions - sent; n > allowed {
		r.Errorf("%d transactions for %d payments that cannot settle", n, rounds*each)
	}
	for _, s := range all {
		if moved := s.moved(); moved != 0 {
			r.Errorf("%d units of %s moved", moved, s.address)
		}
	}
	if now := r.goods(); now == before {
		r.Error("honest buyers bought nothing")
	}
}

func ownersLeave(r *trial) {
	r.besiegedBy(func(s smart) {
		// By the owner that stays, ahead of ours in the same block.
		stays := s.account.Owners[1].(smartaccounttest.Key).Private
		by := crypto.PubkeyToAddress(stays.PublicKey).Hex()
		r.rpc(nil, "anvil_setBalance", by, "0xde0b6b3a7640000")
		r.rpc(nil, "anvil_impersonateAccount", by)
		r.rpc(nil, "eth_sendTransaction", map[string]any{
			"from": by, "to": s.address.Hex(), "data": hexutil.Encode(s.account.RemoveCall(0)), "gas": "0x30d40",
			"maxFeePerGas": "0xba43b7400", "maxPriorityFeePerGas": "0xba43b7400", // 50 gwei
		})
	})
}

// implementationSlot has a proxy's implementation (ERC-1967).
const implementationSlot = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"

func accountsUpgrade(r *trial) {
	no := common.HexToAddress("0x00000000000000000000000000000000000de1ea")
	r.rpc(nil, "anvil_setCode", no.Hex(), "0x60006000fd") // it reverts
	r.besiegedBy(func(s smart) {
		r.rpc(nil, "anvil_setStorageAt", s.address.Hex(), implementationSlot, common.BytesToHash(no[:]).Hex())
	})
}

func othersCode(r *trial) {
	before, sent := r.goods(), r.read().Transactions
	var all []*wallet
	for name, code := range map[string]string{
		"burns all gas":             "0x5b600056",
		"answers with 100 kB":       "0x620186a06000f3",
		"yes without a gas price":   yesInCalls,
		"yes without a sender":      "0x631626ba7e60e01b32150260005260206000f3",
		"yes without a builder":     "0x631626ba7e60e01b41150260005260206000f3",
		"yes in every second block": "0x631626ba7e60e01b600143160260005260206000f3",
		"yes to all":                "0x631626ba7e60e01b60005260206000f3",
		"a proxy of nothing": "0x363d3d373d3d363d7f" + implementationSlot[2:] +
			"545af43d6000803e6038573d6000fd5b3d6000f3",
	} {
		s := r.made(0)
		all = append(all, s.wallet)
		r.rpc(nil, "anvil_setCode", s.address.Hex(), code)
		a := s.offers(r.Context(), esimPath, keyed(uuid.NewString()),
			s.pays(r, s.terms(r, esimPath, keyed(uuid.NewString())), s.byOwner).header(r))
		if a.status != http.StatusForbidden || a.code() != "payer_kind_not_accepted" ||
			a.header.Get(headerRequired) != "" {
			r.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
	}
	if n := r.read().Transactions - sent; n != 0 {
		r.Errorf("%d transactions were sent", n)
	}
	r.nothing(before, all...)
}

func accountsSpell(r *trial) {
	honest := r.deployed(1)[0]
	body := keyed(uuid.NewString())
	offered := honest.terms(r, esimPath, body)
	var digest x402.Hash
	good := honest.pays(r, offered, func(d x402.Hash) x402.Signature { digest = d; return honest.byOwner(d) })
	refused := func(name string, signature x402.Signature) {
		r.Helper()
		m := good
		m.Signature = []byte(signature)
		a := honest.offers(r.Context(), esimPath, body, m.header(r))
		if a.status == http.StatusOK || honest.moved() != 0 {
			r.Fatalf("%s: %d %.300s", name, a.status, a.body)
		}
	}
	canonical := string(honest.byOwner(digest))
	stranger, _ := newKey(r)
	foreign := smartaccounttest.New(devnet.ChainID, 7, smartaccounttest.Key{Private: stranger})
	refused("a byte more", x402.Signature(canonical+"\x00"))
	refused("a word more", x402.Signature(canonical+strings.Repeat("\x00", 32)))
	byFirst := honest.account.Owners[0].Sign(honest.account.Digest(digest))
	refused("the place of another owner", smartaccounttest.Wrap(1, byFirst))
	refused("a place of its own", smartaccounttest.Wrap(1<<40, byFirst))
	refused("the owner's own signature", x402.Signature(honest.account.Owners[0].Sign(digest)))
	refused("of another account of the owner",
		smartaccounttest.New(devnet.ChainID, 9, honest.account.Owners...).Sign(0, digest))
	refused("of another chain", smartaccounttest.New(1, 0, honest.account.Owners...).Sign(0, digest))
	refused("of a stranger", smartaccounttest.Wrap(0, key(stranger).Sign(honest.account.Digest(digest))))
	refused("a creation of a stranger's account", foreign.SignUndeployed(0, digest))
	refused("a creation by another factory",
		smartaccounttest.MadeBy(common.HexToAddress("0xfac70"), honest.account.CreateCall(), honest.byOwner(digest)))
	refused("a creation with call data of its own",
		smartaccounttest.MadeBy(smartaccounttest.Factory, slices.Concat(foreign.CreateCall(), make([]byte, 32)),
			honest.byOwner(digest)))

	// An owner with code could say yes to us and no to the token.
	owner := crypto.PubkeyToAddress(honest.key.PublicKey).Hex()
	r.rpc(nil, "anvil_setCode", owner, "0x631626ba7e60e01b60005260206000f3")
	refused("of an owner that has become a contract", honest.byOwner(digest))
	r.rpc(nil, "anvil_setCode", owner, "0x")

	// The payment itself is taken once, and its spellings and its creation are the same payment, or none.
	first := honest.offers(r.Context(), esimPath, body, good.header(r))
	if first.status != http.StatusOK {
		r.Fatalf("an honest payment: %d %.300s", first.status, first.body)
	}
	moved := honest.moved()
	again := good
	again.Signature = []byte(honest.account.SignUndeployed(0, digest))
	for _, key := range []map[string]any{body, keyed(uuid.NewString())} {
		_ = honest.offers(r.Context(), esimPath, key, again.header(r))
	}
	r.rest()
	if honest.moved() != moved {
		r.Errorf("%d units moved, %d before", honest.moved(), moved)
	}
}

// key is a key as an owner.
func key(private *ecdsa.PrivateKey) smartaccounttest.Key {
	return smartaccounttest.Key{Private: private}
}
