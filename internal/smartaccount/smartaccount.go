// Package smartaccount knows the kinds of accounts with code whose payments are taken, and checks their signatures.
//
// What a stranger's code answers is worth nothing: it may accept a signature when it is asked, and refuse it in the
// transaction. So no code is run. A kind is told by what its code is, the owner who signed is read from the account's
// storage, and the owner's signature is checked here, all at one block:
//
//	account ─► its code is the proxy of a kind ─► its implementation is one of the kind
//	                                                  │
//	         the owner's signature, over the  ◄─ the owner that the signature names: a key of an
//	         digest that the kind makes              account without code, or a passkey
//
// An account that has no code yet is told by the call that makes it (ERC-6492): of a known factory, whose address for
// these owners the account's is. The call is read and made again, never passed on.
//
// Such a signature holds as long as the owner does: it can be void at the next block, and hold again at a later one.
package smartaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrOtherKind says that an account has code of none of the kinds.
var ErrOtherKind = errors.New("not a smart account of a kind that is accepted")

// Block reads accounts at one block. An error means that the chain did not answer.
type Block interface {
	// Code is the code of an account, empty for none.
	Code(ctx context.Context, account x402.Address) ([]byte, error)
	// Word is a word of an account's storage.
	Word(ctx context.Context, account x402.Address, slot x402.Hash) (x402.Hash, error)
}

// Statement is a digest that an account is said to have signed.
type Statement struct {
	ChainID   uint64
	Account   x402.Address
	Digest    x402.Hash
	Signature x402.Signature
}

// Kind is one kind of smart accounts.
type Kind string

// CoinbaseSmartWallet is Coinbase's wallet, versions 1 and 1.1, which Base Account and the wallets made by CDP are. Its
// owners are keys and passkeys.
const CoinbaseSmartWallet Kind = "coinbase-smart-wallet"

// Safe is Safe's account, versions 1.3.0, 1.4.1 and 1.5.0, whose owners are keys. It must be deployed.
const Safe Kind = "safe"

// all are the kinds that there are.
var all = map[Kind]kind{CoinbaseSmartWallet: coinbase{}, Safe: safe{}}

// kind is how accounts of one kind are told, and how what they have signed is checked.
type kind interface {
	// is reports whether an account, which has the code, is of the kind.
	is(ctx context.Context, at Block, account x402.Address, code []byte) (bool, error)
	// verify is curve.ErrNotSigned unless an owner of an account of the kind made the signature.
	verify(ctx context.Context, at Block, s Statement) error
}

// Kinds are the kinds that are accepted. None is a valid value.
type Kinds []Kind

// All are all kinds, by name.
func All() Kinds { return Kinds{CoinbaseSmartWallet, Safe} }

// Parse reads names of kinds, separated by commas; none is empty.
func Parse(text string) (Kinds, error) {
	var kinds Kinds
	for name := range strings.SplitSeq(text, ",") {
		k := Kind(strings.TrimSpace(name))
		switch _, known := all[k]; {
		case k == "":
			continue
		case !known:
			return nil, fmt.Errorf("%q is no kind of smart account: %s", k, All())
		case slices.Contains(kinds, k):
			return nil, fmt.Errorf("%q stands twice", k)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// Names are the names of the kinds; of none, none.
func (ks Kinds) Names() []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = string(k)
	}
	return names
}

// String is the names, separated by commas.
func (ks Kinds) String() string { return strings.Join(ks.Names(), ",") }

// May reports whether a signature may be of an account of these kinds: only a Safe's is as long as a key's.
func (ks Kinds) May(s x402.Signature) bool { return !s.IsKeySized() || slices.Contains(ks, Safe) }

// Of tells the kind of an account, which has the code. It is ErrOtherKind when that is none of these.
func (ks Kinds) Of(ctx context.Context, at Block, account x402.Address, code []byte) (Kind, error) {
	for _, k := range ks {
		if is, err := all[k].is(ctx, at, account, code); err != nil || is {
			return k, err
		}
	}
	return "", ErrOtherKind
}

// Verify reports whether an account of one of these kinds, which has the code, signed a statement. Without code it is
// one that the signature says how to make. The error is ErrOtherKind, curve.ErrNotSigned, or that of the block.
func (ks Kinds) Verify(ctx context.Context, at Block, code []byte, s Statement) error {
	creation, makes := CreationOf(s.Signature)
	if len(code) == 0 && !s.Signature.IsOfCreation() {
		return curve.ErrNotSigned // an account that is being made, or behind a node that lags: its kind is not known
	}
	if makes {
		s.Signature = creation.Signature
	}
	if makes && creation.address() != s.Account {
		return ErrOtherKind // whoever's account it makes, the payer's it is not
	}
	if len(code) == 0 {
		if !makes || !slices.Contains(ks, CoinbaseSmartWallet) {
			return ErrOtherKind
		}
		return verifyCoinbase(ctx, at, s, creation.owner)
	}
	k, err := ks.Of(ctx, at, s.Account, code)
	if err != nil {
		return err
	}
	return all[k].verify(ctx, at, s)
}

// byKey reports whether a key signed a digest whose account has no code: an owner with code would be asked, and a
// stranger's answer is worth nothing.
func byKey(ctx context.Context, at Block, owner x402.Address, digest x402.Hash, s x402.Signature) error {
	signer, err := curve.Recover(digest, s)
	if err != nil || signer != owner {
		return curve.ErrNotSigned
	}
	code, err := at.Code(ctx, owner)
	if err != nil {
		return fmt.Errorf("read the owner's code: %w", err)
	}
	if len(code) > 0 {
		return curve.ErrNotSigned
	}
	return nil
}
