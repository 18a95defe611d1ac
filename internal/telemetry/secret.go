package telemetry

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what a Secret shows in place of its text.
const Redacted = "[redacted]"

// Secret is a text that must not be seen: a bearer token, a key, a card number. However it is
// printed, logged or encoded it shows Redacted; only Reveal gives the text. The zero Secret is
// empty. Compare secrets with Equal, not with ==.
type Secret struct {
	// A pointer, because fmt reads an unexported field of an outer struct without asking its
	// methods: it then shows an address and not the text.
	text *string
}

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal gives the text. Every call is a place where it can leak.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal compares the texts in a time that depends on their lengths alone.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// IsZero reports an empty secret.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

// String implements fmt.Stringer without the text.
func (s Secret) String() string { return Redacted }

// GoString implements fmt.GoStringer without the text.
func (s Secret) GoString() string { return Redacted }

// Format implements fmt.Formatter without the text, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalJSON implements json.Marshaler without the text.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler without the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue implements slog.LogValuer without the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
