package store_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestPaymentIsInFlightUntilItIsDecidedOrItsRequestHasEnded, in a batch and by itself.
func TestPaymentIsInFlightUntilItIsDecidedOrItsRequestHasEnded(t *testing.T) {
	s := storetest.New(t)
	wallet := x402.Address{0: 0x66, 19: 1}
	later := func(by time.Duration) func(*checkout.ClaimRequest) {
		return func(p *checkout.ClaimRequest) {
			p.Payment.CreatedAt, p.InFlightSince = p.Payment.CreatedAt.Add(by), p.InFlightSince.Add(by)
		}
	}
	next := func(key string, after time.Duration, room bool) (checkout.ClaimRequest, checkout.ClaimResult) {
		t.Helper()
		p := claimRequest(key, by(wallet, 0), inFlight(1, time.Minute), later(after))
		claimed, errs := claimBatch(t, s, p, claimRequest("with "+key, owned(1), inFlight(0, 0)))
		if no := refused(errs[0]); (errs[0] == nil) != room || !room && no == nil || errs[1] != nil {
			t.Errorf("%s: %v", key, errs)
		}
		return p, claimed[0]
	}
	first, claimed := next("first", 0, true)
	next("at once", time.Second, false)
	if err := errOf(s.Orders().Settle(t.Context(), claimed.Job.Fence(), settled(first),
		move(first, order.Settling, order.Settled), watchJob(first))); err != nil {
		t.Fatalf("settle: %v", err)
	}
	next("once it is paid", 2*time.Second, true)
	next("then", 3*time.Second, false)
	next("once nobody waits for that", 2*time.Minute, true)
}

func TestLossesCountPerPayerForAnHour(t *testing.T) {
	s := storetest.New(t)
	wallet := x402.Address{0: 0x55, 19: 1}
	mine, mineToo, others := claimRequest("a", by(wallet, 0)), claimRequest("b", by(wallet, 0)),
		claimRequest("c", by(x402.Address{0: 0x56}, 0))
	paid := claimRequest("d", by(wallet, 0))
	var fence job.Fence
	for _, p := range []checkout.ClaimRequest{mine, mineToo, others, paid} {
		fence = claim(t, s, p).Job.Fence()
	}
	revert := func(id uuid.UUID, spent int64) { t.Helper(); reverted(t, s, id, spent) }
	revert(mine.Payment.ID, 3)
	revert(mineToo.Payment.ID, 5)
	revert(others.Payment.ID, 100)
	revert(paid.Payment.ID, 1000) // somebody else was quicker to send it
	if err := errOf(s.Orders().Settle(t.Context(), fence, settled(paid), move(paid, order.Settling, order.Settled),
		watchJob(paid))); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(-time.Hour)
	if got, err := s.Transactions().Lost(t.Context(), mine.Payment, hour); err != nil ||
		got != (payment.Losses{Reverts: 1, Payer: 8, All: 1108}) {
		t.Errorf("losses %+v, %v", got, err)
	}
	if got, err := s.Transactions().Lost(t.Context(), mine.Payment, time.Now().Add(time.Minute)); err != nil ||
		got != (payment.Losses{Reverts: 1}) {
		t.Errorf("losses after the hour %+v, %v: the authorization's own count as long as it is", got, err)
	}
	revert(mineToo.Payment.ID, math.MaxInt64)
	most := payment.Losses{Reverts: 1, Payer: math.MaxInt64, All: math.MaxInt64}
	if got, err := s.Transactions().Lost(t.Context(), mine.Payment, hour); err != nil || got != most {
		t.Errorf("losses beyond what can be %+v, %v", got, err)
	}
}

// window is the room of a relayer that has sent little.
var window = payment.Window{Size: 16}

var relayerA = x402.Address{0: 0xaa, 19: 1}

// TestPruningKeepsTheAccountNonce: whatever is deleted, the next transaction's nonce is one that was never used, also
// where the chain counts behind.
func TestPruningKeepsTheAccountNonce(t *testing.T) {
	s := storetest.New(t)
	sign := func(uint64, []uuid.UUID) (payment.Variant, error) {
		return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
	}
	prepare := func(key string) payment.Transaction {
		t.Helper()
		p := claimRequest(key)
		claim(t, s, p)
		a, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{p.Payment.ID}, relayerA, window, sign)
		if err != nil {
			t.Fatal(err)
		}
		return a[0]
	}
	var last payment.Transaction
	for i := range 5 {
		last = prepare(fmt.Sprint("ended-", i))
		if err := s.Transactions().Close(t.Context(), last.ID,
			[]payment.TransactionStatus{payment.TransactionClosed, payment.TransactionReverted}[i%2], 1, nil); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			prepare("open") // stays whatever its age
		}
	}
	prune := func(before time.Time, limit, want int) {
		t.Helper()
		if n, err := s.Transactions().Prune(t.Context(), before, limit); err != nil || n != want {
			t.Errorf("pruned %d, %v, want %d", n, err, want)
		}
	}
	prune(time.Now().Add(-time.Hour), 10, 0)
	prune(time.Now().Add(time.Minute), 3, 3)
	prune(time.Now().Add(time.Minute), 10, 1)
	prune(time.Now().Add(time.Minute), 10, 0)
	if a := prepare("next"); a.Nonce != last.Nonce+1 {
		t.Errorf("the next nonce is %d after %d", a.Nonce, last.Nonce)
	}
	open, err := s.Transactions().Open(t.Context(), relayerA, 0)
	if err != nil || len(open) != 2 {
		t.Errorf("%d open attempts, %v, want 2", len(open), err)
	}
}

func TestPrunedTransactionsStayPruned(t *testing.T) {
	s := storetest.New(t)
	for i := range 3 {
		p := claimRequest(fmt.Sprint("k", i))
		claim(t, s, p)
		a, err := s.Transactions().Prepare(t.Context(), []uuid.UUID{p.Payment.ID}, relayerA, window,
			func(uint64, []uuid.UUID) (payment.Variant, error) {
				return payment.Variant{Hash: nonce(), Raw: []byte{1}, SignedAt: time.Now()}, nil
			})
		if err == nil {
			err = s.Transactions().Close(t.Context(), a[0].ID, payment.TransactionClosed, 1, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := faultpoint.Arm("transactions.pruned:error"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Transactions().Prune(t.Context(), time.Now().Add(time.Minute), 1); err == nil {
		t.Error("the fault did not strike")
	}
	if n, err := s.Transactions().Prune(t.Context(), time.Now().Add(time.Minute), 10); err != nil || n != 1 {
		t.Errorf("pruned %d after that, %v, want the one left", n, err)
	}
}
