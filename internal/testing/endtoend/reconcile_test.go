package endtoend_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const reconcilePath = "/api/admin/reconcile"

const operatorToken = "rco_of_the_test"

// withOperator configures the operator ada.
func withOperator(c *app.Config) {
	c.Operators = []auth.Operator{{Name: "ada", Hash: sha256.Sum256([]byte(operatorToken))}}
}

// asOperator is the request with an operator's token and, unless empty, an idempotency key.
func (r request) asOperator(key string) request {
	r = r.withHeader("Authorization", "Bearer "+operatorToken)
	if key != "" {
		r = r.withHeader("Idempotency-Key", key)
	}
	return r
}

// reconcileNow compares the books, which have to be at rest.
func (w *world) reconcileNow() reconcile.Report {
	w.t.Helper()
	// What was just mined is not safe yet.
	w.mine(4)
	var r reconcile.Report
	w.send(post(reconcilePath, "").asOperator("")).into(w.t, 200, &r)
	return r
}

// lastReport is the stored report of the last comparison.
func (w *world) lastReport() (r reconcile.Report) {
	w.t.Helper()
	w.send(get(reconcilePath).asOperator("")).into(w.t, 200, &r)
	return r
}

func findingCodes(r reconcile.Report) []reconcile.Code {
	var all []reconcile.Code
	for _, f := range r.Findings {
		all = append(all, f.Code)
	}
	return slices.Compact(all)
}

func (w *world) wantFindings(what string, want ...reconcile.Code) reconcile.Report {
	w.t.Helper()
	r := w.reconcileNow()
	if diff := cmp.Diff(want, findingCodes(r)); diff != "" {
		w.t.Errorf("%s: codes differ (-want +got):\n%s%+v", what, diff, r.Findings)
	}
	return r
}

// sendUnmatched sends USDC to the payee outside of any purchase.
func (b *buyer) sendUnmatched(amount money.USDC) { b.sendTo(b.w.payTo, amount) }

// sendTo transfers USDC from the buyer's account, in a transaction of its own.
func (b *buyer) sendTo(to x402.Address, amount money.USDC) (hash string) {
	b.w.t.Helper()
	b.w.rpc(nil, "anvil_setBalance", b.address.String(), "0xde0b6b3a7640000")
	b.w.rpc(nil, "anvil_impersonateAccount", b.address.String())
	call := slices.Concat(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], common.LeftPadBytes(to[:], 32),
		common.LeftPadBytes(amount.Big().Bytes(), 32))
	b.w.rpc(&hash, "eth_sendTransaction", map[string]string{
		"from": b.address.String(),
		"to":   usdc().String(),
		"data": "0x" + hex.EncodeToString(call),
		"gas":  "0x30d40",
	})
	b.w.mine(1)
	return hash
}

// topUp pays for a top-up and waits until it is on the card.
func (b *buyer) topUp(key string, gross money.Cents) answer {
	b.w.t.Helper()
	pay := b.payment(func(p *x402.Payment) {
		p.Accepted.Amount, p.Authorization.Value = gross.USDC().String(), gross.USDC()
		p.Resource.URL = origin + "/api/card/topup"
	})
	body := fmt.Sprintf(`{"amountUsdCents":%d,"idempotencyKey":%q}`, gross, key)
	return b.w.send(post("/api/card/topup", body).paying(header(b.w.t, pay))).settled()
}

func TestUnmatchedTransferIsPostedOnceAndReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: withOperator})
	wantProblem(t, "before the first comparison", w.send(get(reconcilePath).asOperator("")), 404, fault.ReportNotFound)
	w.wantFindings("empty books")
	b := w.buyer()
	b.buyCard("card")
	b.topUp("topup", 2599).into(t, 200, nil)
	w.awaitSettled()
	r := w.wantFindings("a card and a top-up")
	if k := r.Checked; k != (reconcile.Checked{Orders: 2, Payments: 2, Transfers: 2, Postings: 6, Cards: 1,
		Movements: 2}) {
		t.Errorf("checked %+v", k)
	}
	want := []reconcile.Balance{
		{Account: "card", Units: 40_480_000}, {Account: "customer"}, {Account: "holder", Units: -40_480_000},
		{Account: "issuer:float", Units: -40_480_000},
		{Account: "revenue:issue_fee", Units: -10_000_000}, {Account: "revenue:load_fee", Units: -510_000},
		{Account: "treasury:usdc", Units: 50_990_000},
	}
	if diff := cmp.Diff(want, r.Balances); diff != "" {
		t.Errorf("balances differ (-want +got):\n%s", diff)
	}

	b.sendUnmatched(7)
	b.sendUnmatched(0) // moves nothing, and concerns no one
	w.mine(4)
	reports := make([]reconcile.Report, 8)
	var group sync.WaitGroup
	for i := range reports {
		group.Go(func() {
			w.send(post(reconcilePath, "").on(w.instances[i%2]).asOperator("")).into(t, 200, &reports[i])
		})
	}
	group.Wait()
	first := w.wantFindings("an unmatched transfer", reconcile.TransferUnmatched)
	digest := w.digest()
	again := w.wantFindings("the same unmatched transfer", reconcile.TransferUnmatched)
	for _, other := range append(reports, again) {
		if diff := cmp.Diff(first.Findings, other.Findings); diff != "" {
			t.Errorf("another comparison differs (-first +other):\n%s", diff)
		}
	}
	if n := w.count("SELECT count(*) FROM ledger_postings WHERE kind = 'unmatched'"); n != 1 || first.Blocks() {
		t.Errorf("posted %d times, blocks: %t", n, first.Blocks())
	}
	if w.digest() != digest {
		t.Error("a second comparison changed the books")
	}
	if diff := cmp.Diff(again, w.lastReport()); diff != "" {
		t.Errorf("the last report differs (-ran +shown):\n%s", diff)
	}
	if n := w.count("SELECT count(*) FROM audit WHERE actor = 'ada' AND action LIKE 'treasury.%'"); n != 14 {
		t.Errorf("%d audit rows", n)
	}
	w.checkInvariants(7)
}

// digest is a fingerprint of everything but the audit trail and the report.
func (w *world) digest() string {
	w.t.Helper()
	var all strings.Builder
	for _, table := range []string{"orders", "payments", "cards", "reservations", "timeline", "transfers",
		"ledger_postings", "ledger_entries"} {
		var sum string
		sql := "SELECT coalesce(md5(string_agg(t::text, ' ' ORDER BY t.id)), '') FROM " + table + " t"
		if err := w.db.QueryRow(context.WithoutCancel(w.t.Context()), sql).Scan(&sum); err != nil {
			w.t.Fatalf("%s: %v", sql, err)
		}
		fmt.Fprintln(&all, table, sum)
	}
	return all.String()
}

// damage is a change of our own records that a comparison must notice, and its repair.
type damage struct {
	damage, repair string
	want           []reconcile.Code
}

var damages = map[string]damage{
	"a payment's value": {
		"UPDATE payments SET value = value + 1",
		"UPDATE payments SET value = value - 1",
		[]reconcile.Code{reconcile.OrderAmount, reconcile.PaymentDiffers, reconcile.PostingDiffers},
	},
	"an order's price": {
		"UPDATE orders SET price_usd_cents = price_usd_cents * 2 WHERE kind = 'card_issue'",
		"UPDATE orders SET price_usd_cents = 2500 WHERE kind = 'card_issue'",
		[]reconcile.Code{reconcile.OrderAmount},
	},
	"a card's load": {
		"UPDATE cards SET load_usd_cents = 5000",
		"UPDATE cards SET load_usd_cents = 2500",
		[]reconcile.Code{reconcile.PostingDiffers, reconcile.ProviderDiffers},
	},
	"a top-up that was never fulfilled": {
		"UPDATE orders SET status = 'operator_review' WHERE kind = 'card_topup'",
		"UPDATE orders SET status = 'fulfilled' WHERE kind = 'card_topup'",
		[]reconcile.Code{reconcile.PostingUnexpected, reconcile.ProviderUnrecorded},
	},
	"a fee that failed": {
		"UPDATE jobs SET status = 'failed' WHERE kind = 'card_issue_fee'",
		"UPDATE jobs SET status = 'succeeded' WHERE kind = 'card_issue_fee'",
		[]reconcile.Code{reconcile.PostingUnexpected, reconcile.ProviderUnrecorded},
	},
	"the arrivals": {
		"ALTER TABLE transfers DISABLE TRIGGER USER; DELETE FROM transfers",
		"ALTER TABLE transfers ENABLE TRIGGER USER",
		nil,
	},
	"a posting": {
		"ALTER TABLE ledger_postings DISABLE TRIGGER USER; " +
			"UPDATE ledger_postings SET id = 'x' || id WHERE kind = 'load_fee'",
		"UPDATE ledger_postings SET id = substr(id, 2) WHERE kind = 'load_fee'",
		[]reconcile.Code{reconcile.LedgerUnbalanced, reconcile.PostingMissing, reconcile.PostingUnexpected},
	},
	"an entry": {
		"ALTER TABLE ledger_entries DISABLE TRIGGER USER; " +
			"UPDATE ledger_entries SET amount = amount + 1 WHERE account = 'revenue:load_fee'",
		"UPDATE ledger_entries SET amount = amount - 1 WHERE account = 'revenue:load_fee'",
		[]reconcile.Code{reconcile.LedgerUnbalanced, reconcile.PostingDiffers},
	},
}

// TestReconciliationFindsEachDifference damages one book after the other and repairs it again.
func TestReconciliationFindsEachDifference(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: withOperator})
	b := w.buyer()
	o := b.buyCard("card")
	b.topUp("topup", 5000).into(t, 200, nil)
	w.awaitSettled()
	w.wantFindings("good books")
	for name, d := range damages {
		w.exec(d.damage)
		w.wantFindings(name, d.want...)
		w.exec(d.repair)
		w.wantFindings(name + ", repaired")
	}
	reference := queryOne[uuid.UUID](w, "SELECT reference FROM cards")
	w.exec("UPDATE cards SET reference = gen_random_uuid()")
	w.wantFindings("a card's reference", reconcile.ProviderRecordMissing, reconcile.ProviderUnknown)
	w.exec("UPDATE cards SET reference = $1", reference)
	w.wantFindings("a card's reference, repaired")

	// What the holder spends is no difference.
	account := w.newestCard()
	w.issuer.call("POST", "cards/"+account, map[string]any{"spendCents": 1234})
	if r := w.wantFindings("spending"); r.SpentUSDCents != 1234 {
		t.Errorf("spent %s", r.SpentUSDCents)
	}
	w.setCardState(account, "terminated")
	closed := w.wantFindings("a card closed by the issuer", reconcile.ProviderReversed)
	if closed.Blocks() || closed.Findings[0].Order != o.OrderID {
		t.Errorf("findings %+v", closed.Findings)
	}
	w.openUnknownCard()
	unknown := w.wantFindings("an unknown card", reconcile.ProviderReversed, reconcile.ProviderUnknown)
	if unknown.Blocks() {
		t.Errorf("findings %+v", unknown.Findings)
	}
	// While the only issuer's books cannot be read, the comparison says so, and what it has found there stays.
	w.issuer.fault("statement", "error_before", 0, 0)
	incomplete := w.wantFindings("while the issuer is down", reconcile.ProviderReversed, reconcile.ProviderSilent,
		reconcile.ProviderUnknown)
	if got := incomplete.Silent(); !slices.Equal(got, []string{"sandbox"}) || incomplete.Blocks() {
		t.Errorf("%q are silent: %+v", got, incomplete)
	}
	if last := w.lastReport(); len(last.Findings) != 3 || !last.At.Equal(incomplete.At) {
		t.Errorf("the last report is %+v", last)
	}
}

// openUnknownCard opens a card at the issuer of which the service knows nothing.
func (w *world) openUnknownCard() {
	w.t.Helper()
	client, err := sandbox.Dial(sandbox.ClientConfig{URL: w.issuer.url, APIKey: secret.New(sandbox.DevKey)})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := client.Open(w.t.Context(), card.Opening{Ref: fulfilment.Ref(uuid.New()), Load: 1}); err != nil {
		w.t.Fatal(err)
	}
}

func TestTopUpsStayClosedWhileTreasuryIsUnreconciled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: func(c *app.Config) {
		withOperator(c)
		// Longer than the test: the comparisons are the test's own, but for one at the start.
		c.ReconcileEvery, c.ReconcileGate = time.Hour, true
	}})
	eventually(t, func() (bool, string) {
		return w.count("SELECT count(*) FROM jobs WHERE kind = 'reconcile' AND status = 'succeeded'") == 1,
			"no comparison at the start"
	})
	b := w.buyer()
	b.buyCard("card")
	topup := post("/api/card/topup", `{"idempotencyKey":"t"}`)
	is := func(what string, status int, code fault.Code) {
		t.Helper()
		// What the last report says is cached.
		eventually(t, func() (bool, string) {
			a := w.send(topup)
			return a.status == status && a.is(code), fmt.Sprintf("%s: %d %s", what, a.status, a.body)
		})
	}
	is("good books", 402, fault.PaymentRequired)
	b.sendUnmatched(1)
	w.wantFindings("an unmatched transfer", reconcile.TransferUnmatched)
	is("an unmatched transfer", 402, fault.PaymentRequired)

	// What concerns one wallet closes top-ups for that wallet.
	w.exec("UPDATE payments SET value = value + 1")
	if !w.reconcileNow().Blocks() {
		t.Error("a payment of another amount does not block")
	}
	is("a difference of one wallet's", 402, fault.PaymentRequired)
	before := w.footprint()
	wantProblem(t, "a paid top-up", b.topUp("t", 2500), 503, fault.TreasuryUnreconciled)
	w.wantFootprint("a refused top-up left a trace", before)
	c := w.buyer()
	c.buyCard("another card")
	c.topUp("another", 2500).into(t, 200, nil)
	w.exec("UPDATE payments SET value = value - 1 WHERE owner = $1", strings.ToLower(b.address.String()))
	w.reconcileNow()
	is("fixed books", 402, fault.PaymentRequired)

	// What concerns nobody in particular closes them for all, until an operator says that it is understood.
	w.exec("INSERT INTO ledger_postings (id, order_id, owner, kind, at) VALUES ('unmatched/x', '', '', 'unmatched', " +
		"now())")
	w.wantFindings("a posting without an owner", reconcile.LedgerUnbalanced, reconcile.PostingUnexpected,
		reconcile.TransferUnmatched)
	is("a posting without an owner", 503, fault.TreasuryUnreconciled)
	wantStatus(t, "a card while top-ups are closed", w.send(purchase("another", "")), 402)
	for i, f := range w.findings("") {
		if f.Blocks {
			w.send(f.explanation("a test put it there", fmt.Sprint("explain ", i))).into(t, 200, nil)
		}
	}
	is("explained", 402, fault.PaymentRequired)
	w.wantFindings("explained", reconcile.TransferUnmatched)
	is("still explained", 402, fault.PaymentRequired)

	// Whatever the report says: the gate reads how old the comparison is from its own column.
	w.exec("UPDATE reconciliations SET at = at - interval '4 hours'")
	is("an old report", 503, fault.TreasuryUnreconciled)
	w.reconcileNow()
	is("a new report", 402, fault.PaymentRequired)
	b.topUp("t", 2500).into(t, 200, nil)
	w.awaitSettled()
}
