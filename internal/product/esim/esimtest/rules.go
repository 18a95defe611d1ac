package esimtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// StoreHarness is a store under test.
type StoreHarness struct {
	Store esim.Store
	// Fence is a live claim of a job.
	Fence job.Fence
	// Put keeps an order.
	Put func(order.Order)
}

// RunStore checks a store; open makes an empty one.
func RunStore(t *testing.T, open func(t *testing.T) StoreHarness) {
	for name, rule := range map[string]func(*testing.T, StoreHarness){
		"CatalogueIsReplacedWhole": catalogueIsReplacedWhole,
		"AnOlderSyncSaysNothing":   olderSyncSaysNothing,
		"EachSupplierHasItsPlans":  eachSupplierReplacesItsOwnPlans,
		"AReferenceHasOneProfile":  referenceHasOneProfile,
		"MaterialIsResealedOnce":   activationDataIsResealedOnce,
		"EachRotationIsTheNext":    eachRotationIsTheNext,
		"OnlyESIMOrdersAreFound":   onlyESIMOrdersAreFound,
		"ProfilesPlansGetIDs":      profilesPlansGetIDs,
	} {
		t.Run(name, func(t *testing.T) { rule(t, open(t)) })
	}
}

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// supplier is whose plans most rules are about.
const supplier = "acme"

func plan(id esim.PlanID, code string, price money.Cents) esim.Plan {
	return esim.Plan{
		ID: id, Name: "Plan " + code, Type: esim.Region, Countries: []string{"DE", "FR"}, DataMB: 1024, ValidityDays: 7,
		Price: price, Provider: supplier, Code: code, Cost: price.USDC() - 1, Live: true,
	}
}

func catalogueIsReplacedWhole(t *testing.T, h StoreHarness) {
	ctx := t.Context()
	if plans, at, err := h.Store.Plans(ctx); err != nil || len(plans) != 0 || len(at) != 0 {
		t.Fatalf("at first %v of %s, %v", plans, at, err)
	}
	a, b := plan("pln_a", "a", 300), plan("pln_b", "b", 200)
	a.DataMB, a.Unlimited, a.FairUse = 0, true, "1 Mbit/s above 2 GB a day"
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{a, b}, start); err != nil {
		t.Fatal(err)
	}
	plans, at, err := h.Store.Plans(ctx)
	if err != nil || !at[supplier].Equal(start) {
		t.Fatalf("synced %s, %v", at, err)
	}
	if diff := cmp.Diff([]esim.Plan{b, a}, plans); diff != "" {
		t.Errorf("the cheapest comes first (-want +got):\n%s", diff)
	}
	// The same plan under another id, costlier; the other is gone and a new one is there, out of stock.
	costlier, absent := plan("pln_other", "b", 400), plan("pln_c", "c", 100)
	absent.Live = false
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{costlier, absent}, start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	costlier.ID = "pln_b"
	plans, _, err = h.Store.Plans(ctx)
	if diff := cmp.Diff([]esim.Plan{costlier}, plans); err != nil || diff != "" {
		t.Errorf("after the next sync, %v (-want +got):\n%s", err, diff)
	}
	if gone, err := h.Store.Plan(ctx, "pln_a"); err != nil || gone.Live || gone.Name != a.Name {
		t.Errorf("a plan that is gone: %+v, %v", gone, err)
	}
	if _, err := h.Store.Plan(ctx, "pln_other"); err == nil {
		t.Error("a plan has two ids")
	}
	if err := h.Store.Withdraw(ctx, "pln_b"); err != nil {
		t.Fatal(err)
	}
	if plans, _, err := h.Store.Plans(ctx); err != nil || len(plans) != 0 {
		t.Errorf("%d plans, %v after the last was withdrawn", len(plans), err)
	}
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{costlier}, start.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if plans, _, err := h.Store.Plans(ctx); err != nil || len(plans) != 1 {
		t.Errorf("%d plans, %v: a sync brings a withdrawn plan back", len(plans), err)
	}
}

func eachSupplierReplacesItsOwnPlans(t *testing.T, h StoreHarness) {
	ctx := t.Context()
	ours, theirs := plan("pln_a", "a", 300), plan("pln_b", "a", 200)
	theirs.Provider = "other"
	for _, p := range []esim.Plan{ours, theirs} {
		if err := h.Store.Replace(ctx, p.Provider, []esim.Plan{p}, start); err != nil {
			t.Fatal(err)
		}
	}
	plans, at, err := h.Store.Plans(ctx)
	if diff := cmp.Diff([]esim.Plan{theirs, ours}, plans); err != nil || diff != "" {
		t.Errorf("two suppliers with one code, %v (-want +got):\n%s", err, diff)
	}
	if !at[supplier].Equal(start) || !at["other"].Equal(start) {
		t.Errorf("synced at %v", at)
	}
	later := start.Add(time.Minute)
	if err := h.Store.Replace(ctx, "other", []esim.Plan{plan("pln_c", "c", 100)}, later); err != nil {
		t.Fatal(err)
	}
	plans, at, err = h.Store.Plans(ctx)
	if err != nil || len(plans) != 2 || plans[0].Provider != "other" || plans[0].Code != "c" || plans[1].ID != ours.ID {
		t.Errorf("after a sync of one supplier: %+v, %v", plans, err)
	}
	if !at[supplier].Equal(start) || !at["other"].Equal(later) {
		t.Errorf("synced at %v", at)
	}
}

func olderSyncSaysNothing(t *testing.T, h StoreHarness) {
	ctx := t.Context()
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{plan("pln_a", "a", 300)}, start); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{plan("pln_b", "b", 200)}, start.Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	plans, at, err := h.Store.Plans(ctx)
	if err != nil || len(plans) != 1 || plans[0].Code != "a" || !at[supplier].Equal(start) {
		t.Errorf("%+v of %s, %v", plans, at, err)
	}
}

func profile(id order.ID) esim.Profile {
	return esim.Profile{
		ID: uuid.Must(uuid.NewV7()), Order: id, Plan: "pln_a", Status: esim.Ordered, Ref: fulfilmenttest.NewRef(),
		CreatedAt: start, UpdatedAt: start,
	}
}

// sold is an order for an eSIM that is kept.
func (h StoreHarness) sold(kind order.Kind) order.ID {
	id := order.NewID(start)
	h.Put(order.Order{
		ID: id, Operation: uuid.New(), Kind: kind, Status: order.Settled, Key: string(id), Price: 100, Item: []byte(`{}`),
		Version: 1, CreatedAt: start, UpdatedAt: start,
	})
	return id
}

func referenceHasOneProfile(t *testing.T, h StoreHarness) {
	ctx, id := t.Context(), h.sold(esim.Kind)
	first := profile(id)
	repeated := profile(id)
	repeated.Ref = first.Ref
	for _, p := range []esim.Profile{first, repeated} {
		got, err := h.Store.Reserve(ctx, h.Fence, p)
		if err != nil || got.ID != first.ID || got.Ref != first.Ref {
			t.Fatalf("reserved %+v, %v", got, err)
		}
	}
	first.Status, first.Account, first.ActivationData = esim.Ready, "sup-1", esim.Sealed{Key: "k1", Box: []byte("box")}
	if err := h.Store.Install(ctx, h.Fence, first, first.Postings()); err != nil {
		t.Fatal(err)
	}
	again := first
	again.ActivationData = esim.Sealed{Key: "k1", Box: []byte("another")}
	if err := h.Store.Install(ctx, h.Fence, again, again.Postings()); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Fail(ctx, h.Fence, first.ID); err != nil {
		t.Fatal(err)
	}
	found, err := h.Store.Profiles(ctx, id, order.NewID(start))
	got := found[id]
	if err != nil || len(found) != 1 || got.Status != esim.Ready || got.Account != "sup-1" ||
		string(got.ActivationData.Box) != "box" {
		t.Errorf("found %+v, %v", found, err)
	}
	// The next attempt has its own reference, and is the order's from then on.
	next := profile(id)
	next.CreatedAt = start.Add(time.Hour)
	if _, err := h.Store.Reserve(ctx, h.Fence, next); err != nil {
		t.Fatal(err)
	}
	if found, err := h.Store.Profiles(ctx, id); err != nil || found[id].ID != next.ID || found[id].Status != esim.Ordered {
		t.Errorf("found %+v, %v", found, err)
	}
	refused := profile(h.sold(esim.Kind))
	if _, err := h.Store.Reserve(ctx, h.Fence, refused); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Fail(ctx, h.Fence, refused.ID); err != nil {
		t.Fatal(err)
	}
	if found, err := h.Store.Profiles(ctx, refused.Order); err != nil || found[refused.Order].Status != esim.Failed {
		t.Errorf("found %+v, %v", found, err)
	}
}

func activationDataIsResealedOnce(t *testing.T, h StoreHarness) {
	ctx := t.Context()
	ready := profile(h.sold(esim.Kind))
	pending := profile(h.sold(esim.Kind))
	for _, p := range []esim.Profile{ready, pending} {
		if _, err := h.Store.Reserve(ctx, h.Fence, p); err != nil {
			t.Fatal(err)
		}
	}
	was, is := esim.Sealed{Key: "old", Box: []byte("was")}, esim.Sealed{Key: "new", Box: []byte("is")}
	ready.ActivationData = was
	if err := h.Store.Install(ctx, h.Fence, ready, ready.Postings()); err != nil {
		t.Fatal(err)
	}
	foreign, err := h.Store.Foreign(ctx, "new", 10)
	if err != nil || len(foreign) != 1 || foreign[0].ID != ready.ID || string(foreign[0].ActivationData.Box) != "was" {
		t.Fatalf("foreign %+v, %v", foreign, err)
	}
	if err := h.Store.Reseal(ctx, ready.ID, was, is); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Reseal(ctx, ready.ID, was, esim.Sealed{Key: "third", Box: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if foreign, err := h.Store.Foreign(ctx, "new", 10); err != nil || len(foreign) != 0 {
		t.Errorf("foreign %+v, %v after it was sealed again", foreign, err)
	}
}

func eachRotationIsTheNext(t *testing.T, h StoreHarness) {
	ctx, id := t.Context(), h.sold(esim.Kind)
	if _, rotated, err := h.Store.Token(ctx, id); err != nil || rotated {
		t.Fatalf("rotated %t, %v", rotated, err)
	}
	for want := 2; want < 5; want++ {
		expires := start.Add(time.Duration(want) * time.Hour)
		v, err := h.Store.Rotate(ctx, id, expires)
		if err != nil || v.Version != want || !v.ExpiresAt.Equal(expires) {
			t.Fatalf("rotated to %+v, %v; want version %d", v, err, want)
		}
		if read, rotated, err := h.Store.Token(ctx, id); err != nil || !rotated || read.Version != want ||
			!read.ExpiresAt.Equal(expires) {
			t.Errorf("reads as %+v, %t, %v", read, rotated, err)
		}
	}
}

func onlyESIMOrdersAreFound(t *testing.T, h StoreHarness) {
	for kind, want := range map[order.Kind]bool{esim.Kind: true, "card_issue": false} {
		id := h.sold(kind)
		got, err := h.Store.Order(t.Context(), id)
		if (err == nil) != want || (want && got.ID != id) {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
}

func profilesPlansGetIDs(t *testing.T, h StoreHarness) {
	ctx := t.Context()
	listed, extra := plan("pln_a", "a", 300), plan("pln_t", "TOPUP_a", 200)
	if err := h.Store.Replace(ctx, supplier, []esim.Plan{listed}, start); err != nil {
		t.Fatal(err)
	}
	known := plan("pln_other", "a", 900)
	got, err := h.Store.Learn(ctx, supplier, []esim.Plan{extra, known})
	extra.Live = false
	if diff := cmp.Diff([]esim.Plan{extra, listed}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	costlier := plan("pln_u", "TOPUP_a", 250)
	got, err = h.Store.Learn(ctx, supplier, []esim.Plan{costlier})
	costlier.ID, costlier.Live = "pln_t", false
	if diff := cmp.Diff([]esim.Plan{costlier}, got); err != nil || diff != "" {
		t.Errorf("learned again: %v (-want +got):\n%s", err, diff)
	}
	if plans, _, err := h.Store.Plans(ctx); err != nil || len(plans) != 1 || plans[0].ID != listed.ID {
		t.Errorf("the catalogue is %+v, %v", plans, err)
	}
	if found, err := h.Store.Plan(ctx, "pln_t"); err != nil || found.Code != "TOPUP_a" {
		t.Errorf("found %+v, %v", found, err)
	}
	if none, err := h.Store.Learn(ctx, supplier, nil); err != nil || len(none) != 0 {
		t.Errorf("nothing is learned as %+v, %v", none, err)
	}
}
