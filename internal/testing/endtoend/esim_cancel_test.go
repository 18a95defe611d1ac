package endtoend_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// esimCancellation is how far the cancellation of an eSIM is.
type esimCancellation struct{ OrderID, Status, RefundAmount, Since, Transaction string }

// cancelEsim gives the eSIM of an order back, and waits until that has a status.
func (b *buyer) cancelEsim(id, status string) esimCancellation {
	b.w.t.Helper()
	var c esimCancellation
	b.post("/api/esim/orders/"+id+"/cancel", ``).into(b.w.t, 200, &c)
	if c.OrderID != id || c.Since == "" {
		b.w.t.Errorf("begun: %+v", c)
	}
	return b.awaitCancellation(id, status)
}

// awaitCancellation waits until the profile of an order shows that its cancellation has a status.
func (b *buyer) awaitCancellation(id, status string) esimCancellation {
	b.w.t.Helper()
	var p struct{ Cancellation esimCancellation }
	eventually(b.w.t, func() (bool, string) {
		b.get("/api/esim/orders/"+id+"/profile").into(b.w.t, 200, &p)
		return p.Cancellation.Status == status, fmt.Sprintf("%+v", p)
	})
	return p.Cancellation
}

func unitsOf(t testing.TB, units string) money.USDC {
	t.Helper()
	n, err := strconv.ParseInt(units, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return money.USDC(n)
}

// TestOwnerCancelsUnusedEsim: the supplier takes it back, and what it credits goes back to the owner on chain, once.
func TestOwnerCancelsUnusedEsim(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{instances: 2})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	o := b.buyEsim("an-esim-to-give-back")
	path := "/api/esim/orders/" + o.OrderID
	byToken := map[string]string{rpcx.HeaderDeliveryToken: o.Delivery.Token}
	stranger := w.buyer()
	stranger.signIn()
	wantProblem(t, "a stranger", stranger.post(path+"/cancel", ``), 404, fault.OrderNotFound)
	wantProblem(t, "the delivery token", w.send(post(path+"/cancel", ``).with(byToken)), 401, fault.SessionInvalid)
	was := w.balance(b.address)
	c := b.cancelEsim(o.OrderID, "refunded")
	back := unitsOf(t, c.RefundAmount)
	var price struct{ AmountUsdCents int64 }
	b.get(path).into(t, 200, &price)
	if price := money.Cents(price.AmountUsdCents).USDC(); back <= 0 || back > price {
		t.Errorf("%s go back of %s", back, price)
	}
	if now := w.balance(b.address); now-was != back || len(w.payouts(b.address)) != 1 {
		t.Errorf("the owner has %s more, in %v; want %s", now-was, w.payouts(b.address), back)
	}
	if out := w.payouts(b.address); len(out) == 1 && !strings.EqualFold(fmt.Sprint(out[0]), c.Transaction) {
		t.Errorf("refunded in %s, it says %s", out[0], c.Transaction)
	}
	if again := b.cancelEsim(o.OrderID, "refunded"); again != c {
		t.Errorf("asked again: %+v, first %+v", again, c)
	}
	wantProblem(t, "credentials", b.get(path+"/credentials"), 409, fault.EsimCancelled)
	wantProblem(t, "credentials by token", w.send(get(path+"/credentials").with(byToken)), 409, fault.EsimCancelled)
	if n := w.count("SELECT count(*) FROM esim_profiles WHERE sealed IS NOT NULL"); n != 0 {
		t.Errorf("what installs %d cancelled eSIMs is still there", n)
	}
	w.checkBooks()
	w.wantFindings("after an eSIM is cancelled")
}

// TestEsimIsCancelledUnderFaults: answers that are lost credit once and refund once; one that a device has stays.
func TestEsimIsCancelledUnderFaults(t *testing.T) {
	onlyTorture(t, "product/esim TestNothingIsRefundedBeforeTheSupplierHasConfirmed")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	for _, mode := range []string{"timeout_after", "error_before", "error_after"} {
		o := b.buyEsim("an-esim-under-" + mode)
		w.issuer.esimFault("cancel", mode, 1)
		b.cancelEsim(o.OrderID, "refunded")
	}
	if n := len(w.payouts(b.address)); n != 3 {
		t.Errorf("%d refunds of three eSIMs", n)
	}
	o := b.buyEsim("an-esim-that-is-used")
	path := "/api/esim/orders/" + o.OrderID
	b.get(path+"/profile").into(t, 200, nil) // what it tells lasts a minute
	w.issuer.call(http.MethodPost, "esim/profiles/"+w.newestEsim(), map[string]any{"status": "enabled", "usedBytes": 7})
	b.cancelEsim(o.OrderID, "kept")
	b.get(path+"/credentials").into(t, 200, nil)
	if n := len(w.payouts(b.address)); n != 3 {
		t.Errorf("%d refunds, one of an eSIM that is used", n)
	}
	w.checkBooks()
	w.wantFindings("after eSIMs are cancelled under faults")
}

// TestCancelledEsimWaitsForAnOperatorAndGoesOn: where nobody can refund, the grant is kept, and the owner cannot bring
// it on.
func TestCancelledEsimWaitsForAnOperatorAndGoesOn(t *testing.T) {
	onlyTorture(t, "store TestCancellationThatWaitsGoesOnOncePerKey, product/esim TestRefundByHandEndsACancellation")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: withOperator})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	o := b.buyEsim("an-esim-without-a-treasury")
	c := b.cancelEsim(o.OrderID, "review")
	if c.RefundAmount == "" || len(w.payouts(b.address)) != 0 {
		t.Errorf("without a treasury: %+v, paid %v", c, w.payouts(b.address))
	}
	if _, text := w.history(o.OrderID); !strings.Contains(text, "esim_cancel") ||
		!strings.Contains(text, "no treasury key") {
		t.Errorf("what the operator sees says not why it waits: %s", text)
	}
	var listed struct {
		Cancellations []struct{ OrderID, Status, Stage, RefundAmount, Reason string }
	}
	w.operatorCall("GET", "/api/admin/esim-cancellations?status=operator_review", "", "").into(t, 200, &listed)
	if len(listed.Cancellations) != 1 || listed.Cancellations[0].OrderID != o.OrderID ||
		listed.Cancellations[0].Stage != "refunding" || listed.Cancellations[0].RefundAmount != c.RefundAmount ||
		!strings.Contains(listed.Cancellations[0].Reason, "no treasury key") {
		t.Errorf("listed %+v", listed)
	}
	retry := "/api/admin/esim/orders/" + o.OrderID + "/retry-cancel"
	wantProblem(t, "a retry without a key", w.operatorCall("POST", retry, `{"reason":"r"}`, ""), 400,
		fault.IdempotencyKeyMissing)
	w.operatorCall("POST", retry, `{"reason":"the treasury is there"}`, "r1").into(t, 200, &c)
	if c.Status != "refunding" {
		t.Errorf("retried: %+v", c)
	}
	b.awaitCancellation(o.OrderID, "review")
	w.concludeCancellation(b, o.OrderID, unitsOf(t, c.RefundAmount))
	wantProblem(t, "an unknown order", w.operatorCall("POST", "/api/admin/esim/orders/ord_none/retry-cancel",
		`{"reason":"r"}`, "k"), 404, fault.JobNotFound)
	w.checkBooks()
	w.wantFindings("after a cancellation was concluded by hand")
}

// concludeCancellation sends the refund of an eSIM that waits for an operator to its owner from elsewhere, and ends the
// cancellation by that transaction alone.
func (w *world) concludeCancellation(b *buyer, id string, refund money.USDC) {
	w.t.Helper()
	safe := w.buyer()
	wrong, right := safe.sendTo(b.address, refund-1), safe.sendTo(b.address, refund)
	conclude := func(transaction, key string) answer {
		return w.operatorCall("POST", "/api/admin/esim/orders/"+id+"/conclude-cancel",
			fmt.Sprintf(`{"transaction":%q,"reason":"sent from the safe"}`, transaction), key)
	}
	wantProblem(w.t, "a transfer of another amount", conclude(wrong, "c1"), 409, fault.TransferUnproven)
	wantProblem(w.t, "no transaction", conclude("0x"+strings.Repeat("1", 64), "c2"), 409, fault.TransferUnproven)
	wantProblem(w.t, "not a hash", conclude("0x1", "c3"), 400, fault.SchemaInvalid)
	for range 2 {
		conclude(right, "c4").into(w.t, 200, nil)
	}
	if c := b.awaitCancellation(id, "refunded"); c.Transaction != right {
		w.t.Errorf("refunded by %q, want %q", c.Transaction, right)
	}
	if n := w.count("SELECT count(*) FROM audit WHERE action = 'esim_cancellation.conclude' AND after::text LIKE $1",
		"%"+right+"%"); n != 1 {
		w.t.Errorf("%d audit rows", n)
	}
	if n := w.count("SELECT count(*) FROM ledger_postings WHERE kind = 'remainder_returned'"); n != 1 {
		w.t.Errorf("%d returns are posted", n)
	}
}

// TestEsimThatWasGivenBackSinceTheCopyPaysForNothing: a restore has lost the order and its refund, which was of less
// than the price. The money is explained by it, and whoever buys again pays.
func TestEsimThatWasGivenBackSinceTheCopyPaysForNothing(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.instances[0].stop()
	w.instances = nil
	older := w.copyDatabase()
	w.start(w.config)
	w.awaitReady(w.instances[0])
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	var o esimOrder
	paid := esimPurchase("an-esim-to-give-back", b.esimPayment(w.esimTerms("an-esim-to-give-back")))
	w.send(paid).into(t, 200, &o)
	b.cancelEsim(o.OrderID, "refunded")
	w.awaitSettled()
	w.restore(older)
	w.awaitReady(w.instances[0])
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM transfer_resolutions WHERE resolution = 'refunded_by_hand'")
		return n == 1, fmt.Sprintf("%d transfers are explained", n)
	})
	w.awaitEsimReady(nil)
	b.signIn()
	wantProblem(t, "the payment that was sent back", w.send(paid.with(b.bearer())), 409, fault.AuthorizationAlreadyUsed)
	b.buyEsim("another-esim")
	if n := w.transferCount(b); n != 2 || len(w.payouts(b.address)) != 1 {
		t.Errorf("%d transfers, %d payouts", n, len(w.payouts(b.address)))
	}
}
