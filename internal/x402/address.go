package x402

import (
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// Address is an EVM account or contract. It compares by its 20 bytes, never by spelling.
type Address common.Address

// Hash is 32 bytes: a transaction hash, a block hash or an EIP-3009 nonce.
type Hash common.Hash

// ErrAddress says that a text is not an address: 0x and 40 hex digits, all lower case, all upper
// case, or in the mixed case of EIP-55.
var ErrAddress = errors.New("not an EVM address")

// ErrHash says that a text is not 0x and 64 hex digits.
var ErrHash = errors.New("not 32 bytes in hex")

// ParseAddress reads an address. A mixed-case address must carry the right EIP-55 checksum.
func ParseAddress(s string) (Address, error) {
	if len(s) != 42 || s[:2] != "0x" || !isHex(s[2:]) {
		return Address{}, ErrAddress
	}
	a := common.HexToAddress(s)
	digits := s[2:]
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && a.Hex() != s {
		return Address{}, ErrAddress
	}
	return Address(a), nil
}

// String is the EIP-55 form, for people and for answers.
func (a Address) String() string { return common.Address(a).Hex() }

// Lower is 0x and lower-case hex, the form that is stored and compared as text.
func (a Address) Lower() string { return strings.ToLower(common.Address(a).Hex()) }

// IsZero reports the zero address.
func (a Address) IsZero() bool { return a == Address{} }

// ParseHash reads 0x and 64 hex digits in any case.
func ParseHash(s string) (Hash, error) {
	if len(s) != 66 || s[:2] != "0x" || !isHex(s[2:]) {
		return Hash{}, ErrHash
	}
	return Hash(common.HexToHash(s)), nil
}

// String is 0x and lower-case hex.
func (h Hash) String() string { return common.Hash(h).Hex() }

// IsZero reports the zero hash.
func (h Hash) IsZero() bool { return h == Hash{} }

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}
