package esimgo_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/memory"
)

// TestVisibilityDelayIsTheVendors: that of the program is shorter than a bundle takes.
func TestVisibilityDelayIsTheVendors(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 10 * time.Minute, "7m": 7 * time.Minute} {
		s, err := esimgo.AsSupplier().Dial(provider.Config{
			URL: "https://supplier.example/v2.4", Key: secret.New(esimgofake.DevKey),
			Journal:         memory.New(nil).SupplierJournal("esimgo"),
			VisibilityDelay: time.Second, Own: provider.Values{esimgo.VisibilityDelayKey: secret.New(text)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Traits(); got.VisibilityDelay != want || got.Deduplicates {
			t.Errorf("%q: %+v, want %s", text, got, want)
		}
	}
}

func TestClientWithoutAJournalIsNotMade(t *testing.T) {
	if _, err := esimgo.AsSupplier().Dial(provider.Config{
		URL: "https://supplier.example/v2.4", Key: secret.New(esimgofake.DevKey),
	}); err == nil {
		t.Error("orders are sent that nobody keeps")
	}
}
