package devnet

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/chain/settler"
)

const (
	// ChainID is Base's own.
	ChainID = 8453
	// USDCAddress is where native USDC lives on Base, and our token here.
	USDCAddress = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	// DomainSeparator is the token's EIP-712 domain on Base, which our token must have too.
	DomainSeparator = "0x02fa7265e7c5d81118673727957699e4d68f74cd74b7db77da710fe8a2c7834f"
	// MulticallAddress is where every public chain has Multicall3.
	MulticallAddress = "0xcA11bde05977b3631167028862bE2a173976CA11"
)

// The token's storage slots, as contracts/USDC.sol orders them.
const (
	slotAdmin       = 0
	slotTotalSupply = 1
	slotBalances    = 2
	slotBlacklist   = 6
)

//go:embed contracts/USDC.hex
var usdcCode string

//go:embed contracts/Multicall3.hex
var multicallCode string

func runtimeCode(file string) string { return "0x" + strings.TrimSpace(file) }

// contract is code that the chain has.
type contract struct{ address, code string }

// contracts are all, the token last.
func contracts() []contract {
	return []contract{
		{MulticallAddress, runtimeCode(multicallCode)},
		{settler.Address.String(), hexutil.Encode(settler.Code())},
		{USDCAddress, runtimeCode(usdcCode)},
	}
}

// placeToken gives a fresh chain its wallets, token, multicall and settler. Code comes last, so a chain whose token has
// code has everything; on such a chain only code that has changed since is replaced.
func placeToken(ctx context.Context, client *rpc.Client) error {
	var code []rpc.BatchElem
	for _, c := range contracts() {
		var placed string
		if err := client.CallContext(ctx, &placed, "eth_getCode", c.address, "latest"); err != nil {
			return fmt.Errorf("read code of %s: %w", c.address, err)
		}
		if placed != c.code {
			code = append(code, call("anvil_setCode", c.address, c.code))
		}
		if c.address == USDCAddress && placed == "0x" {
			if err := callAll(ctx, client, fundWallets()); err != nil {
				return fmt.Errorf("fund wallets: %w", err)
			}
		}
	}
	if err := callAll(ctx, client, code); err != nil {
		return fmt.Errorf("place token: %w", err)
	}
	return nil
}

// fundWallets returns the calls that write balances, supply and admin straight into the state.
func fundWallets() []rpc.BatchElem {
	var calls []rpc.BatchElem
	supply := new(big.Int)
	for _, w := range Wallets() {
		calls = append(calls,
			call("anvil_setBalance", w.Address, hexutil.EncodeBig(w.Wei)),
			store(entry(slotBalances, w.Address), common.BigToHash(big.NewInt(w.USDC))))
		supply.Add(supply, big.NewInt(w.USDC))
	}
	admin := common.HexToAddress(WalletsOf(RoleAdmin)[0].Address)
	return append(calls,
		store(slot(slotTotalSupply), common.BigToHash(supply)),
		store(slot(slotAdmin), common.BytesToHash(admin.Bytes())),
		// As on Base, nothing can be sent to the token itself.
		store(entry(slotBlacklist, USDCAddress), common.BigToHash(big.NewInt(1))))
}

func store(at, value common.Hash) rpc.BatchElem {
	return call("anvil_setStorageAt", USDCAddress, at, value)
}

func slot(n int64) common.Hash { return common.BigToHash(big.NewInt(n)) }

// entry is the slot of a mapping's value for an address.
func entry(mapping int64, address string) common.Hash {
	key := common.BytesToHash(common.HexToAddress(address).Bytes())
	return crypto.Keccak256Hash(key.Bytes(), slot(mapping).Bytes())
}

// checkToken fails unless the chain is ours with a working token on it.
func checkToken(ctx context.Context, client *rpc.Client) error {
	var separator string
	query := map[string]string{"to": USDCAddress, "data": "0x3644e515"}
	if err := client.CallContext(ctx, &separator, "eth_call", query, "latest"); err != nil {
		return fmt.Errorf("read the token's domain separator: %w", err)
	}
	if separator != DomainSeparator {
		return fmt.Errorf("the token's domain separator is %s, want %s", separator, DomainSeparator)
	}
	return nil
}

func call(method string, args ...any) rpc.BatchElem {
	return rpc.BatchElem{Method: method, Args: args, Result: new(any)}
}

// callAll sends the calls together and returns the first error among transport and answers.
func callAll(ctx context.Context, client *rpc.Client, calls []rpc.BatchElem) error {
	if len(calls) == 0 {
		return nil
	}
	if err := client.BatchCallContext(ctx, calls); err != nil {
		return err
	}
	for _, c := range calls {
		if c.Error != nil {
			return fmt.Errorf("%s: %w", c.Method, c.Error)
		}
	}
	return nil
}
