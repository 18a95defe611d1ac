package esimaccess_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

func refusal(err error) *fulfilment.Refusal {
	no, _ := errors.AsType[*fulfilment.Refusal](err)
	return no
}

func refusalCode(err error) string {
	if no := refusal(err); no != nil {
		return no.Code
	}
	return ""
}

func TestOrderNamesThePriceThatItIsMadeAt(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	before := b.fake.Balance()
	ref, p := b.ordered(france)
	if p.State != esim.PurchasePending || p.Cost != 750_000 || p.Code != france || p.Ref != ref {
		t.Errorf("ordered %+v", p)
	}
	made := b.fake.Orders()
	if len(made) != 1 || !made[0].Guarded || made[0].Transaction != ref.String()+"-7500" || made[0].Price != 7_500 ||
		b.fake.Balance() != before-7_500 {
		t.Errorf("the vendor has %+v", made)
	}
}

// The price is read before the order; the vendor is the one that compares it.
func TestPriceThatChangesBeforeTheOrderIsRefused(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	b.fake.Fault("check", vendorfake.WrongAmount)
	_, err := b.Order(t.Context(), request(france))
	if refusalCode(err) != esim.RefusedPrice || len(b.fake.Orders()) != 0 || b.fake.Requests()["order"] != 1 {
		t.Errorf("Order = %v, the vendor has %+v", err, b.fake.Orders())
	}
	r := request(france)
	r.MaxCost = 749_999
	_, err = b.Order(t.Context(), r)
	if refusalCode(err) != esim.RefusedPrice || b.fake.Requests()["order"] != 1 {
		t.Errorf("Order above the limit = %v after %v", err, b.fake.Requests())
	}
}

func TestVendorsRefusalsAreOurs(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	b.fake.Change(france, func(p *esimaccessfake.Package) { p.SoldOut = true })
	if _, err := b.Order(t.Context(), request(france)); refusalCode(err) != esim.RefusedStock {
		t.Errorf("sold out: %v", err)
	}
	b.fake.Change(france, func(p *esimaccessfake.Package) { p.SoldOut = false })
	b.fake.SetBalance(7_499)
	if _, err := b.Order(t.Context(), request(france)); refusalCode(err) != fulfilment.RefusedFloat {
		t.Errorf("without money: %v", err)
	}
	b.fake.SetBalance(7_500)
	b.ordered(france)
	b.fake.Remove(france)
	if _, err := b.Order(t.Context(), request(france)); refusalCode(err) != esim.RefusedPlan {
		t.Errorf("gone: %v", err)
	}
}

// A look at the price is repeated: it changes nothing, and an order that fails at it would have to be looked into by a
// person. An order is not.
func TestOnlyTheLookAtThePriceIsRepeated(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	b.fake.Fault("check", esimaccessfake.BusyBefore)
	b.fake.Fault("check", vendorfake.TimeoutBefore)
	b.ordered(france)
	if n := b.fake.Requests()["check"]; n != 3 {
		t.Errorf("%d looks at the price, want 3", n)
	}
	for range 3 {
		b.fake.Fault("check", vendorfake.ErrorBefore)
	}
	_, err := b.Order(t.Context(), request(france))
	b.handles().WantUnknown(t, err)
	if n := b.fake.Requests()["order"]; n != 1 {
		t.Errorf("%d orders were sent, want 1", n)
	}
	for _, mode := range []vendorfake.Mode{
		esimaccessfake.BusyBefore, vendorfake.RateLimited, vendorfake.TimeoutAfter, vendorfake.ErrorAfter,
	} {
		sent := b.fake.Requests()["order"]
		b.lost(mode)
		if n := b.fake.Requests()["order"] - sent; n != 1 {
			t.Errorf("%s: the order was sent %d times", mode, n)
		}
	}
}

func TestOrdersAtOnceAreOneEach(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	refs := make([]fulfilment.Ref, 40)
	var sent sync.WaitGroup
	for i := range refs {
		sent.Go(func() {
			r := request(france)
			refs[i] = r.Ref
			if _, err := b.Order(t.Context(), r); err != nil {
				t.Errorf("order: %v", err)
			}
		})
	}
	sent.Wait()
	b.fake.Settle()
	names := map[string]bool{}
	for _, ref := range refs {
		got, err := b.Ordered(t.Context(), ref)
		if err != nil || got.Ref != ref || got.State != esim.PurchaseReady || b.executed(ref) != 1 {
			t.Errorf("%+v, %v, made %d times", got, err, b.executed(ref))
		}
		names[got.ID] = true
	}
	if len(names) != len(refs) {
		t.Errorf("%d profiles for %d orders", len(names), len(refs))
	}
}

// scripted is an adapter of a vendor that shows one package and answers orders in one way.
func scripted(t *testing.T, answer http.HandlerFunc) *esimaccess.Supplier {
	t.Helper()
	fake := esimaccessfake.New(esimaccessfake.Config{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/package/list") {
			fake.ServeHTTP(w, r)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(web.Close)
	s, err := esimaccess.Dial(esimaccess.Config{
		URL: web.URL, HTTP: web.Client(), AccessCode: secret.New(esimaccessfake.DevAccessCode),
		Secret: secret.New(esimaccessfake.DevSecret), PerSecond: 10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnlyADocumentedRefusalIsOne(t *testing.T) {
	const no = `{"success":false,"errorCode":%q,"errorMsg":"m","obj":null}`
	for _, c := range []struct {
		status  int
		body    string
		refusal string
	}{
		{200, fmt.Sprintf(no, "200005"), esim.RefusedPrice},
		{200, fmt.Sprintf(no, "200006"), esim.RefusedPrice},
		{200, fmt.Sprintf(no, "200007"), fulfilment.RefusedFloat},
		{200, fmt.Sprintf(no, "200011"), esim.RefusedStock},
		{200, fmt.Sprintf(no, "310241"), esim.RefusedPlan},
		{200, fmt.Sprintf(no, "310243"), esim.RefusedPlan},
		{200, fmt.Sprintf(no, "000104"), fulfilment.RefusedRequest},
		{200, fmt.Sprintf(no, "000105"), fulfilment.RefusedRequest},
		{200, fmt.Sprintf(no, "000106"), fulfilment.RefusedRequest},
		{200, fmt.Sprintf(no, "000107"), fulfilment.RefusedRequest},
		{200, `{"success":"false","errorCode":"200011","errorMessage":"m"}`, esim.RefusedStock},
		{200, `{"success":false,"errorCode":200011}`, esim.RefusedStock},
		{200, fmt.Sprintf(no, "000001"), ""},
		{200, fmt.Sprintf(no, "000101"), ""},
		{200, fmt.Sprintf(no, "101001"), ""},
		{200, fmt.Sprintf(no, "101002"), ""},
		{200, fmt.Sprintf(no, "101003"), ""},
		{200, fmt.Sprintf(no, "200002"), ""},
		{200, fmt.Sprintf(no, "200008"), ""},
		{200, fmt.Sprintf(no, "200009"), ""},
		{200, fmt.Sprintf(no, "900001"), ""},
		{200, fmt.Sprintf(no, "299999"), ""},
		{200, fmt.Sprintf(no, ""), ""},
		{200, `{"success":false}`, ""},
		{200, `{"errorCode":"200011"}`, ""},
		{200, `{"success":null,"errorCode":"200011"}`, ""},
		{200, `{"success":true,"errorCode":"200011","obj":{"orderNo":"B1"}}`, ""},
		{200, `{"success":true,"errorCode":"0","obj":{}}`, ""},
		{200, `{"success":true,"errorCode":"0","obj":null}`, ""},
		{200, `{"success":true,"errorCode":"0","obj":[]}`, ""},
		{200, `{"success":true,"errorCode":"0","obj":{"orderNo":"../B1"}}`, ""},
		{200, `{"success":true,"errorCode":"0","obj":{"orderNo":"B1","transactionId":"another"}}`, ""},
		{200, fmt.Sprintf(no, "200011") + `{}`, ""},
		{200, `200011`, ""},
		{200, ``, ""},
		{201, fmt.Sprintf(no, "200011"), ""},
		{302, fmt.Sprintf(no, "200011"), ""},
		{400, fmt.Sprintf(no, "200011"), ""},
		{401, fmt.Sprintf(no, "200011"), ""},
		{404, `404 page not found`, ""},
		{409, fmt.Sprintf(no, "200011"), ""},
		{429, fmt.Sprintf(no, "200011"), ""},
		{500, fmt.Sprintf(no, "200011"), ""},
		{503, fmt.Sprintf(no, "200007"), ""},
	} {
		s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		_, err := s.Order(t.Context(), request(france))
		if err == nil || refusalCode(err) != c.refusal {
			t.Errorf("%d %s: Order = %v, want the refusal %q", c.status, c.body, err, c.refusal)
		}
		_, err = s.Ordered(t.Context(), fulfilmenttest.NewRef())
		if err == nil || errors.Is(err, fulfilment.ErrNoRef) || refusal(err) != nil {
			t.Errorf("%d %s: Ordered = %v, want an error that settles nothing", c.status, c.body, err)
		}
		err = cancelled(t, s, "26033119290005")
		if err == nil || refusal(err) != nil {
			t.Errorf("%d %s: Cancel = %v, want an error that settles nothing", c.status, c.body, err)
		}
	}
}

func TestOrderThatIsBeingAllocatedIsPending(t *testing.T) {
	s := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"success":false,"errorCode":"200010","errorMsg":"m"}`))
	})
	got, err := s.Order(t.Context(), request(france))
	if err != nil || got.State != esim.PurchasePending || got.Cost != 750_000 {
		t.Errorf("Order = %+v, %v", got, err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	s := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if _, err := s.Order(t.Context(), request(france)); err == nil || refusal(err) != nil || followed {
		t.Errorf("Order = %v, followed %v", err, followed)
	}
}

// answering answers everything with one body.
func answering(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// byPath answers by the last part of the path.
func byPath(bodies map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(bodies[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]))
	}
}
