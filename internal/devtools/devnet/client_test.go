package devnet

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
)

// node is a chain seen through a client, with the first relayer sending what is sent.
type node struct {
	*testing.T
	eth *ethclient.Client
	abi abi.ABI
}

func startChainForTest(t *testing.T, cfg ChainConfig) *Chain {
	t.Helper()
	if _, err := FindAnvil(); err != nil {
		t.Skip(err)
	}
	chain, err := StartChain(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chain.Close(); err != nil {
			t.Error(err)
		}
	})
	return chain
}

func connect(t *testing.T, url string) *node {
	t.Helper()
	eth, err := ethclient.DialContext(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eth.Close)
	token, err := abi.JSON(strings.NewReader(tokenABI))
	if err != nil {
		t.Fatal(err)
	}
	return &node{T: t, eth: eth, abi: token}
}

// tokenABI lists the overload with signature bytes first: the decoder gives the second one a name ending in 0.
const tokenABI = `[
{"type":"function","name":"balanceOf","stateMutability":"view","inputs":[{"type":"address"}],
"outputs":[{"type":"uint256"}]},
{"type":"function","name":"totalSupply","stateMutability":"view","inputs":[],"outputs":[{"type":"uint256"}]},
{"type":"function","name":"authorizationState","stateMutability":"view","inputs":[{"type":"address"},
{"type":"bytes32"}],"outputs":[{"type":"bool"}]},
{"type":"function","name":"transfer","inputs":[{"type":"address"},{"type":"uint256"}],"outputs":[{"type":"bool"}]},
{"type":"function","name":"mint","inputs":[{"type":"address"},{"type":"uint256"}],"outputs":[{"type":"bool"}]},
{"type":"function","name":"pause","inputs":[],"outputs":[]},
{"type":"function","name":"blacklist","inputs":[{"type":"address"}],"outputs":[]},
{"type":"function","name":"transferWithAuthorization","inputs":[{"type":"address"},{"type":"address"},
{"type":"uint256"},{"type":"uint256"},{"type":"uint256"},{"type":"bytes32"},{"type":"bytes"}],"outputs":[]},
{"type":"function","name":"transferWithAuthorization","inputs":[{"type":"address"},{"type":"address"},
{"type":"uint256"},{"type":"uint256"},{"type":"uint256"},{"type":"bytes32"},{"type":"uint8"},{"type":"bytes32"},
{"type":"bytes32"}],"outputs":[]},
{"type":"function","name":"receiveWithAuthorization","inputs":[{"type":"address"},{"type":"address"},
{"type":"uint256"},{"type":"uint256"},{"type":"uint256"},{"type":"bytes32"},{"type":"bytes"}],"outputs":[]},
{"type":"function","name":"cancelAuthorization","inputs":[{"type":"address"},{"type":"bytes32"},
{"type":"bytes"}],"outputs":[]},
{"type":"function","name":"permit","inputs":[{"type":"address"},{"type":"address"},{"type":"uint256"},
{"type":"uint256"},{"type":"bytes"}],"outputs":[]},
{"type":"function","name":"allowance","stateMutability":"view","inputs":[{"type":"address"},
{"type":"address"}],"outputs":[{"type":"uint256"}]}
]`

func (n *node) pack(method string, args ...any) []byte {
	n.Helper()
	data, err := n.abi.Pack(method, args...)
	if err != nil {
		n.Fatal(err)
	}
	return data
}

// read calls a view of one result at the latest block.
func (n *node) read(method string, args ...any) any {
	n.Helper()
	to := common.HexToAddress(USDCAddress)
	out, err := n.eth.CallContract(n.Context(), callMsg(common.Address{}, to, n.pack(method, args...)), nil)
	if err != nil {
		n.Fatal(err)
	}
	values, err := n.abi.Unpack(method, out)
	if err != nil {
		n.Fatal(err)
	}
	return values[0]
}

func (n *node) balance(of common.Address) int64 {
	n.Helper()
	return n.read("balanceOf", of).(*big.Int).Int64()
}

// refusal simulates a call on the pending block, whose time is now, and returns its revert text; "" when it works.
func (n *node) refusal(from common.Address, data []byte) string {
	n.Helper()
	_, err := n.eth.PendingCallContract(n.Context(), callMsg(from, common.HexToAddress(USDCAddress), data))
	if err == nil {
		return ""
	}
	var answer rpc.DataError
	if !errors.As(err, &answer) {
		n.Fatalf("no revert: %v", err)
	}
	raw, _ := answer.ErrorData().(string)
	text, unpackErr := abi.UnpackRevert(common.FromHex(raw))
	if unpackErr != nil {
		n.Fatalf("no revert text in %v: %v", err, unpackErr)
	}
	return text
}

// send signs and sends a call and returns its receipt, which must say success.
func (n *node) send(by Wallet, to string, data []byte) *types.Receipt {
	n.Helper()
	tx := n.signed(by, to, data)
	if err := n.eth.SendTransaction(n.Context(), tx); err != nil {
		n.Fatal(err)
	}
	receipt := poll(n.T, func() (*types.Receipt, error) { return n.eth.TransactionReceipt(n.Context(), tx.Hash()) })
	if receipt.Status != types.ReceiptStatusSuccessful {
		n.Fatalf("transaction reverted: %+v", receipt)
	}
	return receipt
}

// signed makes the wallet's next transaction.
func (n *node) signed(by Wallet, to string, data []byte) *types.Transaction {
	n.Helper()
	key, from := keyOf(n.T, by)
	nonce, err := n.eth.NonceAt(n.Context(), from, nil)
	if err != nil {
		n.Fatal(err)
	}
	target := common.HexToAddress(to)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(big.NewInt(ChainID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(ChainID), Nonce: nonce, To: &target, Data: data, Gas: 500_000,
		GasTipCap: big.NewInt(1_000_000), GasFeeCap: big.NewInt(10_000_000_000),
	})
	if err != nil {
		n.Fatal(err)
	}
	return tx
}

// poll repeats get until it works; many times as long as it ever takes, it gives up.
func poll[V any](t *testing.T, get func() (V, error)) V {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute) // cleanups wait too
	defer cancel()
	for {
		v, err := get()
		if err == nil {
			return v
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("it never came: %v", err)
		}
	}
}

func keyOf(t *testing.T, w Wallet) (*ecdsa.PrivateKey, common.Address) {
	t.Helper()
	key, err := crypto.HexToECDSA(w.PrivateKey[2:])
	if err != nil {
		t.Fatal(err)
	}
	return key, common.HexToAddress(w.Address)
}

// authorization is what an EIP-3009 payer signs.
type authorization struct {
	from, to                       common.Address
	value, validAfter, validBefore int64
	nonce                          [32]byte
}

// oneDollar is an authorization of the first buyer to the payee, valid for the minute around now.
func oneDollar(nonce byte) authorization {
	now := time.Now().Unix()
	return authorization{
		from: common.HexToAddress(WalletsOf(RoleBuyer)[0].Address), to: common.HexToAddress(WalletsOf(RolePayee)[0].Address),
		value: 1_000_000, validAfter: now - 60, validBefore: now + 60, nonce: [32]byte{nonce},
	}
}

func (a authorization) args(rest ...any) []any {
	return append([]any{a.from, a.to, big.NewInt(a.value), big.NewInt(a.validAfter), big.NewInt(a.validBefore), a.nonce},
		rest...)
}

func (a authorization) message() apitypes.TypedDataMessage {
	return apitypes.TypedDataMessage{
		"from": a.from.Hex(), "to": a.to.Hex(), "value": fmt.Sprint(a.value), "validAfter": fmt.Sprint(a.validAfter),
		"validBefore": fmt.Sprint(a.validBefore), "nonce": hexutil.Encode(a.nonce[:]),
	}
}

const transferFields = "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce"

// sign signs typed data of the token's domain with go-ethereum's own encoder, fields written as in Solidity.
func sign(t *testing.T, by Wallet, primary, fields string, message apitypes.TypedDataMessage) []byte {
	t.Helper()
	var members []apitypes.Type
	for f := range strings.SplitSeq(fields, ",") {
		kind, name, _ := strings.Cut(f, " ")
		members = append(members, apitypes.Type{Name: name, Type: kind})
	}
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {{Name: "name", Type: "string"}, {Name: "version", Type: "string"},
				{Name: "chainId", Type: "uint256"}, {Name: "verifyingContract", Type: "address"}},
			primary: members,
		},
		PrimaryType: primary,
		Domain: apitypes.TypedDataDomain{Name: "USD Coin", Version: "2",
			ChainId: math.NewHexOrDecimal256(ChainID), VerifyingContract: USDCAddress},
		Message: message,
	})
	if err != nil {
		t.Fatal(err)
	}
	key, _ := keyOf(t, by)
	signature, err := crypto.Sign(digest, key)
	if err != nil {
		t.Fatal(err)
	}
	signature[64] += 27
	return signature
}

func signTransfer(t *testing.T, by Wallet, a authorization) []byte {
	t.Helper()
	return sign(t, by, "TransferWithAuthorization", transferFields, a.message())
}
