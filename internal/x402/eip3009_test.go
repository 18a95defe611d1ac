package x402

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/roamcard/roamcard/internal/money"
)

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

var base = Domain{Name: "USD Coin", Version: "2", ChainID: 8453,
	Contract: Address(common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"))}

func testKey(t testing.TB, seed byte) (*ecdsa.PrivateKey, Address) {
	t.Helper()
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key, Address(crypto.PubkeyToAddress(key.PublicKey))
}

func testAuthorization(from Address) Authorization {
	return Authorization{From: from, To: Address{19: 7}, Value: 25_000_000, ValidBefore: 2_000_000_000, Nonce: Hash{31: 9}}
}

// referenceDigest is the digest by go-ethereum's general, reflective implementation.
func referenceDigest(t *testing.T, d Domain, a Authorization) Hash {
	t.Helper()
	field := func(name, kind string) apitypes.Type { return apitypes.Type{Name: name, Type: kind} }
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {field("name", "string"), field("version", "string"), field("chainId", "uint256"), field("verifyingContract", "address")},
			"TransferWithAuthorization": {field("from", "address"), field("to", "address"), field("value", "uint256"),
				field("validAfter", "uint256"), field("validBefore", "uint256"), field("nonce", "bytes32")},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{Name: d.Name, Version: d.Version, ChainId: (*math.HexOrDecimal256)(new(big.Int).SetUint64(d.ChainID)),
			VerifyingContract: d.Contract.String()},
		Message: apitypes.TypedDataMessage{"from": a.From.String(), "to": a.To.String(), "value": a.Value.String(),
			"validAfter": strconv.FormatUint(a.ValidAfter, 10), "validBefore": strconv.FormatUint(a.ValidBefore, 10), "nonce": a.Nonce.String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Hash(digest)
}

func FuzzDigestEqualsReference(f *testing.F) {
	f.Add("USD Coin", uint64(8453), bytes.Repeat([]byte{1}, 20), bytes.Repeat([]byte{2}, 20), int64(990000), uint64(0), uint64(1795223662), bytes.Repeat([]byte{3}, 32))
	f.Add("USDC", uint64(84532), []byte{}, []byte{255}, int64(1<<62), uint64(1<<63), ^uint64(0), []byte{0})
	f.Fuzz(func(t *testing.T, name string, chain uint64, from, to []byte, value int64, after, before uint64, nonce []byte) {
		d := base
		d.Name, d.ChainID = name, chain
		a := Authorization{From: Address(common.BytesToAddress(from)), To: Address(common.BytesToAddress(to)), Value: money.USDC(max(value, 0)),
			ValidAfter: after, ValidBefore: before, Nonce: Hash(common.BytesToHash(nonce))}
		// The reference wants a name and a chain id.
		if name == "" || chain == 0 {
			t.Skip()
		}
		if got, want := d.Digest(a), referenceDigest(t, d, a); got != want {
			t.Errorf("%+v %+v: %s, want %s", d, a, got, want)
		}
	})
}

func TestOnlyThePayersSignatureOverThisDomainVerifies(t *testing.T) {
	key, payer := testKey(t, 1)
	a := testAuthorization(payer)
	s, err := base.Sign(a, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := base.Verify(a, s); err != nil {
		t.Fatalf("own signature: %v", err)
	}
	domains := map[string]Domain{
		"name":     {Name: "USDC", Version: base.Version, ChainID: base.ChainID, Contract: base.Contract},
		"version":  {Name: base.Name, Version: "1", ChainID: base.ChainID, Contract: base.Contract},
		"chain":    {Name: base.Name, Version: base.Version, ChainID: 84532, Contract: base.Contract},
		"contract": {Name: base.Name, Version: base.Version, ChainID: base.ChainID, Contract: payer},
	}
	for name, d := range domains {
		if d.Verify(a, s) == nil {
			t.Errorf("another domain %s verified", name)
		}
	}
	changes := map[string]func(*Authorization){
		"from": func(a *Authorization) { a.From[0]++ }, "to": func(a *Authorization) { a.To[0]++ },
		"value": func(a *Authorization) { a.Value++ }, "validAfter": func(a *Authorization) { a.ValidAfter++ },
		"validBefore": func(a *Authorization) { a.ValidBefore++ }, "nonce": func(a *Authorization) { a.Nonce[0]++ },
	}
	for name, change := range changes {
		other := a
		change(&other)
		if base.Verify(other, s) == nil {
			t.Errorf("another %s verified", name)
		}
	}
}

func TestTransferCallsMatchTheABI(t *testing.T) {
	key, payer := testKey(t, 1)
	a := testAuthorization(payer)
	a.ValidAfter = 5
	s, err := base.Sign(a, key)
	if err != nil {
		t.Fatal(err)
	}
	fields := `{"name":"from","type":"address"},{"name":"to","type":"address"},{"name":"value","type":"uint256"},` +
		`{"name":"validAfter","type":"uint256"},{"name":"validBefore","type":"uint256"},{"name":"nonce","type":"bytes32"}`
	pack := func(tail string, args ...any) []byte {
		parsed, err := abi.JSON(strings.NewReader(`[{"type":"function","name":"transferWithAuthorization","inputs":[` + fields + tail + `]}]`))
		if err != nil {
			t.Fatal(err)
		}
		data, err := parsed.Pack("transferWithAuthorization", append([]any{common.Address(a.From), common.Address(a.To), a.Value.Big(),
			new(big.Int).SetUint64(a.ValidAfter), new(big.Int).SetUint64(a.ValidBefore), [32]byte(a.Nonce)}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := pack(`,{"name":"v","type":"uint8"},{"name":"r","type":"bytes32"},{"name":"s","type":"bytes32"}`, s[64], [32]byte(s[:32]), [32]byte(s[32:64]))
	if got := TransferCall(a, s); !bytes.Equal(got, want) {
		t.Errorf("v, r, s form:\n%x, want\n%x", got, want)
	}
	want = pack(`,{"name":"signature","type":"bytes"}`, s[:])
	if got := TransferBytesCall(a, s[:]); !bytes.Equal(got, want) {
		t.Errorf("bytes form:\n%x, want\n%x", got, want)
	}
	for _, call := range [][]byte{TransferCall(a, s), TransferBytesCall(a, s[:])} {
		if payer, ok := PayerOf(call); !ok || payer != a.From {
			t.Errorf("payer %s, %v, want %s", payer, ok, a.From)
		}
	}
	for _, call := range [][]byte{nil, BalanceCall(a.From), StateCall(a.From, a.Nonce), TransferCall(a, s)[:100]} {
		if payer, ok := PayerOf(call); ok {
			t.Errorf("%x has the payer %s", call, payer)
		}
	}
	if got, want := StateCall(a.From, a.Nonce), append(selectorState[:], append(make([]byte, 12), append(a.From[:], a.Nonce[:]...)...)...); !bytes.Equal(got, want) {
		t.Errorf("state: %x, want %x", got, want)
	}
}

func TestSignatureForms(t *testing.T) {
	key, payer := testKey(t, 1)
	a := testAuthorization(payer)
	good, err := base.Sign(a, key)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(s *Signature)) string { s := good; change(&s); return s.Hex() }
	order := crypto.S256().Params().N
	highS := func(s *Signature) {
		high := new(big.Int).Sub(order, new(big.Int).SetBytes(s[32:64]))
		high.FillBytes(s[32:64])
		s[64] = 27 + 28 - s[64]
	}
	tests := []struct{ name, text, reason string }{
		{"as signed", good.Hex(), ""},
		{"upper case", "0x" + strings.ToUpper(good.Hex()[2:]), ""},
		{"v 0 or 1", with(func(s *Signature) { s[64] -= 27 }), ""},
		{"v 29", with(func(s *Signature) { s[64] = 29 }), ReasonSignature},
		{"v 2", with(func(s *Signature) { s[64] = 2 }), ReasonSignature},
		{"high s", with(highS), ReasonSignature},
		{"r zero", with(func(s *Signature) { clear(s[:32]) }), ReasonSignature},
		{"s zero", with(func(s *Signature) { clear(s[32:64]) }), ReasonSignature},
		{"r is the order", with(func(s *Signature) { order.FillBytes(s[:32]) }), ReasonSignature},
		{"s is the order", with(func(s *Signature) { order.FillBytes(s[32:64]) }), ReasonSignature},
		{"EIP-2098", good.Hex()[:2+128], ReasonSignatureForm},
		{"64 bytes and a nibble", good.Hex()[:2+129], "malformed"},
		{"66 bytes", good.Hex() + "00", ReasonSignatureForm},
		{"empty", "0x", ReasonSignatureForm},
		{"no prefix", good.Hex()[2:], "malformed"},
		{"ERC-6492", good.Hex() + strings.Repeat("6492", 16), ReasonFactory},
		{"ERC-1271", "0x" + strings.Repeat("ab", 300), ReasonSignatureForm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseSignature(tt.text)
			if got := reasonOf(t, err); got != tt.reason {
				t.Errorf("reason %q (%v), want %q", got, err, tt.reason)
			}
			if err == nil && s != good {
				t.Error("not the same signature")
			}
		})
	}
}
