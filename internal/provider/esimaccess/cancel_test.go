package esimaccess_test

import (
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// profile orders a package and lets its profile be allocated.
func (b *bench) profile() (fulfilment.Ref, esimaccessfake.Order) {
	b.Helper()
	ref, _ := b.ordered(france)
	b.fake.Settle()
	all := b.fake.Orders()
	return ref, all[len(all)-1]
}

// cancel cancels a profile that cost 0.75 dollars, all of which is credited.
func (b *bench) cancel(id string) error { return cancelled(b.T, b.Supplier, id) }

func cancelled(t *testing.T, s *esimaccess.Supplier, id string) error {
	const cost = 750_000
	credit, err := s.Cancel(t.Context(), esim.Held{ID: id, Cost: cost})
	if want := map[bool]money.USDC{true: cost}[err == nil]; credit != want {
		t.Errorf("credited %s, want %s", credit.Dollars(), want.Dollars())
	}
	return err
}

func TestUnusedProfileIsCancelledOnce(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	before := b.fake.Balance()
	ref, made := b.profile()
	var asked sync.WaitGroup
	for range 8 {
		asked.Go(func() {
			if err := b.cancel(made.ProfileNo); err != nil && refusal(err) == nil {
				t.Errorf("Cancel: %v", err)
			}
		})
	}
	asked.Wait()
	if err := b.cancel(made.ProfileNo); err != nil || b.fake.Balance() != before {
		t.Errorf("Cancel again = %v, a balance of %d, want %d", err, b.fake.Balance(), before)
	}
	if got, err := b.Ordered(t.Context(), ref); err != nil || got.State != esim.PurchaseRejected {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOnlyAnUnusedProfileIsCancelled(t *testing.T) {
	for name, change := range map[string]func(*esimaccessfake.Order){
		"downloaded": func(o *esimaccessfake.Order) { o.SMDPStatus = "DOWNLOAD" },
		"installed":  func(o *esimaccessfake.Order) { o.SMDPStatus = "INSTALLATION" },
		"enabled":    func(o *esimaccessfake.Order) { o.SMDPStatus = "ENABLED" },
		"in use":     func(o *esimaccessfake.Order) { o.ESIMStatus, o.SMDPStatus = "IN_USE", "ENABLED" },
		"used":       func(o *esimaccessfake.Order) { o.ESIMStatus = "USED_UP" },
		"expired":    func(o *esimaccessfake.Order) { o.ESIMStatus = "UNUSED_EXPIRED" },
		"revoked":    func(o *esimaccessfake.Order) { o.ESIMStatus = "REVOKE" },
	} {
		b := start(t, esimaccessfake.Config{})
		_, made := b.profile()
		b.fake.Edit(made.No, change)
		err := b.cancel(made.ProfileNo)
		if refusalCode(err) != esim.RefusedInstalled || b.fake.Requests()["cancel"] != 0 {
			t.Errorf("%s: Cancel = %v after %v", name, err, b.fake.Requests())
		}
	}
	b := start(t, esimaccessfake.Config{})
	for _, id := range []string{"", "../x", "a b"} {
		if err := b.cancel(id); refusalCode(err) != fulfilment.RefusedRequest {
			t.Errorf("Cancel(%q) = %v", id, err)
		}
	}
	err := b.cancel("no-such-profile")
	b.handles().WantUnknown(t, err)
}

// A profile may be installed between the look at it and its cancellation: the vendor decides.
func TestVendorHasTheLastWordOnACancellation(t *testing.T) {
	s := scripted(t, byPath(map[string]string{
		"query": `{"success":true,"errorCode":"0","obj":{"pager":{"total":1},"esimList":[{"esimTranNo":"231",` +
			`"esimStatus":"GOT_RESOURCE","smdpStatus":"RELEASED"}]}}`,
		"cancel": `{"success":false,"errorCode":"200002","errorMsg":"not allowed"}`,
	}))
	if err := cancelled(t, s, "231"); refusalCode(err) != esim.RefusedInstalled {
		t.Errorf("Cancel = %v", err)
	}
	if err := cancelled(t, s, "232"); err == nil || refusal(err) != nil {
		t.Errorf("Cancel of another = %v", err)
	}
}

// An answer that is lost leaves the outcome unknown, and the next call finds it.
func TestLostCancellationIsReadBack(t *testing.T) {
	for mode, done := range map[vendorfake.Mode]bool{
		vendorfake.TimeoutAfter: true, vendorfake.ErrorAfter: true, vendorfake.Malformed: true,
		vendorfake.TimeoutBefore: false, vendorfake.ErrorBefore: false, esimaccessfake.BusyBefore: false,
		vendorfake.RateLimited: false, vendorfake.Unauthorized: false,
	} {
		b := start(t, esimaccessfake.Config{})
		before := b.fake.Balance()
		_, made := b.profile()
		b.fake.Fault("cancel", mode)
		err := b.cancel(made.ProfileNo)
		b.handles().WantUnknown(t, err)
		if credited := b.fake.Balance() == before; credited != done {
			t.Errorf("%s: credited %v", mode, credited)
		}
		want := map[bool]int{true: 1, false: 2}[done]
		if err := b.cancel(made.ProfileNo); err != nil || b.fake.Balance() != before ||
			b.fake.Requests()["cancel"] != want {
			t.Errorf("%s: Cancel again = %v after %v", mode, err, b.fake.Requests())
		}
	}
}
