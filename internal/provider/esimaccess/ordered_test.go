package esimaccess_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// looks are the two ways to read an order: with its number, and without any memory of it.
func (b *bench) looks() map[string]func(context.Context, fulfilment.Ref) (esim.Purchase, error) {
	return map[string]func(context.Context, fulfilment.Ref) (esim.Purchase, error){
		"by number": b.Ordered, "by time": b.dial().Ordered,
	}
}

func TestOrderReadsAsItIsAtTheVendor(t *testing.T) {
	for status, want := range map[string]esim.PurchaseState{
		"CREATE": esim.PurchasePending, "PAYING": esim.PurchasePending, "PAID": esim.PurchasePending,
		"GOT_RESOURCE": esim.PurchaseReady, "IN_USE": esim.PurchaseReady, "USED_UP": esim.PurchaseReady,
		"USED_EXPIRED": esim.PurchaseReady, "UNUSED_EXPIRED": esim.PurchaseReady, "SUSPENDED": esim.PurchaseReady,
		"CANCEL": esim.PurchaseRejected, "REVOKE": esim.PurchasePending, "REVOKED": esim.PurchasePending,
		"A_NEW_STATE": esim.PurchasePending,
	} {
		t.Run(status, func(t *testing.T) {
			b := start(t, esimaccessfake.Config{})
			ref, _ := b.ordered(france)
			b.fake.Settle()
			made := b.fake.Orders()[0]
			b.fake.Edit(made.No, func(o *esimaccessfake.Order) { o.ESIMStatus = status })
			for name, look := range b.looks() {
				got, err := look(t.Context(), ref)
				if err != nil || got.State != want || (got.ActivationData != nil) != (want == esim.PurchaseReady) ||
					(got.Refusal != nil) != (want == esim.PurchaseRejected) || got.ID != made.ProfileNo ||
					got.Code != france || got.Cost != 750_000 {
					t.Errorf("%s: %+v, %v; want %s", name, got, err, want)
				}
			}
		})
	}
}

// The price of a package may change after it was ordered, and the vendor shows nowhere what was paid.
func TestOrderCostsWhatItWasMadeAt(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	ref, _ := b.ordered(france)
	b.fake.Settle()
	b.fake.Change(france, func(p *esimaccessfake.Package) { p.Price = 9_900 })
	for name, look := range b.looks() {
		if got, err := look(t.Context(), ref); err != nil || got.Cost != 750_000 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// What is being allocated is on no list: it is pending as long as its number is known, and unknown to a process that
// has restarted until the allocation ends.
func TestOrderThatIsNotListedYetIsNotLost(t *testing.T) {
	b := start(t, esimaccessfake.Config{HideAllocating: true})
	ref, _ := b.ordered(france)
	if got, err := b.Ordered(t.Context(), ref); err != nil || got.State != esim.PurchasePending || got.Code != france ||
		got.Cost != 750_000 {
		t.Errorf("with its number: %+v, %v", got, err)
	}
	again := b.dial()
	if _, err := again.Ordered(t.Context(), ref); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("without its number: %v, want ErrNoRef", err)
	}
	b.fake.Settle()
	if got, err := again.Ordered(t.Context(), ref); err != nil || got.State != esim.PurchaseReady {
		t.Errorf("when it is allocated: %+v, %v", got, err)
	}
	lost := b.lost(vendorfake.Late)
	if _, err := b.Ordered(t.Context(), lost); !errors.Is(err, fulfilment.ErrNoRef) || b.executed(lost) != 1 {
		t.Errorf("a late effect: %v, want ErrNoRef until it appears", err)
	}
	if traits := b.Traits(); traits.Deduplicates || traits.VisibilityDelay < 2*time.Minute {
		t.Errorf("traits %+v: a reference that is not found may be there, and is not sent again", traits)
	}
}

// The account has other orders, too: of other programs, and made by hand.
func TestOnlyTheReferenceMakesAnOrderOurs(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	ref := b.lost(vendorfake.TimeoutAfter)
	other, _ := b.ordered(france)
	for _, name := range []string{"", "ABC-210-2s7Fr", "12068951785848-1-1", other.String()[:35]} {
		b.fake.Add(name, france)
	}
	b.fake.Settle()
	got, err := b.Ordered(t.Context(), ref)
	if err != nil || got.Ref != ref || got.ID != b.fake.Orders()[0].ProfileNo {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.Ordered(t.Context(), fulfilmenttest.NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("%v, want ErrNoRef", err)
	}
	all, err := b.Purchases(t.Context())
	if err != nil || len(all) != 2 || all[0].Ref != ref || all[1].Ref != other {
		t.Errorf("the statement has %+v, %v", all, err)
	}
}

func TestAmbiguousAnswerIsNoRecord(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	ref, _ := b.ordered(france)
	b.fake.Settle()
	for _, mode := range []vendorfake.Mode{vendorfake.Contradiction, vendorfake.Partial} {
		for name, look := range b.looks() {
			b.fake.Fault("ordered", mode)
			if got, err := look(t.Context(), ref); err == nil || errors.Is(err, fulfilment.ErrNoRef) || refusal(err) != nil {
				t.Errorf("%s %s: %+v, %v; want an error that settles nothing", mode, name, got, err)
			}
		}
	}
	// One reference at two prices is two orders.
	twice := fulfilmenttest.NewRef()
	b.fake.Add(twice.String()+"-7500", france)
	b.fake.Add(twice.String()+"-7600", france)
	malformed := fulfilmenttest.NewRef()
	b.fake.Add(malformed.String()+"-07500", france)
	for _, ref := range []fulfilment.Ref{twice, malformed} {
		if got, err := b.Ordered(t.Context(), ref); err == nil || errors.Is(err, fulfilment.ErrNoRef) {
			t.Errorf("%+v, %v; want an error that settles nothing", got, err)
		}
	}
	b.fake.Fault("ordered", vendorfake.Reordered)
	if got, err := b.dial().Ordered(t.Context(), ref); err != nil || got.Ref != ref {
		t.Errorf("in another order: %+v, %v", got, err)
	}
}

func TestActivationDataIsWhatDevicesTake(t *testing.T) {
	const answer = `{"success":true,"errorCode":"0","obj":{"pager":{"total":1},"esimList":[{"esimTranNo":%q,` +
		`"orderNo":"B1","transactionId":"%s-7500","iccid":%q,"ac":%q,"esimStatus":"GOT_RESOURCE",` +
		`"packageList":[{"packageCode":%q}]}]}}`
	const ac, iccid = "LPA:1$rsp-eu.example.com$451F9802E6854E3E", "8943108170000775671"
	for name, c := range map[string]struct {
		id, iccid, ac, code string
		ok                  bool
	}{
		"whole":                  {"231", iccid, ac, "P1", true},
		"no activation code":     {"231", iccid, "", "P1", false},
		"another format":         {"231", iccid, "LPA:2$rsp-eu.example.com$451F", "P1", false},
		"a confirmation code":    {"231", iccid, ac + "$$1", "P1", false},
		"an OID and a code":      {"231", iccid, ac + "$1.3.6.1.4.1.31746$1", "P1", false},
		"a trailing $":           {"231", iccid, ac + "$", "P1", true},
		"no confirmation code":   {"231", iccid, ac + "$$0", "P1", true},
		"a host in capitals":     {"231", iccid, "LPA:1$RSP-EU.Example.COM$451F9802E6854E3E", "P1", true},
		"no LPA":                 {"231", iccid, strings.TrimPrefix(ac, "LPA:"), "P1", true},
		"a filled ICCID":         {"231", iccid + "F", ac, "P1", true},
		"a bad matching id":      {"231", iccid, "LPA:1$rsp-eu.example.com$45 1F", "P1", false},
		"no host":                {"231", iccid, "LPA:1$$451F9802E6854E3E", "P1", false},
		"an address for a host":  {"231", iccid, "LPA:1$https://rsp.example.com$451F", "P1", false},
		"no ICCID":               {"231", "", ac, "P1", false},
		"an IMSI for an ICCID":   {"231", "310840118124583", ac, "P1", false},
		"a device for an ICCID":  {"231", "89049032007108882600137544319616", ac, "P1", false},
		"no name of the profile": {"", iccid, ac, "P1", false},
		"a bad name":             {"../231", iccid, ac, "P1", false},
		"no package":             {"231", iccid, ac, "", false},
	} {
		ref := fulfilmenttest.NewRef()
		s := scripted(t, answering(fmt.Sprintf(answer, c.id, ref, c.iccid, c.ac, c.code)))
		got, err := s.Ordered(t.Context(), ref)
		if c.ok != (err == nil) || errors.Is(err, fulfilment.ErrNoRef) || refusal(err) != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if c.ok && (got.ActivationData.SMDPAddress.Reveal() != "rsp-eu.example.com" ||
			esim.LPA(*got.ActivationData) != ac || got.ActivationData.ICCID.Reveal() != iccid) {
			t.Errorf("%s: not what the vendor sent", name)
		}
	}
}

// A profile that was topped up lists several packages; each says which order it is of.
func TestOrderedPackageIsFoundAmongTopUps(t *testing.T) {
	ref := fulfilmenttest.NewRef()
	const answer = `{"success":true,"errorCode":"0","obj":{"pager":{"total":1},"esimList":[{"esimTranNo":"231",` +
		`"transactionId":"%[1]s-7500","esimStatus":"PAID","packageList":[{"packageCode":"TOPUP_1","transactionId":"x"},` +
		`{"packageCode":"P1","transactionId":%[2]q}]}]}}`
	s := scripted(t, answering(fmt.Sprintf(answer, ref, ref.String()+"-7500")))
	if got, err := s.Ordered(t.Context(), ref); err != nil || got.Code != "P1" {
		t.Errorf("%+v, %v", got, err)
	}
	s = scripted(t, answering(fmt.Sprintf(answer, ref, "y")))
	if got, err := s.Ordered(t.Context(), ref); err == nil || errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("%+v, %v; want an error that settles nothing", got, err)
	}
}

func TestEveryPageOfTheLookbackIsSearched(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	first := b.lost(vendorfake.TimeoutAfter)
	for n := range 998 {
		b.fake.Add(fmt.Sprintf("another-%d", n), france)
	}
	last := b.lost(vendorfake.TimeoutAfter)
	seen := b.fake.Requests()["ordered"]
	for _, ref := range []fulfilment.Ref{first, last} {
		if got, err := b.dial().Ordered(t.Context(), ref); err != nil || got.Ref != ref {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n := b.fake.Requests()["ordered"] - seen; n != 4 {
		t.Errorf("1000 orders were read twice in %d pages, want 2 each", n)
	}
	// Half a list says nothing about what is not on it.
	b.fake.Fault("ordered", "")
	b.fake.Fault("ordered", vendorfake.RateLimited)
	_, err := b.Ordered(t.Context(), fulfilmenttest.NewRef())
	b.handles().WantUnknown(t, err)

	b.clock.pass(23 * time.Hour)
	if got, err := b.dial().Ordered(t.Context(), last); err != nil || got.Ref != last {
		t.Errorf("after 23 hours: %+v, %v", got, err)
	}
	b.clock.pass(2 * time.Hour)
	if _, err := b.dial().Ordered(t.Context(), last); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("after 25 hours: %v", err)
	}
	if all, err := b.Purchases(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("the statement has %d orders, %v", len(all), err)
	}
}

func TestListThatDoesNotEndIsNoAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"pages without items":      `{"success":true,"errorCode":"0","obj":{"pager":{"total":501},"esimList":[]}}`,
		"no list of what there is": `{"success":true,"errorCode":"0","obj":{"pager":{"total":1},"esimList":null}}`,
		"no total":                 `{"success":true,"errorCode":"0","obj":{"esimList":[]}}`,
		"a negative total":         `{"success":true,"errorCode":"0","obj":{"pager":{"total":-1},"esimList":[]}}`,
		"an item of another form":  `{"success":true,"errorCode":"0","obj":{"pager":{"total":1},"esimList":[7]}}`,
		"still allocating":         `{"success":false,"errorCode":"200010","errorMsg":"m"}`,
	} {
		_, err := scripted(t, answering(body)).Ordered(t.Context(), fulfilmenttest.NewRef())
		if err == nil || errors.Is(err, fulfilment.ErrNoRef) {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := `{"success":true,"errorCode":"0","obj":{"pager":{"total":0},"esimList":null}}`
	_, err := scripted(t, answering(empty)).Ordered(t.Context(), fulfilmenttest.NewRef())
	if !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("an empty list: %v", err)
	}
}

func TestStatementHasNoActivationData(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	ref, _ := b.ordered(france)
	b.fake.Settle()
	other, _ := b.ordered("FKE001")
	b.fake.Fault("ordered", vendorfake.Duplicate)
	all, err := b.Purchases(t.Context())
	if err != nil || len(all) != 2 || all[0].Ref != ref || all[0].State != esim.PurchaseReady ||
		all[0].ActivationData != nil || all[0].Cost != 750_000 || all[1].Ref != other ||
		all[1].State != esim.PurchasePending {
		t.Errorf("%+v, %v", all, err)
	}
	b.fake.Fault("ordered", vendorfake.ErrorBefore)
	if all, err := b.Purchases(t.Context()); err == nil || all != nil {
		t.Errorf("half a statement: %+v, %v", all, err)
	}
}
