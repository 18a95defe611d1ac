package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

var payer = x402.Address{0: 0xaa, 19: 1}

// claimRequest is a purchase of a key, paid by an authorization of its own, without reservations.
func claimRequest(key string, change ...func(*checkout.ClaimRequest)) checkout.ClaimRequest {
	now := time.Now().UTC().Truncate(time.Microsecond)
	p := checkout.ClaimRequest{
		Order: order.Order{
			ID: order.NewID(time.Now()), Operation: uuid.New(), Kind: card.Kind, Owner: payer, Key: key, Price: 2500,
			Fingerprint: order.FingerprintOf(card.Kind, json.RawMessage(`{}`)), Item: json.RawMessage(`{}`),
			CreatedAt: now, UpdatedAt: now,
		},
		Payment: payment.Payment{
			ID: uuid.New(), Status: payment.Claimed, Network: x402.NetworkID, Asset: x402.Address{19: 9}, CreatedAt: now,
			Authorization: x402.Authorization{From: payer, To: x402.Address{19: 7}, Value: 25_000_000,
				ValidBefore: 2_000_000_000, Nonce: nonce()},
		},
		Funds: 1_000_000_000_000,
	}
	p.Payment.Order = p.Order.ID
	for _, f := range change {
		f(&p)
	}
	p.Payment.Authorization.From = p.Order.Owner
	p.Job = settlement.FulfillJob(p.Order.ID, p.Payment.ID.String())
	p.Job.LeaseOwner, p.Job.LeaseTTL = "buyer", time.Minute
	return p
}

func nonce() (n x402.Hash) {
	for i := range n {
		n[i] = byte(rand.Uint32())
	}
	return n
}

// paidBy makes a claim use another one's authorization.
func paidBy(other checkout.ClaimRequest) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) { p.Payment.Authorization = other.Payment.Authorization }
}

func reserving(h order.Reservation) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) { p.Reservations = []order.Reservation{h} }
}

func claim(t *testing.T, s *store.Store, p checkout.ClaimRequest) checkout.ClaimResult {
	t.Helper()
	claimed, err := s.Orders().Claim(t.Context(), p)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return claimed
}

// race claims all at once and counts how each claim ended.
func race(
	t *testing.T, s *store.Store, all []checkout.ClaimRequest,
) (claims map[checkout.ClaimOutcome]int, orders map[order.ID]bool) {
	t.Helper()
	claimed := make([]checkout.ClaimResult, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() {
			var err error
			if claimed[i], err = s.Orders().Claim(t.Context(), p); err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
		})
	}
	group.Wait()
	claims, orders = map[checkout.ClaimOutcome]int{}, map[order.ID]bool{}
	for _, p := range claimed {
		claims[p.Claim]++
		if p.Claim != checkout.Reused {
			orders[p.Order.ID] = true
		}
	}
	return claims, orders
}

func TestKeyIsOneOrderWhateverPaysForIt(t *testing.T) {
	s := storetest.New(t)
	for round := range 5 {
		all := make([]checkout.ClaimRequest, 8)
		for i := range all {
			all[i] = claimRequest(fmt.Sprint(round))
		}
		claims, orders := race(t, s, all)
		if claims[checkout.Fresh] != 1 || claims[checkout.Repeated] != len(all)-1 || len(orders) != 1 {
			t.Fatalf("claims %v of orders %v", claims, orders)
		}
	}
	// Another payer's key, and another product's, are other keys.
	stranger := claimRequest("0", func(p *checkout.ClaimRequest) {
		p.Order.Owner, p.Payment.Authorization.From = x402.Address{1}, x402.Address{1}
	})
	product := claimRequest("0", func(p *checkout.ClaimRequest) { p.Order.Kind = topup.Kind })
	for _, p := range []checkout.ClaimRequest{stranger, product} {
		if got := claim(t, s, p); got.Claim != checkout.Fresh {
			t.Errorf("%s of %s: claim %d", p.Order.Kind, p.Order.Owner, got.Claim)
		}
	}
}

func TestAuthorizationPaysForOneOrder(t *testing.T) {
	s := storetest.New(t)
	for round := range 5 {
		first := claimRequest(fmt.Sprint(round, "/0"))
		all := []checkout.ClaimRequest{first}
		for i := range 7 {
			all = append(all, claimRequest(fmt.Sprint(round, "/", i+1), paidBy(first)))
		}
		claims, orders := race(t, s, all)
		if claims[checkout.Fresh] != 1 || claims[checkout.Reused] != len(all)-1 || len(orders) != 1 {
			t.Fatalf("claims %v of orders %v", claims, orders)
		}
	}
	// A copy of the same purchase repeats it.
	p := claimRequest("copied")
	claim(t, s, p)
	if got := claim(t, s, claimRequest("copied", paidBy(p))); got.Claim != checkout.Repeated ||
		got.Order.ID != p.Order.ID {
		t.Errorf("claim %d of %s, want a repeat of %s", got.Claim, got.Order.ID, p.Order.ID)
	}
}

func TestOrderIsClaimedWithItsJobOrNotAtAll(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("k")
	claimed := claim(t, s, p)
	row, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
	if err != nil || !found || row.ID != claimed.Job.ID || row.LeaseOwner != "buyer" || row.Status != job.Processing {
		t.Errorf("job %+v, found %t, %v", row, found, err)
	}
	short := claimRequest("short",
		reserving(order.Reservation{Resource: "float", Units: 2, Limit: 1, Refusal: fault.FloatUnavailable}))
	if _, err := s.Orders().Claim(t.Context(), short); !isShort(err) {
		t.Fatalf("claim: %v", err)
	}
	if _, err := s.Orders().Find(t.Context(), short.Order.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("the order is there: %v", err)
	}
	if _, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, short.Payment.ID.String()); err != nil || found {
		t.Errorf("its job: found %t, %v", found, err)
	}
	// Nor is its authorization spent.
	if got := claim(t, s, claimRequest("later", paidBy(short))); got.Claim != checkout.Fresh {
		t.Errorf("claim %d", got.Claim)
	}
}

func isShort(err error) bool {
	_, ok := errors.AsType[*order.Shortage](err)
	return ok
}

// float is one order's share of what covers two.
func float(asOf time.Time) order.Reservation {
	return order.Reservation{Resource: "float", Units: 2500, Limit: 5000, AsOf: asOf, Refusal: fault.FloatUnavailable}
}

func TestScarceStockIsReservedAsOftenAsItIsThere(t *testing.T) {
	s := storetest.New(t)
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			_, errs[i] = s.Orders().Claim(t.Context(), claimRequest(fmt.Sprint(i), reserving(float(time.Now()))))
		})
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !isShort(err) {
			t.Error(err)
		}
	}
	if won != 2 {
		t.Errorf("%d orders hold what covers two", won)
	}
}

// settled is what a worker records of a proven payment.
func settled(p checkout.ClaimRequest) payment.Payment {
	paid := p.Payment
	paid.Status = payment.Paid
	paid.Receipt = &payment.Receipt{Transaction: nonce(), Block: 1, SettledAt: time.Now().UTC()}
	return paid
}

// move is a step of an order, with what is posted with it.
func move(p checkout.ClaimRequest, from, to order.Status) order.Move {
	m := order.Move{Order: p.Order.ID, Owner: p.Order.Owner, From: from, To: to, Actor: "worker", Reason: "test"}
	switch to {
	case order.Settled:
		m.Postings = settled(p).Postings()
	case order.Fulfilled:
		for _, sold := range []admin.Product{&card.Cards{}, topup.Topups{}, &esim.Esims{}} {
			if sold.Kind() == p.Order.Kind {
				m.Postings, _ = sold.Postings(p.Order) // an item that cannot be read posts nothing
			}
		}
	}
	return m
}

func TestReservationLastsUntilTheOrderIsFinal(t *testing.T) {
	s := storetest.New(t)
	start := time.Now()
	p := claimRequest("k", reserving(float(start)))
	fence := claim(t, s, p).Job.Fence()
	held := func(asOf time.Time) int64 {
		t.Helper()
		sum, err := s.Cards().Reserved(t.Context(), "float", asOf)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	at := order.Settling
	for _, to := range []order.Status{order.Settled, order.Provisioning, order.Fulfilled} {
		if got := held(time.Now().Add(time.Minute)); got != 2500 {
			t.Errorf("%s holds %d", at, got)
		}
		var err error
		if to == order.Settled {
			err = errOf(s.Orders().Settle(t.Context(), fence, settled(p), move(p, at, to), watchJob(p)))
		} else {
			err = errOf(s.Orders().Move(t.Context(), fence, move(p, at, to)))
		}
		if err != nil {
			t.Fatalf("move to %s: %v", to, err)
		}
		at = to
	}
	if got := held(time.Now().Add(time.Minute)); got != 0 {
		t.Errorf("%s holds %d", at, got)
	}
	// Whoever read the float before the order took its share of it must still count that share.
	if got := held(start); got != 2500 {
		t.Errorf("%d by a reading of before, want 2500", got)
	}
}

func TestDeadPaymentReleasesItsReservationsAndMayBeReplaced(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("k", reserving(float(time.Now())))
	fence := claim(t, s, p).Job.Fence()
	dead := p.Payment
	dead.Status, dead.DeadReason = payment.Dead, payment.ReasonExpired
	if err := errOf(s.Orders().MarkDead(t.Context(), fence, dead,
		move(p, order.Settling, order.PaymentRequired))); err != nil {
		t.Fatalf("mark dead: %v", err)
	}
	if held, err := s.Cards().Reserved(t.Context(), "float", time.Now().Add(time.Minute)); err != nil || held != 0 {
		t.Errorf("holds %d, %v", held, err)
	}
	open, err := s.Orders().Find(t.Context(), p.Order.ID)
	if err != nil || open.Status != order.PaymentRequired {
		t.Fatalf("order %+v, %v", open, err)
	}
	again := func() checkout.ClaimRequest {
		return claimRequest("k", func(n *checkout.ClaimRequest) {
			n.Order, n.Payment.Order, n.Existing = open, open.ID, true
		})
	}
	claims, _ := race(t, s, []checkout.ClaimRequest{again(), again(), again(), again()})
	if claims[checkout.Fresh] != 1 || claims[checkout.Repeated] != 3 {
		t.Errorf("claims %v", claims)
	}
}

func TestWorkerThatLostItsJobMovesNothing(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("k")
	lost := claim(t, s, p).Job.Fence()
	lost.Attempt++ // another claim's
	dead := p.Payment
	dead.Status = payment.Dead
	for name, err := range map[string]error{
		"settle": errOf(s.Orders().Settle(t.Context(), lost, settled(p), move(p, order.Settling, order.Settled),
			watchJob(p))),
		"mark dead": errOf(s.Orders().MarkDead(t.Context(), lost, dead, move(p, order.Settling, order.PaymentRequired))),
	} {
		if !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("%s: %v, want the lease lost", name, err)
		}
	}
	found, err := s.Orders().Find(t.Context(), p.Order.ID)
	if err != nil || found.Status != order.Settling || found.Version != 1 {
		t.Errorf("order %+v, %v", found, err)
	}
	payments, err := s.Orders().Payments(t.Context(), p.Order.ID)
	if err != nil || payments[p.Order.ID].Status != payment.Claimed {
		t.Errorf("payment %+v, %v", payments[p.Order.ID], err)
	}
}

func TestMoveStartsAtTheOrdersStatus(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("k")
	fence := claim(t, s, p).Job.Fence()
	for _, wrong := range []order.Move{
		move(p, order.Provisioning, order.Fulfilled), // not there yet
		move(p, order.Settling, order.Fulfilled),     // not in the table
	} {
		if err := errOf(s.Orders().Move(t.Context(), fence, wrong)); err == nil {
			t.Errorf("moved from %s to %s", wrong.From, wrong.To)
		}
	}
	if err := errOf(s.Orders().Settle(t.Context(), fence, settled(p), move(p, order.Settling, order.Settled),
		watchJob(p))); err != nil {
		t.Fatal(err)
	}
	if err := errOf(s.Orders().Settle(t.Context(), fence, settled(p), move(p, order.Settling, order.Settled),
		watchJob(p))); err == nil {
		t.Error("settled twice")
	}
}

func watchJob(p checkout.ClaimRequest) job.New {
	return job.New{Args: settlement.ConfirmArgs{Order: p.Order.ID}, UniqueKey: p.Payment.ID.String()}
}

// errOf is how a move of an order went.
func errOf(_ order.Order, err error) error { return err }

// TestOnlyTheOwnerPays: the unique keys of payments count by owner, so a payment of somebody else's is never stored.
func TestOnlyTheOwnerPays(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("paid by another")
	p.Payment.Authorization.From = x402.Address{19: 0xb}
	if claimed, err := s.Orders().Claim(t.Context(), p); err == nil {
		t.Errorf("claimed: %+v", claimed)
	}
	if _, err := s.Orders().Find(t.Context(), p.Order.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("the order: %v, want none", err)
	}
}
