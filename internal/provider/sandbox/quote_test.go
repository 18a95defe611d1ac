package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Ids that lead an operator to the order stay.
func TestQuoteRedactsCardNumbersOnly(t *testing.T) {
	t.Parallel()
	source := rand.NewChaCha8([32]byte{3})
	said := ""
	issuer := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"ok":false,"error":{"code":"other","message":%q}}`, said)
	})
	told := func(text string) string {
		t.Helper()
		said = text
		_, err := issuer.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
		if err == nil {
			t.Fatalf("%q was taken", text)
		}
		return err.Error()
	}
	names := []string{
		"41111111-1111-4008-8000-012345678901", "0x" + strings.Repeat("1234567890", 4), "0x" + strings.Repeat("12345678", 8),
	}
	for range 300 {
		var hash [32]byte
		if _, err := source.Read(hash[:]); err != nil {
			t.Fatal(err)
		}
		names = append(names, uuid.Must(uuid.NewRandomFromReader(source)).String(), fmt.Sprintf("%#x", hash),
			fmt.Sprintf("%#x", hash[:20]))
	}
	for _, name := range names {
		if text := told("no card for " + name + " yet"); !strings.Contains(text, name) {
			t.Fatalf("%s is taken for a card number: %s", name, text)
		}
	}
	const number = "4000001234567899"
	for _, spelled := range []string{
		number, "4000 0012 3456 7899", "4000-0012-3456-7899", "4000 001234 567899", "0x" + number, number + "-4000-8000",
	} {
		text := told(names[0] + " has " + spelled + " for " + names[0])
		if bare := strings.NewReplacer(" ", "", "-", "").Replace(text); strings.Contains(bare, number) ||
			strings.Count(text, names[0]) != 2 {
			t.Errorf("%q is told as %s", spelled, text)
		}
	}
}
