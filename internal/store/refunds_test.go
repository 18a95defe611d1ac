package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
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

var ann = order.Act{Operator: "ann", Key: "k", Reason: "because"}

// paidOrder claims an order, settles it and moves it on, under a live fence.
func paidOrder(t *testing.T, s *store.Store, key string, along ...order.Status) (checkout.ClaimRequest, job.Fence) {
	t.Helper()
	p := claimRequest(key, reserving(order.Reservation{Resource: "float/" + key, Units: 1, Limit: 1}))
	fence := claim(t, s, p).Job.Fence()
	if err := errOf(s.Orders().Settle(t.Context(), fence, settled(p), move(p, order.Settling, order.Settled),
		watchJob(p))); err != nil {
		t.Fatalf("settle: %v", err)
	}
	at := order.Settled
	for _, to := range along {
		m := move(p, at, to)
		m.Refused = to == order.RefundPending
		if err := errOf(s.Orders().Move(t.Context(), fence, m)); err != nil {
			t.Fatalf("move to %s: %v", to, err)
		}
		at = to
	}
	return p, fence
}

func signedRefund(p checkout.ClaimRequest, validBefore uint64) payment.Refund {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return payment.Refund{
		ID: uuid.New(), Order: p.Order.ID, Status: payment.RefundSigned, Network: x402.NetworkID, Asset: p.Payment.Asset,
		Authorization: x402.Authorization{
			From: x402.Address{19: 7}, To: payer, Value: 25_000_000, ValidBefore: validBefore,
			Nonce: payment.RefundNonce(p.Order.ID),
		},
		Signature: x402.Signature{64: 27}, CreatedAt: now, SignedAt: now,
	}
}

func refundOf(t *testing.T, s *store.Store, id order.ID) payment.Refund {
	t.Helper()
	found, err := s.Orders().Refunds(t.Context(), id)
	if err != nil || len(found) != 1 {
		t.Fatalf("refunds %v, %v", found, err)
	}
	return found[id]
}

func followRefund(r payment.Refund) job.New {
	return job.New{Args: settlement.RefundConfirmArgs{Order: r.Order}, UniqueKey: r.ID.String()}
}

func TestRefundIsStoredBeforeItIsSentAndReplacedOnlyAsRead(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning, order.RefundPending)
	first := signedRefund(p, 1000)
	if err := s.Orders().SignRefund(t.Context(), fence, first, nil); err != nil {
		t.Fatalf("sign: %v", err)
	}
	if diff := cmp.Diff(first, refundOf(t, s, p.Order.ID)); diff != "" {
		t.Error(diff)
	}
	twin := signedRefund(p, 1500)
	if err := s.Orders().SignRefund(t.Context(), fence, twin, nil); err == nil {
		t.Error("an order has two refunds")
	}
	again := first
	again.Authorization.ValidBefore, again.SignedAt = 2000, first.SignedAt.Add(time.Second)
	if err := s.Orders().SignRefund(t.Context(), fence, again, &first); err != nil {
		t.Fatalf("sign again: %v", err)
	}
	late := first
	late.Authorization.ValidBefore = 3000
	if err := s.Orders().SignRefund(t.Context(), fence, late, &first); err == nil {
		t.Error("a window was signed over one that had been replaced")
	}
	lost := fence
	lost.Attempt++
	if err := s.Orders().SignRefund(t.Context(), lost, late, &again); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("signed without the lease: %v", err)
	}
	if diff := cmp.Diff(again, refundOf(t, s, p.Order.ID)); diff != "" {
		t.Error(diff)
	}
}

func TestRefundIsRecordedOnceWithItsOrderAndItsWatchJob(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning, order.RefundPending)
	r := signedRefund(p, 1000)
	if err := s.Orders().SignRefund(t.Context(), fence, r, nil); err != nil {
		t.Fatal(err)
	}
	r.Status = payment.RefundPaid
	r.Receipt = &payment.Receipt{
		Transaction: x402.Hash{1}, Block: 2, BlockHash: x402.Hash{3}, LogIndex: 4, Payer: r.Authorization.From, PayTo: payer,
		Amount: r.Authorization.Value, SettledAt: time.Unix(1_800_000_000, 0).UTC(),
	}
	m := move(p, order.RefundPending, order.Refunded)
	m.Postings = r.Postings()
	errs := make([]error, 4)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = errOf(s.Orders().Refunded(t.Context(), fence, r, m, followRefund(r))) })
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
	o, err := s.Orders().Find(t.Context(), p.Order.ID)
	if err != nil || o.Status != order.Refunded || o.Delivery != 2 {
		t.Errorf("order %+v, %v", o, err)
	}
	if records, err := treasury(s).OfOrders(t.Context(), []order.ID{p.Order.ID}, nil); err != nil ||
		balanceOf(records.Postings, ledger.Customer(string(p.Order.ID))) != 0 {
		t.Errorf("the ledger owes the customer of a refunded order: %+v, %v", records.Postings, err)
	}
	if held, err := s.Cards().Reserved(t.Context(), "float/k", time.Now().Add(time.Minute)); err != nil || held != 0 {
		t.Errorf("holds %d, %v", held, err)
	}
	if _, found, err := s.Jobs().Find(t.Context(), settlement.RefundConfirming, r.ID.String()); err != nil || !found {
		t.Errorf("nobody follows the refund: %v", err)
	}
	moved := r
	moved.Receipt = &payment.Receipt{Transaction: x402.Hash{9}, BlockHash: x402.Hash{8}, SettledAt: r.Receipt.SettledAt}
	if err := s.Orders().ReproveRefund(t.Context(), fence, moved); err != nil ||
		refundOf(t, s, p.Order.ID).Receipt.Transaction != (x402.Hash{9}) {
		t.Errorf("the final transfer is not recorded: %v", err)
	}
}

// decided is an order after the decision of an operator.
func decided(p checkout.ClaimRequest, to order.Status, act order.Act) order.Move {
	m := move(p, order.OperatorReview, to)
	m.Actor, m.Reason = "operator:"+act.Operator, act.Reason
	return m
}

func TestDecisionIsStoredWithItsAuditRowOrNotAtAll(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning, order.OperatorReview)
	carrier := func() job.Row {
		t.Helper()
		row, found, err := s.Jobs().Find(t.Context(), settlement.Fulfilling, p.Payment.ID.String())
		if err != nil || !found {
			t.Fatalf("job: %v", err)
		}
		return row
	}
	if err := s.Jobs().Mark(t.Context(), fence, "open"); err != nil {
		t.Fatal(err)
	}
	decisions := make([]error, 8)
	var all sync.WaitGroup
	for i := range decisions {
		all.Go(func() { decisions[i] = s.Admin().Decide(t.Context(), decided(p, order.Provisioning, ann), ann) })
	}
	all.Wait()
	for _, err := range decisions {
		if err != nil {
			t.Errorf("a repeat of the decision: %v", err)
		}
	}
	// The job is due again, under no lease, and still has what the issuer may have been sent.
	if row := carrier(); row.Status != job.Queued || row.LeaseOwner != "" || row.Step != "open" || row.Used() != 0 {
		t.Errorf("job %+v", row)
	}
	// The worker that was closing it can no longer write.
	if err := errOf(s.Orders().Move(t.Context(), fence,
		move(p, order.Provisioning, order.Fulfilled))); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("moved without the lease: %v", err)
	}
	for name, act := range map[string]order.Act{
		"another reason":    {Operator: "ann", Key: "k", Reason: "other"},
		"nothing to decide": {Operator: "ann", Key: "k2", Reason: "because"},
	} {
		err := s.Admin().Decide(t.Context(), decided(p, order.Provisioning, act), act)
		if !errors.Is(err, order.KeyReused()) && !errors.Is(err, admin.ErrNotInReview) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, ann), ann); !errors.Is(err, order.KeyReused()) {
		t.Errorf("another decision with the key: %v", err)
	}
	history, err := s.Admin().History(t.Context(), p.Order.ID, order.Act{Operator: "ann"})
	if err != nil || len(history.Timeline) != 5 || history.Timeline[4].Actor != "operator:ann" ||
		history.Timeline[4].Reason != "because" {
		t.Errorf("timeline %+v, %v", history.Timeline, err)
	}
	if len(history.Payments) != 1 || history.Refund != nil || len(history.Jobs) != 2 {
		t.Errorf("history %+v", history)
	}
}

func TestNothingIsDecidedWhileARefundMayMoveMoney(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning, order.RefundPending)
	r := signedRefund(p, 1000)
	if err := s.Orders().SignRefund(t.Context(), fence, r, nil); err != nil {
		t.Fatal(err)
	}
	// Past the one way out of refund_pending that a worker has.
	if err := errOf(s.Orders().Move(t.Context(), fence, move(p, order.RefundPending, order.OperatorReview))); err != nil {
		t.Fatal(err)
	}
	if err := s.Admin().Decide(t.Context(), decided(p, order.Fulfilled, ann), ann); err == nil {
		t.Error("fulfilled while the refund is out")
	}
	other, fence := paidOrder(t, s, "k2", order.Provisioning, order.RefundPending)
	r = signedRefund(other, 1000)
	if err := s.Orders().SignRefund(t.Context(), fence, r, nil); err != nil {
		t.Fatal(err)
	}
	if err := errOf(s.Orders().MarkRefundDead(t.Context(), fence, r,
		move(other, order.RefundPending, order.OperatorReview))); err != nil {
		t.Fatalf("give up: %v", err)
	}
	if err := s.Admin().Decide(t.Context(), decided(other, order.Fulfilled, ann), ann); err != nil {
		t.Errorf("decide: %v", err)
	}
}

func TestSwitchIsSetOncePerKeyAndSeenByAll(t *testing.T) {
	url := storetest.URL(t)
	s, other := storetest.Open(t, url), storetest.Open(t, url)
	all, err := other.Admin().Switches(t.Context())
	want := []availability.Switch{
		{Product: card.Kind}, {Product: topup.Kind}, {Product: esim.Kind}, {Product: esim.TopupKind},
	}
	if err != nil || !cmp.Equal(all, want) {
		t.Fatalf("switches %+v, %v", all, err)
	}
	for range 3 {
		set, err := s.Admin().SetSwitch(t.Context(), topup.Kind, true, ann)
		if err != nil || !set.Paused || set.Operator != "ann" || set.Reason != "because" {
			t.Fatalf("set %+v, %v", set, err)
		}
	}
	if _, err := s.Admin().SetSwitch(t.Context(), topup.Kind, false, ann); !errors.Is(err, order.KeyReused()) {
		t.Errorf("another change with the key: %v", err)
	}
	if all, err = other.Admin().Switches(t.Context()); err != nil || all[0].Paused || !all[1].Paused || all[2].Paused {
		t.Errorf("switches %+v, %v", all, err)
	}
	var changes sync.WaitGroup
	for i := range 8 {
		changes.Go(func() {
			act := order.Act{Operator: fmt.Sprint("op", i), Key: "k", Reason: "r"}
			if _, err := s.Admin().SetSwitch(t.Context(), esim.Kind, i%2 == 0, act); err != nil {
				t.Error(err)
			}
		})
	}
	changes.Wait()
}

func TestRetryHasACardOfItsOwn(t *testing.T) {
	s := storetest.New(t)
	p, fence := paidOrder(t, s, "k", order.Provisioning)
	first, second := newCard(p), newCard(p)
	for range 2 {
		if got, err := s.Cards().Reserve(t.Context(), fence, first); err != nil || got.ID != first.ID {
			t.Fatalf("reserve: %+v, %v", got, err)
		}
	}
	if _, err := s.Cards().Reserve(t.Context(), fence, second); err == nil {
		t.Error("an order has two cards")
	}
	if err := s.Cards().Fail(t.Context(), fence, first.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Cards().Reserve(t.Context(), fence, second); err != nil || got.ID != second.ID {
		t.Fatalf("reserve after a refusal: %+v, %v", got, err)
	}
	issued, err := s.Cards().Issued(t.Context(), p.Order.ID)
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

func newCard(p checkout.ClaimRequest) card.Card {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return card.Card{
		ID: uuid.Must(uuid.NewV7()), Order: p.Order.ID, Owner: p.Order.Owner, Status: card.Pending,
		Ref:       fulfilment.Ref(uuid.New()),
		CreatedAt: now, UpdatedAt: now,
	}
}
