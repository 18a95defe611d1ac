package handshake

import (
	"strconv"

	"github.com/roamcard/roamcard/internal/x402"
)

// PersonalDigest is what personal_sign signs for a text (EIP-191, version 0x45). The length in
// the prefix counts bytes, not characters.
func PersonalDigest(text string) [32]byte {
	prefix := "\x19Ethereum Signed Message:\n" + strconv.Itoa(len(text))
	return x402.Keccak256([]byte(prefix), []byte(text))
}
