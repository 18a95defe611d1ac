package esimaccess_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
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

// TestLookbackCoversTheAgeOfABackup: what was ordered before it is ordered again.
func TestLookbackCoversTheAgeOfABackup(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	b.clock.pass(time.Since(b.clock.now()) - 30*time.Hour)
	ref := fulfilmenttest.NewRef()
	b.fake.Add(ref.String()+"-7500", france)
	b.clock.pass(30 * time.Hour)
	for text, found := range map[string]bool{"": false, "48h": true} {
		s, err := esimaccess.AsSupplier().Dial(provider.Config{
			URL: b.web.URL, HTTP: b.web.Client(), Key: secret.New(esimaccessfake.DevAccessCode),
			Own: provider.Values{
				esimaccess.SecretKey: secret.New(esimaccessfake.DevSecret), esimaccess.LookbackKey: secret.New(text),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Ordered(t.Context(), ref); found != (err == nil) || !found && !errors.Is(err, fulfilment.ErrNoRef) {
			t.Errorf("lookback %q: %+v, %v", text, got, err)
		}
	}
}
