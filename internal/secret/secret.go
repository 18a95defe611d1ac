// Package secret keeps texts that must not be seen out of logs, formats and JSON.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what a secret shows in place of its text.
const Redacted = "[redacted]"

// Text is a text that must not be seen: a bearer token, a key, a card number. However it is
// printed, logged or encoded it shows Redacted; only Reveal gives the text. The zero Text is
// empty. Compare secrets with Equal, not with ==.
type Text struct {
	// A pointer, because fmt reads an unexported field of an outer struct without asking its
	// methods: it then shows an address and not the text.
	text *string
}

// New hides a text.
func New(text string) Text { return Text{text: &text} }

// Reveal gives the text. Every call is a place where it can leak.
func (s Text) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal compares the texts in a time that depends on their lengths alone.
func (s Text) Equal(other Text) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// IsZero reports an empty secret.
func (s Text) IsZero() bool { return s.Reveal() == "" }

// String implements fmt.Stringer without the text.
func (s Text) String() string { return Redacted }

// GoString implements fmt.GoStringer without the text.
func (s Text) GoString() string { return Redacted }

// Format implements fmt.Formatter without the text, for every verb.
func (s Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalJSON implements json.Marshaler without the text.
func (s Text) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler without the text.
func (s Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements slog.LogValuer without the text.
func (s Text) LogValue() slog.Value { return slog.StringValue(Redacted) }
