package auth

import (
	"encoding/hex"
	"errors"
	"math/big"
	"strconv"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/x402"
)

// ErrSignature says that a text is not the one canonical signature of an externally owned account.
var ErrSignature = errors.New("not a 65-byte low-s signature")

const signatureBytes = 65

// PersonalDigest is what personal_sign signs for a text (EIP-191, version 0x45). The length in
// the prefix counts bytes, not characters.
func PersonalDigest(text string) [32]byte {
	prefix := "\x19Ethereum Signed Message:\n" + strconv.Itoa(len(text))
	return crypto.Keccak256Hash([]byte(prefix), []byte(text))
}

// Recover finds the account that signed a digest. The signature is 0x and the hex of exactly 65
// bytes r, s, v with v of 0, 1, 27 or 28 and s in the lower half of the order. Contract
// signatures, compact signatures (EIP-2098) and the malleable high-s twin are all ErrSignature,
// so that one proof has one spelling.
func Recover(digest [32]byte, signature string) (x402.Address, error) {
	if len(signature) != 2+2*signatureBytes || signature[:2] != "0x" {
		return x402.Address{}, ErrSignature
	}
	sig, err := hex.DecodeString(signature[2:])
	if err != nil {
		return x402.Address{}, ErrSignature
	}
	v := sig[64]
	if v == 27 || v == 28 {
		v -= 27
	}
	r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:64])
	const lowS = true // the rule of Ethereum since Homestead
	if !crypto.ValidateSignatureValues(v, r, s, lowS) {
		return x402.Address{}, ErrSignature
	}
	sig[64] = v
	key, err := crypto.SigToPub(digest[:], sig)
	if err != nil {
		return x402.Address{}, ErrSignature
	}
	return x402.Address(crypto.PubkeyToAddress(*key)), nil
}
