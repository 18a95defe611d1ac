package paymenttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// TransactionsStore is one empty store under test. Claim makes a payment that transactions can refer to.
type TransactionsStore struct {
	Stored
	Claim func(t *testing.T) uuid.UUID
}

// Stored is chain.Transactions.
type Stored interface {
	payment.Transactions
	Spent(ctx context.Context, relayers []x402.Address, since time.Time) (wei int64, err error)
}

// RunTransactions checks the rules of payment.Transactions on stores that newStore makes, one for each rule.
func RunTransactions(t *testing.T, newStore func(t *testing.T) TransactionsStore) {
	rules := []struct {
		name  string
		check func(*testing.T, TransactionsStore)
	}{
		{"ConcurrentPreparesOfOnePaymentMakeOneTransaction", onePaymentOneTransaction},
		{"NoncesAreContiguousUnderConcurrency", contiguousNonces},
		{"RelayersCountApart", relayersCountApart},
		{"TheFloorRaisesTheNonce", floorRaisesNonce},
		{"ATransactionIsReadAsItWasStored", storedAsGiven},
		{"AFailedSignatureStoresNothing", failedSignatureStoresNothing},
		{"AClosedTransactionMakesRoomForTheNext", closedMakesRoom},
		{"TheFirstCloseStands", firstCloseStands},
		{"AClosedTransactionTakesNoVariant", closedTakesNoVariant},
		{"APaymentsOpenTransactionIsFoundByIt", foundByPayment},
		{"RelayersWithOpenTransactionsAreNamed", relayersNamed},
		{"WindowBoundsNonces", windowBoundsNonces},
		{"OpenTransactionsFromNonce", openFromNonce},
		{"BatchesShareNoPayment", batchesShareNoPayment},
		{"BatchWithoutRoomMakesNothing", noRoomForBatch},
		{"UnmovedMembersMayBePreparedAgain", unmovedMembers},
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

// sign makes a pretended transaction that is different for each batch and nonce.
func sign(nonce uint64, payments []uuid.UUID) (payment.Variant, error) {
	var raw []byte
	for _, id := range payments {
		raw = append(raw, id[:]...)
	}
	raw = append(raw, byte(nonce>>8), byte(nonce))
	return payment.Variant{Hash: sha256.Sum256(raw), Raw: raw, SignedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, nil
}

func prepare(t *testing.T, s TransactionsStore, id uuid.UUID, relayer x402.Address, floor uint64) payment.Transaction {
	t.Helper()
	list, err := s.Prepare(t.Context(), []uuid.UUID{id}, relayer, payment.Window{First: floor, Size: 64}, sign)
	if err != nil || len(list) != 1 {
		t.Fatalf("prepare: %v, %v, want one transaction", list, err)
	}
	return list[0]
}

func openOf(t *testing.T, s TransactionsStore, relayer x402.Address) []payment.Transaction {
	t.Helper()
	list, err := s.Open(t.Context(), relayer, 0)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return list
}

func onePaymentOneTransaction(t *testing.T, s TransactionsStore) {
	id := s.Claim(t)
	prepared := make([]payment.Transaction, 8)
	inParallel(len(prepared), func(i int) {
		// A second process may have chosen another relayer; the first transaction stands.
		relayer := []x402.Address{relayerA, relayerB}[i%2]
		list, err := s.Prepare(t.Context(), []uuid.UUID{id}, relayer, payment.Window{First: 5, Size: 16}, sign)
		if err != nil || len(list) != 1 {
			t.Errorf("prepare: %v, %v, want one transaction", list, err)
			return
		}
		prepared[i] = list[0]
	})
	for _, a := range prepared {
		if a.ID != prepared[0].ID || a.Nonce != 5 || len(a.Variants) != 1 {
			t.Errorf(
				"got transaction %v nonce %d with %d variants, want %v nonce 5 with 1", a.ID, a.Nonce, len(a.Variants),
				prepared[0].ID,
			)
		}
	}
	if n := len(openOf(t, s, relayerA)) + len(openOf(t, s, relayerB)); n != 1 {
		t.Errorf("%d open transactions, want 1", n)
	}
}

func contiguousNonces(t *testing.T, s TransactionsStore) {
	const payments = 16
	ids := make([]uuid.UUID, payments)
	for i := range ids {
		ids[i] = s.Claim(t)
	}
	inParallel(payments, func(i int) {
		if _, err := s.Prepare(t.Context(), ids[i:i+1], relayerA, payment.Window{First: 3, Size: 16},
			sign); err != nil {
			t.Errorf("prepare: %v", err)
		}
	})
	list := openOf(t, s, relayerA)
	if len(list) != payments {
		t.Fatalf("%d open transactions, want %d", len(list), payments)
	}
	for i, a := range list {
		if want := uint64(3 + i); a.Nonce != want {
			t.Errorf("transaction %d has nonce %d, want %d", i, a.Nonce, want)
		}
		tx, _ := sign(a.Nonce, a.Payments)
		if !bytes.Equal(a.Variants[0].Raw, tx.Raw) {
			t.Errorf("transaction %d holds another nonce's bytes", i)
		}
	}
}

func relayersCountApart(t *testing.T, s TransactionsStore) {
	prepare(t, s, s.Claim(t), relayerA, 7)
	if a := prepare(t, s, s.Claim(t), relayerB, 0); a.Nonce != 0 || a.Relayer != relayerB {
		t.Errorf("nonce %d of %v, want 0 of %v", a.Nonce, a.Relayer, relayerB)
	}
	if n := len(openOf(t, s, relayerB)); n != 1 {
		t.Errorf("%d open transactions of the second relayer, want 1", n)
	}
}

func floorRaisesNonce(t *testing.T, s TransactionsStore) {
	for i, tt := range []struct{ floor, want uint64 }{{0, 0}, {0, 1}, {9, 9}, {2, 10}} {
		if a := prepare(t, s, s.Claim(t), relayerA, tt.floor); a.Nonce != tt.want {
			t.Errorf("step %d: nonce %d with floor %d, want %d", i, a.Nonce, tt.floor, tt.want)
		}
	}
}

// windowBoundsNonces has more payments than room, prepared by several processes at once.
func windowBoundsNonces(t *testing.T, s TransactionsStore) {
	const room, payments = 4, 9
	ids := make([]uuid.UUID, payments)
	for i := range ids {
		ids[i] = s.Claim(t)
	}
	var made atomic.Int32
	inParallel(payments, func(i int) {
		_, err := s.Prepare(t.Context(), ids[i:i+1], relayerA, payment.Window{First: 7, Size: room}, sign)
		switch {
		case err == nil:
			made.Add(1)
		case !errors.Is(err, payment.ErrNoRoom):
			t.Errorf("prepare: %v, want ErrNoRoom", err)
		}
	})
	list := openOf(t, s, relayerA)
	if made.Load() != room || len(list) != room || list[0].Nonce != 7 || list[room-1].Nonce != 7+room-1 {
		t.Fatalf("%d made, transactions %v, want the nonces 7 to %d", made.Load(), list, 7+room-1)
	}
	// A payment that has a transaction needs no room.
	w := payment.Window{First: 7, Size: room}
	if _, err := s.Prepare(t.Context(), list[0].Payments, relayerA, w, sign); err != nil {
		t.Errorf("prepare again: %v", err)
	}
	// The chain includes one, and there is room for one.
	w.First++
	made.Store(0)
	for _, id := range ids {
		if !slices.ContainsFunc(list, func(a payment.Transaction) bool { return slices.Contains(a.Payments, id) }) {
			if _, err := s.Prepare(t.Context(), []uuid.UUID{id}, relayerA, w, sign); err == nil {
				made.Add(1)
			}
		}
	}
	if made.Load() != 1 {
		t.Errorf("%d made after one was included, want 1", made.Load())
	}
}

func openFromNonce(t *testing.T, s TransactionsStore) {
	for range 3 {
		prepare(t, s, s.Claim(t), relayerA, 5)
	}
	list, err := s.Open(t.Context(), relayerA, 6)
	if err != nil || len(list) != 2 || list[0].Nonce != 6 || list[1].Nonce != 7 {
		t.Errorf("open transactions from nonce 6: %v, %v", list, err)
	}
}

func storedAsGiven(t *testing.T, s TransactionsStore) {
	id := s.Claim(t)
	made := prepare(t, s, id, relayerA, 4)
	first, _ := sign(4, []uuid.UUID{id})
	second, _ := sign(5, []uuid.UUID{id})
	if err := s.Replace(t.Context(), made.ID, second); err != nil {
		t.Fatalf("replace: %v", err)
	}
	list := openOf(t, s, relayerA)
	if len(list) != 1 {
		t.Fatalf("%d open transactions, want 1", len(list))
	}
	want := payment.Transaction{ID: made.ID, Payments: []uuid.UUID{id}, Relayer: relayerA, Nonce: 4,
		Variants: []payment.Variant{first, second},
		Status:   payment.TransactionOpen, CreatedAt: made.CreatedAt}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Errorf("stored transaction (-want +got):\n%s", diff)
	}
	if made.CreatedAt.IsZero() || made.CreatedAt.Location() != time.UTC {
		t.Errorf("created at %v, want a time in UTC", made.CreatedAt)
	}
	if diff := cmp.Diff(want, prepare(t, s, id, relayerB, 100)); diff != "" {
		t.Errorf("prepared again (-want +got):\n%s", diff)
	}
}

func failedSignatureStoresNothing(t *testing.T, s TransactionsStore) {
	id, broken := s.Claim(t), errors.New("no key")
	_, err := s.Prepare(
		t.Context(), []uuid.UUID{id}, relayerA, payment.Window{Size: 16},
		func(uint64, []uuid.UUID) (payment.Variant, error) { return payment.Variant{}, broken },
	)
	if !errors.Is(err, broken) {
		t.Errorf("prepare: %v, want the signer's error", err)
	}
	if a := prepare(t, s, id, relayerA, 0); a.Nonce != 0 {
		t.Errorf("nonce %d, want 0: the failed one left a gap", a.Nonce)
	}
}

func closedMakesRoom(t *testing.T, s TransactionsStore) {
	id := s.Claim(t)
	first := prepare(t, s, id, relayerA, 0)
	if err := s.Close(t.Context(), first.ID, payment.TransactionReverted, 1, nil); err != nil {
		t.Fatalf("close: %v", err)
	}
	if n := len(openOf(t, s, relayerA)); n != 0 {
		t.Errorf("%d open transactions after the close, want 0", n)
	}
	// The chain may count behind: the nonce of a closed transaction is used all the same.
	if second := prepare(t, s, id, relayerA, 0); second.ID == first.ID || second.Nonce != 1 {
		t.Errorf("next transaction %v has nonce %d, want another one with nonce 1", second.ID, second.Nonce)
	}
}

func firstCloseStands(t *testing.T, s TransactionsStore) {
	a := prepare(t, s, s.Claim(t), relayerA, 0)
	for _, status := range []payment.TransactionStatus{payment.TransactionClosed, payment.TransactionReverted} {
		if err := s.Close(t.Context(), a.ID, status, 1, nil); err != nil {
			t.Errorf("close as %s: %v", status, err)
		}
	}
}

func closedTakesNoVariant(t *testing.T, s TransactionsStore) {
	id := s.Claim(t)
	a := prepare(t, s, id, relayerA, 0)
	if err := s.Close(t.Context(), a.ID, payment.TransactionClosed, 1, nil); err != nil {
		t.Fatalf("close: %v", err)
	}
	tx, _ := sign(1, []uuid.UUID{id})
	if err := s.Replace(t.Context(), a.ID, tx); !errors.Is(err, payment.ErrTransactionClosed) {
		t.Errorf("replace: %v, want ErrTransactionClosed", err)
	}
}

func foundByPayment(t *testing.T, s TransactionsStore) {
	id := s.Claim(t)
	find := func() (payment.Transaction, bool) {
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
		t.Error("the open transaction is not found")
	} else if diff := cmp.Diff(made, found); diff != "" {
		t.Errorf("found transaction (-want +got):\n%s", diff)
	}
	if err := s.Close(t.Context(), made.ID, payment.TransactionReverted, 1, nil); err != nil {
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

func relayersNamed(t *testing.T, s TransactionsStore) {
	want := func(want ...x402.Address) {
		t.Helper()
		got, err := s.Relayers(t.Context())
		if err != nil {
			t.Fatalf("relayers: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("relayers with open transactions (-want +got):\n%s", diff)
		}
	}
	want()
	second := prepare(t, s, s.Claim(t), relayerB, 0)
	prepare(t, s, s.Claim(t), relayerA, 0)
	prepare(t, s, s.Claim(t), relayerA, 0)
	want(relayerA, relayerB)
	if err := s.Close(t.Context(), second.ID, payment.TransactionClosed, 1, nil); err != nil {
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

func lossesOfReverted(t *testing.T, s TransactionsStore) {
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
	end := func(id uuid.UUID, status payment.TransactionStatus, spent int64) {
		t.Helper()
		if err := s.Close(t.Context(), prepare(t, s, id, relayerA, 0).ID, status, spent, nil); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	// The store finds the payers itself; this one has no losses.
	p := payment.Payment{ID: id, Authorization: x402.Authorization{From: x402.Address{1, 2, 3}}, CreatedAt: made}
	want(p, made.Add(-time.Hour), payment.Losses{})
	end(id, payment.TransactionReverted, 7)
	end(id, payment.TransactionReverted, 5)
	end(id, payment.TransactionReverted, 0) // its nonce was taken by another transaction
	end(id, payment.TransactionClosed, 100) // moved the money
	end(other, payment.TransactionReverted, 30)
	prepare(t, s, id, relayerA, 0)
	got, err := s.Lost(t.Context(), p, made.Add(-time.Hour))
	if err != nil || got.Reverts != 2 || got.All != 42 {
		t.Errorf("losses %+v, %v, want 2 reverts and 42 wei in all", got, err)
	}
	spent := func(want int64, since time.Time, relayers ...x402.Address) {
		t.Helper()
		if got, err := s.Spent(t.Context(), relayers, since); err != nil || got != want {
			t.Errorf("%v have spent %d wei, %v, want %d", relayers, got, err, want)
		}
	}
	spent(142, made.Add(-time.Hour), relayerA, relayerB) // moved or not; what is open has cost nothing yet
	spent(0, made.Add(-time.Hour), relayerB)
	spent(0, made.Add(-time.Hour))
	spent(0, made.Add(time.Hour), relayerA)
	// An impossible number of a node counts as the largest, and is no error.
	end(other, payment.TransactionReverted, math.MaxInt64)
	spent(math.MaxInt64, made.Add(-time.Hour), relayerA)
	if got, err := s.Lost(t.Context(), p, made.Add(-time.Hour)); err != nil || got.All != math.MaxInt64 {
		t.Errorf("losses %+v, %v, want the most in all", got, err)
	}
	// A refund that is signed again is another authorization of the same payment.
	p.CreatedAt = made.Add(time.Hour)
	if got, err := s.Lost(t.Context(), p, made.Add(time.Hour)); err != nil || got != (payment.Losses{}) {
		t.Errorf("an hour later: %+v, %v", got, err)
	}
}

// batchesShareNoPayment has processes with keys of their own prepare batches that overlap.
func batchesShareNoPayment(t *testing.T, s TransactionsStore) {
	const payments, size = 24, 8
	ids := make([]uuid.UUID, payments)
	for i := range ids {
		ids[i] = s.Claim(t)
	}
	inParallel(payments, func(i int) {
		batch := make([]uuid.UUID, size)
		for j := range batch {
			batch[j] = ids[(i+j)%payments]
		}
		relayer := []x402.Address{relayerA, relayerB}[i%2]
		list, err := s.Prepare(t.Context(), batch, relayer, payment.Window{Size: payments}, sign)
		if err != nil {
			t.Errorf("prepare: %v", err)
		}
		var members []uuid.UUID
		for _, tx := range list {
			members = append(members, tx.Payments...)
		}
		for _, id := range batch {
			if !slices.Contains(members, id) {
				t.Errorf("no transaction of a payment that was prepared")
			}
		}
	})
	in := map[uuid.UUID]int{}
	for _, tx := range append(openOf(t, s, relayerA), openOf(t, s, relayerB)...) {
		if v, _ := sign(tx.Nonce, tx.Payments); len(tx.Payments) == 0 || !bytes.Equal(v.Raw, tx.Variants[0].Raw) {
			t.Errorf("nonce %d: the members %v are not those that were signed", tx.Nonce, tx.Payments)
		}
		for _, id := range tx.Payments {
			in[id]++
		}
	}
	for i, id := range ids {
		if in[id] != 1 {
			t.Errorf("payment %d is in %d open transactions, want 1", i, in[id])
		}
	}
}

func noRoomForBatch(t *testing.T, s TransactionsStore) {
	known, other := s.Claim(t), s.Claim(t)
	prepare(t, s, known, relayerA, 0)
	w := payment.Window{First: 0, Size: 1}
	if list, err := s.Prepare(t.Context(), []uuid.UUID{known, other}, relayerA, w,
		sign); !errors.Is(err, payment.ErrNoRoom) {
		t.Errorf("prepare: %v, %v, want ErrNoRoom", list, err)
	}
	if n := len(openOf(t, s, relayerA)); n != 1 {
		t.Errorf("%d open transactions, want 1", n)
	}
}

// unmovedMembers closes a batch of four that has not moved the second one.
func unmovedMembers(t *testing.T, s TransactionsStore) {
	made := time.Now()
	ids := []uuid.UUID{s.Claim(t), s.Claim(t), s.Claim(t), s.Claim(t)}
	list, err := s.Prepare(t.Context(), ids, relayerA, payment.Window{Size: 16}, sign)
	if err != nil || len(list) != 1 {
		t.Fatalf("prepare: %v, %v, want one transaction", list, err)
	}
	if err := s.Close(t.Context(), list[0].ID, payment.TransactionClosed, 400, ids[1:2]); err != nil {
		t.Fatalf("close: %v", err)
	}
	for i, id := range ids {
		if found, ok, err := s.ByPayment(t.Context(), id); ok || err != nil {
			t.Errorf("payment %d: open transaction %v, %v, want none", i, found, err)
		}
		p := payment.Payment{ID: id, CreatedAt: made}
		lost, err := s.Lost(t.Context(), p, made.Add(-time.Hour))
		want := 0
		if i == 1 {
			want = 1
		}
		if err != nil || lost.Reverts != want || lost.All != 100 {
			t.Errorf("payment %d: lost %+v, %v, want %d reverts, and 100 wei in all", i, lost, err, want)
		}
	}
	if next := prepare(t, s, ids[1], relayerA, 0); next.Nonce != 1 || len(next.Payments) != 1 {
		t.Errorf("next transaction has nonce %d and %d members, want 1 and 1", next.Nonce, len(next.Payments))
	}
}
