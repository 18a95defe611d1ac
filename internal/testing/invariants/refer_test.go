package invariants

import (
	"slices"
	"testing"
)

// TestEsimsOfASupplierWithoutReferencesAreReferred: what has a name in the journal is that reference's, and the rest
// can be what was sent and has no name.
func TestEsimsOfASupplierWithoutReferencesAreReferred(t *testing.T) {
	journal := []journalRow{{"ref-lost", "fr", ""}, {"ref-b", "fr", "b"}, {"ref-never-made", "jp", ""}}
	for name, c := range map[string]struct {
		esims []supplierEsim
		want  []string
	}{
		"one is named": {[]supplierEsim{{ID: "b", Code: "fr"}}, []string{"ref-b"}},
		"one is lost": {
			[]supplierEsim{{ID: "a", Code: "fr"}, {ID: "b", Code: "fr"}}, []string{"ref-lost", "ref-b"},
		},
		"one was sent twice": {
			[]supplierEsim{{ID: "a", Code: "fr"}, {ID: "c", Code: "fr"}}, []string{"ref-lost", "none of eSIM c"},
		},
		"one is of another plan": {[]supplierEsim{{ID: "a", Code: "es"}}, []string{"none of eSIM a"}},
		"one has its client's name": {
			[]supplierEsim{{ID: "a", Reference: "11111111-2222-3333-4444-555555555555-7500"}},
			[]string{"11111111-2222-3333-4444-555555555555"},
		},
	} {
		refer(c.esims, journal)
		var got []string
		for _, e := range c.esims {
			got = append(got, e.Reference)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
