package x402

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// DerivedNonce is the nonce that our clients give the payment of a purchase: the digest of what it is for. The token
// takes a nonce of a payer once, so however often such a payment is signed, even by a client that lost its journal, it
// moves money once. Path is the documented one, whatever the protocol; attempt is 0 until the service proved an
// authorization dead.
func DerivedNonce(origin, path string, payer Address, key string, attempt int) Hash {
	parts := []string{"v1", origin, path, payer.Lower(), key}
	if attempt > 0 {
		parts = append(parts, strconv.Itoa(attempt))
	}
	h := sha256.New()
	for _, part := range parts {
		// Lengths keep two lists of parts from meeting in one text.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return Hash(h.Sum(nil))
}
