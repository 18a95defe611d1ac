package esimgo_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/esimgo/esimgofake"
	"github.com/roamcard/roamcard/internal/testing/vendorapi"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

const document = "esimgo.yml"

// TestRequestsAndAnswersMatchTheDocument: every request that the adapter can send, and every answer of the fake that is
// not a failure. Of failures the document says nothing.
func TestRequestsAndAnswersMatchTheDocument(t *testing.T) {
	b := start(t, esimgofake.Config{Bare: true})
	v := vendorapi.Prism(t, document, b.web.URL)
	cfg := b.config
	cfg.URL, cfg.HTTP = v.URL, v.Client()
	checked, err := esimgo.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := checked.Listings(t.Context()); err != nil || len(all) != 5 {
		t.Errorf("%d listings, %v", len(all), err)
	}
	if stock, err := checked.Check(t.Context(), france); err != nil || stock.Units == 0 {
		t.Errorf("%+v, %v", stock, err)
	}
	b.vendor.SellOut(japan)
	if stock, err := checked.Check(t.Context(), japan); err != nil || stock.Units != 0 {
		t.Errorf("%+v, %v", stock, err)
	}
	p, err := checked.Order(t.Context(), asking(france))
	if err != nil || p.State != esim.PurchaseReady {
		t.Fatalf("%+v, %v", p, err)
	}
	held := esim.Held{ID: p.ID, Code: p.Code, ICCID: p.ActivationData.ICCID}
	for _, use := range []esimgofake.Use{{}, {Profile: "Enabled", Bundle: "Active", Used: 5}} {
		b.vendor.Put(p.ID, use)
		if s, err := checked.State(t.Context(), held); err != nil || s.Usage == nil || s.Usage.Used != use.Used {
			t.Errorf("%+v, %v", s, err)
		}
	}
	all, err := checked.Topups(t.Context(), held)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d plans for the eSIM, %v", len(all), err)
	}
	if stock, err := checked.CheckTopup(t.Context(), held, france); err != nil || stock.Units == 0 {
		t.Errorf("%+v, %v", stock, err)
	}
	more := esim.TopUpRequest{Request: asking(france), Held: held}
	if added, err := checked.TopUp(t.Context(), more); err != nil || added.State != esim.PurchaseReady {
		t.Errorf("%+v, %v", added, err)
	}
	if added, err := checked.ToppedUp(t.Context(), held, more.Ref); err != nil || added.Onto != held.ID {
		t.Errorf("%+v, %v", added, err)
	}
	lost := b.lose(france, vendorfake.TimeoutAfter)
	p, err = checked.Ordered(t.Context(), lost.Ref)
	if err != nil || p.State != esim.PurchaseReady {
		t.Errorf("%+v, %v", p, err)
	}
	for what, least := range map[string]int{
		"GET /organisation": 1, "GET /catalogue": 1, "GET /catalogue/" + japan: 1, "POST /orders": 7, "GET /orders": 1,
		"GET /orders/" + p.ID: 1, "GET /esims/assignments": 2,
		"GET /esims/" + held.ICCID.Reveal(): 2, "GET /esims/" + held.ICCID.Reveal() + "/bundles": 2,
	} {
		if n := v.Checked()[what]; n < least {
			t.Errorf("%s was checked %d times, want %d", what, n, least)
		}
	}
}

// TestValidatorFindsWhatDoesNotMatch keeps the test above from passing although nothing is checked.
func TestValidatorFindsWhatDoesNotMatch(t *testing.T) {
	b := start(t, esimgofake.Config{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/organisation" {
			b.web.Config.Handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"balance":"much","currency":"USD"}`))
	}))
	defer upstream.Close()
	v := vendorapi.Prism(t, document, upstream.URL)
	for name, c := range map[string]struct {
		method, path, body string
	}{
		"an enum":       {http.MethodPost, "/orders", `{"type":"buy","order":[]}`},
		"no member":     {http.MethodPost, "/orders", `{"type":"validate"}`},
		"a wrong type":  {http.MethodPost, "/orders", `{"type":"validate","order":[{"quantity":"1"}]}`},
		"a wrong path":  {http.MethodGet, "/balance", ``},
		"a query":       {http.MethodGet, "/catalogue?page=first", ``},
		"a failure":     {http.MethodGet, "/orders/none", ``},
		"an odd answer": {http.MethodGet, "/organisation", ``},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, v.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", esimgofake.DevKey)
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := v.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if found := v.Violations(); len(found) != 1 {
			t.Errorf("%s: %s %s %s: %q", name, c.method, c.path, c.body, found)
		}
	}
}
