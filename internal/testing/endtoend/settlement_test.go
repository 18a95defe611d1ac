package endtoend_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestStartFailsWithoutKeyOfPendingTransaction(t *testing.T) {
	url := storetest.URL(t)
	lost := x402.Address{0: 0xde, 19: 0xad}
	_, err := storetest.Open(t, url).Transactions().Prepare(t.Context(), []uuid.UUID{uuid.New()}, lost,
		payment.Window{Size: 16},
		func(uint64, []uuid.UUID) (payment.Variant, error) {
			return payment.Variant{Hash: x402.Hash{1}, Raw: []byte{1}, SignedAt: time.Now()}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, plan{})
	w.config.DatabaseURL = secret.New(url)
	a, err := app.New(t.Context(), w.config, app.Options{Log: worldLog(t)})
	if err == nil {
		a.Close()
	}
	if err == nil || !strings.Contains(err.Error(), lost.String()) {
		t.Errorf("%v, want the address %s named", err, lost)
	}
}
