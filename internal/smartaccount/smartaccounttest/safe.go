package smartaccounttest

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/binary"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// SafeProxy is the code of a Safe of version 1.5.0.
var SafeProxy = common.FromHex("608060405260005463a619486e60003560e01c14156024578060601b606c5260206060f35b3660008037" +
	"600080366000845af43d6000803e806040573d6000fd5b3d6000f3fea2646970667358221220e61834ebd2d8cd909d362bf67c47ef58fd665d" +
	"f38e6dd036ce65611101d072e964736f6c63430007060033")

// The singleton and the handler of version 1.5.0.
var (
	SafeSingleton = common.HexToAddress("0xFf51A5898e281Db6DfC7855790607438dF2ca44b")
	SafeHandler   = common.HexToAddress("0x3EfCBb83A4A7AfcB4F68D501E2c2203a38be77f4")
)

// Safe is an account of Safe, as its owners see it.
type Safe struct {
	ChainID uint64
	Address x402.Address
}

// Digest is what owners sign for the account.
func (s Safe) Digest(digest x402.Hash) x402.Hash {
	domain := crypto.Keccak256(
		crypto.Keccak256([]byte("EIP712Domain(uint256 chainId,address verifyingContract)")),
		common.BigToHash(new(big.Int).SetUint64(s.ChainID)).Bytes(), common.LeftPadBytes(s.Address[:], 32))
	message := crypto.Keccak256(crypto.Keccak256([]byte("SafeMessage(bytes message)")), crypto.Keccak256(digest[:]))
	return x402.Hash(crypto.Keccak256([]byte{0x19, 0x01}, domain, message))
}

// Sign is the account's signature of a digest by owners.
func (s Safe) Sign(digest x402.Hash, owners ...*ecdsa.PrivateKey) x402.Signature {
	inOrder := slices.SortedFunc(slices.Values(owners), func(a, b *ecdsa.PrivateKey) int {
		first, second := curve.AddressOf(a), curve.AddressOf(b)
		return bytes.Compare(first[:], second[:])
	})
	var raw []byte
	for _, owner := range inOrder {
		raw = append(raw, Key{owner}.Sign(s.Digest(digest))...)
	}
	return x402.AccountSignature(string(raw))
}

// SafeStorage is what the account keeps when so many of its owners sign.
func SafeStorage(threshold uint64, owners ...*ecdsa.PrivateKey) map[x402.Hash]x402.Hash {
	number := func(n uint64) (word x402.Hash) {
		binary.BigEndian.PutUint64(word[24:], n)
		return word
	}
	address := func(a common.Address) x402.Hash { return x402.Hash(common.BytesToHash(a[:])) }
	owner := func(a common.Address) x402.Hash {
		return x402.Hash(crypto.Keccak256Hash(common.LeftPadBytes(a[:], 32), common.BigToHash(big.NewInt(2)).Bytes()))
	}
	sentinel := common.BigToAddress(big.NewInt(1))
	words := map[x402.Hash]x402.Hash{
		{}:                           address(SafeSingleton),
		number(3):                    number(uint64(len(owners))),
		number(4):                    number(threshold),
		x402.Hash(safeHandlerSlot()): address(SafeHandler),
	}
	last := sentinel
	for _, o := range owners {
		next := common.Address(curve.AddressOf(o))
		words[owner(last)] = address(next)
		last = next
	}
	words[owner(last)] = address(sentinel)
	return words
}

func safeHandlerSlot() common.Hash {
	return crypto.Keccak256Hash([]byte("fallback_manager.handler.address"))
}
