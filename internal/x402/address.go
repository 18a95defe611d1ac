package x402

import (
	"encoding/hex"
	"errors"
	"strings"
)

// Address is an EVM account or contract. It compares by its 20 bytes, never by spelling.
type Address [20]byte

// Hash is 32 bytes: a transaction hash, a block hash or an EIP-3009 nonce.
type Hash [32]byte

// ErrAddress says that a text is not an address: 0x and 40 hex digits, all lower case, all upper
// case, or in the mixed case of EIP-55.
var ErrAddress = errors.New("not an EVM address")

// ErrHash says that a text is not 0x and 64 hex digits.
var ErrHash = errors.New("not 32 bytes in hex")

// ParseAddress reads an address. A mixed-case address must have the right EIP-55 checksum.
func ParseAddress(s string) (Address, error) {
	if len(s) != 42 || s[:2] != "0x" {
		return Address{}, ErrAddress
	}
	var a Address
	digits := s[2:]
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return Address{}, ErrAddress
	}
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && a.String() != s {
		return Address{}, ErrAddress
	}
	return a, nil
}

// String is the EIP-55 form, for people and for answers.
func (a Address) String() string {
	text := []byte(a.Lower())
	checksum := Keccak256(text[2:])
	for i, c := range text[2:] {
		half := checksum[i/2] >> 4
		if i%2 == 1 {
			half = checksum[i/2] & 0xf
		}
		if c >= 'a' && half > 7 {
			text[2+i] -= 'a' - 'A'
		}
	}
	return string(text)
}

// Lower is 0x and lower-case hex, the form that is stored and compared as text.
func (a Address) Lower() string { return "0x" + hex.EncodeToString(a[:]) }

// IsZero reports the zero address.
func (a Address) IsZero() bool { return a == Address{} }

// ParseHash reads 0x and 64 hex digits in any case.
func ParseHash(s string) (Hash, error) {
	if len(s) != 66 || s[:2] != "0x" {
		return Hash{}, ErrHash
	}
	var h Hash
	if _, err := hex.Decode(h[:], []byte(s[2:])); err != nil {
		return Hash{}, ErrHash
	}
	return h, nil
}

// String is 0x and lower-case hex.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// IsZero reports the zero hash.
func (h Hash) IsZero() bool { return h == Hash{} }
