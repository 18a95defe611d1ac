package esimaccess_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/secret"
)

// TestVisibilityDelayIsTheVendors: that of the program is shorter than an allocation.
func TestVisibilityDelayIsTheVendors(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 5 * time.Minute, "7m": 7 * time.Minute} {
		s, err := esimaccess.AsSupplier().Dial(provider.Config{
			URL: "https://supplier.example", Key: secret.New(esimaccessfake.DevAccessCode), VisibilityDelay: time.Second,
			Own: provider.Values{
				esimaccess.SecretKey: secret.New("s"), esimaccess.VisibilityDelayKey: secret.New(text),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Traits(); got.VisibilityDelay != want || got.Deduplicates {
			t.Errorf("%q: %+v, want %s", text, got, want)
		}
	}
}

func TestClientWithoutItsSecretIsNotMade(t *testing.T) {
	if _, err := esimaccess.AsSupplier().Dial(provider.Config{Key: secret.New("a")}); err == nil {
		t.Error("requests without a signature are sent")
	}
}
