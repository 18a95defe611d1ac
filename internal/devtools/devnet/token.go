package devnet

import (
	"bytes"
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

// The addresses of Coinbase Smart Wallet on Base, versions 1.1 and 1: what its factories make are proxies of its
// wallets. Here, they are our own contracts with the same interface.
var (
	walletAddresses = [...]string{
		"0x00000110dCdEdC9581cb5eCB8467282f2926534d", "0x000100abaad02f1cfC8Bbe32bD5a564817339E72",
	}
	factoryAddresses = [...]string{
		"0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842", "0x0BA5ED0c6AA8c49038F819E587E2633c4A9F428a",
	}
)

// The token's storage slots, as contracts/USDC.sol orders them.
const (
	slotAdmin          = 0
	slotTotalSupply    = 1
	slotBalances       = 2
	slotAuthorizations = 4
	slotBlacklist      = 6
)

//go:embed contracts/USDC.hex
var usdcCode string

//go:embed contracts/Multicall3.hex
var multicallCode string

//go:embed contracts/SmartWallet.hex
var walletCode string

//go:embed contracts/SmartWalletFactory.hex
var factoryCode string

// Account is what a fresh chain has at an address.
type Account struct {
	Address common.Address
	Wei     *big.Int // nil is none
	Code    []byte
	Storage []Word
}

// Word is a word of an account's storage.
type Word struct{ Slot, Value common.Hash }

// Genesis is what a fresh chain has: its wallets, multicall, settler, smart accounts and their factories, and last the
// token.
func Genesis() []Account {
	var accounts []Account
	var words []Word
	supply := new(big.Int)
	for _, w := range Wallets() {
		at := common.HexToAddress(w.Address)
		accounts = append(accounts, Account{Address: at, Wei: w.Wei})
		words = append(words, Word{BalanceSlot(at), common.BigToHash(big.NewInt(w.USDC))})
		supply.Add(supply, big.NewInt(w.USDC))
	}
	admin := common.HexToAddress(WalletsOf(RoleAdmin)[0].Address)
	token := common.HexToAddress(USDCAddress)
	words = append(words,
		Word{SupplySlot(), common.BigToHash(supply)},
		Word{slot(slotAdmin), common.BytesToHash(admin.Bytes())},
		// As on Base, nothing can be sent to the token itself.
		Word{entry(slotBlacklist, token), common.BigToHash(big.NewInt(1))})
	for i := range walletAddresses {
		accounts = append(accounts,
			Account{Address: common.HexToAddress(walletAddresses[i]), Code: runtimeCode(walletCode)},
			Account{Address: common.HexToAddress(factoryAddresses[i]), Code: runtimeCode(factoryCode)})
	}
	return append(accounts,
		Account{Address: common.HexToAddress(MulticallAddress), Code: runtimeCode(multicallCode)},
		Account{Address: common.Address(settler.Address), Code: settler.Code()},
		Account{Address: token, Code: runtimeCode(usdcCode), Storage: words})
}

func runtimeCode(file string) []byte { return common.FromHex(strings.TrimSpace(file)) }

// placeToken gives a fresh chain its genesis. Code comes last, so a chain whose token has code has everything; on such
// a chain only code that has changed since is replaced.
func placeToken(ctx context.Context, client *rpc.Client) error {
	var code []rpc.BatchElem
	genesis := Genesis()
	for _, a := range genesis {
		if len(a.Code) == 0 {
			continue
		}
		var placed hexutil.Bytes
		if err := client.CallContext(ctx, &placed, "eth_getCode", a.Address, "latest"); err != nil {
			return fmt.Errorf("read code of %s: %w", a.Address, err)
		}
		if !bytes.Equal(placed, a.Code) {
			code = append(code, call("anvil_setCode", a.Address, hexutil.Bytes(a.Code)))
		}
		if a.Address == common.HexToAddress(USDCAddress) && len(placed) == 0 {
			if err := callAll(ctx, client, funding(genesis)); err != nil {
				return fmt.Errorf("fund wallets: %w", err)
			}
		}
	}
	if err := callAll(ctx, client, code); err != nil {
		return fmt.Errorf("place token: %w", err)
	}
	return nil
}

// funding returns the calls that write balances and storage straight into the state.
func funding(genesis []Account) []rpc.BatchElem {
	var calls []rpc.BatchElem
	for _, a := range genesis {
		if a.Wei != nil {
			calls = append(calls, call("anvil_setBalance", a.Address, hexutil.EncodeBig(a.Wei)))
		}
		for _, w := range a.Storage {
			calls = append(calls, call("anvil_setStorageAt", a.Address, w.Slot, w.Value))
		}
	}
	return calls
}

// BalanceSlot is where the token keeps an account's balance.
func BalanceSlot(account common.Address) common.Hash { return entry(slotBalances, account) }

// AuthorizationSlot is where the token keeps whether an authorization was used, by the words of its event.
func AuthorizationSlot(payer, nonce common.Hash) common.Hash {
	return crypto.Keccak256Hash(nonce[:], entry(slotAuthorizations, common.BytesToAddress(payer[:])).Bytes())
}

// SupplySlot is where the token keeps the sum of all balances.
func SupplySlot() common.Hash { return slot(slotTotalSupply) }

func slot(n int64) common.Hash { return common.BigToHash(big.NewInt(n)) }

// entry is the slot of a mapping's value for an address.
func entry(mapping int64, account common.Address) common.Hash {
	key := common.BytesToHash(account.Bytes())
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
