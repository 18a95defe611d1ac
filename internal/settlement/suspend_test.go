package settlement_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// suspendOthers stores many suspended reservations of another float.
func suspendOthers(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO reservations (id, order_id, owner, resource, units, created_at,
			released_at, suspended_at)
		SELECT gen_random_uuid(), 'other-' || n, '0x' || n, 'float/esim', 490000, now(), now(), now()
		FROM generate_series(1, 200) n`)
	if err != nil {
		t.Fatal(err)
	}
}

// reserved is what orders reserve of the issuer's float.
func reserved(t *testing.T, s *checkouttest.Shop) int64 {
	t.Helper()
	held, err := s.Store.Cards.Reserved(t.Context(), "float/card", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// claimOnly buys what is not paid within the shop's wait, and returns the order that waits.
func claimOnly(t *testing.T, s *checkouttest.Shop, p checkout.Purchase) order.ID {
	t.Helper()
	_, err := s.Buy(t.Context(), p)
	return order.ID(checkouttest.WantFault(t, err, fault.SettlementUnknown).OrderID)
}

// awaitStock waits until the shop, which caches it, has read the issuer's float.
func awaitStock(t *testing.T, s *checkouttest.Shop, want fault.Code) {
	t.Helper()
	checkouttest.Until(t, "the float is read again", func() bool {
		_, err := s.Buy(t.Context(), checkouttest.Purchase("look"))
		return fault.Of(err) == want
	})
}

// TestEmptiedWalletsLeaveTheFloatToOthers: payers claim all of a float and move their money away. An honest buyer is
// served. Of those who pay after all, one gets the card, and one its money back because the float is sold.
func TestEmptiedWalletsLeaveTheFloatToOthers(t *testing.T) {
	const wallets = 56
	url := storetest.URL(t)
	s, treasury := checkouttest.OpenWithTreasury(t, checkouttest.Options{
		Store: checkouttest.Of(storetest.Open(t, url)), Wait: 300 * time.Millisecond,
	}, checkouttest.Price)
	suspendOthers(t, url)
	s.Issuer.SetFloat(wallets * card.Price)
	honest := s.NewBuyer(t)
	p := s.PaidCard(t, honest, "k")
	poor, orders := make([]checkouttest.Buyer, wallets), make([]order.ID, wallets)
	purchases := make([]checkout.Purchase, wallets)
	for i := range poor {
		poor[i] = s.NewBuyer(t)
		purchases[i] = s.PaidCard(t, poor[i], "k")
	}
	s.Chain.StallAll()
	var all sync.WaitGroup
	for i := range poor {
		all.Go(func() { orders[i] = claimOnly(t, s, purchases[i]) })
	}
	all.Wait()
	for _, b := range poor {
		s.Chain.Spend(b.Address)
	}
	s.Chain.Release()
	checkouttest.Until(t, "an honest buyer is served", func() bool {
		_, err := s.Buy(t.Context(), p)
		return err == nil
	})
	checkouttest.Until(t, "nobody else holds the float", func() bool { return reserved(t, s) <= int64(card.Price) })

	s.Chain.Fund(poor[0].Address, checkouttest.Price)
	s.Reaches(t, orders[0], order.Fulfilled)

	s.Issuer.SetFloat(0)
	awaitStock(t, s, fault.FloatUnavailable)
	s.Chain.Fund(poor[1].Address, checkouttest.Price)
	s.Reaches(t, orders[1], order.Refunded)
	if n := s.Moves(t, orders[1], order.Provisioning); n != 0 {
		t.Errorf("a delivery began %d times without a reservation", n)
	}
	if got := s.Chain.Balance(poor[1].Address); got != checkouttest.Price || s.Chain.Balance(treasury) != 0 {
		t.Errorf("the late payer has %s, the treasury %s", got, s.Chain.Balance(treasury))
	}
	if n := len(s.Issuer.Opened()); n != 2 {
		t.Errorf("%d cards", n)
	}
}

// TestMissedPaymentHoldsNothing: its payer has the money at every block, and a block did not move it, or nothing more
// is sent for it.
func TestMissedPaymentHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Wait: 300 * time.Millisecond})
		p := s.PaidCard(t, s.NewBuyer(t), "k")
		for range 30 {
			s.Chain.Next(paymenttest.Miss)
		}
		id := claimOnly(t, s, p)
		checkouttest.Until(t, "the float is free", func() bool { return reserved(t, s) == 0 })
		if o, err := s.Store.Orders.Find(t.Context(), id); err != nil || o.Status != order.Settling {
			t.Errorf("order %s, %v", o.Status, err)
		}
		pay, err := s.Store.Orders.Payments(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		s.Chain.Settle(pay[id].Authorization)
		s.Reaches(t, id, order.Fulfilled)
	})
}

// TestWaitingPaymentKeepsItsFloat: its payer has the money, and no block had it.
func TestWaitingPaymentKeepsItsFloat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Wait: time.Second})
		s.Chain.StallAll()
		id := claimOnly(t, s, s.PaidCard(t, s.NewBuyer(t), "k"))
		if got := reserved(t, s); got != int64(card.Price) {
			t.Errorf("%d reserved for a payment that is on its way", got)
		}
		s.Chain.Release()
		s.Reaches(t, id, order.Fulfilled)
	})
}

// TestRemovedOwnerHoldsNothing: the owner of a smart account signs, is removed, and nothing of the float is held for
// it. Only the end of the authorization makes it void, because the owner may come back.
func TestRemovedOwnerHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{SmartAccounts: true, Wait: 300 * time.Millisecond})
		account, owner := s.NewSmartAccount(t)
		p := s.PaidCard(t, account, "k")
		s.Chain.StallAll()
		id := claimOnly(t, s, p)
		s.Chain.Own(account.Address, x402.Address{})
		checkouttest.Until(t, "the float is free", func() bool { return reserved(t, s) == 0 })
		if o, err := s.Store.Orders.Find(t.Context(), id); err != nil || o.Status != order.Settling {
			t.Errorf("order %s, %v", o.Status, err)
		}
		s.Chain.Own(account.Address, owner)
		s.Chain.Release()
		s.Reaches(t, id, order.Fulfilled)
	})
}
