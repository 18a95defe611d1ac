package wire_test

import (
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/provider/wire"
)

func TestDecodeReadsOneWholeValue(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":1}`: true, ` {"a":1,"new":[2]} `: true,
		``: false, `{"a":1}{}`: false, `{"a":1}x`: false, `{"a":"1"}`: false, `{"a":1`: false, `[]`: false,
		`<html>`: false,
	} {
		var into struct {
			A int `json:"a"`
		}
		if err := wire.Decode([]byte(text), &into); (err == nil) != want {
			t.Errorf("Decode(%s) = %v", text, err)
		}
	}
}

func TestQuotedTextIsShortAndOnOneLine(t *testing.T) {
	same := func(s string) string { return s }
	if got := wire.Quote("a\nb\x00\x7fc\xff", same); got != "a b  c?" {
		t.Errorf("Quote = %q", got)
	}
	if got := wire.Quote(strings.Repeat("ä", 200), same); got != strings.Repeat("ä", 160)+"…" {
		t.Errorf("Quote = %q", got)
	}
	// What is hidden does not come back where the text is cut.
	hide := func(s string) string { return strings.ReplaceAll(s, "secret", "") }
	if got := wire.Quote(strings.Repeat("-", 157)+"secret", hide); strings.Contains(got, "s") {
		t.Errorf("Quote = %q", got)
	}
}

func TestCardNumbersAreHidden(t *testing.T) {
	for text, want := range map[string]string{
		"card 4000001234567899":                "card [redacted]",
		"card 4000 0012 3456 7899.":            "card [redacted].",
		"card 4000-0012-3456-7899":             "card [redacted]",
		"code 123, amount 2500":                "code 123, amount 2500",
		"2f1cbb0e-1111-4111-8111-111111111111": "2f1cbb0e-1111-4111-8111-111111111111",
	} {
		if got := wire.HideCards(text); got != want {
			t.Errorf("HideCards(%q) = %q", text, got)
		}
	}
	if got := wire.Quote("card 4000\n0012\n3456\n7899", wire.HideCards); got != "card [redacted]" {
		t.Errorf("Quote = %q", got)
	}
}
