package chain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// failingStore lets a transaction be signed and then fails to store it.
type failingStore struct{ chain.Transactions }

func (failingStore) Prepare(
	_ context.Context, payments []uuid.UUID, _ x402.Address, w payment.Window, sign payment.SignBatch,
) ([]payment.Transaction, error) {
	_, err := sign(w.First, payments)
	return nil, errors.Join(err, errors.New("not stored"))
}

func TestSubmitSendsNothingThatIsNotStored(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.control("evm_setAutomine", false)
	if err := b.newRelayer(failingStore{b.attempts}).Submit(t.Context(), p); err == nil {
		t.Fatal("submitted without an attempt")
	}
	var pool struct{ Pending, Queued hexutil.Uint64 }
	if err := b.node.CallContext(t.Context(), &pool, "txpool_status"); err != nil || pool.Pending+pool.Queued != 0 {
		t.Errorf("%d transactions wait in the pool, %v", pool.Pending+pool.Queued, err)
	}
}

func TestSubmitMakesNoSecondTransactionWhileOneIsInFlight(t *testing.T) {
	b := newBench(t)
	p := b.claim(buyer(0))
	b.control("evm_setAutomine", false)
	for range 3 {
		b.submit(p)
	}
	if n := len(b.wantAttempts(p, payment.TransactionOpen)[0].Variants); n != 1 {
		t.Errorf("%d variants", n)
	}
	b.waiting(1)
	b.mine(1)
	b.settles(p)
	b.wantPayee(price)
}
