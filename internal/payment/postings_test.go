package payment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestPaymentPostingsReverseUnmatched(t *testing.T) {
	p := Payment{
		Order: "o", Status: Paid, Authorization: x402.Authorization{Value: 25},
		Receipt: &Receipt{Transaction: x402.Hash{1}, LogIndex: 2, Amount: 25},
	}
	settled, transaction := ledger.Settled("o", 25), p.Receipt.Transaction.String()
	if diff := cmp.Diff([]ledger.Posting{settled}, p.Postings()); diff != "" {
		t.Errorf("a payment that was sent for (-want +got):\n%s", diff)
	}
	p.ArrivedAt = new(time.Time)
	matched := ledger.Matched("o", transaction, 2, 25)
	if diff := cmp.Diff([]ledger.Posting{matched, settled}, p.Postings()); diff != "" {
		t.Errorf("money that had arrived (-want +got):\n%s", diff)
	}
	if matched.Undoes != ledger.Unmatched(transaction, 2, 25).ID {
		t.Errorf("it undoes %q", matched.Undoes)
	}
	// The money counts once, although it was posted as unmatched before.
	sums := ledger.Balances(append(p.Postings(), ledger.Unmatched(transaction, 2, 25)))
	if sums[ledger.Treasury] != 25 || sums[ledger.UnmatchedFunds] != 0 || sums[ledger.Customer("o")] != -25 {
		t.Errorf("balances %v", sums)
	}
}

func TestRefundPostings(t *testing.T) {
	r := Refund{Order: "o", Authorization: x402.Authorization{Value: 25}}
	if diff := cmp.Diff([]ledger.Posting{ledger.Refunded("o", 25)}, r.Postings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
