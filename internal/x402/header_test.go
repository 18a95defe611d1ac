package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reasonOf is empty without an error, "malformed" for a *MalformedError, else the rejection's reason.
func reasonOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[*MalformedError](err); ok {
		return "malformed"
	}
	rejected, ok := errors.AsType[*RejectedError](err)
	if !ok {
		t.Fatalf("untyped error %v", err)
	}
	return rejected.Reason
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// goldenText is the JSON of the reference client's payment.
func goldenText(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(g.PaymentSignatureHeader)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDecodePaymentReadsContentStrictly(t *testing.T) {
	text := goldenText(t)
	const from = `"from":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8"`
	const nonce = `0xaf23fefaadfe3469416dc157cbf5dbf930edb133fe3c1d54f9d5424aba4f32a5`
	value := func(v string) []string { return []string{`"value":"990000"`, `"value":` + v} }
	before := func(v string) []string { return []string{`"validBefore":"1795223662"`, `"validBefore":` + v} }
	identified := func(v string) []string {
		return []string{`"resource":{`, `"extensions":{"payment-identifier":` + v + `},"resource":{`}
	}
	tests := []struct {
		name    string
		replace []string
		reason  string
	}{
		{"as the client made it", nil, ""},
		{"payer in lower case", []string{from, strings.ToLower(from)}, ""},
		{"payer in upper case", []string{from, `"from":"0x70997970C51812DC3A010C7D01B50E0D17DC79C8"`}, ""},
		{"nonce in upper case", []string{nonce, "0x" + strings.ToUpper(nonce[2:])}, ""},
		{"unknown members where clients add them",
			[]string{`"extra":{`, `"extra":{"more":[1],`, `"resource":{`,
				`"extensions":{"a":{"b":1}},"later":1,"resource":{"tags":["a"],`}, ""},
		{"an identifier", identified(`{"info":{"required":false,"id":"order_0001-abcdef"}}`), ""},
		{"an identifier that is declared alone", identified(`{"info":{"required":false},"schema":{}}`), ""},
		{"an identifier of 15 characters", identified(`{"info":{"id":"abcdefghijklmno"}}`), "malformed"},
		{"an identifier of 129 characters", identified(`{"info":{"id":"` + strings.Repeat("a", 129) + `"}}`), "malformed"},
		{"an identifier with a space", identified(`{"info":{"id":"abcdefgh ijklmnop"}}`), "malformed"},
		{"an empty identifier", identified(`{"info":{"id":""}}`), "malformed"},
		{"an identifier that is a number", identified(`{"info":{"id":1234567890123456}}`), "malformed"},
		{"an identifier that is no object", identified(`"abcdefghijklmnop"`), "malformed"},
		{"extra absent", []string{`,"extra":{"name":"USD Coin","version":"2"}`, ``}, ""},
		{"no resource", []string{`"resource"`, `"unknown"`}, ""},

		{"payer with a wrong checksum", []string{from, `"from":"0x70997970c51812dc3A010C7d01b50e0d17dc79C8"`}, "malformed"},
		{"payer one digit short", []string{from, from[:len(from)-2] + `"`}, "malformed"},
		{"nonce without 0x", []string{nonce, nonce[2:]}, "malformed"},
		{"nonce short", []string{nonce, nonce[:65]}, "malformed"},
		{"nonce long", []string{nonce, nonce + "0"}, "malformed"},
		{"value a number", value(`990000`), "malformed"},
		{"value signed", value(`"+990000"`), "malformed"},
		{"value negative", value(`"-1"`), "malformed"},
		{"value with a leading zero", value(`"0990000"`), "malformed"},
		{"value with a fraction", value(`"990000.0"`), "malformed"},
		{"value in hex", value(`"0xf1b30"`), "malformed"},
		{"value with an exponent", value(`"99e4"`), "malformed"},
		{"value in Arabic digits", value(`"٩٩٠٠٠٠"`), "malformed"},
		{"value of 10 kB", value(`"` + strings.Repeat("9", 10_000) + `"`), "malformed"},
		{"value 2^256-1", value(`"115792089237316195423570985008687907853269984665640564039457584007913129639935"`),
			ReasonValue},
		{"validBefore a number", before(`1795223662`), "malformed"},
		{"validBefore negative", before(`"-1"`), "malformed"},
		{"validBefore null", before(`null`), "malformed"},
		{"validBefore 2^64", before(`"18446744073709551616"`), ReasonValidBefore},
		{"validAfter missing", []string{`"validAfter":"0",`, ``}, "malformed"},
		{"authorization with another member", []string{from, from + `,"memo":"x"`}, "malformed"},
		{"accepted with another member", []string{`"scheme"`, `"price":"1","scheme"`}, "malformed"},
		{"timeout a string", []string{`"maxTimeoutSeconds":120`, `"maxTimeoutSeconds":"120"`}, "malformed"},
		{"timeout negative", []string{`"maxTimeoutSeconds":120`, `"maxTimeoutSeconds":-120`}, "malformed"},
		{"authorization missing", []string{`"authorization"`, `"authorisation"`}, "malformed"},

		{"version 1", []string{`"x402Version":2`, `"x402Version":1`}, ReasonVersion},
		{"version 3", []string{`"x402Version":2`, `"x402Version":3`}, ReasonVersion},
		{"version 2.0", []string{`"x402Version":2`, `"x402Version":2.0`}, ReasonVersion},
		{"version in quotes", []string{`"x402Version":2`, `"x402Version":"2"`}, "malformed"},
		{"version missing", []string{`"x402Version":2,`, ``}, "malformed"},
		{"scheme upto", []string{`"scheme":"exact"`, `"scheme":"upto"`}, ReasonScheme},
		{"Permit2", []string{`"authorization"`, `"permit2Authorization"`}, ReasonPayloadType},
		{"Permit2 next to an authorization", []string{`"signature"`, `"permit2Authorization":{},"signature"`},
			ReasonPayloadType},
		{"ERC-7710", []string{`"authorization"`, `"delegationManager":"0x","authorization"`}, ReasonPayloadType},

		{"member twice", []string{`"accepted":{`, `"accepted":{},"accepted":{`}, "malformed"},
		{"value twice", value(`"1","value":"990000"`), "malformed"},
		{"member twice, one escaped", value(`"1","\u0076alue":"990000"`), "malformed"},
		{"member twice in an extension", []string{`"resource":{`, `"extensions":{"a":1,"a":1},"resource":{`}, "malformed"},
		{"name in another case", []string{`"value"`, `"Value"`}, "malformed"},
		{"homoglyph name", []string{`"value"`, `"vаlue"`}, "malformed"},
		{"lone surrogate", []string{`"description":"d"`, `"description":"\ud800"`}, "malformed"},
		{"NUL", []string{`"description":"d"`, `"description":"\u0000"`}, "malformed"},
		{"invalid UTF-8", []string{`"description":"d"`, "\"description\":\"\xff\""}, "malformed"},
		{"NaN", []string{`"x402Version":2`, `"x402Version":NaN`}, "malformed"},
		{"trailing comma", []string{`"x402Version":2,`, `"x402Version":2,,`}, "malformed"},
		{"deep nesting", []string{`"extra":{`, `"extra":{"a":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `,`},
			"malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.NewReplacer(tt.replace...).Replace(text)
			if len(tt.replace) > 0 && changed == text {
				t.Fatal("the case changes nothing")
			}
			p, err := DecodePayment(b64(changed))
			if got := reasonOf(t, err); got != tt.reason {
				t.Errorf("reason %q (%v), want %q", got, err, tt.reason)
			}
			if err == nil && p.Authorization.Value != 990000 {
				t.Errorf("value %v", p.Authorization.Value)
			}
		})
	}
}

func TestDecodePaymentReadsBase64Strictly(t *testing.T) {
	text := goldenText(t)
	if len(text)%3 != 0 {
		text += strings.Repeat(" ", 3-len(text)%3)
	}
	padded := b64(text + " ")
	unpadded := strings.TrimRight(padded, "=")
	for name, header := range map[string]string{"padded": padded, "unpadded": unpadded,
		"not in need of padding": b64(text)} {
		if _, err := DecodePayment(header); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	urlSafe := base64.URLEncoding.EncodeToString([]byte(strings.Replace(text, `"d"`, `"???>>>~~~"`, 1)))
	if !strings.ContainsAny(urlSafe, "-_") {
		t.Fatal("the url-safe case has no url-safe digit")
	}
	bad := map[string]string{
		"empty":           "",
		"not base64":      "%%%%",
		"JSON itself":     text,
		"url-safe":        urlSafe,
		"CR LF":           padded[:10] + "\r\n" + padded[10:],
		"LF at the end":   padded + "\n",
		"space":           padded[:10] + " " + padded[10:],
		"loose bits":      unpadded[:len(unpadded)-1] + "B",
		"half the pad":    unpadded + "=",
		"two, comma":      padded + "," + padded,
		"two, one after":  b64(text) + b64(text),
		"17 kB":           b64(text + strings.Repeat(" ", 13<<10)),
		"1 MB":            strings.Repeat("A", 1<<20),
		"an array":        b64("[" + text + "]"),
		"a string":        b64(`"x"`),
		"null":            b64("null"),
		"truncated":       b64(text[:len(text)/2]),
		"BOM":             b64("\ufeff" + text),
		"UTF-16":          b64("\xff\xfe{\x00}\x00"),
		"second document": b64(text + "{}"),
	}
	for name, header := range bad {
		if _, err := DecodePayment(header); reasonOf(t, err) != "malformed" {
			t.Errorf("%s: %v, want malformed", name, err)
		}
	}
}

func TestHeadersSurviveTheRoundTrip(t *testing.T) {
	payer, asset := Address{19: 1}, Address{19: 8}
	offer := Requirements{Scheme: Scheme, Network: NetworkID, Amount: "25000000", Asset: asset.String(),
		PayTo:             Address{19: 7}.String(),
		MaxTimeoutSeconds: 120, Extra: map[string]any{"name": "USD Coin", "version": "2", "quoteId": "q_1"}}
	required := PaymentRequired{X402Version: Version, Error: "Payment required",
		Resource: Resource{URL: "https://api.example.com/x"}, Accepts: []Requirements{offer}}
	header, err := EncodeRequired(required)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := EncodeRequired(required); again != header {
		t.Error("equal challenges have different headers")
	}
	gotRequired, err := DecodeRequired(header)
	if diff := cmp.Diff(required, gotRequired); err != nil || diff != "" {
		t.Errorf("challenge: %v (-want +got):\n%s", err, diff)
	}

	settlement := Settlement{Success: true, Transaction: Hash{1}.String(), Network: NetworkID, Payer: payer.String(),
		Amount: "25000000"}
	header, err = EncodeSettlement(settlement)
	if err != nil {
		t.Fatal(err)
	}
	gotSettlement, err := DecodeSettlement(header)
	if diff := cmp.Diff(settlement, gotSettlement); err != nil || diff != "" {
		t.Errorf("settlement: %v (-want +got):\n%s", err, diff)
	}

	p := facilitated()
	p.Accepted, p.Resource = offer, required.Resource
	header, err = EncodePayment(p)
	if err != nil {
		t.Fatal(err)
	}
	gotPayment, err := DecodePayment(header)
	if diff := cmp.Diff(p, gotPayment); err != nil || diff != "" {
		t.Errorf("payment: %v (-want +got):\n%s", err, diff)
	}
}

func FuzzDecodePayment(f *testing.F) {
	text := goldenText(f)
	f.Add(text)
	f.Add(strings.Replace(text, "extra", "Extra", 1))
	f.Add(`{"x402Version":2,"accepted":{},"payload":{"signature":"0x","authorization":{}}}`)
	f.Add(`{"a":{"a":[1,{"b":"\ud800"}]},"a":1}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := DecodePayment(b64(text))
		if err != nil {
			reasonOf(t, err)
			return
		}
		// What was understood once is understood the same way again.
		header, err := EncodePayment(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodePayment(header)
		if err != nil {
			t.Fatalf("own header: %v", err)
		}
		if again.Authorization != p.Authorization || again.Signature != p.Signature {
			t.Errorf("%+v, want %+v", again.Authorization, p.Authorization)
		}
	})
}
