// Package curve signs over secp256k1 and recovers signers. It is go-ethereum's, which is libsecp256k1 with cgo.
package curve

import (
	"crypto/ecdsa"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNotSigned says that a signature was not made by the authorization's payer over this domain.
var ErrNotSigned = errors.New("the signature is not the payer's")

// AddressOf is the account of a key.
func AddressOf(key *ecdsa.PrivateKey) x402.Address {
	return x402.Address(crypto.PubkeyToAddress(key.PublicKey))
}

// Sign makes the payer's signature of an authorization. The key must be that of a.From.
func Sign(d x402.Domain, a x402.Authorization, key *ecdsa.PrivateKey) (x402.Signature, error) {
	digest := d.Digest(a)
	raw, err := crypto.Sign(digest[:], key)
	if err != nil {
		return x402.Signature{}, fmt.Errorf("sign authorization: %w", err)
	}
	s := x402.Signature(raw)
	s[64] += 27
	return s, nil
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
	s[64] -= 27
	key, err := crypto.Ecrecover(digest[:], s[:])
	if err != nil || len(key) != 65 {
		return x402.Address{}, errors.New("recover signer: no such key")
	}
	return x402.Address(crypto.Keccak256(key[1:])[12:]), nil
}
