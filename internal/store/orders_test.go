package store_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestOrdersPassTheKit(t *testing.T) {
	checkouttest.RunStore(t, func(t *testing.T) checkouttest.Database {
		url := storetest.URL(t)
		return checkouttest.Database{Open: func(t *testing.T, now func() time.Time) checkouttest.Store {
			t.Helper()
			s, err := store.Open(t.Context(), store.Config{URL: url, Products: storetest.Products(), MaxConns: 8, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return checkouttest.Of(s)
		}}
	})
}

// What the kit claims, settles and refunds, for the rules of PostgreSQL alone.
var (
	payer        = checkouttest.Payer
	claimRequest = checkouttest.NewClaim
	nonce        = checkouttest.Nonce
	reserving    = checkouttest.Reserving
	settled      = checkouttest.SettledBy
	move         = checkouttest.MoveOf
	watchJob     = checkouttest.WatchJob
	errOf        = checkouttest.ErrOf
	isShort      = checkouttest.IsShort
	owned        = checkouttest.Owned
	unpaid       = checkouttest.Unpaid
	newCard      = checkouttest.NewCard
	signedRefund = checkouttest.SignedRefund
	paidBy       = checkouttest.PaidBy
	by           = checkouttest.By
	inFlight     = checkouttest.InFlight
	paying       = checkouttest.Paying
	race         = checkouttest.Race
	unclaimed    = checkouttest.Unclaimed
	claimOf      = checkouttest.ClaimOf
	expire       = checkouttest.Expire
)

func claim(t *testing.T, s *store.Store, p checkout.ClaimRequest) checkout.ClaimResult {
	t.Helper()
	return checkouttest.Claim(t, checkouttest.Of(s), p)
}

func opened(t *testing.T, s *store.Store, o order.Order, alone bool) order.Order {
	t.Helper()
	return checkouttest.Opened(t, checkouttest.Of(s), o, alone)
}

func paidOrder(t *testing.T, s *store.Store, key string, along ...order.Status) (checkout.ClaimRequest, job.Fence) {
	t.Helper()
	return checkouttest.PaidOrder(t, checkouttest.Of(s), key, along...)
}
