package endtoend_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// esimTopup is what an answer tells of an order for more data.
type esimTopup struct {
	OrderID, Kind, Status string
	EsimTopup             struct {
		Status, OrderID, PlanID string
		DataMB, ValidityDays    int
	}
}

// topUpTerms asks for the terms of more data for the eSIM of an order.
func (w *world) topUpTerms(id, key string) x402.PaymentRequired {
	w.t.Helper()
	a := w.send(post("/api/esim/orders/"+id+"/topup", purchaseBody(key)))
	if a.status != 402 {
		w.t.Fatalf("no terms: %d %s", a.status, clipped(a.body))
	}
	required, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
	if err != nil {
		w.t.Fatal(err)
	}
	return required
}

// topUpEsim buys the cheapest data for the eSIM of an order.
func (b *buyer) topUpEsim(id, key string) answer {
	b.w.t.Helper()
	payment := b.esimPayment(b.w.topUpTerms(id, key))
	return b.w.send(post("/api/esim/orders/"+id+"/topup", purchaseBody(key)).paying(payment)).settled()
}

// totalBytes is how much data the eSIM of an order has in all.
func (b *buyer) totalBytes(id string) int64 {
	b.w.t.Helper()
	var p struct{ Usage struct{ TotalBytes string } }
	b.get("/api/esim/orders/"+id+"/profile").into(b.w.t, 200, &p)
	n, err := strconv.ParseInt(p.Usage.TotalBytes, 10, 64)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return n
}

// TestOwnerTopsAnEsimUp: the wallet that owns it buys more data, which its profile shows; nobody else does.
func TestOwnerTopsAnEsimUp(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	o := b.buyEsim("an-esim-to-top-up")
	path := "/api/esim/orders/" + o.OrderID
	w.issuer.call(http.MethodPost, "esim/profiles/"+w.newestEsim(), map[string]any{"status": "enabled", "usedBytes": 7})
	had := b.totalBytes(o.OrderID)
	var listed struct {
		Plans []struct {
			PlanID        string
			PriceUsdCents int64
			DataMB        int
		}
	}
	b.get(path+"/topups").into(t, 200, &listed)
	byToken := map[string]string{rpcx.HeaderDeliveryToken: o.Delivery.Token}
	w.send(get(path+"/topups").with(byToken)).into(t, 200, &listed)
	wantProblem(t, "a stranger's list", w.send(get(path+"/topups")), 401, fault.SessionInvalid)
	if len(listed.Plans) == 0 {
		t.Fatal("it takes nothing")
	}
	a := b.topUpEsim(o.OrderID, "more-data-for-it")
	var got esimTopup
	a.into(t, 200, &got)
	if got.Kind != "esim_topup" || got.Status != "fulfilled" || got.EsimTopup.Status != "fulfilled" ||
		got.EsimTopup.OrderID != o.OrderID || got.EsimTopup.PlanID != listed.Plans[0].PlanID {
		t.Errorf("bought %+v of %+v", got, listed.Plans)
	}
	if has := b.totalBytes(o.OrderID); has != had+int64(listed.Plans[0].DataMB)<<20 {
		t.Errorf("it had %d bytes, and has %d", had, has)
	}
	before := len(w.transfers())
	var again esimTopup
	b.topUpEsim(o.OrderID, "more-data-for-it").into(t, 200, &again)
	if again.OrderID != got.OrderID || len(w.transfers()) != before {
		t.Errorf("repeated it is order %s, first %s; %d transfers, first %d", again.OrderID, got.OrderID,
			len(w.transfers()), before)
	}
	wantProblem(t, "another body", b.w.send(post(path+"/topup", fmt.Sprintf(`{"idempotencyKey":%q,"planId":%q}`,
		"more-data-for-it", listed.Plans[len(listed.Plans)-1].PlanID)).paying(b.esimPayment(w.topUpTerms(o.OrderID,
		"other-key")))), 409, fault.IdempotencyKeyReused)
	stranger := w.buyer()
	wantProblem(t, "a stranger's payment", stranger.topUpEsim(o.OrderID, "more-data-of-a-stranger"), 404,
		fault.OrderNotFound)
	wantProblem(t, "nobody's eSIM", w.send(post("/api/esim/orders/ord_none/topup", purchaseBody("k"))), 404,
		fault.OrderNotFound)
	wantProblem(t, "an order for data", w.send(post("/api/esim/orders/"+got.OrderID+"/topup", purchaseBody("k"))), 404,
		fault.OrderNotFound)
	if n := len(w.transfers()); n != before {
		t.Errorf("%d transfers, want %d", n, before)
	}
	w.checkBooks()
	w.wantFindings("after an eSIM is topped up")
}

// TestEsimIsToppedUpUnderFaults: a lost answer adds the data once; what the supplier refuses is refunded.
func TestEsimIsToppedUpUnderFaults(t *testing.T) {
	onlyTorture(t, "product/esim TestOwnerBuysMoreDataOnce and TestUntraceableDataIsAnOperators")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	o := b.buyEsim("an-esim-to-top-up-under-faults")
	for _, mode := range []string{"timeout_after", "error_before", "error_after"} {
		w.issuer.esimFault("topup", mode, 1)
		var got esimTopup
		b.topUpEsim(o.OrderID, "more-data-under-"+mode).into(t, 200, &got)
		b.awaitStatus(got.OrderID, "fulfilled")
	}
	w.issuer.esimFault("topup", "refused", 1)
	var got esimTopup
	b.topUpEsim(o.OrderID, "data-that-is-refused").into(t, 200, &got)
	b.awaitStatus(got.OrderID, "refunded")
	if n := w.count("SELECT count(*) FROM esim_topups WHERE status = 'ready'"); n != 3 {
		t.Errorf("%d top-ups", n)
	}
	w.checkBooks()
	w.wantFindings("after eSIMs are topped up under faults")
}

// TestEsimIsToppedUpOrCancelled: what comes second is refused.
func TestEsimIsToppedUpOrCancelled(t *testing.T) {
	onlyTorture(t, "store TestEsimIsToppedUpOrGivenBack")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	topped := b.buyEsim("an-esim-that-is-topped-up")
	b.topUpEsim(topped.OrderID, "data-before-a-cancellation").into(t, 200, nil)
	wantProblem(t, "cancelled after a top-up", b.post("/api/esim/orders/"+topped.OrderID+"/cancel", ``), 409,
		fault.EsimToppedUp)
	given := b.buyEsim("an-esim-that-is-given-back")
	payment := b.esimPayment(w.topUpTerms(given.OrderID, "data-after-a-cancellation"))
	b.cancelEsim(given.OrderID, "refunded")
	path := "/api/esim/orders/" + given.OrderID
	before := len(w.transfers())
	wantProblem(t, "topped up after a cancellation",
		w.send(post(path+"/topup", purchaseBody("data-after-a-cancellation")).paying(payment)), 409, fault.EsimCancelled)
	wantProblem(t, "its terms", w.send(post(path+"/topup", purchaseBody("k"))), 409, fault.EsimCancelled)
	wantProblem(t, "its list", b.get(path+"/topups"), 409, fault.EsimCancelled)
	used := b.buyEsim("an-esim-that-ends")
	w.issuer.call(http.MethodPost, "esim/profiles/"+w.newestEsim(), map[string]any{"status": "expired", "usedBytes": 7})
	wantProblem(t, "an eSIM that has expired",
		w.send(post("/api/esim/orders/"+used.OrderID+"/topup", purchaseBody("k"))), 409, fault.EsimFinished)
	if n := len(w.transfers()) - before; n != 1 {
		t.Errorf("%d transfers since, want that of one eSIM", n)
	}
	w.checkBooks()
	w.wantFindings("after eSIMs are topped up or cancelled")
}

// TestTopupsOfEsimsArePausedByTheirSwitch: eSIMs are still sold.
func TestTopupsOfEsimsArePausedByTheirSwitch(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: withOperator})
	w.awaitEsimReady(nil)
	b := w.buyer()
	o := b.buyEsim("an-esim-whose-data-is-paused")
	w.operatorCall("POST", "/api/admin/switches/esim_topup", `{"paused":true,"reason":"r"}`, "s1").into(t, 200, nil)
	eventually(t, func() (bool, string) {
		a := w.send(post("/api/esim/orders/"+o.OrderID+"/topup", purchaseBody("paused")))
		return a.status == 503 && a.is(fault.EsimPaused), string(a.body)
	})
	if a := w.send(post(esimPath, purchaseBody("not-paused"))); a.status != 402 {
		t.Errorf("eSIMs are paused, too: %d %s", a.status, strings.TrimSpace(string(a.body)))
	}
}

// TestRealSuppliersTopUp: data is added over the adapters of real suppliers; one whose answer is lost is added once.
func TestRealSuppliersTopUp(t *testing.T) {
	onlyTorture(t, "provider/esimaccess TestTopupIsGuardedByItsPrice, provider/esimgo "+
		"TestLostTopupIsTheOneOnItsEsim")
	t.Parallel()
	for _, name := range []string{esimaccess.Name, esimgo.Name} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, v := newSupplierWorld(t, name)
			b := w.buyer()
			b.signIn()
			o := b.buyEsim("an-esim-of-a-real-supplier")
			b.awaitStatus(o.OrderID, "fulfilled")
			ordered := v.orders()
			for _, fault := range []string{"", "timeout_after", "error_after"} {
				payment := b.esimPayment(w.topUpTerms(o.OrderID, "data-"+fault))
				if fault != "" {
					v.fault("topup", fault)
				}
				var got esimTopup
				w.send(post("/api/esim/orders/"+o.OrderID+"/topup", purchaseBody("data-"+fault)).paying(payment)).into(t, 200, &got)
				if view := b.awaitStatus(got.OrderID, "fulfilled"); view.Status != "fulfilled" {
					t.Errorf("%q: %+v", fault, view)
				}
				if ordered++; v.orders() != ordered {
					t.Errorf("%q: the vendor has %d orders, want %d", fault, v.orders(), ordered)
				}
			}
			w.checkBooks()
			w.wantFindings("the supplier's books and ours")
		})
	}
}
