package smartaccount

import (
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"github.com/roamcard/roamcard/internal/x402"
)

// Creation is the call by which a factory makes an account that has no code yet, and what the account signs with
// (ERC-6492). The factory's call is harmless where the account has code meanwhile.
type Creation struct {
	Factory x402.Address
	// Signature is the account's own.
	Signature x402.Signature
	owners    [][]byte
	nonce     *big.Int
}

var (
	// creationType are the factory, its call and the account's signature.
	creationType = abi.Arguments{{Type: typeOf("address")}, {Type: typeOf("bytes")}, {Type: typeOf("bytes")}}
	// createAccount are the arguments of createAccount, the owners and a number, behind its selector.
	createAccount         = abi.Arguments{{Type: typeOf("bytes[]")}, {Type: typeOf("uint256")}}
	createAccountSelector = selector("createAccount(bytes[],uint256)")
)

// CreationOf reads the signature of an account that has no code yet. ok is false for another signature, and for the
// call of a factory that is not known.
func CreationOf(s x402.Signature) (c Creation, ok bool) {
	text, ok := strings.CutSuffix(string(s), x402.CreationMark)
	if !ok {
		return Creation{}, false
	}
	values, ok := unpack(creationType, []byte(text))
	if !ok {
		return Creation{}, false
	}
	call := values[1].([]byte)
	if len(call) < len(createAccountSelector) || [4]byte(call) != createAccountSelector {
		return Creation{}, false
	}
	arguments, ok := unpack(createAccount, call[len(createAccountSelector):])
	if !ok {
		return Creation{}, false
	}
	c = Creation{
		Factory: x402.Address(values[0].(common.Address)), Signature: x402.Signature(values[2].([]byte)),
		owners: arguments[0].([][]byte), nonce: arguments[1].(*big.Int),
	}
	_, known := coinbaseFactories[c.Factory]
	return c, known
}

// Call is the factory's call.
func (c Creation) Call() []byte { return slices.Concat(createAccountSelector[:], c.arguments()) }

// WithCreation is a signature of an account that a factory's call makes, as CreationOf reads it.
func WithCreation(factory x402.Address, call []byte, s x402.Signature) x402.Signature {
	data, err := creationType.Pack(common.Address(factory), call, s.Bytes())
	if err != nil {
		panic(err) // the types are constant
	}
	return x402.Signature(data) + x402.CreationMark
}

func (c Creation) arguments() []byte {
	data, err := createAccount.Pack(c.owners, c.nonce)
	if err != nil {
		panic(err) // the types are constant
	}
	return data
}

// address is that of the account that the factory makes (CREATE2).
func (c Creation) address() x402.Address {
	implementation := coinbaseFactories[c.Factory]
	code := x402.Keccak256(
		slices.Concat(unhex("603d3d8160223d3973"), implementation[:], unhex("60095155f3"), coinbaseProxy))
	salt := x402.Keccak256(c.arguments())
	made := x402.Keccak256(slices.Concat([]byte{0xff}, c.Factory[:], salt[:], code[:]))
	return x402.Address(made[12:])
}

// owner is the first owner at an index; nil is none.
func (c Creation) owner(index *big.Int) ([]byte, error) {
	if !index.IsInt64() || index.Int64() >= int64(len(c.owners)) {
		return nil, nil
	}
	return c.owners[index.Int64()], nil
}

// typeOf is a type of the ABI by its name.
func typeOf(name string) abi.Type {
	t, err := abi.NewType(name, "", nil)
	if err != nil {
		panic(err) // a constant
	}
	return t
}

func selector(signature string) (s [4]byte) {
	hash := x402.Keccak256([]byte(signature))
	copy(s[:], hash[:])
	return s
}
