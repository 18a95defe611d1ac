package store_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestAttemptsPassTheKit(t *testing.T) {
	paymenttest.RunAttempts(t, func(t *testing.T) paymenttest.AttemptsStore {
		return paymenttest.AttemptsStore{
			Attempts: storetest.New(t).Attempts(),
			Claim:    func(*testing.T) uuid.UUID { return uuid.Must(uuid.NewV7()) },
		}
	})
}
