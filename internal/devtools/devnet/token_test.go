package devnet

import (
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
)

func callMsg(from, to common.Address, data []byte) ethereum.CallMsg {
	return ethereum.CallMsg{From: from, To: &to, Data: data}
}

func TestContractsHexMatchesItsSources(t *testing.T) {
	if os.Getenv("ROAMCARD_TORTURE") == "" {
		t.Skip("make test compiles them where it compares all generated code")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	if found, _ := filepath.Glob("../../../tools/node_modules/solc/package.json"); len(found) == 0 {
		t.Skip("solc is not installed")
	}
	check := exec.CommandContext(t.Context(), "node", "../../../tools/contracts.mjs", "--check")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTokenHasItsHoldersAndSelectors(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	var supply int64
	for _, w := range Wallets() {
		if got := n.balance(common.HexToAddress(w.Address)); got != w.USDC {
			t.Errorf("%s %s holds %d, want %d", w.Role, w.Address, got, w.USDC)
		}
		supply += w.USDC
	}
	if got := n.read("totalSupply").(*big.Int).Int64(); got != supply {
		t.Errorf("supply is %d, want %d", got, supply)
	}
	code := runtimeCode(usdcCode)
	for _, selector := range []string{
		"e3ee160e", "cf092995", "ef55bec6", "88b7ab63", "5a049a70", "b7b72899", "d505accf", "9fd5a6cf",
		"e94a0102", "70a08231", "3644e515", "fe575a87", "5c975abb",
	} {
		// The dispatcher compares with PUSH4 of each selector.
		if !contains(code, append([]byte{0x63}, common.FromHex(selector)...)) {
			t.Errorf("the token has no function %s", selector)
		}
	}
}

func contains(code, part []byte) bool {
	for i := range len(code) - len(part) + 1 {
		if string(code[i:i+len(part)]) == string(part) {
			return true
		}
	}
	return false
}

func TestAuthorizationSettlesOnceWithAdjacentEvents(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	buyer, relayer := WalletsOf(RoleBuyer)[0], WalletsOf(RoleRelayer)[0]
	a := oneDollar(1)
	signature := signTransfer(t, buyer, a)
	data := n.pack("transferWithAuthorization", a.args(signature)...)

	receipt := n.send(relayer, USDCAddress, data)
	if got := n.balance(a.to); got != a.value {
		t.Errorf("payee holds %d, want %d", got, a.value)
	}
	from, to := common.BytesToHash(a.from.Bytes()), common.BytesToHash(a.to.Bytes())
	value := common.BigToHash(big.NewInt(a.value))
	used, transferred := eventID("AuthorizationUsed(address,bytes32)"), eventID("Transfer(address,address,uint256)")
	want := [][]common.Hash{{used, from, a.nonce}, {transferred, from, to, value}}
	if diff := cmp.Diff(want, eventsOf(receipt)); diff != "" {
		t.Error(diff)
	}

	// The same authorization in the other form is the same authorization.
	again := n.pack("transferWithAuthorization0",
		a.args(signature[64], [32]byte(signature[:32]), [32]byte(signature[32:64]))...)
	if got, want := n.refusal(a.from, again), "FiatTokenV2: authorization is used or canceled"; got != want {
		t.Errorf("repeat: %q, want %q", got, want)
	}
}

func eventID(signature string) common.Hash { return crypto.Keccak256Hash([]byte(signature)) }

// eventsOf lists each event's topics followed by its data, if any.
func eventsOf(receipt *types.Receipt) [][]common.Hash {
	var events [][]common.Hash
	for _, log := range receipt.Logs {
		event := log.Topics
		if len(log.Data) > 0 {
			event = append(event, common.BytesToHash(log.Data))
		}
		events = append(events, event)
	}
	return events
}

func TestTokenRefusesLikeUSDC(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	buyer, other := WalletsOf(RoleBuyer)[0], WalletsOf(RoleBuyer)[1]
	now := time.Now().Unix()
	order := crypto.S256().Params().N
	highS := func(signature []byte) []byte {
		s := new(big.Int).Sub(order, new(big.Int).SetBytes(signature[32:64]))
		s.FillBytes(signature[32:64])
		signature[64] ^= 27 ^ 28
		return signature
	}
	same := func(signature []byte) []byte { return signature }
	for _, tc := range []struct {
		name   string
		want   string
		change func(*authorization)
		signer Wallet
		alter  func([]byte) []byte
	}{
		{"sound", "", func(*authorization) {}, buyer, same},
		{"just valid", "", func(a *authorization) { a.validAfter = now - 1 }, buyer, same},
		{
			"not yet", "FiatTokenV2: authorization is not yet valid", func(a *authorization) { a.validAfter = now + 60 }, buyer,
			same,
		},
		{"expired", "FiatTokenV2: authorization is expired", func(a *authorization) { a.validBefore = now }, buyer, same},
		{"stranger signed", "FiatTokenV2: invalid signature", func(*authorization) {}, other, same},
		{
			"too much", "ERC20: transfer amount exceeds balance", func(a *authorization) { a.value = 10_001_000_000 }, buyer,
			same,
		},
		{"to nobody", "ERC20: transfer to the zero address", func(a *authorization) { a.to = common.Address{} }, buyer, same},
		{"to the token", "Blacklistable: account is blacklisted",
			func(a *authorization) { a.to = common.HexToAddress(USDCAddress) }, buyer, same},
		{"high s", "ECRecover: invalid signature 's' value", func(*authorization) {}, buyer, highS},
		{
			"short", "ECRecover: invalid signature length", func(*authorization) {}, buyer,
			func(s []byte) []byte { return s[:64] },
		},
		{"v of 0", "ECRecover: invalid signature 'v' value", func(*authorization) {}, buyer,
			func(s []byte) []byte { s[64] = 0; return s }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := oneDollar(1)
			tc.change(&a)
			data := n.pack("transferWithAuthorization", a.args(tc.alter(signTransfer(t, tc.signer, a)))...)
			if got := n.refusal(common.HexToAddress(other.Address), data); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReceiveWithAuthorizationIsForThePayeeOnly(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	a := oneDollar(1)
	signature := sign(t, WalletsOf(RoleBuyer)[0], "ReceiveWithAuthorization", transferFields, a.message())
	data := n.pack("receiveWithAuthorization", a.args(signature)...)
	if got, want := n.refusal(a.from, data), "FiatTokenV2: caller must be the payee"; got != want {
		t.Errorf("stranger: %q, want %q", got, want)
	}
	if got := n.refusal(a.to, data); got != "" {
		t.Errorf("payee: %q", got)
	}
}

func TestCanceledAuthorizationCannotBeUsed(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	buyer, relayer := WalletsOf(RoleBuyer)[0], WalletsOf(RoleRelayer)[0]
	a := oneDollar(1)
	cancel := sign(t, buyer, "CancelAuthorization", "address authorizer,bytes32 nonce",
		map[string]any{"authorizer": a.from.Hex(), "nonce": hexutil.Encode(a.nonce[:])})
	receipt := n.send(relayer, USDCAddress, n.pack("cancelAuthorization", a.from, a.nonce, cancel))
	want := [][]common.Hash{
		{eventID("AuthorizationCanceled(address,bytes32)"), common.BytesToHash(a.from.Bytes()), a.nonce},
	}
	if diff := cmp.Diff(want, eventsOf(receipt)); diff != "" {
		t.Error(diff)
	}
	if n.read("authorizationState", a.from, a.nonce) != true {
		t.Error("the nonce is not spent")
	}
	data := n.pack("transferWithAuthorization", a.args(signTransfer(t, buyer, a))...)
	if got, want := n.refusal(a.from, data), "FiatTokenV2: authorization is used or canceled"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPermitAllowsSpending(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	buyer, relayer := WalletsOf(RoleBuyer)[0], WalletsOf(RoleRelayer)[0]
	owner, spender := common.HexToAddress(buyer.Address), common.HexToAddress(relayer.Address)
	deadline := time.Now().Unix() + 60
	signature := sign(t, buyer, "Permit",
		"address owner,address spender,uint256 value,uint256 nonce,uint256 deadline",
		map[string]any{
			"owner": owner.Hex(), "spender": spender.Hex(), "value": "5", "nonce": "0", "deadline": fmt.Sprint(deadline),
		})
	data := n.pack("permit", owner, spender, big.NewInt(5), big.NewInt(deadline), signature)
	n.send(relayer, USDCAddress, data)
	if got := n.read("allowance", owner, spender).(*big.Int).Int64(); got != 5 {
		t.Errorf("allowance is %d, want 5", got)
	}
	if got, want := n.refusal(owner, data), "EIP2612: invalid signature"; got != want {
		t.Errorf("repeat: %q, want %q", got, want)
	}
}

func TestAdminMintsBlacklistsAndPauses(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	admin, buyer := WalletsOf(RoleAdmin)[0], WalletsOf(RoleBuyer)[0]
	a := oneDollar(1)
	pay := n.pack("transferWithAuthorization", a.args(signTransfer(t, buyer, a))...)

	mint := n.pack("mint", a.to, big.NewInt(7))
	if got, want := n.refusal(a.from, mint), "Ownable: caller is not the owner"; got != want {
		t.Errorf("mint by a stranger: %q, want %q", got, want)
	}
	n.send(admin, USDCAddress, mint)
	if got := n.balance(a.to); got != 7 {
		t.Errorf("minted %d, want 7", got)
	}
	n.send(admin, USDCAddress, n.pack("blacklist", a.from))
	if got, want := n.refusal(a.to, pay), "Blacklistable: account is blacklisted"; got != want {
		t.Errorf("blacklisted payer: %q, want %q", got, want)
	}
	n.send(admin, USDCAddress, n.pack("pause"))
	for name, data := range map[string][]byte{"pay": pay, "transfer": n.pack("transfer", a.from, big.NewInt(1))} {
		if got, want := n.refusal(a.to, data), "Pausable: paused"; got != want {
			t.Errorf("%s while paused: %q, want %q", name, got, want)
		}
	}
}

func TestTokenAsksAPayerWithCodeByERC1271(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	buyer := WalletsOf(RoleBuyer)[0]
	a := oneDollar(1)
	for _, tc := range []struct{ name, code, want string }{
		{"says yes", "0x631626ba7e60e01b5f5260205ff3", ""}, // return the magic value to everything
		{"says no", "0x5f5f5260205ff3", "FiatTokenV2: invalid signature"},
		{"reverts", "0x5f5ffd", "FiatTokenV2: invalid signature"},
		// A delegation makes an account with a good key one with code, so its own signature no longer counts.
		{"delegated", "0xef0100" + a.to.Hex()[2:], "FiatTokenV2: invalid signature"},
	} {
		if err := n.eth.Client().CallContext(t.Context(), nil, "anvil_setCode", a.from, tc.code); err != nil {
			t.Fatal(err)
		}
		signature := signTransfer(t, buyer, a)
		if tc.want == "" {
			signature = []byte("anything")
		}
		if got := n.refusal(a.to, n.pack("transferWithAuthorization", a.args(signature)...)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestMulticallContinuesAfterAllowedFailures(t *testing.T) {
	n := connect(t, startChainForTest(t, ChainConfig{}).RPCURL)
	multicall, err := abi.JSON(strings.NewReader(`[{"type":"function","name":"aggregate3",
		"inputs":[{"type":"tuple[]","components":[{"name":"target","type":"address"},{"name":"allowFailure","type":"bool"},
		{"name":"callData","type":"bytes"}]}],
		"outputs":[{"type":"tuple[]","components":[{"name":"success","type":"bool"},
		{"name":"returnData","type":"bytes"}]}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	type call3 struct {
		Target       common.Address
		AllowFailure bool
		CallData     []byte
	}
	token, payee := common.HexToAddress(USDCAddress), common.HexToAddress(WalletsOf(RolePayee)[0].Address)
	data, err := multicall.Pack("aggregate3", []call3{
		{token, true, n.pack("transfer", payee, big.NewInt(1))}, // the multicall contract has no money
		{token, false, n.pack("totalSupply")},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.eth.CallContract(t.Context(), callMsg(payee, common.HexToAddress(MulticallAddress), data), nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := multicall.Unpack("aggregate3", out)
	if err != nil {
		t.Fatal(err)
	}
	results := values[0].([]struct {
		Success    bool   `json:"success"`
		ReturnData []byte `json:"returnData"`
	})
	if len(results) != 2 || results[0].Success || !results[1].Success || len(results[1].ReturnData) != 32 {
		t.Errorf("got %+v, want a failure and a number", results)
	}
}
