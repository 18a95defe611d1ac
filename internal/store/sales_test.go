package store_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestTransactionsPassTheKit(t *testing.T) {
	paymenttest.RunTransactions(t, func(t *testing.T) paymenttest.TransactionsStore {
		return paymenttest.TransactionsStore{
			Stored: storetest.New(t).Transactions(),
			Claim:  func(*testing.T) uuid.UUID { return uuid.Must(uuid.NewV7()) },
		}
	})
}
