package paymenttest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment/paymenttest"
)

func TestTransactionsConform(t *testing.T) {
	paymenttest.RunTransactions(t, func(*testing.T) paymenttest.TransactionsStore {
		return paymenttest.TransactionsStore{
			Stored: paymenttest.NewTransactions(time.Now),
			Claim:  func(*testing.T) uuid.UUID { return uuid.New() },
		}
	})
}
