package roamcard

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// SafeAccount is a Safe, version 1.3.0, 1.4.1 or 1.5.0, for which keys sign.
type SafeAccount struct {
	account x402.Address
	owners  []*safeOwner // in the order in which the account takes them
}

type safeOwner struct {
	Signer
	key x402.Address
}

// mostSafeOwners is how many signatures the service reads.
const mostSafeOwners = x402.MaxContractSignature / ownerBytes

// NewSafeAccount makes the signer of an account that is deployed and that these owners sign for: as many as its
// threshold says, in any order. It does not ask the chain whether that is so.
func NewSafeAccount(account string, owners ...Signer) (*SafeAccount, error) {
	a, err := x402.ParseAddress(account)
	if err != nil {
		return nil, fmt.Errorf("read the account's address: %w", err)
	}
	if len(owners) == 0 || len(owners) > mostSafeOwners {
		return nil, fmt.Errorf("%d owners cannot sign for an account: 1 to %d can", len(owners), mostSafeOwners)
	}
	s := &SafeAccount{account: a}
	for _, owner := range owners {
		key, err := x402.ParseAddress(owner.Address())
		if err != nil {
			return nil, fmt.Errorf("read an owner's address: %w", err)
		}
		if key == a {
			return nil, errors.New("the account and its owner have the same address")
		}
		s.owners = append(s.owners, &safeOwner{owner, key})
	}
	slices.SortFunc(s.owners, func(a, b *safeOwner) int { return bytes.Compare(a.key[:], b.key[:]) })
	twice := func(a, b *safeOwner) bool { return a.key == b.key }
	if len(slices.CompactFunc(slices.Clone(s.owners), twice)) < len(owners) {
		return nil, errors.New("an owner is named twice")
	}
	return s, nil
}

// Address implements Signer.
func (s *SafeAccount) Address() string { return s.account.String() }

// SignTypedData implements Signer. The document's members are plain: no structs, no lists, no signed numbers.
func (s *SafeAccount) SignTypedData(ctx context.Context, doc TypedData) ([]byte, error) {
	digest, err := doc.digest()
	if err != nil {
		return nil, fmt.Errorf("hash the typed data: %w", err)
	}
	return s.sign(ctx, digest)
}

// SignMessage implements Signer.
func (s *SafeAccount) SignMessage(ctx context.Context, text string) ([]byte, error) {
	return s.sign(ctx, handshake.PersonalDigest(text))
}

// VerifyTypedData implements SmartAccount.
func (s *SafeAccount) VerifyTypedData(doc TypedData, signature []byte) error {
	digest, err := doc.digest()
	if err != nil {
		return fmt.Errorf("hash the typed data: %w", err)
	}
	if len(signature) != len(s.owners)*ownerBytes {
		return curve.ErrNotSigned
	}
	for i, owner := range s.owners {
		part := x402.Signature(signature[i*ownerBytes:][:ownerBytes])
		if err := signedBy(s.document(digest), owner.key, part); err != nil {
			return err
		}
	}
	return nil
}

// sign has each owner sign the digest for this account alone, as its code asks for, in the order of their addresses.
func (s *SafeAccount) sign(ctx context.Context, digest [wordBytes]byte) ([]byte, error) {
	var all []byte
	for _, owner := range s.owners {
		signature, err := signAs(ctx, owner, owner.key, s.document(digest))
		if err != nil {
			return nil, fmt.Errorf("owner %s: %w", owner.key, err)
		}
		all = append(all, signature...)
	}
	return all, nil
}

// document is what an owner signs for the account.
func (s *SafeAccount) document(digest [wordBytes]byte) TypedData {
	return TypedData{
		Types: map[string][]TypedDataMember{
			domainType:    {{"chainId", "uint256"}, {"verifyingContract", "address"}},
			"SafeMessage": {{"message", "bytes"}},
		},
		PrimaryType: "SafeMessage",
		Domain:      TypedDataDomain{ChainID: x402.ChainID, VerifyingContract: s.account.String()},
		Message:     map[string]any{"message": "0x" + hex.EncodeToString(digest[:])},
	}
}
