package settler

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/x402"
)

var (
	// Factory is the contract that public chains have for deployments whose address depends on nothing but the code
	// (github.com/Arachnid/deterministic-deployment-proxy). Its call data is a salt, ours is zero, and init code.
	Factory = mustAddress("0x4e59b44847b379578588920cA78FbF26c0B4956C")
	// Address is where Factory deploys our Settler, on every chain. Another source has another one.
	Address = mustAddress("0xebc71d0774aacb22a90fd61c58365197f9edf917")
	// CodeHash is the hash of our Settler's code.
	CodeHash = mustHash("0x795799545722ff9454996ac605f48158a3b9d9a370375726db6e431e000894a3")
	// MulticallAddress is where public chains have Multicall3.
	MulticallAddress = mustAddress("0xcA11bde05977b3631167028862bE2a173976CA11")
)

func mustAddress(text string) x402.Address {
	a, err := x402.ParseAddress(text)
	if err != nil {
		panic(err) // a constant
	}
	return a
}

func mustHash(text string) x402.Hash {
	h, err := x402.ParseHash(text)
	if err != nil {
		panic(err) // a constant
	}
	return h
}

//go:embed Settler.hex
var runtimeHex string

//go:embed Settler.init.hex
var initHex string

// Code is our Settler's code, as it is at Address.
func Code() []byte { return decoded(runtimeHex) }

func decoded(text string) []byte {
	code, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil {
		panic(err) // built with the program
	}
	return code
}

// factoryCall deploys our Settler.
func factoryCall() []byte { return append(make([]byte, word), decoded(initHex)...) }

// ErrNotDeployed says that a chain does not have the contract.
var ErrNotDeployed = errors.New("the contract is not deployed")

// ErrOtherCode says that the contract's address has code that is not the contract's.
var ErrOtherCode = errors.New("other code than the contract's")

// Caller is a node of a chain; the RPC client of go-ethereum is one.
type Caller interface {
	CallContext(ctx context.Context, result any, method string, args ...any) error
}

// Check is nil when the chain has the contract: for ours exactly this code, for Multicall3 any. It is ErrNotDeployed
// when there is no code, and ErrOtherCode when there is another's. A node's answer may be older than the deployment.
func (c Contract) Check(ctx context.Context, node Caller) error {
	var code hexutil.Bytes
	if err := node.CallContext(ctx, &code, "eth_getCode", c.address.String(), "latest"); err != nil {
		return fmt.Errorf("read the code of %s: %w", c.address, err)
	}
	switch {
	case len(code) == 0:
		return fmt.Errorf("%s: %w", c.address, ErrNotDeployed)
	case c.IsOwn() && x402.Keccak256(code) != CodeHash:
		return fmt.Errorf("%w: the code of %s has the hash %s, want %s", ErrOtherCode, c.address, x402.Keccak256(code),
			CodeHash)
	}
	return nil
}

// Find is the contract that a chain has: ours, or else Multicall3, or else ErrNotDeployed.
func Find(ctx context.Context, node Caller, token x402.Address) (Contract, error) {
	for _, c := range []Contract{Own(token), Multicall3(token)} {
		if err := c.Check(ctx, node); err == nil {
			return c, nil
		} else if !errors.Is(err, ErrNotDeployed) {
			return Contract{}, err
		}
	}
	return Contract{}, ErrNotDeployed
}
