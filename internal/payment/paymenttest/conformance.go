package paymenttest

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// AttemptsStore is one empty store under test. Claim makes a payment that attempts can refer to.
type AttemptsStore struct {
	payment.Attempts
	Claim func(t *testing.T) uuid.UUID
}

// RunAttempts checks the rules of payment.Attempts on stores that newStore makes, one for each rule.
func RunAttempts(t *testing.T, newStore func(t *testing.T) AttemptsStore) {
	rules := []struct {
		name  string
		check func(*testing.T, AttemptsStore)
	}{
		{"ConcurrentPreparesOfOnePaymentMakeOneAttempt", onePaymentOneAttempt},
		{"NoncesAreContiguousUnderConcurrency", contiguousNonces},
		{"RelayersCountApart", relayersCountApart},
		{"TheFloorRaisesTheNonce", floorRaisesNonce},
		{"AnAttemptIsReadAsItWasStored", storedAsGiven},
		{"AFailedSignatureStoresNothing", failedSignatureStoresNothing},
		{"AClosedAttemptMakesRoomForTheNext", closedMakesRoom},
		{"TheFirstCloseStands", firstCloseStands},
		{"AClosedAttemptTakesNoVariant", closedTakesNoVariant},
		{"APaymentsOpenAttemptIsFoundByIt", foundByPayment},
		{"RelayersWithOpenAttemptsAreNamed", relayersNamed},
		{"LossesAreThoseOfRevertedTransactions", lossesOfReverted},
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { rule.check(t, newStore(t)) })
	}
}

var (
	relayerA = x402.Address{0: 0xaa, 19: 1}
	relayerB = x402.Address{0: 0xbb, 19: 2}
)

// signWith makes a pretended transaction that is different for each payment and nonce.
func signWith(id uuid.UUID) func(uint64) (payment.Transaction, error) {
	return func(nonce uint64) (payment.Transaction, error) {
		raw := append(bytes.Clone(id[:]), byte(nonce>>8), byte(nonce))
		var hash x402.Hash
		copy(hash[:], raw)
		return payment.Transaction{Hash: hash, Raw: raw, SignedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, nil
	}
}

func prepare(t *testing.T, s AttemptsStore, id uuid.UUID, relayer x402.Address, floor uint64) payment.Attempt {
	t.Helper()
	a, err := s.Prepare(t.Context(), id, relayer, floor, signWith(id))
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return a
}

func openOf(t *testing.T, s AttemptsStore, relayer x402.Address) []payment.Attempt {
	t.Helper()
	list, err := s.Open(t.Context(), relayer)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return list
}

func onePaymentOneAttempt(t *testing.T, s AttemptsStore) {
	id := s.Claim(t)
	attempts := make([]payment.Attempt, 8)
	inParallel(len(attempts), func(i int) {
		// A second process may have chosen another relayer; the first attempt stands.
		relayer := []x402.Address{relayerA, relayerB}[i%2]
		a, err := s.Prepare(t.Context(), id, relayer, 5, signWith(id))
		if err != nil {
			t.Errorf("prepare: %v", err)
		}
		attempts[i] = a
	})
	for _, a := range attempts {
		if a.ID != attempts[0].ID || a.Nonce != 5 || len(a.Variants) != 1 {
			t.Errorf(
				"got attempt %v nonce %d with %d variants, want %v nonce 5 with 1", a.ID, a.Nonce, len(a.Variants), attempts[0].ID,
			)
		}
	}
	if n := len(openOf(t, s, relayerA)) + len(openOf(t, s, relayerB)); n != 1 {
		t.Errorf("%d open attempts, want 1", n)
	}
}

func contiguousNonces(t *testing.T, s AttemptsStore) {
	const payments = 16
	ids := make([]uuid.UUID, payments)
	for i := range ids {
		ids[i] = s.Claim(t)
	}
	inParallel(payments, func(i int) {
		if _, err := s.Prepare(t.Context(), ids[i], relayerA, 3, signWith(ids[i])); err != nil {
			t.Errorf("prepare: %v", err)
		}
	})
	list := openOf(t, s, relayerA)
	if len(list) != payments {
		t.Fatalf("%d open attempts, want %d", len(list), payments)
	}
	for i, a := range list {
		if want := uint64(3 + i); a.Nonce != want {
			t.Errorf("attempt %d has nonce %d, want %d", i, a.Nonce, want)
		}
		tx, _ := signWith(a.Payment)(a.Nonce)
		if !bytes.Equal(a.Variants[0].Raw, tx.Raw) {
			t.Errorf("attempt %d holds another nonce's bytes", i)
		}
	}
}

func relayersCountApart(t *testing.T, s AttemptsStore) {
	prepare(t, s, s.Claim(t), relayerA, 7)
	if a := prepare(t, s, s.Claim(t), relayerB, 0); a.Nonce != 0 || a.Relayer != relayerB {
		t.Errorf("nonce %d of %v, want 0 of %v", a.Nonce, a.Relayer, relayerB)
	}
	if n := len(openOf(t, s, relayerB)); n != 1 {
		t.Errorf("%d open attempts of the second relayer, want 1", n)
	}
}

func floorRaisesNonce(t *testing.T, s AttemptsStore) {
	for i, tt := range []struct{ floor, want uint64 }{{0, 0}, {0, 1}, {9, 9}, {2, 10}} {
		if a := prepare(t, s, s.Claim(t), relayerA, tt.floor); a.Nonce != tt.want {
			t.Errorf("step %d: nonce %d with floor %d, want %d", i, a.Nonce, tt.floor, tt.want)
		}
	}
}

func storedAsGiven(t *testing.T, s AttemptsStore) {
	id := s.Claim(t)
	made := prepare(t, s, id, relayerA, 4)
	first, _ := signWith(id)(4)
	second, _ := signWith(id)(5)
	if err := s.Replace(t.Context(), made.ID, second); err != nil {
		t.Fatalf("replace: %v", err)
	}
	list := openOf(t, s, relayerA)
	if len(list) != 1 {
		t.Fatalf("%d open attempts, want 1", len(list))
	}
	want := payment.Attempt{ID: made.ID, Payment: id, Relayer: relayerA, Nonce: 4,
		Variants: []payment.Transaction{first, second},
		Status:   payment.AttemptOpen, CreatedAt: made.CreatedAt}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Errorf("stored attempt (-want +got):\n%s", diff)
	}
	if made.CreatedAt.IsZero() || made.CreatedAt.Location() != time.UTC {
		t.Errorf("created at %v, want a time in UTC", made.CreatedAt)
	}
	if diff := cmp.Diff(want, prepare(t, s, id, relayerB, 100)); diff != "" {
		t.Errorf("prepared again (-want +got):\n%s", diff)
	}
}

func failedSignatureStoresNothing(t *testing.T, s AttemptsStore) {
	id, broken := s.Claim(t), errors.New("no key")
	_, err := s.Prepare(
		t.Context(), id, relayerA, 0, func(uint64) (payment.Transaction, error) { return payment.Transaction{}, broken },
	)
	if !errors.Is(err, broken) {
		t.Errorf("prepare: %v, want the signer's error", err)
	}
	if a := prepare(t, s, id, relayerA, 0); a.Nonce != 0 {
		t.Errorf("nonce %d, want 0: the failed one left a gap", a.Nonce)
	}
}

func closedMakesRoom(t *testing.T, s AttemptsStore) {
	id := s.Claim(t)
	first := prepare(t, s, id, relayerA, 0)
	if err := s.Close(t.Context(), first.ID, payment.AttemptReverted, 1); err != nil {
		t.Fatalf("close: %v", err)
	}
	if n := len(openOf(t, s, relayerA)); n != 0 {
		t.Errorf("%d open attempts after the close, want 0", n)
	}
	// The chain may count behind: the nonce of a closed attempt is used all the same.
	if second := prepare(t, s, id, relayerA, 0); second.ID == first.ID || second.Nonce != 1 {
		t.Errorf("next attempt %v has nonce %d, want another one with nonce 1", second.ID, second.Nonce)
	}
}

func firstCloseStands(t *testing.T, s AttemptsStore) {
	a := prepare(t, s, s.Claim(t), relayerA, 0)
	for _, status := range []payment.AttemptStatus{payment.AttemptClosed, payment.AttemptReverted} {
		if err := s.Close(t.Context(), a.ID, status, 1); err != nil {
			t.Errorf("close as %s: %v", status, err)
		}
	}
}

func closedTakesNoVariant(t *testing.T, s AttemptsStore) {
	id := s.Claim(t)
	a := prepare(t, s, id, relayerA, 0)
	if err := s.Close(t.Context(), a.ID, payment.AttemptClosed, 1); err != nil {
		t.Fatalf("close: %v", err)
	}
	tx, _ := signWith(id)(1)
	if err := s.Replace(t.Context(), a.ID, tx); !errors.Is(err, payment.ErrAttemptClosed) {
		t.Errorf("replace: %v, want ErrAttemptClosed", err)
	}
}

func foundByPayment(t *testing.T, s AttemptsStore) {
	id := s.Claim(t)
	find := func() (payment.Attempt, bool) {
		t.Helper()
		a, ok, err := s.ByPayment(t.Context(), id)
		if err != nil {
			t.Fatalf("by payment: %v", err)
		}
		return a, ok
	}
	prepare(t, s, s.Claim(t), relayerA, 0)
	if a, ok := find(); ok {
		t.Fatalf("found %v before there was any", a.ID)
	}
	made := prepare(t, s, id, relayerB, 0)
	if found, ok := find(); !ok {
		t.Error("the open attempt is not found")
	} else if diff := cmp.Diff(made, found); diff != "" {
		t.Errorf("found attempt (-want +got):\n%s", diff)
	}
	if err := s.Close(t.Context(), made.ID, payment.AttemptReverted, 1); err != nil {
		t.Fatalf("close: %v", err)
	}
	if a, ok := find(); ok {
		t.Errorf("found %v, which is closed", a.ID)
	}
	next := prepare(t, s, id, relayerA, 0)
	if found, ok := find(); !ok || found.ID != next.ID {
		t.Errorf("found %v (%t), want the next one %v", found.ID, ok, next.ID)
	}
}

func relayersNamed(t *testing.T, s AttemptsStore) {
	want := func(want ...x402.Address) {
		t.Helper()
		got, err := s.Relayers(t.Context())
		if err != nil {
			t.Fatalf("relayers: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("relayers with open attempts (-want +got):\n%s", diff)
		}
	}
	want()
	second := prepare(t, s, s.Claim(t), relayerB, 0)
	prepare(t, s, s.Claim(t), relayerA, 0)
	prepare(t, s, s.Claim(t), relayerA, 0)
	want(relayerA, relayerB)
	if err := s.Close(t.Context(), second.ID, payment.AttemptClosed, 1); err != nil {
		t.Fatalf("close: %v", err)
	}
	want(relayerA)
}

func inParallel(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

func lossesOfReverted(t *testing.T, s AttemptsStore) {
	made := time.Now()
	id, other := s.Claim(t), s.Claim(t)
	want := func(p payment.Payment, since time.Time, want payment.Losses) {
		t.Helper()
		got, err := s.Lost(t.Context(), p, since)
		if err != nil {
			t.Fatalf("lost: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("losses (-want +got):\n%s", diff)
		}
	}
	end := func(id uuid.UUID, status payment.AttemptStatus, spent int64) {
		t.Helper()
		if err := s.Close(t.Context(), prepare(t, s, id, relayerA, 0).ID, status, spent); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	// The store finds the payers itself; this one has no losses.
	p := payment.Payment{ID: id, Authorization: x402.Authorization{From: x402.Address{1, 2, 3}}, CreatedAt: made}
	want(p, made.Add(-time.Hour), payment.Losses{})
	end(id, payment.AttemptReverted, 7)
	end(id, payment.AttemptReverted, 5)
	end(id, payment.AttemptReverted, 0) // its nonce was taken by another transaction
	end(id, payment.AttemptClosed, 100) // moved the money
	end(other, payment.AttemptReverted, 30)
	prepare(t, s, id, relayerA, 0)
	got, err := s.Lost(t.Context(), p, made.Add(-time.Hour))
	if err != nil || got.Reverts != 2 || got.All != 42 {
		t.Errorf("losses %+v, %v, want 2 reverts and 42 wei in all", got, err)
	}
	// An impossible number of a node counts as the largest, and is no error.
	end(other, payment.AttemptReverted, math.MaxInt64)
	if got, err := s.Lost(t.Context(), p, made.Add(-time.Hour)); err != nil || got.All != math.MaxInt64 {
		t.Errorf("losses %+v, %v, want the most in all", got, err)
	}
	// A refund that is signed again is another authorization of the same payment.
	p.CreatedAt = made.Add(time.Hour)
	if got, err := s.Lost(t.Context(), p, made.Add(time.Hour)); err != nil || got != (payment.Losses{}) {
		t.Errorf("an hour later: %+v, %v", got, err)
	}
}
