package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/roamcard/roamcard/internal/secret"
)

// Unclear is an answer that leaves the outcome unknown. Its text is ours: a decoder's error would quote the answer, and
// with it a card number or an activation code.
type Unclear string

// Error implements error.
func (u Unclear) Error() string { return string(u) }

// Undocumented is an answer in another form than the vendor's documentation gives it.
const Undocumented Unclear = "the answer does not match the documentation"

// Decode reads one whole JSON value. A vendor may add members, which are ignored.
func Decode(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Unclear("there is something behind the answer")
	}
	return nil
}

// Quote makes a vendor's text fit for an error and a log: short, on one line, and with what hide hides.
func Quote(s string, hide func(string) string) string {
	s = hide(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
	const most = 160
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// manyDigits could be a card number, however it is grouped. Hashes, addresses and uuids are matched first: in these ids
// of ours, so many digits are chance.
var manyDigits = regexp.MustCompile(`\b(?:0x(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40})|` +
	`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})\b|(\d(?:[ -]?\d){10,})`)

// HideCards redacts what could be a card number.
func HideCards(s string) string {
	return manyDigits.ReplaceAllStringFunc(s, func(m string) string {
		if manyDigits.FindStringSubmatch(m)[1] == "" {
			return m
		}
		return secret.Redacted
	})
}
