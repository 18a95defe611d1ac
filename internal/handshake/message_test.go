package handshake

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/x402"
)

var fullMessage = Message{
	Scheme: "https", Domain: "cards.example:8402", Address: x402.Address{0: 0xab, 5: 0xcd, 19: 0xef},
	Statement: "Sign in, bitte schön.", URI: "https://cards.example:8402/a?b=c", ChainID: 8453, Nonce: "abcDEF123",
	IssuedAt: "2026-03-01T12:00:00.123Z", ExpirationTime: "2026-03-01T12:05:00Z", NotBefore: "2026-03-01T12:00:00+01:00",
	RequestID: "f81d4fae-7dec-41d0-a765-00a0c91e6bf6", Resources: []string{"urn:a:b", "https://cards.example/x"},
}

func TestMessageComesBackFromItsText(t *testing.T) {
	bare := Message{
		Domain: "localhost", URI: "http://localhost", ChainID: 1, Nonce: "12345678", IssuedAt: "2026-03-01T12:00:00Z",
	}
	ip := bare
	ip.Domain = "[::1]:8402"
	for _, want := range []Message{fullMessage, bare, ip} {
		got, err := ParseMessage(want.Format())
		if err != nil {
			t.Errorf("%q: %v", want.Format(), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestMessageHasOneSpelling(t *testing.T) {
	text := fullMessage.Format()
	address := fullMessage.Address.String()
	for name, change := range map[string]func() string{
		"empty":              func() string { return "" },
		"carriage returns":   func() string { return strings.ReplaceAll(text, "\n", "\r\n") },
		"final newline":      func() string { return text + "\n" },
		"leading blank":      func() string { return " " + text },
		"lower-case address": func() string { return strings.Replace(text, address, fullMessage.Address.Lower(), 1) },
		"upper-case address": func() string { return strings.Replace(text, address[2:], strings.ToUpper(address[2:]), 1) },
		"no address":         func() string { return strings.Replace(text, address, "", 1) },
		"version 2":          func() string { return strings.Replace(text, "Version: 1", "Version: 2", 1) },
		"no version":         func() string { return strings.Replace(text, "Version: 1\n", "", 1) },
		"chain id with zero": func() string { return strings.Replace(text, "8453", "08453", 1) },
		"chain id with sign": func() string { return strings.Replace(text, "Chain ID: 8453", "Chain ID: +8453", 1) },
		"chain id in hex":    func() string { return strings.Replace(text, "Chain ID: 8453", "Chain ID: 0x2105", 1) },
		"short nonce":        func() string { return strings.Replace(text, "abcDEF123", "abc1234", 1) },
		"nonce with dash":    func() string { return strings.Replace(text, "abcDEF123", "abcDEF-123", 1) },
		"relative URI":       func() string { return strings.Replace(text, "URI: https://cards.example:8402", "URI: ", 1) },
		"URI with space":     func() string { return strings.Replace(text, "/a?b=c", "/a b", 1) },
		"URI in unicode":     func() string { return strings.Replace(text, "/a?b=c", "/ä", 1) },
		"domain with path": func() string {
			return strings.Replace(text, "cards.example:8402 wants",
				"cards.example/x wants", 1)
		},
		"domain with user": func() string {
			return strings.Replace(text, "cards.example:8402 wants", "a@cards.example wants",
				1)
		},
		"two schemes":      func() string { return "https://" + text },
		"empty scheme":     func() string { return strings.TrimPrefix(text, "https") },
		"no domain":        func() string { return strings.Replace(text, "https://cards.example:8402 wants", " wants", 1) },
		"issued at noon":   func() string { return strings.Replace(text, "2026-03-01T12:00:00.123Z", "noon", 1) },
		"comma in time":    func() string { return strings.Replace(text, "00.123Z", "00,123Z", 1) },
		"no issue time":    func() string { return strings.Replace(text, "Issued At: 2026-03-01T12:00:00.123Z\n", "", 1) },
		"empty expiration": func() string { return strings.Replace(text, "2026-03-01T12:05:00Z", "", 1) },
		"fields swapped":   func() string { return swapLines(text, "Expiration Time", "Not Before") },
		"nonce twice": func() string {
			return strings.Replace(text, "Nonce: abcDEF123", "Nonce: abcDEF123\nNonce: abcDEF123", 1)
		},
		"unknown field": func() string {
			return strings.Replace(text, "\nResources:", "\nSession: 1\nResources:",
				1)
		},
		"request id with slash":   func() string { return strings.Replace(text, "f81d4fae-", "f81d4fae/", 1) },
		"empty resources":         func() string { return text[:strings.Index(text, "\n- ")] },
		"relative resource":       func() string { return text + "\n- x" },
		"resource without dash":   func() string { return text + "\nurn:a:c" },
		"statement of two lines":  func() string { return strings.Replace(text, "Sign in,", "Sign in\nfor", 1) },
		"bell in the statement":   func() string { return strings.Replace(text, "Sign in,", "Sign in\a", 1) },
		"no line after statement": func() string { return strings.Replace(text, "\n\nURI", "\nURI", 1) },
		"not UTF-8":               func() string { return strings.Replace(text, "schön", "sch\xf6n", 1) },
		"too long":                func() string { return text + strings.Repeat("\n- urn:a:"+strings.Repeat("b", 1000), 9) },
	} {
		t.Run(name, func(t *testing.T) {
			changed := change()
			if changed == text {
				t.Fatal("the case changes nothing")
			}
			if m, err := ParseMessage(changed); err == nil {
				t.Errorf("accepted as %+v", m)
			}
		})
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add(fullMessage.Format())
	data, err := os.ReadFile("../auth/testdata/viem.json")
	if err != nil {
		f.Fatal(err)
	}
	var viem struct {
		Texts map[string]struct{ Text string }
	}
	if err := json.Unmarshal(data, &viem); err != nil || len(viem.Texts) == 0 {
		f.Fatalf("%d texts, %v", len(viem.Texts), err)
	}
	for _, s := range viem.Texts {
		f.Add(s.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMessage(text)
		if err != nil {
			return
		}
		if m.Format() != text {
			t.Fatalf("%q became %q", text, m.Format())
		}
		if strings.Contains(text, "\r") || len(text) > maxMessageBytes || len(m.Nonce) < minNonce {
			t.Fatalf("accepted %q", text)
		}
	})
}

func swapLines(text, one, other string) string {
	lines := strings.Split(text, "\n")
	i, j := -1, -1
	for k, line := range lines {
		if strings.HasPrefix(line, one) {
			i = k
		}
		if strings.HasPrefix(line, other) {
			j = k
		}
	}
	lines[i], lines[j] = lines[j], lines[i]
	return strings.Join(lines, "\n")
}
