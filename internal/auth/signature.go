package auth

import (
	"errors"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrSignature says that a text is not the one canonical signature of an externally owned account.
var ErrSignature = errors.New("not a 65-byte low-s signature")

// Recover finds the account that signed a digest. The signature is 0x and the hex of exactly 65
// bytes r, s, v with v of 0, 1, 27 or 28 and s in the lower half of the order. Contract
// signatures, compact signatures (EIP-2098) and the malleable high-s twin are all ErrSignature,
// so that each signature has one spelling.
func Recover(digest [32]byte, signature string) (x402.Address, error) {
	s, err := x402.ParseSignature(signature)
	if err != nil {
		return x402.Address{}, ErrSignature
	}
	signer, err := curve.Recover(digest, s)
	if err != nil {
		return x402.Address{}, ErrSignature
	}
	return signer, nil
}
