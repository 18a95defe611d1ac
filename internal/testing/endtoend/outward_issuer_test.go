package endtoend_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/product/card"
)

// outcome is how an order and its fee may end.
type outcome struct{ status, fee string }

var (
	delivered = outcome{"fulfilled", "succeeded"}
	feeFailed = outcome{"fulfilled", "failed"}
	inReview  = outcome{"operator_review", ""}
)

// issuerModes are the sandbox's ways to misbehave, and how a purchase ends when one of its calls meets
// each; where nothing is said, with a card and its fee withdrawn.
var issuerModes = map[string]map[string]outcome{
	"error_before":   nil,
	"error_after":    nil,
	"timeout_before": nil,
	"timeout_after":  nil,
	"late":           nil,
	"slow":           nil,
	"hang":           nil,
	"malformed":      nil,
	"truncated":      nil,
	"huge":           nil,
	"rate_limited":   nil,
	"unauthorized":   nil,
	"unknown_state":  nil,
	"wrong_amount":   nil,
	"inexact_amount": nil,
	"wrong_currency": nil,
	"wrong_owner":    nil,
	"duplicate":      nil,
	"stale":          nil,
	// A definite no: the money is in, the goods are not.
	"refused":   {"open": inReview, "move": feeFailed},
	"not_found": {"open": inReview, "move": feeFailed},
	// The issuer calls a card live before it is: a withdrawal that follows too soon is refused.
	"early": {"open": feeFailed},
}

// TestPurchaseSurvivesIssuerFaults injects each mode of fault into one call of each kind: before and after
// its effect, errors, silence, slowness, wrong and doubled answers.
func TestPurchaseSurvivesIssuerFaults(t *testing.T) {
	onlyTorture(t, "settlement TestIssuerFaultsLeaveOneCardAndOneFee and TestRefusedCardGoesToAnOperator")
	t.Parallel()
	for mode, ends := range issuerModes {
		for part, ops := range map[string][]string{"card": {"open", "account", "stock"}, "fee": {"move", "moved"}} {
			t.Run(mode+", "+part, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, plan{})
				for _, op := range ops {
					w.buyWithIssuerFault(op, mode, ends)
				}
				w.checkBooks()
			})
		}
	}
}

// buyWithIssuerFault buys one card while one call of the operation fails.
func (w *world) buyWithIssuerFault(op, mode string, ends map[string]outcome) {
	w.t.Helper()
	w.wantEndDespiteFault(op, mode, ends,
		func(b *buyer, key string) (paidOrder, error) { return b.buyRetrying(key) })
}

func (w *world) wantEndDespiteFault(op, mode string, ends map[string]outcome,
	buy func(b *buyer, key string) (paidOrder, error)) {
	w.t.Helper()
	b := w.buyer()
	delay := 300
	if mode == "timeout_before" || mode == "timeout_after" || mode == "hang" {
		delay = 8000 // longer than the service waits
	}
	w.issuer.fault(op, mode, 1, delay)
	o, err := buy(b, op+"-"+mode)
	if err != nil {
		w.t.Errorf("%s, %s: %v", op, mode, err)
		return
	}
	w.awaitSettled()
	w.issuer.clearFaults()
	want, special := ends[op]
	if !special {
		want = delivered
	}
	for _, e := range w.orders() {
		if got := (outcome{e.status, e.fee}); mode == "early" && got == delivered {
			continue // the card was live by the time of the withdrawal
		}
		if e.order == o.OrderID && (e.status != want.status || e.fee != want.fee) {
			w.t.Errorf("%s, %s: order %s (%s), fee %q; want %+v", op, mode, e.status, e.reason, e.fee, want)
		}
	}
	paid := 0
	for _, tr := range w.transfers() {
		if tr.from == b.address {
			paid++
		}
	}
	if paid != 1 {
		w.t.Errorf("%s, %s: %d transfers", op, mode, paid)
	}
}

// TestCardReadsSurviveIssuerFaults injects faults into the reads of an owner's card: never a failure of
// ours, never a wrong balance, never half a card.
func TestCardReadsSurviveIssuerFaults(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	for mode := range issuerModes {
		b := w.buyer() // each with a card whose balance nobody has read
		o := b.buyCard("reads")
		delay := 100
		if mode == "timeout_before" || mode == "timeout_after" || mode == "hang" {
			delay = 200 // then the connection ends
		}
		w.issuer.fault("balance", mode, 1, delay)
		a := b.get("/api/cards/" + o.Issuance.CardID + "/balance")
		var shown struct {
			Available int64 `json:"availableUsdCents"`
		}
		switch a.status {
		case 200:
			a.into(t, 200, &shown)
			if shown.Available != int64(card.Remaining) && mode != "wrong_amount" {
				t.Errorf("balance, %s: %d cents", mode, shown.Available)
			}
		case 503:
		default:
			t.Errorf("balance, %s: %d %s", mode, a.status, clipped(a.body))
		}
		w.issuer.clearFaults()

		ch := b.revealChallenge(o.Issuance.CardID)
		w.issuer.fault("sensitive", mode, 1, delay)
		a = b.post("/api/cards/"+o.Issuance.CardID+"/reveal", revealBody(ch.IntentID, b.sign(ch.Message)))
		var revealed struct {
			Credentials struct{ Number, SecurityCode string }
		}
		if a.status == 200 {
			a.into(t, 200, &revealed)
		}
		if a.status != 503 &&
			(a.status != 200 || len(revealed.Credentials.Number) != 16 || len(revealed.Credentials.SecurityCode) != 3) {
			t.Errorf("reveal, %s: %d", mode, a.status)
		}
		w.issuer.clearFaults()
	}
	w.checkBooks()
}
