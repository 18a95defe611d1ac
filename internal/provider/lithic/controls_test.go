package lithic_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// charge is a merchant's attempt at a card.
func (b *bench) charge(t *testing.T, account string, amount money.Cents) {
	t.Helper()
	asked := fmt.Sprintf(`{"amountCents":%d,"merchant":"Corner shop","category":"5411"}`, int64(amount))
	resp, err := b.web.Client().Post(b.web.URL+"/control/cards/"+account+"/purchases", "application/json",
		strings.NewReader(asked))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("charge: status %d", resp.StatusCode)
	}
}

func TestOnlyThisMachinePlaysAMerchant(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for from, want := range map[string]int{"192.0.2.7:4000": http.StatusForbidden, "127.0.0.1:4000": http.StatusOK} {
		r := httptest.NewRequest(http.MethodPost, "/control/cards/"+a.ID+"/purchases", strings.NewReader(`{"amountCents":1}`))
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		if b.fake.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s got %d, want %d", from, w.Code, want)
		}
	}
	if all := b.listed(a.ID, 10); len(all) != 1 || all[0].Amount != 1 || all[0].Status != card.TransactionCompleted {
		t.Errorf("listed %+v", all)
	}
}

// TestWhatStaffHasPausedStaysPaused, and what is closed or not yet there for the owner.
func TestWhatStaffHasPausedStaysPaused(t *testing.T) {
	for name, c := range map[string]struct {
		state, reason string
		// freeze and unfreeze are the states that the card has then; empty when it is refused.
		freeze, unfreeze card.AccountState
	}{
		"open":                       {"OPEN", "", card.AccountFrozen, card.AccountActive},
		"paused without a reason":    {"PAUSED", "", card.AccountFrozen, card.AccountActive},
		"paused for its owner":       {"PAUSED", "END_USER_REQUEST", card.AccountFrozen, card.AccountActive},
		"paused for a review":        {"PAUSED", "INTERNAL_REVIEW", card.AccountFrozen, ""},
		"paused for a fraud":         {"PAUSED", "SUSPICIOUS_ACTIVITY", card.AccountFrozen, ""},
		"paused for a new reason":    {"PAUSED", "FULL_MOON", card.AccountFrozen, ""},
		"closed":                     {"CLOSED", "LOST", "", ""},
		"waiting for its activation": {"PENDING_ACTIVATION", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for frozen, want := range map[bool]card.AccountState{true: c.freeze, false: c.unfreeze} {
				b := start(t, lithicfake.Config{}, false)
				a := b.opened(2500)
				b.fake.SetReason(a.ID, c.state, c.reason)
				got, err := b.SetFrozen(t.Context(), a.ID, frozen)
				if no := refusalOf(err); got != want || (want == "") != (no != nil) ||
					(no != nil && no.Code != card.RefusedState) {
					t.Errorf("frozen %t: %q, %v; want %q", frozen, got, err, want)
				}
				if now := b.fake.Cards()[0]; want == "" && now.State != c.state || now.Reason != c.reason {
					t.Errorf("frozen %t: the card is %+v", frozen, now)
				}
			}
		})
	}
}

// TestOnlyAClosedCardRefusesAChangeOfState: of any other rejection it is not known what became of the card.
func TestOnlyAClosedCardRefusesAChangeOfState(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for _, mode := range []vendorfake.Mode{
		vendorfake.Refused, vendorfake.Conflict, vendorfake.NotFound, vendorfake.TimeoutBefore,
	} {
		b.fake.Fault("state", mode)
		state, err := b.SetFrozen(t.Context(), a.ID, true)
		b.handles().WantUnknown(t, err)
		if state != "" {
			t.Errorf("%s: the card is %q", mode, state)
		}
	}
	// An answer about another card, and one with a state that is new, after the state was changed.
	b.fake.Fault("state", vendorfake.WrongOwner)
	_, err := b.SetFrozen(t.Context(), a.ID, true)
	b.handles().WantUnknown(t, err)
	b.fake.SetState(a.ID, "OPEN")
	b.fake.Fault("state", vendorfake.UnknownState)
	if state, err := b.SetFrozen(t.Context(), a.ID, true); err != nil || state != card.AccountPending {
		t.Errorf("a state that is new reads as %q, %v", state, err)
	}
	b.fake.SetState(a.ID, "QUARANTINED")
	_, err = b.SetFrozen(t.Context(), a.ID, false)
	b.handles().WantUnknown(t, err)
	for _, account := range []string{"", "..", newToken().String()} {
		_, err := b.SetFrozen(t.Context(), account, true)
		b.handles().WantUnknown(t, err)
	}
}

// TestStateAloneIsSent: limits and memo stay as they are.
func TestStateAloneIsSent(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	memo := b.fake.Cards()[0].Memo
	for _, frozen := range []bool{true, false} {
		if _, err := b.SetFrozen(t.Context(), a.ID, frozen); err != nil {
			t.Fatal(err)
		}
	}
	if now := b.fake.Cards()[0]; now.Memo != memo || now.Balance != 2500 || now.State != "OPEN" || now.Reason != "" {
		t.Errorf("the card is %+v", now)
	}
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000}
	if _, err := b.SetFrozen(t.Context(), a.ID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Move(t.Context(), m); err != nil {
		t.Errorf("a load that was in flight: %v", err)
	}
	b.wantBalance(a.ID, 3500)
}

// listed are all transactions of a card, read page by page.
func (b *bench) listed(account string, most int) (all []card.Transaction) {
	b.Helper()
	for after, pages := "", 0; ; pages++ {
		page, next, err := b.Transactions(b.Context(), account, after, most)
		if err != nil || len(page) > most || pages > 100 {
			b.Fatalf("page %d: %d transactions, %v", pages, len(page), err)
		}
		all = append(all, page...)
		if after = next; next == "" {
			return all
		}
	}
}

func TestTransactionsSayWhatTheVendorSays(t *testing.T) {
	b := start(t, lithicfake.Config{PageSize: 3}, false)
	a, other := b.opened(2500), b.opened(2500)
	b.fake.Charge(other.ID, 100, lithicfake.AShop)
	var want []card.Transaction
	shop := card.Merchant{Name: "A SHOP", Category: "5999", Country: "US"}
	add := func(p lithicfake.Purchase, t card.Transaction) {
		t.ID, t.At, t.Amount = p.Token, b.clock.now().Truncate(time.Second), money.Cents(p.Amount)
		if t.Kind == "" {
			t.Kind = card.Purchase
		}
		if t.Merchant.Name == "" {
			t.Merchant = shop
		}
		want = append([]card.Transaction{t}, want...)
		b.clock.pass(time.Minute)
	}
	for country, two := range map[string]string{
		"CHE": "CH", "CHN": "CN", "QZZ": "", "USA": "US", "US": "US", "usa": "US", "": "", "???": "",
	} {
		at := lithicfake.Merchant{Name: "Corner shop", Category: "5411", Country: country}
		add(b.fake.Charge(a.ID, 100, at), card.Transaction{
			Status: card.TransactionCompleted, Merchant: card.Merchant{Name: at.Name, Category: "5411", Country: two},
		})
	}
	for status, is := range map[string]card.TransactionStatus{
		"PENDING": card.TransactionPending, "VOIDED": card.TransactionReversed, "EXPIRED": card.TransactionReversed,
		"UNDER_A_CLOUD": card.TransactionPending,
	} {
		p := b.fake.Charge(a.ID, 120, lithicfake.AShop)
		b.fake.EditPurchase(p.Token, func(p *lithicfake.Purchase) { p.Status = status })
		add(p, card.Transaction{Status: is})
	}
	b.fake.Return(a.ID, 70)
	made := b.fake.Purchases()
	add(made[len(made)-1], card.Transaction{Status: card.TransactionCompleted, Kind: card.Refund})
	for _, c := range []struct {
		why, result string
		is          card.DeclineReason
	}{
		{"INSUFFICIENT_FUNDS", "INSUFFICIENT_FUNDS", card.DeclinedFunds},
		{"DECLINED", "INSUFFICIENT_FUNDS_PRELOAD", card.DeclinedFunds},
		{"CARD_PAUSED", "CARD_PAUSED", card.DeclinedFrozen}, {"CARD_CLOSED", "CARD_CLOSED", card.DeclinedClosed},
		{"CARD_SPEND_LIMIT_EXCEEDED", "USER_TRANSACTION_LIMIT", card.DeclinedLimit},
		{"AUTH_RULE_BLOCKED_MCC", "UNAUTHORIZED_MERCHANT", card.DeclinedMerchant},
		{"CARD_SECURITY_CODE_INCORRECT", "INVALID_CARD_DETAILS", card.DeclinedCheck},
		{"SUSPECTED_FRAUD", "SUSPECTED_FRAUD", card.DeclinedFraud},
		{"ACCOUNT_PAUSED", "ACCOUNT_PAUSED", card.DeclinedOther}, {"FULL_MOON", "DECLINED", card.DeclinedOther},
	} {
		p := b.fake.Charge(a.ID, 9_999, lithicfake.AShop)
		b.fake.EditPurchase(p.Token, func(p *lithicfake.Purchase) { p.Why, p.Result = c.why, c.result })
		add(p, card.Transaction{Status: card.TransactionDeclined, Declined: c.is})
	}
	for _, most := range []int{1, 2, 100, 1000} {
		got := b.listed(a.ID, most)
		if len(got) != len(want) {
			t.Fatalf("%d transactions, want %d", len(got), len(want))
		}
		for n := range got {
			if got[n] != want[n] {
				t.Errorf("by %d: transaction %d is %+v, want %+v", most, n, got[n], want[n])
			}
		}
	}
}

func TestTransactionsThatAreNotTheCardsAreNotShown(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for range 3 {
		b.charge(t, a.ID, 100)
		b.clock.pass(time.Minute)
	}
	for _, mode := range []vendorfake.Mode{
		vendorfake.WrongOwner, vendorfake.WrongCurrency, vendorfake.Inexact, vendorfake.Reordered, vendorfake.NotFound,
		vendorfake.Refused,
	} {
		b.fake.Fault("purchases", mode)
		page, next, err := b.Transactions(t.Context(), a.ID, "", 10)
		if err == nil || refusalOf(err) != nil || page != nil || next != "" {
			t.Errorf("%s: %+v, %q, %v", mode, page, next, err)
		}
	}
	b.fake.Fault("purchases", vendorfake.UnknownState)
	page, _, err := b.Transactions(t.Context(), a.ID, "", 10)
	if err != nil || len(page) != 3 || page[0].Status != card.TransactionPending || page[0].Declined != "" {
		t.Errorf("a status that is new: %+v, %v", page, err)
	}
	b.fake.Fault("purchases", vendorfake.Duplicate)
	// The vendor was asked for no more than six, and lists each of three twice.
	if page, _, err = b.Transactions(t.Context(), a.ID, "", 6); err == nil {
		t.Errorf("a list that is not in its order: %+v", page)
	}
	for _, cursor := range []string{"none", newToken().String()} {
		if _, _, err := b.Transactions(t.Context(), a.ID, cursor, 10); refusalOf(err) == nil ||
			refusalOf(err).Code != fulfilment.RefusedRequest {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
}

// TestOperatorsLimitStays: a card has one limit, and an owner does not take that of the operator away.
func TestOperatorsLimitStays(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	a := b.opened(2500)
	for _, l := range []card.Limits{{Transaction: 300}, {Month: 900}, {}} {
		if got, err := b.SetLimits(t.Context(), a.ID, l); err != nil || !got.Equal(l) {
			t.Fatalf("set %+v: %+v, %v", l, got, err)
		}
	}
	for _, l := range []card.Limits{{Transaction: 1, Month: 1}, {Allowed: []string{"5411"}}} {
		if _, err := b.SetLimits(t.Context(), a.ID, l); err == nil {
			t.Errorf("%+v is set", l)
		}
	}
	b.fake.SetLimit(a.ID, 700, "FOREVER")
	if _, err := b.Limits(t.Context(), a.ID); err == nil || refusalOf(err) != nil {
		t.Errorf("the operator's is read: %v", err)
	}
	if _, err := b.SetLimits(t.Context(), a.ID, card.Limits{Transaction: 9}); refusalOf(err) == nil {
		t.Errorf("the operator's is replaced: %v", err)
	}
	if c := b.fake.Cards()[0]; c.Limit != 700 || c.Duration != "FOREVER" {
		t.Errorf("the limit is %d %s", c.Limit, c.Duration)
	}
	b.fake.SetLimit(a.ID, 0, "")
	b.fake.SetState(a.ID, "CLOSED")
	if _, err := b.SetLimits(t.Context(), a.ID, card.Limits{Transaction: 9}); refusalOf(err) == nil {
		t.Errorf("a closed card: %v", err)
	}
}
