package x402

import "golang.org/x/crypto/sha3"

// Keccak256 is the hash of Ethereum over the parts in a row.
func Keccak256(parts ...[]byte) (h Hash) {
	k := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		_, _ = k.Write(part) // which never fails
	}
	k.Sum(h[:0])
	return h
}
