package checkouttest

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
	"github.com/roamcard/roamcard/internal/x402"
)

// Payer is who pays for claims.
var Payer = x402.Address{0: 0xaa, 19: 1}

// Signature has the form of a key's; nothing that keeps payments checks it.
var Signature = x402.KeySignature(make([]byte, 64), 0)

// NewClaim is a purchase of a key, paid by an authorization of its own, without reservations.
func NewClaim(key string, change ...func(*checkout.ClaimRequest)) checkout.ClaimRequest {
	now := time.Now().UTC().Truncate(time.Microsecond)
	p := checkout.ClaimRequest{
		Order: order.Order{
			ID: order.NewID(time.Now()), Operation: uuid.New(), Kind: card.Kind, Owner: Payer, Key: key, Price: 2500,
			Fingerprint: order.FingerprintOf(card.Kind, json.RawMessage(`{}`)), Item: json.RawMessage(`{}`),
			CreatedAt: now, UpdatedAt: now,
		},
		Payment: payment.Payment{
			ID: uuid.New(), Status: payment.Claimed, Network: x402.NetworkID, Asset: x402.Address{19: 9}, CreatedAt: now,
			Signature: Signature,
			Authorization: x402.Authorization{From: Payer, To: x402.Address{19: 7}, Value: 25_000_000,
				ValidBefore: 2_000_000_000, Nonce: Nonce()},
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

func Nonce() (n x402.Hash) {
	for i := range n {
		n[i] = byte(rand.Uint32())
	}
	return n
}

// PaidBy makes a claim use another one's authorization.
func PaidBy(other checkout.ClaimRequest) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) { p.Payment.Authorization = other.Payment.Authorization }
}

func Reserving(h order.Reservation) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) { p.Reservations = []order.Reservation{h} }
}

func Claim(t *testing.T, s Store, p checkout.ClaimRequest) checkout.ClaimResult {
	t.Helper()
	claimed, err := s.Orders.Claim(t.Context(), p)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return claimed
}

// Race claims all at once and counts how each claim ended.
func Race(
	t *testing.T, s Store, all []checkout.ClaimRequest,
) (claims map[checkout.ClaimOutcome]int, orders map[order.ID]bool) {
	t.Helper()
	claimed := make([]checkout.ClaimResult, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() {
			var err error
			if claimed[i], err = s.Orders.Claim(t.Context(), p); err != nil {
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

func keyIsOneOrderWhateverPaysForIt(t *testing.T, db Database) {
	s := db.Open(t, nil)
	for round := range 5 {
		all := make([]checkout.ClaimRequest, 8)
		for i := range all {
			all[i] = NewClaim(fmt.Sprint(round))
		}
		claims, orders := Race(t, s, all)
		if claims[checkout.Fresh] != 1 || claims[checkout.Repeated] != len(all)-1 || len(orders) != 1 {
			t.Fatalf("claims %v of orders %v", claims, orders)
		}
	}
	// Another payer's key, and another product's, are other keys.
	stranger := NewClaim("0", func(p *checkout.ClaimRequest) {
		p.Order.Owner, p.Payment.Authorization.From = x402.Address{1}, x402.Address{1}
	})
	product := NewClaim("0", func(p *checkout.ClaimRequest) { p.Order.Kind = topup.Kind })
	for _, p := range []checkout.ClaimRequest{stranger, product} {
		if got := Claim(t, s, p); got.Claim != checkout.Fresh {
			t.Errorf("%s of %s: claim %d", p.Order.Kind, p.Order.Owner, got.Claim)
		}
	}
}

func authorizationPaysForOneOrder(t *testing.T, db Database) {
	s := db.Open(t, nil)
	for round := range 5 {
		first := NewClaim(fmt.Sprint(round, "/0"))
		all := []checkout.ClaimRequest{first}
		for i := range 7 {
			all = append(all, NewClaim(fmt.Sprint(round, "/", i+1), PaidBy(first)))
		}
		claims, orders := Race(t, s, all)
		if claims[checkout.Fresh] != 1 || claims[checkout.Reused] != len(all)-1 || len(orders) != 1 {
			t.Fatalf("claims %v of orders %v", claims, orders)
		}
	}
	// A copy of the same purchase repeats it.
	p := NewClaim("copied")
	Claim(t, s, p)
	if got := Claim(t, s, NewClaim("copied", PaidBy(p))); got.Claim != checkout.Repeated ||
		got.Order.ID != p.Order.ID {
		t.Errorf("claim %d of %s, want a repeat of %s", got.Claim, got.Order.ID, p.Order.ID)
	}
}

func orderIsClaimedWithItsJobOrNotAtAll(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p := NewClaim("k")
	claimed := Claim(t, s, p)
	row, found, err := s.Jobs.Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
	if err != nil || !found || row.ID != claimed.Job.ID || row.LeaseOwner != "buyer" || row.Status != job.Processing {
		t.Errorf("job %+v, found %t, %v", row, found, err)
	}
	short := NewClaim("short",
		Reserving(order.Reservation{Resource: "float", Units: 2, Limit: 1, Refusal: fault.FloatUnavailable}))
	if _, err := s.Orders.Claim(t.Context(), short); !IsShort(err) {
		t.Fatalf("claim: %v", err)
	}
	if _, err := s.Orders.Find(t.Context(), short.Order.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("the order is there: %v", err)
	}
	if _, found, err := s.Jobs.Find(t.Context(), settlement.Fulfilling, short.Payment.ID.String()); err != nil || found {
		t.Errorf("its job: found %t, %v", found, err)
	}
	// Nor is its authorization spent.
	if got := Claim(t, s, NewClaim("later", PaidBy(short))); got.Claim != checkout.Fresh {
		t.Errorf("claim %d", got.Claim)
	}
}

func IsShort(err error) bool {
	_, ok := errors.AsType[*order.Shortage](err)
	return ok
}

// Float is one order's share of what covers two.
func Float(asOf time.Time) order.Reservation {
	return order.Reservation{Resource: "float", Units: 2500, Limit: 5000, AsOf: asOf, Refusal: fault.FloatUnavailable}
}

func scarceStockIsReservedAsOftenAsItIsThere(t *testing.T, db Database) {
	s := db.Open(t, nil)
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			_, errs[i] = s.Orders.Claim(t.Context(), NewClaim(fmt.Sprint(i), Reserving(Float(time.Now()))))
		})
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !IsShort(err) {
			t.Error(err)
		}
	}
	if won != 2 {
		t.Errorf("%d orders hold what covers two", won)
	}
}

// SettledBy is what a worker records of a proven payment.
func SettledBy(p checkout.ClaimRequest) payment.Payment {
	paid := p.Payment
	paid.Status = payment.Paid
	paid.Receipt = &payment.Receipt{Transaction: Nonce(), Block: 1, SettledAt: time.Now().UTC()}
	return paid
}

// MoveOf is a step of an order, with what is posted with it.
func MoveOf(p checkout.ClaimRequest, from, to order.Status) order.Move {
	m := order.Move{Order: p.Order.ID, Owner: p.Order.Owner, From: from, To: to, Actor: "worker", Reason: "test"}
	switch to {
	case order.Settled:
		m.Postings = SettledBy(p).Postings()
	case order.Fulfilled:
		for _, sold := range []admin.Product{&card.Cards{}, topup.Topups{}, &esim.Esims{}} {
			if sold.Kind() == p.Order.Kind {
				m.Postings, _ = sold.Postings(p.Order) // an item that cannot be read posts nothing
			}
		}
	}
	return m
}

func reservationLastsUntilTheOrderIsFinal(t *testing.T, db Database) {
	start := time.Now().UTC().Truncate(time.Microsecond)
	s := db.Open(t, func() time.Time { return start }) // all happens at once
	p := NewClaim("k", Reserving(Float(start)))
	fence := Claim(t, s, p).Job.Fence()
	held := func(asOf time.Time) int64 {
		t.Helper()
		sum, err := s.Cards.Reserved(t.Context(), "float", asOf)
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
			err = ErrOf(s.Orders.Settle(t.Context(), fence, SettledBy(p), MoveOf(p, at, to), WatchJob(p)))
		} else {
			err = ErrOf(s.Orders.Move(t.Context(), fence, MoveOf(p, at, to)))
		}
		if err != nil {
			t.Fatalf("move to %s: %v", to, err)
		}
		at = to
	}
	if got := held(time.Now().Add(time.Minute)); got != 0 {
		t.Errorf("%s holds %d", at, got)
	}
	// Whoever read the float before the order took its share of it, or just then, must still count that share.
	if got := held(start); got != 2500 {
		t.Errorf("%d by a reading of before, want 2500", got)
	}
}

func deadPaymentReleasesItsReservationsAndMayBeReplaced(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p := NewClaim("k", Reserving(Float(time.Now())))
	fence := Claim(t, s, p).Job.Fence()
	dead := p.Payment
	dead.Status, dead.DeadReason = payment.Dead, payment.ReasonExpired
	if err := ErrOf(s.Orders.MarkDead(t.Context(), fence, dead,
		MoveOf(p, order.Settling, order.PaymentRequired))); err != nil {
		t.Fatalf("mark dead: %v", err)
	}
	// Nothing was taken of the float, so who read it before counts it no more either, by whatever clock.
	if held, err := s.Cards.Reserved(t.Context(), "float", time.Now().Add(-time.Minute)); err != nil || held != 0 {
		t.Errorf("holds %d, %v", held, err)
	}
	open, err := s.Orders.Find(t.Context(), p.Order.ID)
	if err != nil || open.Status != order.PaymentRequired {
		t.Fatalf("order %+v, %v", open, err)
	}
	again := func() checkout.ClaimRequest {
		return NewClaim("k", func(n *checkout.ClaimRequest) {
			n.Order, n.Payment.Order, n.Existing = open, open.ID, true
		})
	}
	claims, _ := Race(t, s, []checkout.ClaimRequest{again(), again(), again(), again()})
	if claims[checkout.Fresh] != 1 || claims[checkout.Repeated] != 3 {
		t.Errorf("claims %v", claims)
	}
}

func workerThatLostItsJobMovesNothing(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p := NewClaim("k")
	lost := Claim(t, s, p).Job.Fence()
	lost.Attempt++ // another claim's
	dead := p.Payment
	dead.Status = payment.Dead
	for name, err := range map[string]error{
		"settle": ErrOf(s.Orders.Settle(t.Context(), lost, SettledBy(p), MoveOf(p, order.Settling, order.Settled),
			WatchJob(p))),
		"mark dead": ErrOf(s.Orders.MarkDead(t.Context(), lost, dead, MoveOf(p, order.Settling, order.PaymentRequired))),
	} {
		if !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("%s: %v, want the lease lost", name, err)
		}
	}
	found, err := s.Orders.Find(t.Context(), p.Order.ID)
	if err != nil || found.Status != order.Settling || found.Version != 1 {
		t.Errorf("order %+v, %v", found, err)
	}
	payments, err := s.Orders.Payments(t.Context(), p.Order.ID)
	if err != nil || payments[p.Order.ID].Status != payment.Claimed {
		t.Errorf("payment %+v, %v", payments[p.Order.ID], err)
	}
}

func moveStartsAtTheOrdersStatus(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p := NewClaim("k")
	fence := Claim(t, s, p).Job.Fence()
	for _, wrong := range []order.Move{
		MoveOf(p, order.Provisioning, order.Fulfilled), // not there yet
		MoveOf(p, order.Settling, order.Fulfilled),     // not in the table
	} {
		if err := ErrOf(s.Orders.Move(t.Context(), fence, wrong)); err == nil {
			t.Errorf("moved from %s to %s", wrong.From, wrong.To)
		}
	}
	if err := ErrOf(s.Orders.Settle(t.Context(), fence, SettledBy(p), MoveOf(p, order.Settling, order.Settled),
		WatchJob(p))); err != nil {
		t.Fatal(err)
	}
	if err := ErrOf(s.Orders.Settle(t.Context(), fence, SettledBy(p), MoveOf(p, order.Settling, order.Settled),
		WatchJob(p))); err == nil {
		t.Error("settled twice")
	}
}

func WatchJob(p checkout.ClaimRequest) job.New {
	return job.New{Args: settlement.ConfirmArgs{Order: p.Order.ID}, UniqueKey: p.Payment.ID.String()}
}

// ErrOf is how a move of an order went.
func ErrOf(_ order.Order, err error) error { return err }

// onlyTheOwnerPays: the unique keys of payments count by owner, so a payment of somebody else's is never stored.
func onlyTheOwnerPays(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p := NewClaim("paid by another")
	p.Payment.Authorization.From = x402.Address{19: 0xb}
	if claimed, err := s.Orders.Claim(t.Context(), p); err == nil {
		t.Errorf("claimed: %+v", claimed)
	}
	if _, err := s.Orders.Find(t.Context(), p.Order.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("the order: %v, want none", err)
	}
}
