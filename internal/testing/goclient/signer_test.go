package goclient_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

const signersKey = "4646464646464646464646464646464646464646464646464646464646464646"

// mail is a document with a member of each type that a KeySigner signs.
const mail = `{
	"types": {
		"EIP712Domain": [{"name": "name", "type": "string"}, {"name": "version", "type": "string"},
		{"name": "chainId", "type": "uint256"},
			{"name": "verifyingContract", "type": "address"}],
		"Mail": [{"name": "to", "type": "address"}, {"name": "amount", "type": "uint256"}, {"name": "small", "type": "uint8"},
			{"name": "nonce", "type": "bytes32"}, {"name": "tag", "type": "bytes4"}, {"name": "text", "type": "string"},
			{"name": "data", "type": "bytes"}, {"name": "urgent", "type": "bool"}, {"name": "count", "type": "uint64"}]
	},
	"primaryType": "Mail",
	"domain": {"name": "USD Coin", "version": "2", "chainId": "0x2105",
	"verifyingContract": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"},
	"message": {"to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "small": "255", "tag": "0x01020304",
		"amount": "115792089237316195423570985008687907853269984665640564039457584007913129639935",
		"nonce": "0xaf23fefaadfe3469416dc157cbf5dbf930edb133fe3c1d54f9d5424aba4f32a5", "text": "bitte schön",
		"data": "0x010203",
		"urgent": true, "count": 7}
}`

func documentOf[T any](t *testing.T, text string) (d T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Signatures are deterministic (RFC 6979), so two libraries that agree give the same bytes.
func TestKeySignerSignsLikeGoEthereum(t *testing.T) {
	t.Parallel()
	signer, err := roamcard.NewKeySigner(signersKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := crypto.HexToECDSA(signersKey)
	if err != nil {
		t.Fatal(err)
	}
	if want := crypto.PubkeyToAddress(key.PublicKey).Hex(); signer.Address() != want {
		t.Errorf("the address is %s, want %s", signer.Address(), want)
	}
	reference := func(digest []byte) []byte {
		sig, err := crypto.Sign(digest, key)
		if err != nil {
			t.Fatal(err)
		}
		sig[64] += 27
		return sig
	}
	for _, text := range []string{"", "hello", "schön 世界", strings.Repeat("x", 1000)} {
		got, err := signer.SignMessage(t.Context(), text)
		if want := reference(accounts.TextHash([]byte(text))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%.20q: %x, %v; want %x", text, got, err, want)
		}
	}
	for name, text := range map[string]string{
		"each type":       mail,
		"chain by number": strings.Replace(mail, `"0x2105"`, "8453", 1),
		"chain in digits": strings.Replace(mail, `"0x2105"`, `"8453"`, 1),
		"false and empty": strings.NewReplacer("true", "false", "0x010203\"", "0x\"", "bitte schön", "").Replace(mail),
		"number in hex":   strings.Replace(mail, `"255"`, `"0xff"`, 1),
	} {
		digest, _, err := apitypes.TypedDataAndHash(documentOf[apitypes.TypedData](t, text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := signer.SignTypedData(t.Context(), documentOf[roamcard.TypedData](t, text))
		if want := reference(digest); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v; want %x", name, got, err, want)
		}
	}
}

// The JSON of a document keeps its form, but for a salt of nothing: eth-account signs no domain with a member that its
// type does not have.
func TestTypedDataIsEncodedLikeGoEthereum(t *testing.T) {
	t.Parallel()
	got, err1 := json.Marshal(documentOf[roamcard.TypedData](t, mail))
	want, err2 := json.Marshal(documentOf[apitypes.TypedData](t, mail))
	want = bytes.Replace(want, []byte(`,"salt":""`), nil, 1)
	if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
		t.Errorf("%s, %v; want %s, %v", got, err1, want, err2)
	}
}

func TestKeySignerRefusesWhatItCannotHash(t *testing.T) {
	t.Parallel()
	signer, err := roamcard.NewKeySigner(signersKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"a list":             {`"type": "uint8"`, `"type": "uint8[]"`},
		"a struct":           {`"type": "uint8"`, `"type": "Mail"`},
		"a signed number":    {`"type": "uint8"`, `"type": "int8"`},
		"an odd width":       {`"type": "uint8"`, `"type": "uint9"`},
		"too wide":           {`"type": "uint8"`, `"type": "uint264"`},
		"bytes too many":     {`"type": "bytes4"`, `"type": "bytes33"`},
		"a leading zero":     {`"type": "uint8"`, `"type": "uint08"`},
		"a number too large": {`"255"`, `"256"`},
		"a negative number":  {`"255"`, `"-1"`},
		"a part of a number": {`"255"`, `1.5`},
		"no number":          {`"255"`, `"0x"`},
		"an address too long": {
			`"to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"`, `"to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C800"`,
		},
		"bytes of another length": {`"0x01020304"`, `"0x010203"`},
		"a value missing":         {`"small": "255", `, ``},
		"a value too many":        {`"urgent": true`, `"more": 1, "urgent": true`},
		"a text for a truth":      {`"urgent": true`, `"urgent": "true"`},
		"an unknown type":         {`"primaryType": "Mail"`, `"primaryType": "Letter"`},
	} {
		text := strings.Replace(mail, change[0], change[1], 1)
		if text == mail {
			t.Errorf("%s changes nothing", name)
		}
		if sig, err := signer.SignTypedData(t.Context(), documentOf[roamcard.TypedData](t, text)); err == nil {
			t.Errorf("%s was signed: %x", name, sig)
		}
	}
}

func TestKeySignerRefusesKeysBeyondTheCurve(t *testing.T) {
	t.Parallel()
	order := crypto.S256().Params().N
	text := func(n *big.Int) string { return "0x" + strings.Repeat("0", 64-len(n.Text(16))) + n.Text(16) }
	last := new(big.Int).Sub(order, big.NewInt(1))
	if _, err := roamcard.NewKeySigner(text(last)); err != nil {
		t.Errorf("the last key: %v", err)
	}
	for _, bad := range []string{
		text(order), text(big.NewInt(0)), "", "0x", signersKey[2:], signersKey + "00", "not hex",
	} {
		if _, err := roamcard.NewKeySigner(bad); err == nil || bad != "" && len(bad) > 2 &&
			strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
