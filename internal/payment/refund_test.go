package payment_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestRefundIsOfOnePayment: after a restore, an order can be paid again whose lost payment was refunded. The chain
// shows that refund, which is none of the second payment. Signed again, or for whatever order, the refund of one
// payment is one.
func TestRefundIsOfOnePayment(t *testing.T) {
	wallet := authtest.NewWallet(t, "treasury")
	treasury := payment.NewTreasury(payment.TreasuryConfig{
		Signer: curve.NewLocalSigner(wallet.Key()), Window: time.Hour, Now: time.Now,
		Domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: 8453, Contract: x402.Address{1}},
	})
	paid := func(by order.ID, nonce byte) payment.Payment {
		return payment.Payment{Order: by, Authorization: x402.Authorization{
			From: x402.Address{2}, To: x402.Address{3}, Value: 25_000_000, Nonce: x402.Hash{nonce},
		}}
	}
	refund := func(p payment.Payment, earlier *payment.Refund) payment.Refund {
		t.Helper()
		r, err := treasury.Refund(t.Context(), wallet.Address(), p, earlier, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	lost := refund(paid("ord_1", 1), nil)
	if again := refund(paid("ord_1", 2), nil); again.Authorization.Nonce == lost.Authorization.Nonce {
		t.Error("the refund of a lost payment is that of the next one")
	}
	if other := refund(paid("ord_2", 1), nil); other.Authorization.Nonce != lost.Authorization.Nonce {
		t.Error("one payment has two refunds")
	}
	began := lost
	began.Authorization.Nonce = x402.Hash{9}
	if later := refund(paid("ord_1", 1), &began); later.Authorization.Nonce != began.Authorization.Nonce {
		t.Error("a refund that was begun gets another nonce")
	}
}
