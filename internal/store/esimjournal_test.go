package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestSupplierJournalKeepsToTheRules(t *testing.T) {
	esimtest.RunJournal(t, func(t *testing.T) esim.Journal { return storetest.New(t).SupplierJournal("one") })
}

// TestSuppliersHaveJournalsOfTheirOwn: two suppliers may give two orders the same name.
func TestSuppliersHaveJournalsOfTheirOwn(t *testing.T) {
	s := storetest.New(t)
	one, other := s.SupplierJournal("one"), s.SupplierJournal("other")
	sent := esim.Sent{Ref: fulfilment.Ref(uuid.New()), Code: "fr-1", Cost: 1_120_000, At: time.Now()}
	for _, j := range []esim.Journal{one, other} {
		if _, err := j.Sent(t.Context(), sent.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
			t.Errorf("Sent before anything was = %v", err)
		}
		if err := errors.Join(j.Begin(t.Context(), sent), j.Name(t.Context(), sent.Ref, "a")); err != nil {
			t.Errorf("the same order of another supplier: %v", err)
		}
	}
	all, err := other.SentBetween(t.Context(), "fr-1", sent.At.Add(-time.Second), sent.At.Add(time.Second))
	if err != nil || len(all) != 1 {
		t.Errorf("%v, %v; want one order", all, err)
	}
}

// TestWhatWasSentHasTheOwnerOfItsOrder: that of the eSIM which the reference is of.
func TestWhatWasSentHasTheOwnerOfItsOrder(t *testing.T) {
	s := storetest.New(t)
	of, none := fulfilment.Ref(uuid.New()), fulfilment.Ref(uuid.New())
	if _, err := s.Pool().Exec(t.Context(), `INSERT INTO esim_profiles
		(id, order_id, owner, plan_id, provider, status, reference, created_at, updated_at)
		VALUES ($1, 'ord_1', '0xaa', 'pln_1', 'one', 'ordered', $2, now(), now())`, uuid.New(), uuid.UUID(of)); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[fulfilment.Ref]string{of: "0xaa", none: ""} {
		err := s.SupplierJournal("one").Begin(t.Context(), esim.Sent{Ref: ref, Code: "fr-1", Cost: 1, At: time.Now()})
		var owner string
		told := s.Pool().QueryRow(t.Context(), "SELECT owner FROM supplier_orders WHERE reference = $1", uuid.UUID(ref)).
			Scan(&owner)
		if err != nil || told != nil || owner != want {
			t.Errorf("the owner is %q, %v, %v; want %q", owner, err, told, want)
		}
	}
}

// TestSuppliersOfLiveEsimsAreRemembered, and those of eSIMs that are being given back.
func TestSuppliersOfLiveEsimsAreRemembered(t *testing.T) {
	s := storetest.New(t)
	for _, p := range []struct {
		supplier, status string
		days             int
		cancelled        bool
	}{
		{"ready", "ready", 300, false}, {"over", "ready", 400, false}, {"failed", "failed", 1, false},
		{"given-back", "cancelled", 1, false}, {"giving-back", "cancelled", 1, true},
		{"old-giving-back", "ready", 400, true},
	} {
		o := order.NewID(time.Now())
		if _, err := s.Pool().Exec(t.Context(), `INSERT INTO esim_profiles
			(id, order_id, owner, plan_id, provider, status, reference, sealed_key, sealed, created_at, updated_at)
			VALUES ($1, $2, '0xaa', 'pln_1', $3, $4::text, $5,
				CASE WHEN $4::text = 'ready' THEN 'k' ELSE '' END, CASE WHEN $4::text = 'ready' THEN 'x'::bytea END,
				now() - $6 * interval '1 day', now())`, uuid.New(), o, p.supplier,
			p.status, uuid.New(), p.days); err != nil {
			t.Fatal(err)
		}
		if !p.cancelled {
			continue
		}
		a := esim.CancelArgs{Order: o, Stage: esim.StageRefunding, Since: time.Now()}
		if err := store.EnqueueOf(t.Context(), s, esim.NewCancelJob(a), "0xaa"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Esims().Providers(t.Context())
	if want := []string{"giving-back", "old-giving-back", "ready"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("remembered %q, %v; want %q", got, err, want)
	}
}
