package roamcard

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// SmartAccount is a Signer whose account has code. The account pays and owns, and its signatures have the form that its
// code takes. A service that takes no accounts of its kind refuses with payer_kind_not_accepted.
type SmartAccount interface {
	Signer
	// VerifyTypedData reports an error unless the signature is the account's for the document.
	VerifyTypedData(doc TypedData, signature []byte) error
}

// CoinbaseSmartAccount is a Coinbase Smart Wallet, version 1 or 1.1, one of whose owners is a key.
type CoinbaseSmartAccount struct {
	owner        Signer
	key, account x402.Address
	index        uint64
	// before and after enclose a signature that says how the account is made.
	before []byte
	after  string
}

// NewCoinbaseSmartAccount makes the signer of an account that is deployed and that the owner signs for; ownerIndex is
// the owner's place in the account's list of owners, 0 for the first one. It does not ask the chain whether that is so.
func NewCoinbaseSmartAccount(owner Signer, account string, ownerIndex uint64) (*CoinbaseSmartAccount, error) {
	key, err := x402.ParseAddress(owner.Address())
	if err != nil {
		return nil, fmt.Errorf("read the owner's address: %w", err)
	}
	a, err := x402.ParseAddress(account)
	if err != nil {
		return nil, fmt.Errorf("read the account's address: %w", err)
	}
	if a == key {
		return nil, errors.New("the account and its owner have the same address")
	}
	return &CoinbaseSmartAccount{owner: owner, key: key, account: a, index: ownerIndex}, nil
}

// Address implements Signer.
func (s *CoinbaseSmartAccount) Address() string { return s.account.String() }

// SignTypedData implements Signer. The document's members are plain: no structs, no lists, no signed numbers.
func (s *CoinbaseSmartAccount) SignTypedData(ctx context.Context, doc TypedData) ([]byte, error) {
	digest, err := doc.digest()
	if err != nil {
		return nil, fmt.Errorf("hash the typed data: %w", err)
	}
	return s.sign(ctx, digest)
}

// SignMessage implements Signer.
func (s *CoinbaseSmartAccount) SignMessage(ctx context.Context, text string) ([]byte, error) {
	return s.sign(ctx, handshake.PersonalDigest(text))
}

// VerifyTypedData implements SmartAccount.
func (s *CoinbaseSmartAccount) VerifyTypedData(doc TypedData, signature []byte) error {
	digest, err := doc.digest()
	if err != nil {
		return fmt.Errorf("hash the typed data: %w", err)
	}
	if len(signature) != len(s.before)+wrappedBytes+len(s.after) {
		return curve.ErrNotSigned
	}
	begin := len(s.before) + 4*wordBytes
	inner := x402.Signature(signature[begin : begin+ownerBytes])
	if string(s.wrap(inner)) != string(signature) {
		return curve.ErrNotSigned
	}
	return signedBy(s.document(digest), s.key, inner)
}

// sign has the owner sign what the account's code makes of a digest: the digest for this account alone, so that another
// account of the same owner takes no signature of this one.
func (s *CoinbaseSmartAccount) sign(ctx context.Context, digest [wordBytes]byte) ([]byte, error) {
	signature, err := signAs(ctx, s.owner, s.key, s.document(digest))
	if err != nil {
		return nil, err
	}
	return s.wrap(signature), nil
}

// signAs has an owner sign a document, and holds the signature to the owner's key.
func signAs(ctx context.Context, owner Signer, key x402.Address, doc TypedData) (x402.Signature, error) {
	raw, err := owner.SignTypedData(ctx, doc)
	if err != nil {
		return "", fmt.Errorf("sign as the account's owner: %w", err)
	}
	signature, err := x402.ParseSignature("0x" + hex.EncodeToString(raw))
	if err == nil {
		err = signedBy(doc, key, signature)
	}
	if err != nil {
		return "", fmt.Errorf("the account's owner signed something else: %w", err)
	}
	return signature, nil
}

// signedBy reports curve.ErrNotSigned unless the key made the signature of the document.
func signedBy(doc TypedData, key x402.Address, signature x402.Signature) error {
	asked, err := doc.digest()
	if err != nil {
		return err
	}
	signer, err := curve.Recover(asked, signature)
	if err != nil || signer != key {
		return curve.ErrNotSigned
	}
	return nil
}

// document is what an owner signs for the account.
func (s *CoinbaseSmartAccount) document(digest [wordBytes]byte) TypedData {
	return TypedData{
		Types: map[string][]TypedDataMember{
			domainType: {
				{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}, {"verifyingContract", "address"},
			},
			"CoinbaseSmartWalletMessage": {{"hash", "bytes32"}},
		},
		PrimaryType: "CoinbaseSmartWalletMessage",
		Domain: TypedDataDomain{
			Name: "Coinbase Smart Wallet", Version: "1", ChainID: x402.ChainID, VerifyingContract: s.account.String(),
		},
		Message: map[string]any{"hash": "0x" + hex.EncodeToString(digest[:])},
	}
}

// The sizes of an owner's signature, and of the struct that it is wrapped in: four words, and the signature in three.
const (
	ownerBytes   = 65
	wrappedBytes = 7 * wordBytes
)

// wrap encodes the struct SignatureWrapper {uint256 ownerIndex; bytes signatureData} as the account's code reads it,
// and encloses it.
func (s *CoinbaseSmartAccount) wrap(signature x402.Signature) []byte {
	return slices.Concat(s.before, abiWord(wordBytes), abiWord(s.index), abiWord(2*wordBytes), abiBytes([]byte(signature)),
		[]byte(s.after))
}
