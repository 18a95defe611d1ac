package invariants

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// leaks is I23. It is separate from the others because it searches texts that only a test has.
const leaksID, leaksRule = "I23", "no secret is written down"

// Leaks searches texts, by the name of the place, for secrets, by what they are: plain, in hex and in
// base64 however it was cut, and escaped as in JSON. No message holds a secret itself.
func Leaks(texts, secrets map[string]string) []Violation {
	var found []Violation
	for _, place := range slices.Sorted(maps.Keys(texts)) {
		plain := texts[place]
		// Hex comes in both cases. Escapes do, too, so that they are looked for in the same copy.
		small := strings.ToLower(plain)
		for _, name := range slices.Sorted(maps.Keys(secrets)) {
			for _, form := range formsOf(secrets[name]) {
				text := plain
				if form.anyCase {
					text = small
				}
				if strings.Contains(text, form.text) {
					found = append(found, Violation{leaksID, leaksRule, fmt.Sprintf("%s is in %s, %s", name, place, form.name)})
				}
			}
		}
	}
	return found
}

// form is one way to write a secret.
type form struct {
	name, text string
	// anyCase forms are given in lower case.
	anyCase bool
}

func formsOf(secret string) []form {
	forms := []form{
		{"plain", secret, false},
		{"in hex", hex.EncodeToString([]byte(secret)), true},
	}
	if raw, err := hex.DecodeString(strings.TrimPrefix(secret, "0x")); err == nil && len(raw) > 0 {
		// What is hex itself may be written in capitals, and its bytes in base64.
		forms = append(forms, form{"in hex of another case", strings.ToLower(strings.TrimPrefix(secret, "0x")), true})
		forms = append(forms, inBase64(string(raw), "its bytes in base64")...)
	}
	forms = append(forms, inBase64(secret, "in base64")...)
	if escaped, err := json.Marshal(secret); err == nil {
		if inner := string(escaped[1 : len(escaped)-1]); inner != secret {
			forms = append(forms, form{"escaped as in JSON", inner, false})
		}
	}
	var points strings.Builder
	for _, r := range secret {
		fmt.Fprintf(&points, "\\u%04x", r)
	}
	return append(forms, form{"escaped by code points", points.String(), true})
}

// inBase64 is what of a secret shows in base64 wherever it begins among other bytes: in each of the three
// positions, the digits that depend on the secret alone.
func inBase64(secret, name string) []form {
	var forms []form
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString([]byte(strings.Repeat("\x00", before) + secret))
			begin, end := (before*8+5)/6, (before+len(secret))*8/6
			const least = 8 // shorter ones occur by chance
			if end-begin >= least {
				forms = append(forms, form{name, text[begin:end], false})
			}
		}
	}
	return forms
}
