package endtoend_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/secret"
)

// supplierDelay is the visibility delay of suppliers in these worlds.
const supplierDelay = 2 * time.Second

// vendor is a real supplier's fake behind a real port.
type vendor struct {
	t         *testing.T
	name, url string
}

func newVendor(t *testing.T, name string) vendor {
	t.Helper()
	all, err := dev.WithVendors(http.NotFoundHandler(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(all)
	t.Cleanup(server.Close)
	return vendor{t, name, server.URL}
}

// fault spoils the vendor's next request of an operation.
func (v vendor) fault(op, mode string) {
	v.t.Helper()
	body := `{"op":"` + op + `","mode":"` + mode + `"}`
	res, err := http.Post(v.url+"/"+v.name+"/control/faults", "application/json", strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		v.t.Fatalf("%s cannot %s on %s: %s", v.name, mode, op, res.Status)
	}
}

// orders is how many orders the vendor has.
func (v vendor) orders() int {
	v.t.Helper()
	res, err := http.Get(dev.Books(v.name, v.url))
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	var books struct{ Esims []json.RawMessage }
	if err := json.NewDecoder(res.Body).Decode(&books); err != nil {
		v.t.Fatal(err)
	}
	return len(books.Esims)
}

// newSupplierWorld makes a world that sells the eSIMs of a real supplier.
func newSupplierWorld(t *testing.T, name string) (*world, vendor) {
	t.Helper()
	v := newVendor(t, name)
	w := newAdminWorld(t, 100_000_000, plan{change: func(c *app.Config) {
		if err := dev.UseSupplier(c, name, v.url, supplierDelay); err != nil {
			t.Fatal(err)
		}
		c.Own[esimgo.OrderGapKey] = secret.New("10ms")
	}})
	w.supplierBooks = dev.Books(name, v.url)
	w.awaitEsimReady(nil)
	return w, v
}

// TestRealSuppliersSell: eSIMs are bought over the adapters of real suppliers. What becomes of an order whose answer is
// lost or unfamiliar is found out, and nothing is ordered twice.
func TestRealSuppliersSell(t *testing.T) {
	onlyTorture(t, "the kits of provider/esimaccess and esimgo, and TestProductionSellsOverRealProviders here")
	t.Parallel()
	for _, name := range []string{esimaccess.Name, esimgo.Name} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, v := newSupplierWorld(t, name)
			w.examineSupplier(name)
			ordered := 0
			// bought buys an eSIM while the vendor misbehaves, and ends with the order in a status.
			bought := func(key, status string, orders int, faults ...string) {
				t.Helper()
				b := w.buyer()
				b.signIn()
				terms := w.esimTerms(key)
				pay := esimPurchase(key, b.esimPayment(terms))
				for _, f := range faults {
					op, mode, _ := strings.Cut(f, ":")
					v.fault(op, mode)
				}
				var o esimOrder
				w.send(pay).into(t, 200, &o)
				if view := b.awaitStatus(o.OrderID, status); view.Status != status {
					t.Errorf("%s: %+v", key, view)
				}
				if ordered += orders; v.orders() != ordered {
					t.Errorf("%s: the vendor has %d orders, want %d", key, v.orders(), ordered)
				}
				if status != "fulfilled" {
					return
				}
				var again esimOrder
				w.send(pay).into(t, 200, &again)
				if again.OrderID != o.OrderID || again.Credentials == nil ||
					!strings.HasPrefix(again.Credentials.LPA, "LPA:1$") || v.orders() != ordered {
					t.Errorf("%s: repeated %+v", key, again)
				}
			}
			bought("a-plain-purchase", "fulfilled", 1)
			bought("the-answer-is-lost", "fulfilled", 1, "order:timeout_after")
			bought("the-answer-is-an-error", "fulfilled", 1, "order:error_after")
			bought("the-read-back-fails", "fulfilled", 1, "order:timeout_after", "ordered:error_before")
			// From here on another order of eSIM Go could be the one that left no trace, so no answer is lost.
			bought("too-many-requests", "operator_review", 0, "order:rate_limited")
			// eSIM Access tells the state of a profile where it is read, eSIM Go where it is ordered.
			unfamiliar := map[string]string{esimaccess.Name: "ordered", esimgo.Name: "order"}[name]
			bought("an-unfamiliar-status", "fulfilled", 1, unfamiliar+":unknown_state")
			if name == esimaccess.Name { // eSIM Go refuses before it is sent anything
				bought("sold-out-meanwhile", "refunded", 0, "order:refused")
			}
			w.checkBooks()
			w.wantFindings("the supplier's books and ours")
		})
	}
}

// examineSupplier asks the supplier as the doctor does.
func (w *world) examineSupplier(name string) {
	w.t.Helper()
	for _, key := range []secret.Text{w.config.Esim.Key, secret.New("another")} {
		cfg := w.config
		cfg.Esim.Key = key
		right, found := key == w.config.Esim.Key, false
		for _, e := range cfg.ExamineProviders(context.WithoutCancel(w.t.Context())) {
			if e.Name != "esim supplier" {
				continue
			}
			found = true
			if (e.Err == nil) != right || (right && !strings.HasPrefix(e.Detail, name+": ")) || e.Fix == "" {
				w.t.Errorf("with the right key %t the doctor finds %+v", right, e)
			}
		}
		if !found {
			w.t.Error("the doctor does not ask the supplier")
		}
	}
}

// TestCallbackOfASupplierIsShownAtOnce: what an owner reads is not a minute old when the supplier tells of usage.
func TestCallbackOfASupplierIsShownAtOnce(t *testing.T) {
	t.Parallel()
	v := newVendor(t, esimgo.Name)
	w := newAdminWorld(t, 100_000_000, plan{change: func(c *app.Config) {
		if err := dev.UseSupplier(c, esimgo.Name, v.url, supplierDelay); err != nil {
			t.Fatal(err)
		}
		c.Own[esimgo.OrderGapKey] = secret.New("10ms")
	}})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	o := b.buyEsim("an-esim-that-is-used")
	b.awaitStatus(o.OrderID, "fulfilled")
	used := func() string {
		var p esimProfile
		b.get("/api/esim/orders/"+o.OrderID+"/profile").into(t, 200, &p)
		if p.Usage == nil {
			t.Fatalf("the eSIM stands as %+v", p)
		}
		return p.Usage.UsedBytes
	}
	if got := used(); got != "0" {
		t.Errorf("%s bytes are used at first", got)
	}
	account := queryOne[string](w, "SELECT account FROM esim_profiles")
	v.control("webhooks", `{"url":"`+w.instances[0].url+`/api/webhooks/esim-go"}`)
	v.control("orders/"+account+"/usage", `{"bytes":1000000}`)
	eventually(t, func() (bool, string) { got := used(); return got == "1000000", got + " bytes" })
}

// control asks the vendor's control API for something.
func (v vendor) control(path, body string) {
	v.t.Helper()
	res, err := http.Post(v.url+"/"+v.name+"/control/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		v.t.Fatalf("%s does not take %s at %s: %s", v.name, body, path, res.Status)
	}
}
