package checkout_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestSecretsAreRepeatedToThePayerOnly: a settled payment can be read from the chain, with its signature.
func TestSecretsAreRepeatedToThePayerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b, other := s.NewBuyer(t), s.NewBuyer(t)
		const hard, easy = "a-key-that-nobody-guesses", "order-1"
		ask := func(key, pay string) bool {
			t.Helper()
			again := checkouttest.Purchase(key)
			again.Payment = pay
			sold := s.MustBuy(t, again)
			if !sold.Replayed {
				t.Fatalf("%s: bought anew", key)
			}
			return sold.ProvenCaller
		}
		first := s.PaidCard(t, b, hard)
		if sold := s.MustBuy(t, first); !sold.ProvenCaller || sold.Replayed {
			t.Errorf("the first answer: %+v", sold)
		}
		required := s.Challenge(t, checkouttest.Purchase(hard))
		if !ask(hard, first.Payment) {
			t.Error("the same header with a hard key shows nothing")
		}
		if !ask(hard, b.Pay(t, required)) {
			t.Error("a fresh authorization shows nothing")
		}
		expired := func(a *x402.Authorization) { a.ValidBefore = uint64(time.Now().Add(-time.Second).Unix()) }
		cheap := func(a *x402.Authorization) { a.Value = 1 }
		for name, change := range map[string]func(*x402.Authorization){"expired": expired, "for another amount": cheap} {
			if ask(hard, b.Pay(t, required, change)) {
				t.Errorf("an authorization that is %s shows secrets", name)
			}
		}
		// Settled by somebody, past us: its signature is public.
		elsewhere := b.Pay(t, required)
		pay, err := x402.DecodePayment(elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Chain.Submit(t.Context(),
			payment.Payment{ID: uuid.New(), Authorization: pay.Authorization, Signature: pay.Signature}); err != nil {
			t.Fatal(err)
		}
		if ask(hard, elsewhere) {
			t.Error("an authorization that is on the chain shows secrets")
		}

		short := s.PaidCard(t, other, easy)
		s.MustBuy(t, short)
		if ask(easy, short.Payment) {
			t.Error("a header rebuilt from the chain shows secrets to who guesses the key")
		}
		if !ask(easy, other.Pay(t, required)) {
			t.Error("a fresh authorization shows nothing")
		}
		// The same header, when its time is over.
		s.Offset.Store(int64(3 * time.Minute))
		if ask(hard, first.Payment) {
			t.Error("a header outlives its validity")
		}
	})
}
