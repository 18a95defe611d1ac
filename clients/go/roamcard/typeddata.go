package roamcard

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/x402"
)

// TypedData is an EIP-712 document in the form of eth_signTypedData_v4.
type TypedData struct {
	// Types are the members of each struct, among them those of EIP712Domain.
	Types       map[string][]TypedDataMember `json:"types"`
	PrimaryType string                       `json:"primaryType"`
	Domain      TypedDataDomain              `json:"domain"`
	// Message has the values of the primary type's members as JSON has them: numbers are decimal texts, bytes and
	// addresses hex.
	Message map[string]any `json:"message"`
}

// TypedDataMember is one member of a struct.
type TypedDataMember struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// TypedDataDomain is whose document it is; EIP712Domain among the types says which of the members count.
type TypedDataDomain struct {
	Name              string  `json:"name,omitempty"`
	Version           string  `json:"version,omitempty"`
	ChainID           ChainID `json:"chainId"`
	VerifyingContract string  `json:"verifyingContract"`
	Salt              string  `json:"salt,omitempty"`
}

// ChainID is the number of a chain. It is written in hex, as "0x2105", and read in decimal and as a number, too.
type ChainID uint64

// MarshalText implements encoding.TextMarshaler.
func (c ChainID) MarshalText() ([]byte, error) {
	return []byte("0x" + strconv.FormatUint(uint64(c), 16)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *ChainID) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data) // a number
	}
	n, ok := readUint(text)
	if !ok || !n.IsUint64() {
		return errors.New("the chain id is not a number")
	}
	*c = ChainID(n.Uint64())
	return nil
}

const (
	domainType = "EIP712Domain"
	wordBytes  = 32
)

// digest is what a wallet signs for the document. Members that are structs or lists themselves are refused: nothing
// that is signed here has any.
func (d TypedData) digest() ([wordBytes]byte, error) {
	domain, err := d.hash(domainType, map[string]any{
		"name": d.Domain.Name, "version": d.Domain.Version, "chainId": strconv.FormatUint(uint64(d.Domain.ChainID), 10),
		"verifyingContract": d.Domain.VerifyingContract, "salt": d.Domain.Salt,
	})
	if err != nil {
		return [wordBytes]byte{}, err
	}
	message, err := d.hash(d.PrimaryType, d.Message)
	if err != nil {
		return [wordBytes]byte{}, err
	}
	return x402.Keccak256([]byte{0x19, 0x01}, domain[:], message[:]), nil
}

// hash is the hashStruct of the standard.
func (d TypedData) hash(name string, values map[string]any) ([wordBytes]byte, error) {
	members, known := d.Types[name]
	if !known {
		return [wordBytes]byte{}, fmt.Errorf("the type %q is not declared", name)
	}
	if name != domainType && len(values) != len(members) {
		return [wordBytes]byte{}, fmt.Errorf("%s has %d members and %d values", name, len(members), len(values))
	}
	declared := make([]string, 0, len(members))
	words := make([][]byte, 1, 1+len(members))
	for _, m := range members {
		word, err := encodeMember(m.Type, values[m.Name])
		if err != nil {
			return [wordBytes]byte{}, fmt.Errorf("%s.%s: %w", name, m.Name, err)
		}
		declared, words = append(declared, m.Type+" "+m.Name), append(words, word[:])
	}
	kind := x402.Keccak256([]byte(name + "(" + strings.Join(declared, ",") + ")"))
	words[0] = kind[:]
	return x402.Keccak256(words...), nil
}

// encodeMember is the encodeData of the standard for one member: strings and bytes hashed, the rest as words.
func encodeMember(kind string, value any) (word [wordBytes]byte, err error) {
	text, isText := value.(string)
	wrong := fmt.Errorf("the value is no %s", kind)
	switch {
	case kind == "string" && isText:
		return x402.Keccak256([]byte(text)), nil
	case kind == "bytes" && isText:
		raw, err := hexBytes(text)
		if err != nil {
			return word, wrong
		}
		return x402.Keccak256(raw), nil
	case kind == "address" && isText:
		raw, err := hexBytes(text)
		if err != nil || len(raw) != len(x402.Address{}) {
			return word, wrong
		}
		copy(word[wordBytes-len(raw):], raw)
		return word, nil
	case kind == "bool":
		truth, ok := value.(bool)
		if !ok {
			return word, wrong
		}
		if truth {
			word[wordBytes-1] = 1
		}
		return word, nil
	case isSized(kind, "bytes", 1, 1, wordBytes) && isText:
		raw, err := hexBytes(text)
		if err != nil || kind != "bytes"+strconv.Itoa(len(raw)) {
			return word, wrong
		}
		copy(word[:], raw)
		return word, nil
	case isSized(kind, "uint", 8, 8, 256):
		n, ok := uintOf(value)
		bits, _ := strconv.Atoi(kind[len("uint"):]) // isSized has read it
		if !ok || n.BitLen() > bits {
			return word, wrong
		}
		n.FillBytes(word[:])
		return word, nil
	case slices.Contains([]string{"string", "bytes", "address"}, kind):
		return word, wrong
	}
	return word, fmt.Errorf("members of the type %q are not signed here", kind)
}

// isSized reports a type with a size in its name, as in bytes32: a multiple of step.
func isSized(kind, name string, step, least, most int) bool {
	digits, ok := strings.CutPrefix(kind, name)
	size, err := strconv.Atoi(digits)
	return ok && err == nil && strconv.Itoa(size) == digits && size >= least && size <= most && size%step == 0
}

// uintOf reads what JSON has for a number above or equal to zero.
func uintOf(value any) (*big.Int, bool) {
	switch v := value.(type) {
	case string:
		return readUint(v)
	case json.Number:
		return readUint(v.String())
	case float64:
		const exact = 1 << 53
		if v < 0 || v >= exact || v != float64(int64(v)) {
			return nil, false
		}
		return big.NewInt(int64(v)), true
	}
	return nil, false
}

// readUint reads a number in decimal, or in hex after 0x.
func readUint(text string) (*big.Int, bool) {
	base, digits := 10, text
	if after, ok := strings.CutPrefix(text, "0x"); ok {
		base, digits = 16, after
	}
	if digits == "" || strings.Trim(strings.ToLower(digits), "0123456789abcdef") != "" {
		return nil, false // no sign, no separator
	}
	return new(big.Int).SetString(digits, base)
}

func hexBytes(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, errors.New("no 0x")
	}
	return hex.DecodeString(digits)
}
