package endtoend_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
)

// spend pays with a card at a merchant's.
func (w *world) spend(id string, amount money.Cents) (accepted bool) {
	w.t.Helper()
	res, err := client.Post(w.issuer.url+"/control/cards/"+id, "application/json",
		strings.NewReader(fmt.Sprintf(`{"spendCents":%d}`, amount)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// buyAndSpendFee buys a card and spends all of it before its fee is withdrawn.
func (b *buyer) buyAndSpendFee(key string) paidOrder {
	b.w.t.Helper()
	b.w.issuer.fault("move", "slow", 1, 1500)
	var o paidOrder
	b.buy(key).into(b.w.t, 200, &o)
	b.signIn()
	b.awaitActive(&o)
	var card string
	if err := b.w.db.QueryRow(b.w.t.Context(), "SELECT account FROM cards WHERE id = $1",
		o.Issuance.CardID).Scan(&card); err != nil {
		b.w.t.Fatal(err)
	}
	if !b.w.spend(card, 2500) {
		b.w.t.Fatal("the holder was not quicker than the withdrawal")
	}
	return o
}

// awaitActive waits until the card of an order is active, whatever becomes of its fee.
func (b *buyer) awaitActive(o *paidOrder) {
	b.w.t.Helper()
	eventually(b.w.t, func() (bool, string) {
		b.get("/api/orders/"+o.OrderID).into(b.w.t, 200, o)
		return o.Issuance.CardID != "" && b.cardStatus(o.Issuance.CardID) == "ACTIVE", fmt.Sprintf("%+v", *o)
	})
}

// feeJob is what an operator sees of the fee of a card.
type feeJob struct {
	ID, Status, Reason, CardID string
	Version                    int
	Outstanding, WrittenOff    bool
}

func (w *world) awaitFeeJob(card string, wanted func(feeJob) bool) feeJob {
	w.t.Helper()
	var found feeJob
	eventually(w.t, func() (bool, string) {
		var list struct{ Jobs []feeJob }
		w.operatorCall("GET", "/api/admin/card-issue-fee/jobs", "", "").into(w.t, 200, &list)
		for _, j := range list.Jobs {
			if j.CardID == card && wanted(j) {
				found = j
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", list.Jobs)
	})
	return found
}

func (w *world) ledgerBalance(account string) (cents money.Cents) {
	w.t.Helper()
	return money.Cents(w.count("SELECT coalesce(sum(amount), 0) / 10000 FROM ledger_entries WHERE account = $1", account))
}

// TestSpentFeeIsOwedUntilWrittenOff, and buys no top-up until an operator has decided; others do.
func TestSpentFeeIsOwedUntilWrittenOff(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: withOperator})
	b, honest := w.buyer(), w.buyer()
	o := b.buyAndSpendFee("spends-first")
	j := w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "failed" })
	if !j.Outstanding || j.WrittenOff || j.Reason != "card_funds_insufficient" {
		t.Errorf("fee job %+v", j)
	}
	debt := "receivable:" + o.Issuance.CardID
	if w.ledgerBalance(debt) != 1000 || w.ledgerBalance("revenue:issue_fee") != -1000 {
		t.Errorf("%s is owed, %s earned", w.ledgerBalance(debt), w.ledgerBalance("revenue:issue_fee"))
	}
	paid := len(w.transfersFrom(b.address))
	wantProblem(t, "a top-up", b.topUp("top-up-with-a-debt", 2500), 409, fault.FeeOutstanding)
	wantProblem(t, "an order to be paid later", b.post("/api/orders", `{}`), 409, fault.FeeOutstanding)
	if n := len(w.transfersFrom(b.address)); n != paid {
		t.Errorf("%d payments were made meanwhile", n-paid)
	}
	honest.buyCard("an-honest-card")
	var other paidOrder
	honest.topUp("an-honest-top-up", 2500).into(t, 200, &other)
	honest.awaitStatus(other.OrderID, "fulfilled")
	w.wantFindings("with a fee that is owed")

	path := "/api/admin/card-issue-fee/jobs/" + j.ID
	wantProblem(t, "a write-off without a key", w.operatorCall("POST", path+"/write-off", `{"reason":"r"}`, ""), 400,
		fault.IdempotencyKeyMissing)
	w.operatorCall("POST", path+"/write-off", `{"reason":"a gift"}`, "w1").into(t, 200, &j)
	if j.Outstanding || !j.WrittenOff || j.Status != "failed" {
		t.Errorf("written off: %+v", j)
	}
	w.operatorCall("POST", path+"/write-off", `{"reason":"a gift"}`, "w1").into(t, 200, nil)
	wantProblem(t, "another write-off", w.operatorCall("POST", path+"/write-off", `{"reason":"again"}`, "w2"), 409,
		fault.FailureUnconfirmed)
	if w.ledgerBalance(debt) != 0 || w.ledgerBalance("cost:issue_fee") != 1000 {
		t.Errorf("%s is owed, %s lost", w.ledgerBalance(debt), w.ledgerBalance("cost:issue_fee"))
	}
	b.topUp("top-up-after-the-write-off", 2500).into(t, 200, &other)
	b.awaitStatus(other.OrderID, "fulfilled")
	if n := w.count("SELECT count(*) FROM audit WHERE action = 'fee_job.write_off' AND subject = $1", j.ID); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	w.checkBooks()
	w.wantFindings("after the write-off")
}

// TestOwedFeeIsCollectedByRetry once there is money on the card again.
func TestOwedFeeIsCollectedByRetry(t *testing.T) {
	onlyTorture(t, "store TestRetryQueuesTheNextVersionOncePerKey, product/card "+
		"TestEachVersionOfAFeeHasItsOwnReference")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: withOperator})
	b := w.buyer()
	o := b.buyAndSpendFee("spends-first")
	j := w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "failed" })
	path := "/api/admin/card-issue-fee/jobs/" + j.ID
	// In vain: the card is empty.
	w.operatorCall("POST", path+"/retry", `{"reason":"try"}`, "r1").into(t, 200, nil)
	j = w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "failed" && j.Version == 2 })
	wantProblem(t, "a top-up", b.topUp("top-up-with-a-debt", 2500), 409, fault.FeeOutstanding)
	if owed := w.ledgerBalance("receivable:" + o.Issuance.CardID); owed != 1000 {
		t.Errorf("%s is owed", owed)
	}
	// A merchant gives the money back.
	var account string
	if err := w.db.QueryRow(t.Context(), "SELECT account FROM cards WHERE id = $1",
		o.Issuance.CardID).Scan(&account); err != nil {
		t.Fatal(err)
	}
	w.issuer.call("POST", "cards/"+account, map[string]any{"refundCents": 2500})
	w.operatorCall("POST", path+"/retry", `{"reason":"try again"}`, "r2").into(t, 200, nil)
	j = w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "succeeded" })
	if j.Outstanding || j.Version != 3 {
		t.Errorf("fee job %+v", j)
	}
	if owed, earned := w.ledgerBalance("receivable:"+o.Issuance.CardID), w.ledgerBalance("revenue:issue_fee"); owed != 0 ||
		earned != -1000 {
		t.Errorf("%s is owed, %s earned", owed, earned)
	}
	b.topUp("top-up-after-the-retry", 2500).into(t, 200, nil)
	w.checkBooks()
	w.wantFindings("after the retry")
}

// TestSpendLimitProtectsFee, however quick; the rest is the holder's at once, and so are top-ups.
func TestSpendLimitProtectsFee(t *testing.T) {
	onlyTorture(t, "product/card TestFeeIsNeverOnACardWithALimit, and the limit in TestOperatorClosesCard here")
	t.Parallel()
	w := newAdminWorld(t, -1, plan{issuer: sandbox.Config{SpendLimits: true}, change: func(c *app.Config) {
		withOperator(c)
		c.IssuerLimits = true
	}})
	b := w.buyer()
	var o paidOrder
	b.buy("with-a-limit").into(t, 200, &o)
	b.signIn()
	b.awaitActive(&o)
	at := w.newestCard()
	if w.spend(at, 2500) || w.spend(at, 1501) {
		t.Error("the holder spent the fee")
	}
	balance := func(want money.Cents) {
		t.Helper()
		var got struct{ AvailableUsdCents money.Cents }
		b.get("/api/cards/"+o.Issuance.CardID+"/balance").into(t, 200, &got)
		if got.AvailableUsdCents != want {
			t.Errorf("%s on the card, want %s", got.AvailableUsdCents, want)
		}
	}
	balance(1500)
	j := w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "succeeded" })
	if j.Outstanding || w.ledgerBalance("revenue:issue_fee") != -1000 || len(w.issuer.books().Movements) != 0 {
		t.Errorf("fee job %+v, %s earned, movements %+v", j, w.ledgerBalance("revenue:issue_fee"), w.issuer.books().Movements)
	}
	balance(1500)
	var more paidOrder
	b.topUp("more", 2500).into(t, 200, &more)
	b.awaitStatus(more.OrderID, "fulfilled")
	balance(3950)
	var both sync.WaitGroup
	for _, key := range []string{"left", "right"} {
		both.Go(func() {
			if got := b.topUp(key, 2500); got.status != 200 {
				t.Errorf("%s: %d %s", key, got.status, got.body)
			}
		})
	}
	both.Wait()
	eventually(t, func() (bool, string) {
		done := w.count("SELECT count(*) FROM orders WHERE kind = 'card_topup' AND status = 'fulfilled'")
		return done == 3, fmt.Sprintf("%d top-ups are fulfilled", done)
	})
	balance(3950 + 2450 + 2450)
	if !w.spend(at, 8850) || w.spend(at, 1) {
		t.Error("what was bought and topped up is not what can be spent")
	}
	w.checkBooks()
	w.wantFindings("with limits")
}

func TestOwedFeesAreMeasured(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1,
		plan{telemetry: startTelemetry(t), change: func(c *app.Config) { c.MetricsAddr = "127.0.0.1:0" }})
	b := w.buyer()
	o := b.buyAndSpendFee("spends-first")
	w.awaitFeeJob(o.Issuance.CardID, func(j feeJob) bool { return j.Status == "failed" })
	eventually(t, func() (bool, string) {
		page := scrape(t, w.instances[0].metrics)
		return regexp.MustCompile(`(?m)^\S*fees_receivable_usd_cents(\{.*\})? 1000$`).MatchString(page), page
	})
}
