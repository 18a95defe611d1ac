package store_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestNothingIsClaimedBeforeTheMarkIsKept: a claim commits only to the database that was compared with the chain.
func TestNothingIsClaimedBeforeTheMarkIsKept(t *testing.T) {
	url := storetest.URL(t)
	s := storetest.Open(t, url)
	marks := s.Watermarks(x402.Address{1}, x402.Address{2})
	claim(t, s, claimRequest("nobody keeps marks"))

	claimed := func(key string, want error) {
		t.Helper()
		p := claimRequest(key)
		if _, err := s.Orders().Claim(t.Context(), p); !errors.Is(err, want) {
			t.Fatalf("claim %s: %v, want %v", key, err, want)
		}
		if _, err := s.Orders().FindByKey(t.Context(), p.Order.Kind, p.Order.Owner, key); (err == nil) != (want == nil) {
			t.Fatalf("find %s: %v", key, err)
		}
	}
	begin := func() reconcile.ProcessWatermark {
		t.Helper()
		m, err := marks.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	keep := func(m reconcile.ProcessWatermark, want error) reconcile.ProcessWatermark {
		t.Helper()
		m, err := marks.Keep(t.Context(), m, 7)
		if !errors.Is(err, want) {
			t.Fatalf("keep the mark: %v, want %v", err, want)
		}
		return m
	}
	m := begin()
	claimed("begun", checkout.ErrHistoryLost)
	keep(m, nil)
	claimed("kept", nil)
	for name, change := range map[string]string{
		"an older state":  "UPDATE chain_watermarks SET heartbeat = heartbeat - 1",
		"another server":  "UPDATE chain_watermarks SET server = 'another' || server",
		"a state without": "DELETE FROM chain_watermarks",
	} {
		m = keep(keep(begin(), nil), nil)
		execute(t, url, change)
		claimed(name, checkout.ErrHistoryLost)
		keep(m, reconcile.ErrHistoryLost)
		claimed(name, checkout.ErrHistoryLost)
	}
	m = keep(begin(), nil)
	claimed("all is well", nil)
	// The answer to the last Keep may be lost.
	keep(m, nil)
	keep(m, nil)
	claimed("kept twice", nil)
	marks.Revoke()
	claimed("forgotten", checkout.ErrHistoryLost)
}

// TestOnlyStoredPaymentsAreSent: a process that goes on with a payment that its database has lost signs nothing for it.
func TestOnlyStoredPaymentsAreSent(t *testing.T) {
	s := storetest.New(t)
	known, lost := claimRequest("known"), claimRequest("lost")
	claim(t, s, known)
	sign := func(uint64, []uuid.UUID) (payment.Variant, error) { return payment.Variant{Raw: []byte{1}}, nil }
	if _, err := s.Transactions().OfStored().Prepare(t.Context(), []uuid.UUID{known.Payment.ID}, x402.Address{9}, window,
		sign); err != nil {
		t.Errorf("a payment that is stored: %v", err)
	}
	if _, err := s.Transactions().OfStored().Prepare(t.Context(), []uuid.UUID{lost.Payment.ID}, x402.Address{9}, window,
		sign); err == nil {
		t.Error("a payment that is not stored was signed for")
	}
	if open, err := s.Transactions().Open(t.Context(), x402.Address{9}, 0); err != nil || len(open) != 1 {
		t.Errorf("%d open attempts, %v, want 1", len(open), err)
	}
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
