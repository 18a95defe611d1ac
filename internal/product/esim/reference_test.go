package esim_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/product/esim"
)

// TestReferencesNeverChange: a supplier knows orders by references that were derived years ago.
func TestReferencesNeverChange(t *testing.T) {
	const name, adopted = "a-wallet/a-key", "adopted:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for _, r := range []struct{ what, got, want string }{
		{"order", esim.OrderRef(name, 1).String(), "f74fd537-1b87-5872-8d5c-518498d1c8f4"},
		{"second order", esim.OrderRef(name, 2).String(), "8df5daf0-162d-57dc-a565-214d84b8ff91"},
		{"adopted order", esim.OrderRef(adopted, 1).String(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
		{"second order, adopted", esim.OrderRef(adopted, 2).String(), "353d1e08-50d1-5e6c-acbf-b2dbe5aaff46"},
	} {
		if r.got != r.want {
			t.Errorf("%s: reference %s, want %s", r.what, r.got, r.want)
		}
	}
}
