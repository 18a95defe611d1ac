package esim_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/x402"
)

// extending sells more data in a shop that sells eSIMs.
type extending struct {
	*shop
	*cancelling
	topups *esim.Topups
}

// tops runs a test with a worker that delivers eSIMs, and more data for them.
func tops(t *testing.T, traits fulfilment.Traits, tell func(s extending), changes ...func(*esim.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, traits, changes...)
		x := extending{shop: s, cancelling: &cancelling{}}
		x.topups = &esim.Topups{Esims: s.Esims, Store: s.store, Cancels: x.cancelling}
		eSIMs := s.made.Deliver
		s.made.Deliver = func(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
			if o.Kind == esim.TopupKind {
				return x.topups.Deliver(ctx, l, o)
			}
			return eSIMs(ctx, l, o)
		}
		s.made.Work(t, nil, func() { tell(x) })
	})
}

// wanted is the offer of more data for an eSIM.
func (x extending) wanted(on order.ID, quoted *order.Offer) (order.Offer, error) {
	return x.topups.Offer(x.Context(), order.OfferRequest{Body: fmt.Appendf(nil, `{"esim":%q}`, on), Quoted: quoted})
}

// bought lets an order for more data be delivered.
func (x extending) bought(on order.ID) order.Order {
	x.Helper()
	offer, err := x.wanted(on, nil)
	if err != nil {
		x.Fatal(err)
	}
	now := time.Now()
	o := order.Order{
		ID: order.NewID(now), Kind: esim.TopupKind, Status: order.Provisioning, Owner: owner, Price: offer.Price,
		Item: offer.Item, CreatedAt: now, UpdatedAt: now,
	}
	x.store.Orders().Put(o)
	x.made.Begin(x.T, o)
	return o
}

func TestOwnerBuysMoreDataOnce(t *testing.T) {
	for name, mode := range map[string]fulfilmenttest.Mode{
		"at once": "", "its answer is lost": fulfilmenttest.TimeoutAfter, "its request is lost": fulfilmenttest.ErrorBefore,
	} {
		t.Run(name, func(t *testing.T) {
			tops(t, careful, func(x extending) {
				o := x.delivered()
				x.supplier.Use(esim.Purchase{ID: x.shop.profile(o.ID).Account}, 7)
				before, err := x.Condition(x.Context(), o)
				if err != nil {
					x.Fatal(err)
				}
				had := before.Usage.Total
				if mode != "" {
					x.supplier.Fault(esimtest.TopUp, mode)
				}
				more := x.bought(o.ID)
				x.pass(2 * (callTimeout + visibilityDelay))
				row := x.store.Topup(more.ID)
				if x.ended(more.ID).State != order.Delivered || row.Status != esim.Ready || row.Account == "" ||
					row.Profile != x.shop.profile(o.ID).ID || x.supplier.Executed(row.Ref) != 1 {
					x.Errorf("delivery %+v of %+v", x.ended(more.ID), row)
				}
				want := ledger.Supplied(string(more.ID), row.Cost)
				want.At = row.UpdatedAt
				if diff := cmp.Diff([]ledger.Posting{want}, x.store.Orders().Posted(more.ID)); diff != "" || row.Cost <= 0 {
					x.Errorf("postings (-want +got):\n%s", diff)
				}
				// The condition was read less than a minute ago, or is read again: the data shows at once.
				after, err := x.Condition(x.Context(), o)
				if err != nil || after.Usage.Total <= had {
					x.Errorf("it had %d bytes, and has %+v, %v", had, after.Usage, err)
				}
				if found, err := x.topups.Found(x.Context(), more); err != nil || !found {
					x.Errorf("found %t, %v", found, err)
				}
			})
		})
	}
}

func TestRefusedDataIsRefunded(t *testing.T) {
	tops(t, careful, func(x extending) {
		o := x.delivered()
		x.supplier.Fault(esimtest.TopUp, fulfilmenttest.Rejected)
		more := x.bought(o.ID)
		x.pass(time.Minute)
		if x.ended(more.ID).State != order.Refused || x.store.Topup(more.ID).Status != esim.Failed ||
			len(x.store.Orders().Posted(more.ID)) > 0 {
			x.Errorf("delivery %+v, %+v", x.ended(more.ID), x.store.Topup(more.ID))
		}
	})
}

func TestUntraceableDataIsAnOperators(t *testing.T) {
	tops(t, fulfilment.Traits{VisibilityDelay: visibilityDelay}, func(x extending) {
		o := x.delivered()
		x.supplier.Fault(esimtest.TopUp, fulfilmenttest.TimeoutBefore)
		more := x.bought(o.ID)
		x.pass(2 * deadline)
		if at := x.ended(more.ID); at.State != order.Doubtful || x.supplier.Calls(esimtest.TopUp) != 1 {
			x.Errorf("delivery %+v after %d calls", at, x.supplier.Calls(esimtest.TopUp))
		}
	})
}

// TestDataForACancelledEsimIsRefunded: whoever comes second is refused, without asking the supplier.
func TestDataForACancelledEsimIsRefunded(t *testing.T) {
	tops(t, careful, func(x extending) {
		o := x.delivered()
		begun := esim.CancelArgs{Order: o.ID, Profile: x.shop.profile(o.ID).ID, Stage: esim.StageCancelling}
		if _, err := x.store.BeginCancel(x.Context(), begun); err != nil {
			x.Fatal(err)
		}
		more := x.bought(o.ID)
		x.pass(time.Minute)
		if at := x.ended(more.ID); at.State != order.Refused || at.Reason != esim.RefusedProfile ||
			x.supplier.Calls(esimtest.TopUp) != 0 {
			x.Errorf("delivery %+v after %d calls", at, x.supplier.Calls(esimtest.TopUp))
		}
	})
}

func TestDataIsOfferedForWhatTakesIt(t *testing.T) {
	tops(t, careful, func(x extending) {
		early := x.undelivered()
		wantFault := func(what string, id order.ID, want fault.Code) {
			x.Helper()
			if _, err := x.wanted(id, nil); fault.Of(err) != want {
				x.Errorf("%s: %v, want %s", what, err, want)
			}
		}
		wantFault("an eSIM that is not there yet", early.ID, fault.OrderNotFulfilled)
		wantFault("nobody's order", "ord_none", fault.OrderNotFound)
		x.made.Begin(x.T, early)
		x.pass(time.Minute)
		o := x.now(early)
		offer, err := x.wanted(o.ID, nil)
		plans, listErr := x.topups.Plans(x.Context(), o)
		if err != nil || listErr != nil || len(plans) != 1 || offer.Price != plans[0].Price {
			x.Fatalf("offered %+v, %v; %+v, %v", offer, err, plans, listErr)
		}
		if all, err := x.Plans(x.Context(), esim.Filter{Country: "FR", Type: esim.Country}); err != nil ||
			all[0].ID != plans[0].ID || all[0].Price != plans[0].Price {
			x.Errorf("the catalogue has %+v, %v; the eSIM takes %+v", all, err, plans)
		}
		if claim, err := x.topups.Reserve(x.Context(), owner, offer); err != nil || len(claim.Reservations) != 1 ||
			claim.Provider != "one" {
			x.Errorf("reserved %+v, %v", claim, err)
		}
		if _, err := x.topups.Reserve(x.Context(), x402.Address{1}, offer); fault.Of(err) != fault.OrderNotFound {
			x.Errorf("of another wallet: %v", err)
		}
		x.supplier.SetCost("fr-1", offer.Price.USDC()+1)
		if _, err := x.topups.Reserve(x.Context(), owner, offer); fault.Of(err) != fault.TermsChanged {
			x.Errorf("at another price: %v", err)
		}
		x.supplier.SetCost("fr-1", 800_000)
		x.supplier.Become(x.shop.profile(o.ID).Account, esim.State{Status: esim.ProfileExpired})
		if _, err := x.topups.Reserve(x.Context(), owner, offer); fault.Of(err) != fault.TermsChanged {
			x.Errorf("of an expired eSIM: %v", err)
		}
		wantFault("an expired eSIM", o.ID, fault.EsimFinished)
		x.args = &esim.CancelArgs{Order: o.ID, Stage: esim.StageCancelling}
		wantFault("an eSIM that is being cancelled", o.ID, fault.EsimCancelled)
		x.args.Stage = esim.StageKept
		wantFault("an eSIM that was not taken back", o.ID, fault.EsimFinished)
		p := x.shop.profile(o.ID)
		p.Status, p.ActivationData = esim.Cancelled, esim.Sealed{}
		x.store.Put(p)
		wantFault("a cancelled eSIM", o.ID, fault.EsimCancelled)
	}, func(p *esim.Provider) { p.Name = "one" })
}

func TestQuotedDataKeepsItsPrice(t *testing.T) {
	tops(t, careful, func(x extending) {
		o := x.delivered()
		quoted, err := x.wanted(o.ID, nil)
		if err != nil {
			x.Fatal(err)
		}
		costlier := quoted
		costlier.Price += 100
		if got, err := x.wanted(o.ID, &costlier); err != nil || got.Price != costlier.Price {
			x.Errorf("quoted at %s: %+v, %v", costlier.Price, got, err)
		}
		cheaper := quoted
		cheaper.Price = money.Cents(1)
		if _, err := x.wanted(o.ID, &cheaper); fault.Of(err) != fault.TermsChanged {
			x.Errorf("quoted below the cost: %v", err)
		}
		_, err = x.topups.Offer(x.Context(), order.OfferRequest{Body: fmt.Appendf(nil, `{"esim":%q,"planId":"pln_x"}`, o.ID)})
		if fault.Of(err) != fault.TermsChanged {
			x.Errorf("a plan that it does not take: %v", err)
		}
	})
}

func TestSupplierThatAddsNothingIsNotAsked(t *testing.T) {
	for name, change := range map[string]func(*esim.Provider){
		"without the capability": func(p *esim.Provider) { p.Capabilities.Topup = false },
		"without a topper":       func(p *esim.Provider) { p.Topper = nil },
	} {
		t.Run(name, func(t *testing.T) {
			tops(t, careful, func(x extending) {
				o := x.delivered()
				if _, err := x.wanted(o.ID, nil); fault.Of(err) != fault.EsimControlMissing {
					x.Errorf("%v", err)
				}
				if x.supplier.Calls(esimtest.Topups) != 0 {
					x.Error("the supplier was asked")
				}
			}, change)
		})
	}
}

// TestClosedSupplierAddsNothing: operators have closed the sale over the supplier of the profile, and no other one can
// add to it.
func TestClosedSupplierAddsNothing(t *testing.T) {
	tops(t, careful, func(x extending) {
		o := x.delivered()
		profiles, err := x.store.Profiles(x.Context(), o.ID)
		if err != nil {
			x.Fatal(err)
		}
		x.Esims.Switches = availability.NewSwitches(&closed{names: []string{profiles[o.ID].Provider}}, time.Now)
		if _, err := x.wanted(o.ID, nil); fault.Of(err) != fault.EsimPaused {
			x.Errorf("%v", err)
		}
	})
}

func TestProfileIsAskedOnceAMinuteForWhatItTakes(t *testing.T) {
	tops(t, careful, func(x extending) {
		o := x.delivered()
		for range 100 {
			if _, err := x.wanted(o.ID, nil); err != nil {
				x.Fatal(err)
			}
		}
		if n := x.supplier.Calls(esimtest.Topups); n != 1 {
			x.Errorf("asked %d times", n)
		}
		x.pass(esim.ConditionTTL + time.Second)
		if _, err := x.wanted(o.ID, nil); err != nil || x.supplier.Calls(esimtest.Topups) != 2 {
			x.Errorf("a minute later: %v, asked %d times", err, x.supplier.Calls(esimtest.Topups))
		}
	})
}

// TestReferencesOfTopupsNeverChange: an order that is made again after data loss has to find its data.
func TestReferencesOfTopupsNeverChange(t *testing.T) {
	for name, want := range map[string]string{
		"ord_1": "",
		"adopted:6ba7b810-9dad-11d1-80b4-00c04fd430c8": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
	} {
		if got := esim.TopupRef(name, 1).String(); want != "" && got != want {
			t.Errorf("of %s it is %s, want %s", name, got, want)
		}
	}
	known := (&esim.Topups{}).References(order.Order{ID: "ord_1", Delivery: 2})
	if len(known) != 2 || known[1].Reference != esim.TopupRef("ord_1", 2).String() || known[1].Version != 2 {
		t.Errorf("known by %+v", known)
	}
	if esim.TopupRef("ord_1", 1) == esim.OrderRef("ord_1", 1) {
		t.Error("a top-up has the reference of an eSIM")
	}
}

// bookOf is the supplier's book, and what we have of it.
type bookOf []esim.Purchase

func (b bookOf) Purchases(context.Context) ([]esim.Purchase, error) { return b, nil }

func (b bookOf) PlansByCode(context.Context, string) (map[string]esim.Plan, error) {
	return map[string]esim.Plan{"fr-1": {ID: "pln_fr", Code: "fr-1", Price: 100, DataMB: 1024, ValidityDays: 7}}, nil
}

func (b bookOf) DeliveredByAccount(context.Context, string, []string) (map[string]esim.Delivered, error) {
	return map[string]esim.Delivered{"sup-1": {Order: "ord_1", Owner: owner}}, nil
}

// TestSuppliersBookTellsTopupsFromEsims: an order that is made again for a top-up is of the eSIM that it was added to.
func TestSuppliersBookTellsTopupsFromEsims(t *testing.T) {
	b := bookOf{
		{ID: "sup-1", Ref: fulfilmenttest.NewRef(), Code: "fr-1", Cost: 800_000, State: esim.PurchaseReady},
		{ID: "sup-2", Ref: fulfilmenttest.NewRef(), Code: "fr-1", Cost: 800_000, State: esim.PurchaseReady, Onto: "sup-1"},
		{ID: "sup-3", Ref: fulfilmenttest.NewRef(), Code: "fr-1", Cost: 800_000, State: esim.PurchaseReady, Onto: "lost"},
		{ID: "sup-4", Ref: fulfilmenttest.NewRef(), Code: "fr-1", State: esim.PurchaseRejected, Onto: "sup-1"},
	}
	books := []esim.NamedBook{{Provider: "acme", Book: b}}
	eSIMs, err := esim.IssuedRecords{Books: books, Plans: b}.Made(t.Context())
	if err != nil || len(eSIMs) != 1 || eSIMs[0].Kind != esim.Kind {
		t.Errorf("eSIMs %+v, %v", eSIMs, err)
	}
	more, err := esim.IssuedTopups{Books: books, Plans: b, Accounts: b}.Made(t.Context())
	if err != nil || len(more) != 2 {
		t.Fatalf("top-ups %+v, %v", more, err)
	}
	item, err := esim.TopupItemOf(order.Order{Item: more[0].Item(1_000_000)})
	if err != nil || item.Esim != "ord_1" || item.Plan != "pln_fr" || more[0].Owner != owner || !more[0].Known ||
		more[0].Later || more[0].Costs(1_000_000) != 2 {
		t.Errorf("top-up of ours %+v, %+v, %v", more[0], item, err)
	}
	if !more[1].Later || more[1].Known {
		t.Errorf("top-up of an eSIM that is not there %+v", more[1])
	}
}
