package paymenttest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment/paymenttest"
)

func TestAttemptsConform(t *testing.T) {
	paymenttest.RunAttempts(t, func(*testing.T) paymenttest.AttemptsStore {
		return paymenttest.AttemptsStore{
			Attempts: paymenttest.NewAttempts(time.Now),
			Claim:    func(*testing.T) uuid.UUID { return uuid.New() },
		}
	})
}
