// Package curve signs over secp256k1, and says who signed: what a wallet does, in Go alone.
package curve

import (
	"encoding/hex"
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/roamcard/roamcard/internal/x402"
)

// Key is the private key of an externally owned account.
type Key struct{ private *secp256k1.PrivateKey }

// ErrKey says that a text is no private key. It does not quote the text.
var ErrKey = errors.New("the key is not 32 bytes in hex")

// ParseKey reads a private key: the hex of 32 bytes without 0x, above zero and below the order of the curve.
func ParseKey(digits string) (Key, error) {
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != secp256k1.PrivKeyBytesLen {
		return Key{}, ErrKey
	}
	defer clear(raw)
	var scalar secp256k1.ModNScalar
	if overflows := scalar.SetByteSlice(raw); overflows || scalar.IsZero() {
		return Key{}, ErrKey
	}
	return Key{secp256k1.NewPrivateKey(&scalar)}, nil
}

// Address is the key's account.
func (k Key) Address() x402.Address { return addressOf(k.private.PubKey()) }

// Sign signs a digest. The same key and digest give the same signature (RFC 6979).
func (k Key) Sign(digest [32]byte) x402.Signature {
	// r and s come after v, which has its base already.
	compact := ecdsa.SignCompact(k.private, digest[:], false)
	return x402.KeySignature(compact[1:], compact[0]-27)
}

// Recover says who signed a digest, as the token's ecrecover does it.
func Recover(digest [32]byte, s x402.Signature) (x402.Address, error) {
	if err := s.Check(); err != nil {
		return x402.Address{}, err
	}
	key, _, err := ecdsa.RecoverCompact(append([]byte{s[64]}, s[:64]...), digest[:])
	if err != nil {
		return x402.Address{}, errors.New("recover signer: no such key")
	}
	return addressOf(key), nil
}

// ErrNotSigned says that a signature was not made by the authorization's payer over this domain.
var ErrNotSigned = errors.New("the signature is not the payer's")

// Verify reports ErrNotSigned unless the authorization's payer made the signature over this domain.
func Verify(d x402.Domain, a x402.Authorization, s x402.Signature) error {
	signer, err := Recover(d.Digest(a), s)
	if err != nil || signer != a.From {
		return ErrNotSigned
	}
	return nil
}

// addressOf is the last 20 bytes of the hash of a public key.
func addressOf(key *secp256k1.PublicKey) (a x402.Address) {
	hash := x402.Keccak256(key.SerializeUncompressed()[1:])
	copy(a[:], hash[len(hash)-len(a):])
	return a
}
