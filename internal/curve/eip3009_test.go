package curve_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

var base = x402.Domain{Name: "USD Coin", Version: "2", ChainID: 8453,
	Contract: x402.Address(common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"))}

func testKey(t testing.TB, seed byte) (*ecdsa.PrivateKey, x402.Address) {
	t.Helper()
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key, x402.Address(crypto.PubkeyToAddress(key.PublicKey))
}

func testAuthorization(from x402.Address) x402.Authorization {
	return x402.Authorization{
		From: from, To: x402.Address{19: 7}, Value: 25_000_000, ValidBefore: 2_000_000_000, Nonce: x402.Hash{31: 9},
	}
}

// referenceDigest is the digest by go-ethereum's general, reflective implementation.
func referenceDigest(t *testing.T, d x402.Domain, a x402.Authorization) x402.Hash {
	t.Helper()
	field := func(name, kind string) apitypes.Type { return apitypes.Type{Name: name, Type: kind} }
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {
				field("name", "string"), field("version", "string"), field("chainId", "uint256"),
				field("verifyingContract", "address"),
			},
			"TransferWithAuthorization": {field("from", "address"), field("to", "address"), field("value", "uint256"),
				field("validAfter", "uint256"), field("validBefore", "uint256"), field("nonce", "bytes32")},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{Name: d.Name, Version: d.Version,
			ChainId:           (*math.HexOrDecimal256)(new(big.Int).SetUint64(d.ChainID)),
			VerifyingContract: d.Contract.String()},
		Message: apitypes.TypedDataMessage{"from": a.From.String(), "to": a.To.String(), "value": a.Value.String(),
			"validAfter": strconv.FormatUint(a.ValidAfter, 10), "validBefore": strconv.FormatUint(a.ValidBefore, 10),
			"nonce": a.Nonce.String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x402.Hash(digest)
}

func FuzzDigestEqualsReference(f *testing.F) {
	f.Add("USD Coin", uint64(8453), bytes.Repeat([]byte{1}, 20), bytes.Repeat([]byte{2}, 20), int64(990000), uint64(0),
		uint64(1795223662), bytes.Repeat([]byte{3}, 32))
	f.Add("USDC", uint64(84532), []byte{}, []byte{255}, int64(1<<62), uint64(1<<63), ^uint64(0), []byte{0})
	f.Fuzz(func(t *testing.T, name string, chain uint64, from, to []byte, value int64, after, before uint64,
		nonce []byte) {
		d := base
		d.Name, d.ChainID = name, chain
		a := x402.Authorization{From: x402.Address(common.BytesToAddress(from)), To: x402.Address(common.BytesToAddress(to)),
			Value:      money.USDC(max(value, 0)),
			ValidAfter: after, ValidBefore: before, Nonce: x402.Hash(common.BytesToHash(nonce))}
		// The reference wants a name and a chain id.
		if name == "" || chain == 0 {
			t.Skip()
		}
		if got, want := d.Digest(a), referenceDigest(t, d, a); got != want {
			t.Errorf("%+v %+v: %s, want %s", d, a, got, want)
		}
	})
}

func TestVerifyTakesThePayersSignatureOverItsDomainOnly(t *testing.T) {
	key, payer := testKey(t, 1)
	a := testAuthorization(payer)
	s, err := curve.Sign(base, a, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := curve.Verify(base, a, s); err != nil {
		t.Fatalf("own signature: %v", err)
	}
	domains := map[string]x402.Domain{
		"name":     {Name: "USDC", Version: base.Version, ChainID: base.ChainID, Contract: base.Contract},
		"version":  {Name: base.Name, Version: "1", ChainID: base.ChainID, Contract: base.Contract},
		"chain":    {Name: base.Name, Version: base.Version, ChainID: 84532, Contract: base.Contract},
		"contract": {Name: base.Name, Version: base.Version, ChainID: base.ChainID, Contract: payer},
	}
	for name, d := range domains {
		if curve.Verify(d, a, s) == nil {
			t.Errorf("another domain %s verified", name)
		}
	}
	changes := map[string]func(*x402.Authorization){
		"from": func(a *x402.Authorization) { a.From[0]++ }, "to": func(a *x402.Authorization) { a.To[0]++ },
		"value": func(a *x402.Authorization) { a.Value++ }, "validAfter": func(a *x402.Authorization) { a.ValidAfter++ },
		"validBefore": func(a *x402.Authorization) { a.ValidBefore++ }, "nonce": func(a *x402.Authorization) { a.Nonce[0]++ },
	}
	for name, change := range changes {
		other := a
		change(&other)
		if curve.Verify(base, other, s) == nil {
			t.Errorf("another %s verified", name)
		}
	}
}

func TestTransferCallsMatchTheABI(t *testing.T) {
	key, payer := testKey(t, 1)
	a := testAuthorization(payer)
	a.ValidAfter = 5
	s, err := curve.Sign(base, a, key)
	if err != nil {
		t.Fatal(err)
	}
	fields := `{"name":"from","type":"address"},{"name":"to","type":"address"},{"name":"value","type":"uint256"},` +
		`{"name":"validAfter","type":"uint256"},{"name":"validBefore","type":"uint256"},{"name":"nonce","type":"bytes32"}`
	pack := func(tail string, args ...any) []byte {
		parsed, err := abi.JSON(strings.NewReader(`[{"type":"function","name":"transferWithAuthorization","inputs":[` +
			fields + tail + `]}]`))
		if err != nil {
			t.Fatal(err)
		}
		data, err := parsed.Pack("transferWithAuthorization",
			append([]any{common.Address(a.From), common.Address(a.To), a.Value.Big(),
				new(big.Int).SetUint64(a.ValidAfter), new(big.Int).SetUint64(a.ValidBefore), [32]byte(a.Nonce)}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := pack(`,{"name":"v","type":"uint8"},{"name":"r","type":"bytes32"},{"name":"s","type":"bytes32"}`, s[64],
		[32]byte([]byte(s[:32])), [32]byte([]byte(s[32:64])))
	if got := x402.TransferCall(a, s); !bytes.Equal(got, want) {
		t.Errorf("v, r, s form:\n%x, want\n%x", got, want)
	}
	want = pack(`,{"name":"signature","type":"bytes"}`, []byte(s))
	if got := x402.TransferBytesCall(a, []byte(s)); !bytes.Equal(got, want) {
		t.Errorf("bytes form:\n%x, want\n%x", got, want)
	}
	for _, s := range []x402.Signature{s, x402.Signature(bytes.Repeat([]byte{7}, 66))} {
		if got, by, ok := x402.TransferOf(x402.TransferCall(a, s)); !ok || got != a || by != s {
			t.Errorf("a transfer by %d bytes: %+v, %d bytes, %v", len(s), got, len(by), ok)
		}
	}
	for _, call := range [][]byte{
		nil, x402.BalanceCall(a.From), x402.StateCall(a.From, a.Nonce), x402.TransferCall(a, s)[:100],
		x402.TransferBytesCall(a, []byte(s))[:4+8*32+65], append(x402.TransferCall(a, s), 0),
	} {
		if got, _, ok := x402.TransferOf(call); ok {
			t.Errorf("%x is a transfer from %s", call, got.From)
		}
	}
	if got, want := x402.StateCall(a.From, a.Nonce), append(
		crypto.Keccak256([]byte("authorizationState(address,bytes32)"))[:4],
		append(make([]byte, 12), append(a.From[:], a.Nonce[:]...)...)...); !bytes.Equal(got, want) {
		t.Errorf("state: %x, want %x", got, want)
	}
}

// The vector was signed by the reference client of x402.
func TestVerifyTakesThePaymentOfTheReferenceClient(t *testing.T) {
	data, err := os.ReadFile("../x402/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct{ PaymentSignatureHeader, Recovered string }
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	p, err := x402.DecodePayment(golden.PaymentSignatureHeader)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err := curve.Recover(base.Digest(p.Authorization), p.Signature); err != nil ||
		signer.String() != golden.Recovered {
		t.Errorf("signed by %s, %v; want %s", signer, err, golden.Recovered)
	}
}

func TestRecoverRefusesValuesBeyondTheCurve(t *testing.T) {
	order := crypto.S256().Params().N
	half := new(big.Int).Rsh(order, 1)
	one := big.NewInt(1)
	for _, tt := range []struct {
		r, s *big.Int
		ok   bool
	}{
		{one, one, true},
		{new(big.Int).Sub(order, one), half, true},
		{order, one, false},
		{one, new(big.Int).Add(half, one), false},
		{one, order, false},
	} {
		rs := make([]byte, 64)
		tt.r.FillBytes(rs[:32])
		tt.s.FillBytes(rs[32:])
		if err := x402.KeySignature(rs, 0).Check(); (err == nil) != tt.ok {
			t.Errorf("r %x, s %x: %v", tt.r, tt.s, err)
		}
	}
}
