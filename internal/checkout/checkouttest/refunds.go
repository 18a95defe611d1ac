package checkouttest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// PaidOrder claims an order, settles it and moves it on, under a live fence.
func PaidOrder(t *testing.T, s Store, key string, along ...order.Status) (checkout.ClaimRequest, job.Fence) {
	t.Helper()
	p := NewClaim(key, Reserving(order.Reservation{Resource: "float/" + key, Units: 1, Limit: 1}))
	fence := Claim(t, s, p).Job.Fence()
	if err := ErrOf(s.Orders.Settle(t.Context(), fence, SettledBy(p), MoveOf(p, order.Settling, order.Settled),
		WatchJob(p))); err != nil {
		t.Fatalf("settle: %v", err)
	}
	at := order.Settled
	for _, to := range along {
		m := MoveOf(p, at, to)
		m.Refused = to == order.RefundPending
		if err := ErrOf(s.Orders.Move(t.Context(), fence, m)); err != nil {
			t.Fatalf("move to %s: %v", to, err)
		}
		at = to
	}
	return p, fence
}

func SignedRefund(p checkout.ClaimRequest, validBefore uint64) payment.Refund {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return payment.Refund{
		ID: uuid.New(), Order: p.Order.ID, Status: payment.RefundSigned, Network: x402.NetworkID, Asset: p.Payment.Asset,
		Authorization: x402.Authorization{
			From: x402.Address{19: 7}, To: Payer, Value: 25_000_000, ValidBefore: validBefore,
			Nonce: payment.RefundNonce(p.Payment.Authorization),
		},
		Signature: Signature, CreatedAt: now, SignedAt: now,
	}
}

func refundOf(t *testing.T, s Store, id order.ID) payment.Refund {
	t.Helper()
	found, err := s.Orders.Refunds(t.Context(), id)
	if err != nil || len(found) != 1 {
		t.Fatalf("refunds %v, %v", found, err)
	}
	return found[id]
}

func followRefund(r payment.Refund) job.New {
	return job.New{Args: settlement.RefundConfirmArgs{Order: r.Order}, UniqueKey: r.ID.String()}
}

func refundIsStoredBeforeItIsSentAndReplacedOnlyAsRead(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p, fence := PaidOrder(t, s, "k", order.Provisioning, order.RefundPending)
	first := SignedRefund(p, 1000)
	if err := s.Orders.SignRefund(t.Context(), fence, first, nil); err != nil {
		t.Fatalf("sign: %v", err)
	}
	if diff := cmp.Diff(first, refundOf(t, s, p.Order.ID)); diff != "" {
		t.Error(diff)
	}
	twin := SignedRefund(p, 1500)
	if err := s.Orders.SignRefund(t.Context(), fence, twin, nil); err == nil {
		t.Error("an order has two refunds")
	}
	again := first
	again.Authorization.ValidBefore, again.SignedAt = 2000, first.SignedAt.Add(time.Second)
	if err := s.Orders.SignRefund(t.Context(), fence, again, &first); err != nil {
		t.Fatalf("sign again: %v", err)
	}
	late := first
	late.Authorization.ValidBefore = 3000
	if err := s.Orders.SignRefund(t.Context(), fence, late, &first); err == nil {
		t.Error("a window was signed over one that had been replaced")
	}
	lost := fence
	lost.Attempt++
	if err := s.Orders.SignRefund(t.Context(), lost, late, &again); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("signed without the lease: %v", err)
	}
	if diff := cmp.Diff(again, refundOf(t, s, p.Order.ID)); diff != "" {
		t.Error(diff)
	}
}

func refundIsRecordedOnceWithItsOrderAndItsWatchJob(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p, fence := PaidOrder(t, s, "k", order.Provisioning, order.RefundPending)
	r := SignedRefund(p, 1000)
	if err := s.Orders.SignRefund(t.Context(), fence, r, nil); err != nil {
		t.Fatal(err)
	}
	r.Status = payment.RefundPaid
	r.Receipt = &payment.Receipt{
		Transaction: x402.Hash{1}, Block: 2, BlockHash: x402.Hash{3}, LogIndex: 4, Payer: r.Authorization.From, PayTo: Payer,
		Amount: r.Authorization.Value, SettledAt: time.Unix(1_800_000_000, 0).UTC(),
	}
	m := MoveOf(p, order.RefundPending, order.Refunded)
	m.Postings = r.Postings()
	errs := make([]error, 4)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = ErrOf(s.Orders.Refunded(t.Context(), fence, r, m, followRefund(r))) })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	if won != 1 {
		t.Fatalf("recorded %d times: %v", won, errs)
	}
	if diff := cmp.Diff(r, refundOf(t, s, p.Order.ID)); diff != "" {
		t.Error(diff)
	}
	o, err := s.Orders.Find(t.Context(), p.Order.ID)
	if err != nil || o.Status != order.Refunded || o.Delivery != 2 {
		t.Errorf("order %+v, %v", o, err)
	}
	if posted := s.Postings(t, p.Order.ID); balanceOf(posted, ledger.Customer(string(p.Order.ID))) != 0 {
		t.Errorf("the ledger owes the customer of a refunded order: %+v", posted)
	}
	if held, err := s.Cards.Reserved(t.Context(), "float/k", time.Now().Add(time.Minute)); err != nil || held != 0 {
		t.Errorf("holds %d, %v", held, err)
	}
	if _, found, err := s.Jobs.Find(t.Context(), settlement.RefundConfirming, r.ID.String()); err != nil || !found {
		t.Errorf("nobody follows the refund: %v", err)
	}
	moved := r
	moved.Receipt = &payment.Receipt{Transaction: x402.Hash{9}, BlockHash: x402.Hash{8}, SettledAt: r.Receipt.SettledAt}
	if err := s.Orders.ReproveRefund(t.Context(), fence, moved); err != nil ||
		refundOf(t, s, p.Order.ID).Receipt.Transaction != (x402.Hash{9}) {
		t.Errorf("the final transfer is not recorded: %v", err)
	}
}

func retryHasACardOfItsOwn(t *testing.T, db Database) {
	s := db.Open(t, nil)
	p, fence := PaidOrder(t, s, "k", order.Provisioning)
	first, second := NewCard(p), NewCard(p)
	for range 2 {
		if got, err := s.Cards.Reserve(t.Context(), fence, first); err != nil || got.ID != first.ID {
			t.Fatalf("reserve: %+v, %v", got, err)
		}
	}
	if _, err := s.Cards.Reserve(t.Context(), fence, second); err == nil {
		t.Error("an order has two cards")
	}
	if err := s.Cards.Fail(t.Context(), fence, first.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Cards.Reserve(t.Context(), fence, second); err != nil || got.ID != second.ID {
		t.Fatalf("reserve after a refusal: %+v, %v", got, err)
	}
	issued, err := s.Cards.Issued(t.Context(), p.Order.ID)
	if err != nil || issued[p.Order.ID].ID != second.ID {
		t.Errorf("issued %+v, %v", issued, err)
	}
}

func balanceOf(postings []ledger.Posting, account ledger.Account) money.USDC {
	sum, posted := ledger.Balances(postings)[account]
	if !posted {
		return -1
	}
	return sum
}

func NewCard(p checkout.ClaimRequest) card.Card {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return card.Card{
		ID: uuid.Must(uuid.NewV7()), Order: p.Order.ID, Owner: p.Order.Owner, Status: card.Pending,
		Ref:       fulfilment.Ref(uuid.New()),
		CreatedAt: now, UpdatedAt: now,
	}
}
