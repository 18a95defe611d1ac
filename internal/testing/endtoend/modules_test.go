package endtoend_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/testing/paperissuer"
	"github.com/roamcard/roamcard/internal/testing/voucher"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestIssuerIsAddedByOneLine: cards are sold over an issuer that the program does not list. Its folder is
// testing/paperissuer.
func TestIssuerIsAddedByOneLine(t *testing.T) {
	t.Parallel()
	office := paperissuer.NewOffice(10_000_000, time.Now)
	w := newWorld(t, plan{change: func(c *app.Config) {
		withOperator(c)
		c.Added.Issuers = append(c.Added.Issuers, office.Register())
		c.IssuerProvider = paperissuer.Name
		c.Own = provider.Values{"paper.bin": secret.New("411111"), "paper.stamp": secret.New("blue")}
	}})
	b := w.buyer()
	o := b.buyCard("a-card-on-paper-1")
	var shown struct {
		Credentials struct{ Number string } `json:"credentials"`
	}
	var ch struct{ IntentID, Message string }
	b.post("/api/cards/"+o.Issuance.CardID+"/reveal-challenge", "{}").into(t, 200, &ch)
	b.post("/api/cards/"+o.Issuance.CardID+"/reveal", revealBody(ch.IntentID, b.sign(ch.Message))).into(t, 200, &shown)
	if !strings.HasPrefix(shown.Credentials.Number, "411111") {
		t.Error("the card is another issuer's")
	}
	b.topUp("a-load-on-paper-1", 2500).into(t, 200, nil)
	w.awaitSettled()
	w.wantFindings("the issuer's books and ours")
	if asked := w.issuer.books().Requests; len(asked) > 0 {
		t.Errorf("the sandbox was asked for %v", asked)
	}
}

// printed is what the answer of a purchase tells of a voucher.
type printed struct {
	OrderID, Status, Code string
	Replayed              bool
}

// redeemable is a payment for a voucher, on the terms that the service states.
func (b *buyer) redeemable(key string) request {
	b.w.t.Helper()
	r := request{path: voucher.Path, body: purchaseBody(key)}
	terms := b.w.send(r)
	if terms.status != 402 || terms.problem.Code != "payment_required" {
		b.w.t.Fatalf("no terms: %d %s", terms.status, clipped(terms.body))
	}
	required, err := x402.DecodeRequired(terms.header.Get(x402.HeaderRequired))
	if err != nil {
		b.w.t.Fatal(err)
	}
	pay := b.payment(func(p *x402.Payment) {
		p.Accepted, p.Resource, p.Authorization.Value = required.Accepts[0], required.Resource, voucher.Price.USDC()
	})
	r.header = map[string]string{x402.HeaderSignature: header(b.w.t, pay)}
	return r
}

// TestProductIsAddedByOneLine: a product that the program does not list is sold, delivered, and paid back when its
// provider refuses. Its folder is testing/voucher.
func TestProductIsAddedByOneLine(t *testing.T) {
	t.Parallel()
	press := voucher.NewPress()
	w := newAdminWorld(t, 100_000_000, plan{instances: 2, change: func(c *app.Config) {
		c.Added.Products = append(c.Added.Products, press.Register())
	}})
	b := w.buyer()
	b.signIn()
	had := w.balance(b.address)

	first := b.redeemable("one-voucher-please-1")
	var sold printed
	a := w.send(first)
	a.into(t, 200, &sold)
	if a.header.Get(x402.HeaderResponse) == "" || sold.OrderID == "" {
		t.Fatalf("bought %+v, want an order and its receipt", sold)
	}
	b.awaitStatus(sold.OrderID, "fulfilled")
	if cost := had - w.balance(b.address); cost != voucher.Price.USDC() {
		t.Errorf("the voucher cost %s", cost.Dollars())
	}
	// The same request tells its buyer the code, and buys nothing.
	first.at = w.instances[1]
	var again printed
	w.send(first).into(t, 200, &again)
	if again.OrderID != sold.OrderID || !again.Replayed || again.Code != "VOUCHER-0001" {
		t.Errorf("repeated %+v, want the code of %s", again, sold.OrderID)
	}

	press.Break(true)
	var refused printed
	w.send(b.redeemable("one-voucher-please-2")).into(t, 200, &refused)
	o := b.awaitStatus(refused.OrderID, "refunded")
	if o.Refund == nil || o.Refund.To != b.address.String() || len(w.payouts(b.address)) != 1 {
		t.Errorf("order %+v, refund %+v, paid out %v", o, o.Refund, w.payouts(b.address))
	}
	if cost := had - w.balance(b.address); cost != voucher.Price.USDC() {
		t.Errorf("one voucher cost %s", cost.Dollars())
	}

	var mine struct {
		Orders []struct{ OrderID, Kind, Status string }
	}
	b.get("/api/orders").into(t, 200, &mine)
	want := []struct{ OrderID, Kind, Status string }{
		{refused.OrderID, "voucher", "refunded"}, {sold.OrderID, "voucher", "fulfilled"},
	}
	if diff := cmp.Diff(want, mine.Orders); diff != "" {
		t.Errorf("the owner's orders (-want +got):\n%s", diff)
	}
	w.awaitSettled()
	w.wantFindings("vouchers sold and refunded")
	if earned := w.ledgerBalance(string(voucher.Revenue)); earned != -voucher.Price {
		t.Errorf("%s is in the ledger as earned, want %s", earned, -voucher.Price)
	}
}

// TestSaleOfAnAddedProductCloses: by its own setting, and by its kill switch.
func TestSaleOfAnAddedProductCloses(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) {
		c.Added.Products = append(c.Added.Products, voucher.NewPress().Register())
	}})
	terms := request{path: voucher.Path, body: purchaseBody("one-voucher-please-1")}
	if a := w.send(terms); a.status != 402 {
		t.Fatalf("open, and %d %s", a.status, a.body)
	}
	closed := w.config
	closed.Own = provider.Values{"voucher.paused": secret.New("true")}
	terms.at = w.start(closed)
	w.awaitReady(terms.at)
	wantProblem(t, "paused by its setting", w.send(terms), 503, fault.NotReady)
	terms.at = nil

	var listed struct{ Switches []struct{ Product string } }
	w.operatorCall("GET", "/api/admin/switches", "", "").into(t, 200, &listed)
	if !slices.ContainsFunc(listed.Switches, func(s struct{ Product string }) bool {
		return s.Product == string(voucher.Kind)
	}) {
		t.Errorf("operators see the switches %+v", listed.Switches)
	}
	// The route that sets a switch names the products of the contract.
	w.exec(`INSERT INTO kill_switches (id, paused, reason, actor, changed_at)
		VALUES ($1, true, 'a test', 'ann', now())`, voucher.Kind)
	eventually(t, func() (bool, string) {
		a := w.send(terms)
		return a.status == 503 && a.problem.Code == string(fault.NotReady), string(a.body)
	})
}
