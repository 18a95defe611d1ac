package auth_test

import (
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/auth"
)

// TestBearerIsReadByItsGrammar writes the scheme in every case and with up to three spaces.
func TestBearerIsReadByItsGrammar(t *testing.T) {
	const scheme, token = "bearer", "rcs_Az0-._~+/=="
	for upper := range 1 << len(scheme) {
		name := []byte(scheme)
		for i := range name {
			if upper&(1<<i) != 0 {
				name[i] -= 'a' - 'A'
			}
		}
		for spaces := range 4 {
			header := string(name) + strings.Repeat(" ", spaces) + token
			got, ok := auth.Bearer(header)
			if ok != (spaces > 0) || ok && got != token {
				t.Errorf("%q has the token %q, %t", header, got, ok)
			}
		}
	}
	for _, header := range []string{
		"", " ", "Bearer", "Bearer ", "Bearer   ", " Bearer " + token, "Bearer\t" + token, "Bearer\u00a0" + token,
		"Bear " + token, "Bearers " + token, "Basic " + token, "Bearer=" + token, token, "ſearer " + token,
	} {
		if got, ok := auth.Bearer(header); ok {
			t.Errorf("%q has the token %q", header, got)
		}
	}
}
