package checkout_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// quota is a screening service that answers so often, and knows some wallets beforehand.
type quota struct {
	mu      sync.Mutex
	left    int
	refused map[x402.Address]bool
	listed  map[x402.Address]bool
}

func (q *quota) Known(_ context.Context, payer x402.Address) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return no(q.listed[payer])
}

func (q *quota) Screen(_ context.Context, payer x402.Address) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left--; q.left < 0 {
		return fault.New(fault.DependencyDown, "the quota is used up")
	}
	return no(q.listed[payer] || q.refused[payer])
}

func no(refused bool) error {
	if refused {
		return fault.New(fault.PayerNotAccepted, "refused")
	}
	return nil
}

// TestPayersWithoutMoneyAreNotScreened: a signature costs nothing, and the screening service has a quota. What
// strangers send who have no money uses up nothing of it.
func TestPayersWithoutMoneyAreNotScreened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		q := &quota{left: 1}
		s.Screener = q
		honest := s.NewBuyer(t)
		for range 5 {
			poor := s.NewBuyer(t)
			s.Chain.Spend(poor.Address)
			_, err := s.Buy(t.Context(), s.PaidCard(t, poor, "k"))
			checkouttest.WantFault(t, err, fault.PaymentRejected)
			cheap := s.NewBuyer(t)
			p := checkouttest.Purchase("k")
			p.Payment = cheap.Pay(t, s.Challenge(t, p), func(a *x402.Authorization) { a.Value = 1 })
			_, err = s.Buy(t.Context(), p)
			checkouttest.WantFault(t, err, fault.PaymentRejected)
			mustCreate(t, s, newOrder(cheap, "later"))
		}
		s.MustBuy(t, s.PaidCard(t, honest, "k"))
		_, err := s.Buy(t.Context(), s.PaidCard(t, s.NewBuyer(t), "k"))
		checkouttest.WantFault(t, err, fault.DependencyDown)
	})
}

// TestRefusedPayerIsScreenedBeforeTheClaim, whether it is known before or the service says so.
func TestRefusedPayerIsScreenedBeforeTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		listed, named := s.NewBuyer(t), s.NewBuyer(t)
		created := mustCreate(t, s, newOrder(named, "later"))
		s.Screener = &quota{
			left: 100, listed: map[x402.Address]bool{listed.Address: true}, refused: map[x402.Address]bool{named.Address: true},
		}
		for _, b := range []checkouttest.Buyer{listed, named} {
			_, err := s.Buy(t.Context(), s.PaidCard(t, b, "k"))
			checkouttest.WantFault(t, err, fault.PayerNotAccepted)
		}
		_, err := s.Create(t.Context(), newOrder(listed, "later"))
		checkouttest.WantFault(t, err, fault.PayerNotAccepted)
		required := termsOf(t, s, created.ID)
		_, err = s.Pay(t.Context(), created.ID, named.Pay(t, required), x402.Resource{})
		checkouttest.WantFault(t, err, fault.PayerNotAccepted)
		if n := s.Spent(listed) + s.Spent(named); n != 0 {
			t.Errorf("they have spent %d", n)
		}
	})
}
