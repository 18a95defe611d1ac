package smartaccount

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// coinbase is CoinbaseSmartWallet, as github.com/coinbase/smart-wallet has it: an ERC-1967 proxy whose owners are kept
// by index.
type coinbase struct{}

// coinbaseProxy is the code of every account: Solady's minimal ERC-1967 proxy. It says nothing of the implementation.
var coinbaseProxy = unhex("363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc" +
	"545af43d6000803e6038573d6000fd5b3d6000f3")

// implementationSlot is where an ERC-1967 proxy keeps its implementation.
var implementationSlot = x402.Hash(unhex("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"))

// coinbaseFactories are the factories of the versions 1 and 1.1, and the implementations of the accounts that they
// make, by their addresses on Base: of the first, what its deployment left in the project's
// broadcast/DeployFactory.s.sol/8453, of the second, what script/DeployFactory.s.sol asserts.
var coinbaseFactories = map[x402.Address]x402.Address{
	x402.Address(unhex("0ba5ed0c6aa8c49038f819e587e2633c4a9f428a")): x402.Address(
		unhex("000100abaad02f1cfc8bbe32bd5a564817339e72")),
	x402.Address(unhex("ba5ed110efdba3d005bfc882d75358acbbb85842")): x402.Address(
		unhex("00000110dcdedc9581cb5ecb8467282f2926534d")),
}

// The account's own digest: EIP-712 with its address, so that a signature of one account is none of another with the
// same owner.
var (
	domainType = x402.Keccak256(
		[]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	coinbaseName    = x402.Keccak256([]byte("Coinbase Smart Wallet"))
	coinbaseVersion = x402.Keccak256([]byte("1"))
	coinbaseMessage = x402.Keccak256([]byte("CoinbaseSmartWalletMessage(bytes32 hash)"))
)

func coinbaseDigest(s Statement) x402.Hash {
	var domain [5 * 32]byte
	copy(domain[0:], domainType[:])
	copy(domain[32:], coinbaseName[:])
	copy(domain[64:], coinbaseVersion[:])
	binary.BigEndian.PutUint64(domain[120:], s.ChainID)
	copy(domain[140:], s.Account[:])
	return typedDigest(domain[:], coinbaseMessage, s.Digest)
}

// typedDigest is the EIP-712 digest of a message with one member, by its encoded domain.
func typedDigest(domain []byte, messageType, member x402.Hash) x402.Hash {
	separator := x402.Keccak256(domain)
	message := x402.Keccak256(slices.Concat(messageType[:], member[:]))
	return x402.Keccak256(slices.Concat([]byte{0x19, 0x01}, separator[:], message[:]))
}

func (coinbase) is(ctx context.Context, at Block, account x402.Address, code []byte) (bool, error) {
	if !bytes.Equal(code, coinbaseProxy) {
		return false, nil
	}
	word, err := at.Word(ctx, account, implementationSlot)
	if err != nil {
		return false, fmt.Errorf("read the account's implementation: %w", err)
	}
	return slices.Contains(slices.Collect(maps.Values(coinbaseFactories)), x402.Address(word[12:])), nil
}

// wrapper is SignatureWrapper, in which an account's signature comes: the owner's index and the owner's signature.
type wrapper struct {
	OwnerIndex    *big.Int
	SignatureData []byte
}

var wrapperType = tuple(
	abi.ArgumentMarshaling{Name: "ownerIndex", Type: "uint256"},
	abi.ArgumentMarshaling{Name: "signatureData", Type: "bytes"},
)

func (coinbase) verify(ctx context.Context, at Block, s Statement) error {
	return verifyCoinbase(ctx, at, s, func(index *big.Int) ([]byte, error) {
		return coinbaseOwner(ctx, at, s.Account, index)
	})
}

// verifyCoinbase checks the signature of an account whose owners are read by their index.
func verifyCoinbase(ctx context.Context, at Block, s Statement, ownerAt func(index *big.Int) ([]byte, error)) error {
	var wrapped wrapper
	if !decode(wrapperType, s.Signature.Bytes(), &wrapped) {
		return curve.ErrNotSigned
	}
	owner, err := ownerAt(wrapped.OwnerIndex)
	if err != nil {
		return fmt.Errorf("read the account's owner: %w", err)
	}
	digest := coinbaseDigest(s)
	switch {
	case len(owner) == 32 && bytes.Equal(owner[:12], make([]byte, 12)):
		return byKey(ctx, at, x402.Address(owner[12:]), digest, x402.Signature(wrapped.SignatureData))
	case len(owner) == 64:
		return byPasskey(owner, digest, wrapped.SignatureData)
	}
	return curve.ErrNotSigned // there is no such owner
}

// coinbaseOwners is the slot of the account's mapping of an index to its owner, of the struct at the ERC-7201 namespace
// coinbase.storage.MultiOwnable.
var coinbaseOwners = unhex("97e2c6aad4ce5d562ebfaa00db6b9e0fb66ea5d8162ed5b243f51a2e03086f02")

// coinbaseOwner reads the owner at an index: 32 bytes are an address, 64 the point of a passkey, and what has another
// length is none. A removed owner has no bytes.
func coinbaseOwner(ctx context.Context, at Block, account x402.Address, index *big.Int) ([]byte, error) {
	slot := x402.Keccak256(slices.Concat(index.FillBytes(make([]byte, 32)), coinbaseOwners))
	data := new(big.Int).SetBytes(hash(slot))
	words, err := words(ctx, at, account, slot, x402.Hash(data.FillBytes(make([]byte, 32))),
		x402.Hash(data.Add(data, big.NewInt(1)).FillBytes(make([]byte, 32))))
	if err != nil {
		return nil, err
	}
	// Bytes of 32 and more keep twice their length, and one, in their slot.
	length := new(big.Int).SetBytes(words[0][:])
	owner := slices.Concat(words[1][:], words[2][:])
	for _, size := range []int{32, 64} {
		if length.Cmp(big.NewInt(int64(2*size+1))) == 0 {
			return owner[:size], nil
		}
	}
	return nil, nil
}

func hash(slot x402.Hash) []byte {
	h := x402.Keccak256(slot[:])
	return h[:]
}

// tuple is the ABI type of a struct.
func tuple(members ...abi.ArgumentMarshaling) abi.Arguments {
	t, err := abi.NewType("tuple", "", members)
	if err != nil {
		panic(err)
	}
	return abi.Arguments{{Type: t}}
}

// decode reads a struct from its canonical encoding.
func decode(t abi.Arguments, data []byte, into any) bool {
	values, ok := unpack(t, data)
	if ok {
		abi.ConvertType(values[0], into)
	}
	return ok
}

// unpack reads values from their canonical encoding: what encodes to the same bytes again. Other bytes that the chain
// would read alike are other spellings of the same signature.
func unpack(t abi.Arguments, data []byte) (values []any, ok bool) {
	values, err := t.Unpack(data)
	if err != nil || len(values) != len(t) {
		return nil, false
	}
	again, err := t.Pack(values...)
	return values, err == nil && bytes.Equal(again, data)
}

// unhex reads the constants of this package.
func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(errors.New("a constant is not hex"))
	}
	return b
}
