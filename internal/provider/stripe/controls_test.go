package stripe_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
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
	b := start(t)
	a := b.opened()
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

func refusalCode(err error) string {
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok {
		return no.Code
	}
	return ""
}

// TestWhatOthersMadeInactiveStaysInactive, and what is canceled for everybody.
func TestWhatOthersMadeInactiveStaysInactive(t *testing.T) {
	for name, c := range map[string]struct {
		frozen bool // by its owner, before the status was set
		status string
		// freeze and unfreeze are the states that the card has then; empty when it is refused.
		freeze, unfreeze card.AccountState
	}{
		"active":              {false, "active", card.AccountFrozen, card.AccountActive},
		"frozen by its owner": {true, "inactive", card.AccountFrozen, card.AccountActive},
		"made inactive":       {false, "inactive", card.AccountFrozen, ""},
		"canceled":            {false, "canceled", "", ""},
		"frozen and canceled": {true, "canceled", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for frozen, want := range map[bool]card.AccountState{true: c.freeze, false: c.unfreeze} {
				b := start(t)
				a := b.opened()
				if c.frozen {
					b.setFrozen(a, true)
				}
				b.fake.Edit(a.ID, func(on *stripefake.Card) { on.Status = c.status })
				got, err := b.SetFrozen(t.Context(), a.ID, frozen)
				if got != want || (want == "") != (refusalCode(err) == card.RefusedState) || (want != "" && err != nil) {
					t.Errorf("frozen %t: %q, %v; want %q", frozen, got, err, want)
				}
				if now := b.fake.Cards()[0].Status; want == "" && now != c.status {
					t.Errorf("frozen %t: the card is %s", frozen, now)
				}
			}
		})
	}
}

func (b *bench) setFrozen(a card.Account, frozen bool) {
	b.Helper()
	if _, err := b.SetFrozen(b.Context(), a.ID, frozen); err != nil {
		b.Errorf("frozen %t: %v", frozen, err)
	}
}

func TestUnfrozenCardThatIsMadeInactiveIsNotItsOwners(t *testing.T) {
	b := start(t)
	a := b.opened()
	b.setFrozen(a, true)
	b.setFrozen(a, false)
	b.fake.Edit(a.ID, func(on *stripefake.Card) { on.Status = "inactive" })
	if state, err := b.SetFrozen(t.Context(), a.ID, false); refusalCode(err) != card.RefusedState {
		t.Errorf("the card is %q, %v", state, err)
	}
}

// TestNothingButACanceledCardRefusesAChangeOfStatus: of any failure it is not known what became of the card.
func TestNothingButACanceledCardRefusesAChangeOfStatus(t *testing.T) {
	for _, mode := range []vendorfake.Mode{
		vendorfake.Refused, stripefake.Idempotency, vendorfake.Conflict, stripefake.Strange, stripefake.Forbidden,
		vendorfake.WrongOwner, vendorfake.Partial, stripefake.Moved,
	} {
		b := start(t)
		a := b.opened()
		if !b.fake.Fault("lock", mode) {
			t.Fatalf("%s cannot be played", mode)
		}
		state, err := b.SetFrozen(t.Context(), a.ID, true)
		b.handles().WantUnknown(t, err)
		if state != "" {
			t.Errorf("%s: the card is %q", mode, state)
		}
		b.setFrozen(a, true)
	}
	b := start(t)
	a := b.opened()
	b.fake.Fault("lock", vendorfake.UnknownState)
	if state, err := b.SetFrozen(t.Context(), a.ID, true); err != nil || state != card.AccountPending {
		t.Errorf("a status that is new reads as %q, %v", state, err)
	}
	b.fake.Edit(a.ID, func(on *stripefake.Card) { on.Status = "under_a_cloud" })
	others := b.fake.Add(nil, nil)
	for _, id := range []string{a.ID, others, "", "../balance", "ic_none"} {
		_, err := b.SetFrozen(t.Context(), id, false)
		b.handles().WantUnknown(t, err)
	}
}

// TestFreezingNextToALoadKeepsTheLimit: whichever comes first, and also where answers are lost.
func TestFreezingNextToALoadKeepsTheLimit(t *testing.T) {
	const cards = 100
	b := start(t)
	var all []card.Account
	for range cards {
		all = append(all, b.opened())
	}
	want := map[string]int64{}
	var done sync.WaitGroup
	for n, a := range all {
		target := load + money.Cents(100+n)
		want[a.ID] = int64(target)
		m := onto(a, target-load, target)
		if n%5 == 0 {
			b.fake.Fault("move", vendorfake.TimeoutAfter)
			b.fake.Fault("lock", vendorfake.TimeoutAfter)
		}
		again := func(what string, send func() error) {
			err := errors.New("not sent")
			for sent := 0; err != nil && sent <= cards; sent++ {
				err = send()
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		done.Go(func() { again("load", func() error { _, err := b.Move(t.Context(), m); return err }) })
		done.Go(func() {
			for _, frozen := range []bool{true, false, true} {
				again("freeze", func() error { _, err := b.SetFrozen(t.Context(), a.ID, frozen); return err })
			}
		})
	}
	done.Wait()
	for _, c := range b.fake.Cards() {
		if len(c.Limits) != 1 || c.Limits[0].Amount != want[c.ID] || c.Status != "inactive" || len(c.Metadata) != 5 {
			t.Errorf("%s, and the limit is to be %d: %+v", c.ID, want[c.ID], c)
		}
	}
}

// TestFrozenCardHasRoomForAsManyLoads: the mark takes none of it.
func TestFrozenCardHasRoomForAsManyLoads(t *testing.T) {
	b := start(t)
	a := b.opened()
	b.setFrozen(a, true)
	target := load
	for n := range 46 {
		target += 100
		if _, err := b.Move(t.Context(), onto(a, 100, target)); err != nil {
			t.Fatalf("load %d: %v", n, err)
		}
	}
	_, err := b.Move(t.Context(), onto(a, 100, target+100))
	wantRefused(t, err, fulfilment.RefusedRequest)
	b.setFrozen(a, false)
	b.setFrozen(a, true)
}

// listed are all transactions of a card, read page by page.
func (b *bench) listed(account string, most int) (all []card.Transaction) {
	b.Helper()
	for after, pages := "", 0; ; pages++ {
		page, next, err := b.Transactions(b.Context(), account, after, most)
		if err != nil || len(page) > most || (len(page) == 0 && pages > 0) || pages > 1000 {
			b.Fatalf("page %d after %q: %d transactions, %v", pages, after, len(page), err)
		}
		all = append(all, page...)
		if after = next; next == "" {
			return all
		}
	}
}

// TestPurchaseIsListedOnce from its authorization to its captures; refunds and what nobody asked for are listed, too.
func TestPurchaseIsListedOnce(t *testing.T) {
	b := start(t)
	a, other := b.opened(), b.opened()
	b.charge(t, other.ID, 100)
	var want []card.Transaction
	add := func(id string, one card.Transaction) {
		one.ID, one.At = id, b.clock.now().Truncate(time.Second)
		if one.Kind == "" {
			one.Kind = card.Purchase
		}
		one.Merchant = card.Merchant{Name: "A SHOP", Category: "5999", Country: "US"}
		want = append([]card.Transaction{one}, want...)
	}
	authorize := func(cents int64) string {
		b.clock.pass(time.Minute)
		id, _ := b.fake.Authorize(a.ID, cents)
		return id
	}
	moved := 1 // that of the other card
	id := authorize(400)
	add(id, card.Transaction{Status: card.TransactionCompleted, Amount: 350})
	b.clock.pass(time.Second)
	b.fake.Capture(id, 350)
	moved++
	add(authorize(100), card.Transaction{Status: card.TransactionPending, Amount: 100})
	id = authorize(120)
	b.fake.Reverse(id)
	b.fake.EditAuthorization(id, func(a *stripefake.Authorization) { a.Amount = 0 })
	add(id, card.Transaction{Status: card.TransactionReversed, Amount: 120})
	id = authorize(130)
	b.fake.EditAuthorization(id, func(a *stripefake.Authorization) { a.Status = "expired" })
	add(id, card.Transaction{Status: card.TransactionReversed, Amount: 130})
	id = authorize(10)
	b.fake.EditAuthorization(id, func(a *stripefake.Authorization) { a.Status = "under_a_cloud" })
	add(id, card.Transaction{Status: card.TransactionPending, Amount: 10})
	id = authorize(20)
	b.fake.EditAuthorization(id, func(a *stripefake.Authorization) { a.Amount = -20 })
	add(id, card.Transaction{Status: card.TransactionPending, Kind: card.Refund, Amount: 20})
	b.clock.pass(time.Minute)
	b.fake.Refund(a.ID, 50)
	moved++
	add(fmt.Sprintf("ipi_1Fake%018d", moved), card.Transaction{
		Status: card.TransactionCompleted, Kind: card.Refund, Amount: 50,
	})
	b.fake.Unasked(a.ID, 30) // in the same second
	moved++
	add(fmt.Sprintf("ipi_1Fake%018d", moved), card.Transaction{Status: card.TransactionCompleted, Amount: 30})
	for reason, is := range map[string]card.DeclineReason{
		"spending_controls": card.DeclinedFunds, "insufficient_funds": card.DeclinedOther,
		"card_inactive": card.DeclinedFrozen, "card_canceled": card.DeclinedClosed, "pin_blocked": card.DeclinedCheck,
		"verification_failed": card.DeclinedCheck, "suspected_fraud": card.DeclinedFraud,
		"cardholder_blocked": card.DeclinedOther, "moon_in_wrong_phase": card.DeclinedOther,
	} {
		id := authorize(999_999)
		b.fake.EditAuthorization(id, func(a *stripefake.Authorization) { a.Reason = reason })
		add(id, card.Transaction{Status: card.TransactionDeclined, Amount: 999_999, Declined: is})
	}
	for _, most := range []int{1, 2, 3, 5, 17, 18, 100} {
		if diff := cmp.Diff(want, b.listed(a.ID, most)); diff != "" {
			t.Errorf("by %d (-want +got):\n%s", most, diff)
		}
	}
	// A page is not disturbed by what happens before it is read.
	page, next, err := b.Transactions(t.Context(), a.ID, "", 3)
	if err != nil {
		t.Fatal(err)
	}
	b.fake.Refund(a.ID, 1)
	b.clock.pass(time.Minute)
	b.charge(t, a.ID, 1)
	b.fake.Refund(a.ID, 1)
	rest, _, err := b.Transactions(t.Context(), a.ID, next, 100)
	if diff := cmp.Diff(want, append(page, rest...)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestManyTransactionsAreListedOnce: both lists have several pages at Stripe.
func TestManyTransactionsAreListedOnce(t *testing.T) {
	b := start(t)
	a := b.opened()
	if _, err := b.Move(t.Context(), onto(a, 23_500, 25_000)); err != nil {
		t.Fatal(err)
	}
	for n := range 230 {
		b.charge(t, a.ID, 10)
		if n%50 == 0 {
			b.fake.Refund(a.ID, 1)
		}
		if n%3 == 0 {
			b.clock.pass(time.Second)
		}
	}
	for _, most := range []int{7, 100} {
		all, seen := b.listed(a.ID, most), map[string]bool{}
		for n, one := range all {
			if seen[one.ID] || (n > 0 && one.At.After(all[n-1].At)) {
				t.Errorf("by %d: transaction %d is %+v", most, n, one)
			}
			seen[one.ID] = true
		}
		if len(all) != 235 {
			t.Errorf("by %d: %d transactions", most, len(all))
		}
	}
	b.fake.Fault("authorizations", vendorfake.Repeated)
	if page, _, err := b.Transactions(t.Context(), a.ID, "", 10); err != nil || page[0].ID == page[1].ID {
		t.Errorf("what is listed twice: %+v, %v", page, err)
	}
}

func TestTransactionsThatAreNotTheCardsAreNotShown(t *testing.T) {
	b := start(t)
	a := b.opened()
	b.charge(t, a.ID, 100)
	b.clock.pass(time.Second)
	b.charge(t, a.ID, 100)
	b.fake.Refund(a.ID, 50)
	for _, op := range []string{"authorizations", "transactions"} {
		for _, mode := range []vendorfake.Mode{
			vendorfake.WrongOwner, vendorfake.WrongCurrency, vendorfake.Inexact, vendorfake.Reordered, vendorfake.Partial,
			stripefake.Plain, stripefake.Forbidden,
		} {
			if !b.fake.Fault(op, mode) {
				t.Fatalf("%s: %s cannot be played", op, mode)
			}
			page, next, err := b.Transactions(t.Context(), a.ID, "", 10)
			if err == nil || refusalCode(err) != "" || page != nil || next != "" {
				t.Errorf("%s: %s: %+v, %q, %v", op, mode, page, next, err)
			}
		}
	}
	for _, cursor := range []string{"none", "1/iauth_none/-", "1/-/ipi_none", "1/../balance/-"} {
		if _, _, err := b.Transactions(t.Context(), a.ID, cursor, 10); refusalCode(err) != fulfilment.RefusedRequest {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
	if _, _, err := b.Transactions(t.Context(), "../balance", "", 10); err == nil {
		t.Error("the transactions of no card were read")
	}
}

// TestFundingLimitAndOwnersLimitsStayApart: each update replaces all controls of the card, and loses none.
func TestFundingLimitAndOwnersLimitsStayApart(t *testing.T) {
	b := start(t)
	on := b.opened()
	operators := stripefake.Limit{Amount: 700, Interval: "weekly"}
	b.fake.Edit(on.ID, func(c *stripefake.Card) { c.Limits = append(c.Limits, operators) })
	target := load
	for _, l := range []card.Limits{
		{Transaction: 300, Month: 900, Blocked: []string{"7995", "4511"}}, {Month: 100, Allowed: []string{"5411"}}, {},
	} {
		if got, err := b.SetLimits(t.Context(), on.ID, l); err != nil || !got.Equal(l) {
			t.Fatalf("set %+v: %+v, %v", l, got, err)
		}
		target += 500
		if _, err := b.Move(t.Context(), onto(on, 500, target)); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Limits(t.Context(), on.ID); err != nil || !got.Equal(l) {
			t.Errorf("after a load: %+v, %v; want %+v", got, err, l)
		}
		limits := b.fake.Cards()[0].Limits
		funding := slices.IndexFunc(limits, func(l stripefake.Limit) bool { return l.Interval == "all_time" })
		if funding < 0 || limits[funding].Amount != int64(target) {
			t.Errorf("with %+v the limit that funds the card is of %+v, want %s", l, limits, target)
		}
		if !slices.ContainsFunc(limits, func(l stripefake.Limit) bool { return l.Interval == operators.Interval }) {
			t.Errorf("with %+v the operator's limit is gone: %+v", l, limits)
		}
	}
}

func TestLimitsThatAreNotAnOwners(t *testing.T) {
	b := start(t)
	on := b.opened()
	if _, err := b.SetLimits(t.Context(), on.ID, card.Limits{Blocked: []string{"0001"}}); refusalCode(err) !=
		card.RefusedCategory {
		t.Errorf("a category that Stripe does not have: %v", err)
	}
	for name, edit := range map[string]func(*stripefake.Card){
		"two per month": func(c *stripefake.Card) {
			c.Limits = append(c.Limits, stripefake.Limit{Amount: 1, Interval: "monthly"},
				stripefake.Limit{Amount: 2, Interval: "monthly"})
		},
		"a category of no document": func(c *stripefake.Card) { c.Allowed = []string{"moon_flights"} },
		"nothing that funds it":     func(c *stripefake.Card) { c.Limits = nil },
	} {
		b := start(t)
		on := b.opened()
		b.fake.Edit(on.ID, edit)
		if _, err := b.SetLimits(t.Context(), on.ID, card.Limits{Transaction: 5}); err == nil || refusalCode(err) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.fake.Edit(on.ID, func(c *stripefake.Card) { c.Status = "canceled" })
	if _, err := b.SetLimits(t.Context(), on.ID, card.Limits{Transaction: 5}); refusalCode(err) != card.RefusedState {
		t.Errorf("a canceled card: %v", err)
	}
}

// TestControlsSayWhyTheyDeclined, as they are when the purchases are read.
func TestControlsSayWhyTheyDeclined(t *testing.T) {
	for name, c := range map[string]struct {
		limits card.Limits
		cents  money.Cents
		want   card.DeclineReason
	}{
		"funds":           {card.Limits{Transaction: 999_999}, 2000, card.DeclinedFunds},
		"per transaction": {card.Limits{Transaction: 300}, 301, card.DeclinedLimit},
		"per month":       {card.Limits{Month: 300}, 301, card.DeclinedLimit},
		"blocked":         {card.Limits{Blocked: []string{"5411"}}, 1, card.DeclinedMerchant},
		"not allowed":     {card.Limits{Allowed: []string{"5812"}}, 1, card.DeclinedMerchant},
	} {
		b := start(t)
		on := b.opened()
		if _, err := b.SetLimits(t.Context(), on.ID, c.limits); err != nil {
			t.Fatal(err)
		}
		b.charge(t, on.ID, c.cents)
		if all := b.listed(on.ID, 10); len(all) != 1 || all[0].Declined != c.want {
			t.Errorf("%s: %+v, want %s", name, all, c.want)
		}
	}
}
