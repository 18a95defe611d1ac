// Package curve signs over secp256k1 and recovers signers. It is go-ethereum's, which is libsecp256k1 with cgo.
package curve

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNotSigned says that a signature was not made by the account that it should be of: of an authorization, by its
// payer over this domain.
var ErrNotSigned = errors.New("the signature is another account's, or none of this")

// AddressOf is the account of a key.
func AddressOf(key *ecdsa.PrivateKey) x402.Address {
	return x402.Address(crypto.PubkeyToAddress(key.PublicKey))
}

// Sign makes the payer's signature of an authorization. The key must be that of a.From.
func Sign(d x402.Domain, a x402.Authorization, key *ecdsa.PrivateKey) (x402.Signature, error) {
	digest := d.Digest(a)
	raw, err := crypto.Sign(digest[:], key)
	if err != nil {
		return "", fmt.Errorf("sign authorization: %w", err)
	}
	return x402.KeySignature(raw[:64], raw[64]), nil
}

// LocalSigner signs with a key that this process has. It is a payment.Signer.
type LocalSigner struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

// NewLocalSigner is a signer with a key.
func NewLocalSigner(key *ecdsa.PrivateKey) LocalSigner { return LocalSigner{key, AddressOf(key)} }

// Address is the account of the key.
func (l LocalSigner) Address() x402.Address { return l.address }

// IsLocal reports that this process has the key.
func (l LocalSigner) IsLocal() bool { return true }

// Sign signs the Keccak-256 hash of a message.
func (l LocalSigner) Sign(_ context.Context, message []byte) (x402.Signature, error) {
	digest := x402.Keccak256(message)
	raw, err := crypto.Sign(digest[:], l.key)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return x402.KeySignature(raw[:64], raw[64]), nil
}

// String hides the key.
func (l LocalSigner) String() string { return "the key of " + l.address.String() }

// AddressOfPoint is the account of a public key: 64 bytes, or 65 that begin with 4.
func AddressOfPoint(raw []byte) (x402.Address, error) {
	if len(raw) == 64 {
		raw = append([]byte{4}, raw...)
	}
	if _, err := crypto.UnmarshalPubkey(raw); err != nil {
		return x402.Address{}, errors.New("not a public key of secp256k1")
	}
	return x402.Address(crypto.Keccak256(raw[1:])[12:]), nil
}

// Complete makes an account's signature of the r and s that its key made over a digest: s in the lower half, and the v
// that recovers the account. It reports ErrNotSigned when none does.
func Complete(digest x402.Hash, r, s *big.Int, by x402.Address) (x402.Signature, error) {
	n := crypto.S256().Params().N
	if r.Sign() <= 0 || s.Sign() <= 0 || r.Cmp(n) >= 0 || s.Cmp(n) >= 0 {
		return "", ErrNotSigned
	}
	if half := new(big.Int).Rsh(n, 1); s.Cmp(half) > 0 {
		s = new(big.Int).Sub(n, s)
	}
	rs := make([]byte, 64)
	r.FillBytes(rs[:32])
	s.FillBytes(rs[32:])
	for recovery := range byte(2) {
		made := x402.KeySignature(rs, recovery)
		if found, err := Recover(digest, made); err == nil && found == by {
			return made, nil
		}
	}
	return "", ErrNotSigned
}

// Verify reports ErrNotSigned unless the authorization's payer made the signature over this domain.
func Verify(d x402.Domain, a x402.Authorization, s x402.Signature) error {
	signer, err := Recover(d.Digest(a), s)
	if err != nil || signer != a.From {
		return ErrNotSigned
	}
	return nil
}

// Recover returns the account that signed the digest, as ecrecover does. It never returns the zero address.
func Recover(digest x402.Hash, s x402.Signature) (x402.Address, error) {
	if err := s.Check(); err != nil {
		return x402.Address{}, err
	}
	raw := []byte(s)
	raw[64] -= 27
	key, err := crypto.Ecrecover(digest[:], raw)
	if err != nil || len(key) != 65 {
		return x402.Address{}, errors.New("recover signer: no such key")
	}
	return x402.Address(crypto.Keccak256(key[1:])[12:]), nil
}
