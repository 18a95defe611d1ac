package smartaccount_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"maps"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// block is a block on which one account has storage.
type block struct {
	account x402.Address
	storage map[x402.Hash]x402.Hash
	down    bool
}

var errDown = errors.New("the node does not answer")

func (b block) Code(context.Context, x402.Address) ([]byte, error) { return nil, errDown }

func (b block) Word(_ context.Context, account x402.Address, slot x402.Hash) (x402.Hash, error) {
	if b.down {
		return x402.Hash{}, errDown
	}
	if account != b.account {
		return x402.Hash{}, nil
	}
	return b.storage[slot], nil
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestSafesSignatures: a Safe has signed when as many of its owners as it wants have, with their keys, in the one order
// and with nothing else.
func TestSafesSignatures(t *testing.T) {
	safe := smartaccounttest.Safe{ChainID: 8453, Address: x402.Address{1, 2, 3}}
	first, second, stranger := newKey(t), newKey(t), newKey(t)
	if a, b := curve.AddressOf(first), curve.AddressOf(second); slices.Compare(a[:], b[:]) > 0 {
		first, second = second, first
	}
	digest := x402.Keccak256([]byte("what is signed"))
	one := smartaccounttest.SafeStorage(1, first, second)
	two := smartaccounttest.SafeStorage(2, first, second)
	with := func(storage map[x402.Hash]x402.Hash, slot, value x402.Hash) map[x402.Hash]x402.Hash {
		storage = maps.Clone(storage)
		storage[slot] = value
		return storage
	}
	raw := func(parts ...x402.Signature) x402.Signature {
		var all []byte
		for _, p := range parts {
			all = append(all, p.Bytes()...)
		}
		return x402.AccountSignature(string(all))
	}
	byHand := func(key *ecdsa.PrivateKey) x402.Signature {
		asked := safe.Digest(digest)
		over := crypto.Keccak256Hash([]byte("\x19Ethereum Signed Message:\n32"), asked[:])
		s := smartaccounttest.Key{Private: key}.Sign(x402.Hash(over))
		s[64] += 4
		return x402.AccountSignature(string(s))
	}
	change := func(s x402.Signature, at int, to byte) x402.Signature {
		b := s.Bytes()
		b[at] = to
		return x402.AccountSignature(string(b))
	}
	upper := safe.Sign(digest, first).Bytes()
	order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	order.Sub(order, new(big.Int).SetBytes(upper[32:64])).FillBytes(upper[32:64])
	upper[64] = 27 + 28 - upper[64]
	// What an owner with code says (v is 0) and what an owner approved (v is 1) name the owner in r.
	named := func(v byte) x402.Signature {
		b := make([]byte, 65)
		owner := curve.AddressOf(first)
		copy(b[12:], owner[:])
		b[63], b[64] = 65, v
		return x402.AccountSignature(string(b))
	}
	elsewhere := smartaccounttest.Safe{ChainID: 1, Address: safe.Address}
	twin := smartaccounttest.Safe{ChainID: 8453, Address: x402.Address{1, 2, 4}}
	plain := x402.AccountSignature(string(smartaccounttest.Key{Private: first}.Sign(digest)))
	handler := x402.Hash(crypto.Keccak256Hash([]byte("fallback_manager.handler.address")))
	other := x402.Hash(common.BytesToHash([]byte{9}))

	tests := []struct {
		name      string
		storage   map[x402.Hash]x402.Hash
		signature x402.Signature
		want      error
	}{
		{"one of two owners", one, safe.Sign(digest, second), nil},
		{"by personal_sign", one, byHand(first), nil},
		{"both owners", two, safe.Sign(digest, first, second), nil},
		{"both owners, one by personal_sign", two, raw(byHand(first), safe.Sign(digest, second)), nil},
		{"fewer than it wants", two, safe.Sign(digest, first), curve.ErrNotSigned},
		{"more than it wants", one, safe.Sign(digest, first, second), curve.ErrNotSigned},
		{"one owner twice", two, raw(safe.Sign(digest, first), safe.Sign(digest, first)), curve.ErrNotSigned},
		{"in another order", two, raw(safe.Sign(digest, second), safe.Sign(digest, first)), curve.ErrNotSigned},
		{"a stranger", one, safe.Sign(digest, stranger), curve.ErrNotSigned},
		{"an owner and a stranger", two, safe.Sign(digest, first, stranger), curve.ErrNotSigned},
		{"of the same account on another chain", one, elsewhere.Sign(digest, first), curve.ErrNotSigned},
		{"of another account of the owner", one, twin.Sign(digest, first), curve.ErrNotSigned},
		{"of another digest", one, safe.Sign(x402.Hash{1}, first), curve.ErrNotSigned},
		{"the owner's own, of the plain digest", one, plain, curve.ErrNotSigned},
		{"with s in the upper half", one, x402.AccountSignature(string(upper)), curve.ErrNotSigned},
		{"with bytes behind it", one, safe.Sign(digest, first) + "\x00", curve.ErrNotSigned},
		{"none", one, "", curve.ErrNotSigned},
		{"with another v", one, change(safe.Sign(digest, first), 64, 29), curve.ErrNotSigned},
		{"what an owner with code says", one, named(0), curve.ErrNotSigned},
		{"what an owner approved on the chain", one, named(1), curve.ErrNotSigned},
		{"no owners", smartaccounttest.SafeStorage(0), safe.Sign(digest, first), curve.ErrNotSigned},
		{"another singleton", with(one, x402.Hash{}, other), safe.Sign(digest, first), smartaccount.ErrOtherKind},
		{"another handler", with(one, handler, other), safe.Sign(digest, first), smartaccount.ErrOtherKind},
		{"no handler", with(one, handler, x402.Hash{}), safe.Sign(digest, first), smartaccount.ErrOtherKind},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			said := smartaccount.Statement{ChainID: 8453, Account: safe.Address, Digest: digest, Signature: tt.signature}
			at := block{account: safe.Address, storage: tt.storage}
			err := smartaccount.All().Verify(t.Context(), at, smartaccounttest.SafeProxy, said)
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			at.down = true
			err = smartaccount.All().Verify(t.Context(), at, smartaccounttest.SafeProxy, said)
			if err == nil {
				t.Error("signed by a chain that does not answer")
			}
		})
	}
	said := smartaccount.Statement{
		ChainID: 8453, Account: safe.Address, Digest: digest, Signature: safe.Sign(digest, first)}
	at := block{account: safe.Address, storage: one}
	almost := append(slices.Clone(smartaccounttest.SafeProxy), 0)
	if err := smartaccount.All().Verify(t.Context(), at, almost, said); !errors.Is(err, smartaccount.ErrOtherKind) {
		t.Errorf("other code: %v", err)
	}
	others := smartaccount.Kinds{smartaccount.CoinbaseSmartWallet}
	err := others.Verify(t.Context(), at, smartaccounttest.SafeProxy, said)
	if !errors.Is(err, smartaccount.ErrOtherKind) || others.May(said.Signature) {
		t.Errorf("a kind that is not accepted: %v", err)
	}
}
