package x402

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// published is what @x402/extensions 2.27.0 sends for a challenge that has everything.
const published = `{"domain":"shop.example","address":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",` +
	`"statement":"Sign in.",` +
	`"uri":"https://shop.example/api","version":"1","chainId":"eip155:8453","type":"eip191","nonce":"abcdefgh",` +
	`"issuedAt":"2026-03-01T12:00:00.123Z","expirationTime":"2026-03-01T12:05:00.123Z",` +
	`"notBefore":"2026-03-01T12:00:00.123Z","requestId":"1","resources":["https://shop.example/api"],` +
	`"signatureScheme":"eip1271","signature":"0x00"}`

func TestDecodeSignInReadsWhatIsPublished(t *testing.T) {
	got, err := DecodeSignIn(base64.StdEncoding.EncodeToString([]byte(published)))
	if err != nil {
		t.Fatal(err)
	}
	address, err := ParseAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")
	if err != nil {
		t.Fatal(err)
	}
	want := SignIn{
		Domain: "shop.example", Address: address, Statement: "Sign in.", URI: "https://shop.example/api", Version: "1",
		ChainID: "eip155:8453", Nonce: "abcdefgh", IssuedAt: "2026-03-01T12:00:00.123Z",
		ExpirationTime: "2026-03-01T12:05:00.123Z", NotBefore: "2026-03-01T12:00:00.123Z", RequestID: "1",
		Resources: []string{"https://shop.example/api"}, Signature: "0x00",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDecodeSignInNamesWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ name, old, by, want string }{
		{"a number", `"abcdefgh"`, `12345678`, "nonce must be a string"},
		{"another type", `"eip191"`, `"ed25519"`, "type must be eip191"},
		{"another scheme", `"eip1271"`, `"siws"`, "signatureScheme must be"},
		{"half an address", `"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"`, `"0xf39F"`, "address must be"},
		{"resources that are none", `["https://shop.example/api"]`, `[1]`, "resources must be an array of strings"},
		{"one twice", `{`, `{"domain":"evil.example",`, "occurs twice"},
		{"too much", `"Sign in."`, `"` + strings.Repeat("x", MaxSignIn) + `"`, "longer than 8192 bytes"},
	} {
		text := strings.Replace(published, tt.old, tt.by, 1)
		_, err := DecodeSignIn(base64.StdEncoding.EncodeToString([]byte(text)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// FuzzDecodeSignIn looks for a header that breaks the reading, and for one that is taken and is not a JSON object.
func FuzzDecodeSignIn(f *testing.F) {
	f.Add(base64.StdEncoding.EncodeToString([]byte(published)))
	f.Add("e30=")
	f.Add("bnVsbA")
	f.Fuzz(func(t *testing.T, header string) {
		if _, err := DecodeSignIn(header); err != nil {
			return
		}
		data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(header, "="))
		var members map[string]any
		if err != nil || json.Unmarshal(data, &members) != nil || len(header) > MaxSignIn {
			t.Fatalf("%q is taken", header)
		}
	})
}
