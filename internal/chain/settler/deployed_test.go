package settler_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestAddressAndHashAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("Settler.init.hex")
	if err != nil {
		t.Fatal(err)
	}
	code := crypto.Keccak256(common.FromHex(strings.TrimSpace(string(text))))
	got := crypto.CreateAddress2(common.Address(settler.Factory), [32]byte{}, code)
	if x402.Address(got) != settler.Address {
		t.Errorf("the address is %s, not %s", got, settler.Address)
	}
	if got := crypto.Keccak256Hash(settler.Code()); x402.Hash(got) != settler.CodeHash {
		t.Errorf("the code's hash is %s, not %s", got, settler.CodeHash)
	}
}

func TestContractIsFoundByItsCode(t *testing.T) {
	b := newBench(t)
	own, multicall := settler.Own(token), settler.Multicall3(token)
	find := func() settler.Contract {
		t.Helper()
		c, err := settler.Find(t.Context(), b.node, token)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := find(); c != own {
		t.Errorf("found %s, want our own", c.Address())
	}
	b.control("anvil_setCode", own.Address().String(), "0x00")
	if err := own.Check(t.Context(), b.node); err == nil || errors.Is(err, settler.ErrNotDeployed) {
		t.Errorf("other code at our address: %v", err)
	}
	if c, err := settler.Find(t.Context(), b.node, token); err == nil || !c.IsZero() {
		t.Errorf("found %s in spite of other code at our address, %v", c.Address(), err)
	}
	b.control("anvil_setCode", own.Address().String(), "0x")
	if c := find(); c != multicall {
		t.Errorf("found %s, want Multicall3", c.Address())
	}
	b.control("anvil_setCode", multicall.Address().String(), "0x")
	if c, err := settler.Find(t.Context(), b.node, token); !errors.Is(err, settler.ErrNotDeployed) || !c.IsZero() {
		t.Errorf("found %s, %v", c.Address(), err)
	}
	for _, want := range []settler.Contract{own, multicall} {
		if got, ok := settler.At(want.Address(), token); !ok || got != want {
			t.Errorf("at %s is %v, %v", want.Address(), got, ok)
		}
	}
	if c, ok := settler.At(token, token); ok {
		t.Errorf("at the token is %v", c)
	}
}

// TestDeployerSendsNobodyElsewhere, and tells no key of a node.
func TestDeployerSendsNobodyElsewhere(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	t.Cleanup(elsewhere.Close)
	away := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	key := keyOf(devnet.WalletsOf(devnet.RoleBuyer)[0])
	for url, want := range map[string]string{
		away.URL + "/secret-key":         "307",
		"http://node.example/secret-key": "is not this machine",
		"http://127.0.0.1:1/secret-key":  "refused",
	} {
		_, err := settler.Deploy(t.Context(), url, outward.Rule{}, devnet.ChainID, key)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-key") {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

func TestDeployedOnceByFactory(t *testing.T) {
	b := newBench(t)
	b.control("evm_setAutomine", true)
	key := keyOf(devnet.WalletsOf(devnet.RoleBuyer)[0])
	own := settler.Own(token)
	deploy := func() (x402.Hash, error) {
		return settler.Deploy(t.Context(), b.url, outward.Rule{}, devnet.ChainID, key)
	}
	if tx, err := deploy(); err != nil || !tx.IsZero() {
		t.Errorf("deployed again by %s, %v", tx, err)
	}
	b.control("anvil_setCode", own.Address().String(), "0x")
	if tx, err := settler.Deploy(t.Context(), b.url, outward.Rule{}, 1, key); err == nil || !tx.IsZero() {
		t.Errorf("deployed on another chain by %s, %v", tx, err)
	}
	tx, err := deploy()
	if err != nil || tx.IsZero() {
		t.Fatalf("deployed by %s, %v", tx, err)
	}
	if err := own.Check(t.Context(), b.node); err != nil {
		t.Error(err)
	}
	b.control("anvil_setCode", own.Address().String(), "0x")
	b.control("anvil_setCode", settler.Factory.String(), "0x")
	if tx, err := deploy(); !errors.Is(err, settler.ErrNoFactory) || !tx.IsZero() {
		t.Errorf("deployed without a factory by %s, %v", tx, err)
	}
}
