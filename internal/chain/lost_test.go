package chain_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
)

// TestTransactionMissingFromStoreSettlesOnce loses an attempt from the store while its transaction is in the nodes'
// pools, and gives its account nonce to another payment. Whichever transaction is included, every submitted payment
// settles once, and Pending waits for the lost one.
func TestTransactionMissingFromStoreSettlesOnce(t *testing.T) {
	b := newBench(t)
	lost, next := b.claim(buyer(0)), b.claim(buyer(1))
	b.control("evm_setAutomine", false)
	b.submit(lost)
	landed, err := b.relayer.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := landed(t.Context()); all || err != nil {
		t.Errorf("landed before a block has it: %v, %v", all, err)
	}

	b.attempts = paymenttest.NewTransactions(b.now)
	b.relayer = b.newRelayer(b.attempts)
	_ = b.relayer.Submit(t.Context(), next) // refused where a node does not replace what it has
	if nonce := b.wantAttempts(next, payment.TransactionOpen)[0].Nonce; nonce != 0 {
		t.Fatalf("nonce %d, want the one that the store has lost", nonce)
	}
	b.mine(1)
	if all, err := landed(t.Context()); !all || err != nil {
		t.Errorf("not landed after a block: %v, %v", all, err)
	}
	b.control("evm_setAutomine", true)
	for range 4 {
		b.mine(1)
		b.maintain()
		for _, p := range []payment.Payment{next, lost} { // the lost one's buyer asks again with the same payment
			if b.verdict(p).State == payment.Unused {
				_ = b.relayer.Submit(t.Context(), p) // the next round looks what became of it
			}
		}
	}
	b.settles(lost)
	b.settles(next)
	b.wantPayee(2 * price)
}
