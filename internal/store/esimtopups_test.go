package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// extension is a top-up of a profile by an order of its own, with a live claim of its job.
func extension(t *testing.T, s *store.Store, p esim.Profile, id order.ID) (esim.Topup, job.Fence) {
	t.Helper()
	if err := storeOrder(t.Context(), s, id); err != nil {
		t.Fatal(err)
	}
	return esim.Topup{
		ID: uuid.New(), Order: id, Profile: p.ID, Plan: "pln_1", Status: esim.Ordered, Ref: fulfilmenttest.NewRef(),
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}, claimed(t, s).Fence()
}

func TestTopupOfAReferenceIsOneRow(t *testing.T) {
	s := storetest.New(t)
	top, f := extension(t, s, installed(t, s, "ord_1"), "ord_2")
	again := top
	again.ID = uuid.New()
	for _, one := range []esim.Topup{top, again} {
		got, err := s.Esims().ReserveTopup(t.Context(), f, one)
		if err != nil || got.ID != top.ID || got.Status != esim.Ordered || got.Profile != top.Profile {
			t.Fatalf("reserved %+v, %v", got, err)
		}
	}
	top.Status, top.Account, top.Cost = esim.Ready, "sup-2", 2_000_000
	for range 2 {
		if err := s.Esims().CompleteTopup(t.Context(), f, top, top.Postings()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Esims().FailTopup(t.Context(), f, top.ID); err != nil {
		t.Fatal(err)
	}
	got, err := s.Esims().ReserveTopup(t.Context(), f, again)
	if err != nil || got.Status != esim.Ready || got.Account != "sup-2" || got.Cost != top.Cost {
		t.Errorf("then it is %+v, %v", got, err)
	}
	var n int
	err = s.Pool().QueryRow(t.Context(),
		"SELECT count(*) FROM ledger_postings WHERE order_id = 'ord_2' AND kind = 'supplied'").
		Scan(&n)
	if err != nil || n != 1 {
		t.Errorf("%d postings, %v", n, err)
	}
	lost := f
	lost.Attempt++
	if err := s.Esims().CompleteTopup(t.Context(), lost, top, nil); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("completed without the job: %v", err)
	}
}

// TestEsimIsToppedUpOrGivenBack: of a top-up and a cancellation that begin at once, one is refused.
func TestEsimIsToppedUpOrGivenBack(t *testing.T) {
	s := storetest.New(t)
	for n := range 10 {
		p := installed(t, s, order.ID("ord_e"+string(rune('a'+n))))
		top, f := extension(t, s, p, order.ID("ord_t"+string(rune('a'+n))))
		var cancelErr, topErr error
		var both sync.WaitGroup
		both.Go(func() { _, cancelErr = s.Esims().BeginCancel(t.Context(), cancelOf(p)) })
		both.Go(func() { _, topErr = s.Esims().ReserveTopup(t.Context(), f, top) })
		both.Wait()
		switch {
		case cancelErr == nil && errors.Is(topErr, esim.ErrCancelling):
		case topErr == nil && errors.Is(cancelErr, esim.ErrToppedUp):
		default:
			t.Errorf("cancelled %v, topped up %v", cancelErr, topErr)
		}
	}
}

func TestRefusedTopupLeavesTheEsimToBeCancelled(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	top, f := extension(t, s, p, "ord_2")
	if _, err := s.Esims().ReserveTopup(t.Context(), f, top); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Esims().BeginCancel(t.Context(), cancelOf(p)); !errors.Is(err, esim.ErrToppedUp) {
		t.Errorf("while the supplier may have it: %v", err)
	}
	if err := s.Esims().FailTopup(t.Context(), f, top.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Esims().BeginCancel(t.Context(), cancelOf(p)); err != nil {
		t.Errorf("once it is refused: %v", err)
	}
}

func TestEsimsAreFoundByTheSuppliersNames(t *testing.T) {
	s := storetest.New(t)
	p := installed(t, s, "ord_1")
	got, err := s.Esims().DeliveredByAccount(t.Context(), p.Provider, []string{"sup-1", "sup-9"})
	if err != nil || len(got) != 1 || got["sup-1"].Order != p.Order {
		t.Errorf("found %+v, %v", got, err)
	}
	if got, err := s.Esims().DeliveredByAccount(t.Context(), "another", []string{"sup-1"}); err != nil || len(got) != 0 {
		t.Errorf("of another supplier: %+v, %v", got, err)
	}
}
