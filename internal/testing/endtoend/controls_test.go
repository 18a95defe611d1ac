package endtoend_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
)

// charge is a merchant's purchase with a card of the issuer, which it may decline.
func (w *world) charge(card string, cents int, merchant string) {
	w.t.Helper()
	w.issuer.call(http.MethodPost, "cards/"+card+"/purchases", map[string]any{
		"amountCents": cents, "merchant": merchant, "category": "5411", "country": "US",
	})
}

// transactions is a page of what a card was used for.
type transactions struct {
	CardID, Currency, NextPageToken string
	Transactions                    []struct {
		ID, At, Kind, Status, DeclineReason string
		AmountUsdCents                      int
		Merchant                            struct{ Name, Category, Country string }
	}
}

// TestOwnerFreezesCard: purchases are declined meanwhile, nothing is paid for it, and only its owner can.
func TestOwnerFreezesCard(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 2)
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	at := w.newestCard()
	b.awaitBalance(card, 1500)
	stranger := w.buyer()
	stranger.signIn()
	for _, act := range []string{"freeze", "unfreeze"} {
		wantProblem(t, "a stranger's "+act, stranger.post("/api/cards/"+card+"/"+act, ``), 404, fault.CardNotFound)
		wantProblem(t, act+" without a session", w.send(post("/api/cards/"+card+"/"+act, ``)), 401, fault.SessionInvalid)
	}

	var got struct{ ID, Status string }
	for range 2 {
		b.post("/api/cards/"+card+"/freeze", ``).into(t, 200, &got)
		if got.ID != card || got.Status != "FROZEN" {
			t.Fatalf("frozen: %+v", got)
		}
	}
	w.charge(at, 100, "Corner shop")
	paid := len(w.transfersFrom(b.address))
	wantProblem(t, "a top-up", b.topUp("top-up-of-a-frozen-card", 2500), 409, fault.ActiveCardMissing)
	wantProblem(t, "the balance", b.get("/api/cards/"+card+"/balance"), 409, fault.CardNotActive)
	if n := len(w.transfersFrom(b.address)); n != paid {
		t.Errorf("%d payments were made meanwhile", n-paid)
	}

	b.post("/api/cards/"+card+"/unfreeze", ``).into(t, 200, &got)
	if got.Status != "ACTIVE" || b.cardStatus(card) != "ACTIVE" {
		t.Errorf("unfrozen: %+v", got)
	}
	w.charge(at, 100, "Corner shop")
	b.awaitBalance(card, 1400)
	var o paidOrder
	b.topUp("top-up-once-it-is-unfrozen", 2500).into(t, 200, &o)
	b.awaitStatus(o.OrderID, "fulfilled")

	w.setCardState(at, "locked")
	wantProblem(t, "undoing the issuer's lock", b.post("/api/cards/"+card+"/unfreeze", ``), 409, fault.CardLocked)
	w.setCardState(at, "live")
	w.checkBooks()
}

// TestOwnersFreezesAtOnceLeaveTheCardToItsOwner, at two instances, with the issuer's list being read meanwhile.
func TestOwnersFreezesAtOnceLeaveTheCardToItsOwner(t *testing.T) {
	onlyTorture(t, "product/card TestFreezingThatTakesEffectLateCanBeUndone, store "+
		"TestOwnersChangeAndMovementsTakeTurns")
	t.Parallel()
	w := newWorld(t, plan{instances: 2})
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	at := w.newestCard()
	b.awaitBalance(card, 1500)
	path := "/api/cards/" + card
	unfrozen := func() {
		t.Helper()
		var last answer
		eventually(t, func() (bool, string) {
			last = b.post(path+"/unfreeze", ``)
			return last.status != http.StatusServiceUnavailable, string(last.body)
		})
		var got struct{ Status string }
		last.into(t, 200, &got)
		if got.Status != "ACTIVE" {
			t.Fatalf("unfrozen: %+v", got)
		}
	}
	for range 5 {
		var all []request
		for n := range 2 * racers {
			act := []string{"/freeze", "/unfreeze"}[n%2]
			all = append(all, request{method: http.MethodPost, path: path + act, header: b.bearer()})
			if n%4 == 0 {
				all = append(all, request{method: http.MethodGet, path: "/api/cards", header: b.bearer()})
			}
		}
		for _, a := range w.race(all) {
			if a.status != 200 && a.status != http.StatusServiceUnavailable {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		unfrozen()
		b.post(path+"/freeze", ``).into(t, 200, nil)
		unfrozen()
	}
	w.setCardState(at, "locked")
	wantProblem(t, "undoing the issuer's lock", b.post(path+"/unfreeze", ``), 409, fault.CardLocked)
	w.setCardState(at, "live")
	w.checkBooks()
}

// TestOwnerReadsTransactions: page by page, also those that were declined.
func TestOwnerReadsTransactions(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	at := w.newestCard()
	b.awaitBalance(card, 1500)
	path := "/api/cards/" + card + "/transactions"
	var page transactions
	b.get(path).into(t, 200, &page)
	if page.CardID != card || page.Currency != "USD" || len(page.Transactions) != 0 || page.NextPageToken != "" {
		t.Errorf("of an unused card: %+v", page)
	}
	for n := range 3 {
		w.charge(at, 100+n, fmt.Sprint("Shop\u202e ", n))
	}
	w.charge(at, 99_999, "Jeweller")

	page = transactions{}
	b.get(path+"?pageSize=3").into(t, 200, &page)
	if len(page.Transactions) != 3 || page.NextPageToken == "" {
		t.Fatalf("the first page: %+v", page)
	}
	first := page.Transactions[0]
	if first.Status != "declined" || first.DeclineReason != "insufficient_funds" || first.AmountUsdCents != 99_999 ||
		first.Kind != "purchase" || first.Merchant.Name != "Jeweller" || first.Merchant.Category != "5411" {
		t.Errorf("what was declined: %+v", first)
	}
	rest := transactions{}
	b.get(path+"?pageSize=3&pageToken="+page.NextPageToken).into(t, 200, &rest)
	if len(rest.Transactions) != 1 || rest.NextPageToken != "" || rest.Transactions[0].Merchant.Name != "Shop 0" {
		t.Errorf("the second page: %+v", rest)
	}
	for _, bad := range []string{"?pageSize=0", "?pageSize=101", "?pageToken=%25", "?pageToken=bm9uZQ"} {
		wantProblem(t, bad, b.get(path+bad), 400, fault.SchemaInvalid)
	}
	stranger := w.buyer()
	stranger.signIn()
	wantProblem(t, "a stranger", stranger.get(path), 404, fault.CardNotFound)
	w.setCardState(at, "terminated")
	b.get(path).into(t, 200, &page)
	w.checkBooks()
}

// vendorCard is a card of a vendor that a test plays, with 15.00 on it.
type vendorCard struct {
	id     string
	charge func(cents int64)
	// lock is what the issuer's staff does to a card that its owner has frozen, and unlock undoes it.
	lock, unlock func()
}

// ownsCard freezes a card, lets it be used, unfreezes it and reads what it was used for.
func (b *buyer) ownsCard(c vendorCard) {
	t, path := b.w.t, "/api/cards/"+c.id
	t.Helper()
	b.awaitBalance(c.id, 1500)
	var got struct{ Status string }
	for range 2 {
		b.post(path+"/freeze", ``).into(t, 200, &got)
		if got.Status != "FROZEN" {
			t.Fatalf("frozen: %+v", got)
		}
	}
	c.charge(100)
	wantProblem(t, "a top-up", b.topUp("top-up-of-a-frozen-card", 2500), 409, fault.ActiveCardMissing)
	c.lock()
	wantProblem(t, "undoing the issuer's lock", b.post(path+"/unfreeze", ``), 409, fault.CardLocked)
	c.unlock()
	b.post(path+"/unfreeze", ``).into(t, 200, &got)
	if got.Status != "ACTIVE" || b.cardStatus(c.id) != "ACTIVE" {
		t.Errorf("unfrozen: %+v", got)
	}
	c.charge(200)
	c.charge(99_999)
	b.awaitBalance(c.id, 1300)

	var all transactions
	for next, pages := "?pageSize=2", 0; pages < 3; pages++ {
		var page transactions
		b.get(path+"/transactions"+next).into(t, 200, &page)
		all.Transactions = append(all.Transactions, page.Transactions...)
		if page.NextPageToken == "" {
			break
		}
		next = "?pageSize=2&pageToken=" + page.NextPageToken
	}
	want := []struct {
		status, reason string
		cents          int
	}{{"declined", "insufficient_funds", 99_999}, {"completed", "", 200}, {"declined", "card_frozen", 100}}
	if len(all.Transactions) != len(want) {
		t.Fatalf("%d transactions: %+v", len(all.Transactions), all.Transactions)
	}
	for n, one := range all.Transactions {
		if one.Status != want[n].status || one.DeclineReason != want[n].reason || one.AmountUsdCents != want[n].cents ||
			one.Kind != "purchase" || one.Merchant.Name != "Corner shop" || one.Merchant.Category != "5411" ||
			one.Merchant.Country != "CH" {
			t.Errorf("transaction %d is %+v, want %+v", n, one, want[n])
		}
	}
	wantProblem(t, "a cursor of no page", b.get(path+"/transactions?pageToken=bm9uZQ"), 400, fault.SchemaInvalid)
}

// limits are those of a card.
type limits struct {
	CardID, Currency                         string
	PerTransactionUsdCents, PerMonthUsdCents int
	AllowedCategories, BlockedCategories     []string
}

// put sends a body with the session.
func (b *buyer) put(path, body string) answer {
	b.w.t.Helper()
	return b.w.send(request{method: http.MethodPut, path: path, body: body, header: b.bearer()})
}

// TestOwnerLimitsCard: purchases beyond the limits are declined, and what is on the card stays.
func TestOwnerLimitsCard(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 2)
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	at := w.newestCard()
	b.awaitBalance(card, 1500)
	path := "/api/cards/" + card + "/limits"
	var got limits
	b.get(path).into(t, 200, &got)
	if got.CardID != card || got.Currency != "USD" || got.PerTransactionUsdCents+got.PerMonthUsdCents != 0 ||
		got.AllowedCategories == nil || got.BlockedCategories == nil {
		t.Errorf("of a new card: %+v", got)
	}
	stranger := w.buyer()
	stranger.signIn()
	wantProblem(t, "a stranger's read", stranger.get(path), 404, fault.CardNotFound)
	wantProblem(t, "a stranger's change", stranger.put(path, `{}`), 404, fault.CardNotFound)
	for _, bad := range []string{
		`{"perTransactionUsdCents":0}`, `{"perMonthUsdCents":1000001}`, `{"perMonthUsdCents":1.5}`,
		`{"allowedCategories":["5411"],"blockedCategories":["7995"]}`, `{"blockedCategories":["541"]}`,
		`{"blockedCategories":["5411","5411"]}`, `{"perYearUsdCents":1}`,
	} {
		wantProblem(t, bad, b.put(path, bad), 400, fault.SchemaInvalid)
	}
	wantProblem(t, "no body", b.put(path, ""), 400, fault.SchemaInvalid)
	for _, step := range []struct {
		set    string
		charge int
		reason string
		left   int
	}{
		{`{"perTransactionUsdCents":300,"perMonthUsdCents":500}`, 301, "limit_exceeded", 1500},
		{`{"perTransactionUsdCents":300,"perMonthUsdCents":500}`, 300, "", 1200},
		{`{"perMonthUsdCents":500}`, 201, "limit_exceeded", 1200},
		{`{"blockedCategories":["5411"]}`, 10, "merchant_not_allowed", 1200},
		{`{"allowedCategories":["5812"]}`, 10, "merchant_not_allowed", 1200},
		{`{"allowedCategories":["5411"],"perTransactionUsdCents":10}`, 10, "", 1190},
		{`{}`, 400, "", 790},
	} {
		for range 2 {
			b.put(path, step.set).into(t, 200, nil)
		}
		w.charge(at, step.charge, "Corner shop")
		b.awaitBalance(card, step.left)
		var page transactions
		b.get("/api/cards/"+card+"/transactions?pageSize=1").into(t, 200, &page)
		if len(page.Transactions) != 1 || page.Transactions[0].DeclineReason != step.reason ||
			page.Transactions[0].AmountUsdCents != step.charge {
			t.Errorf("%s: %+v, want it declined for %q", step.set, page.Transactions, step.reason)
		}
	}
	w.checkBooks()
}

// details are what merchants ask for with a card.
type details struct {
	CardID         string
	BillingAddress *struct{ Name, Line1, Line2, City, Region, PostalCode, Country string }
	ThreeDSecure   *struct{ Method, Destination, Instructions string }
}

// readsDetails reads what merchants ask for with a card, which the discovery has promised before.
func (b *buyer) readsDetails(card, method string) (d details) {
	t := b.w.t
	t.Helper()
	a := b.get("/api/cards/" + card + "/details")
	a.into(t, 200, &d)
	if d.CardID != card || d.BillingAddress == nil || d.BillingAddress.PostalCode != "19901" ||
		d.BillingAddress.Country != "US" || d.ThreeDSecure == nil || d.ThreeDSecure.Method != method {
		t.Errorf("the details are %s", a.body)
	}
	if a.header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("the details may be stored: %v", a.header)
	}
	var promised struct {
		Controls struct {
			Details             string
			BillingAddress      bool
			ThreeDSecureMethods []string
		}
	}
	b.w.send(request{method: http.MethodGet, path: "/api/card/discovery"}).into(t, 200, &promised)
	if c := promised.Controls; c.Details != "GET /api/cards/{id}/details" || !c.BillingAddress ||
		!slices.Contains(c.ThreeDSecureMethods, method) {
		t.Errorf("the discovery promises %+v", c)
	}
	stranger := b.w.buyer()
	stranger.signIn()
	wantProblem(t, "a stranger's read", stranger.get("/api/cards/"+card+"/details"), 404, fault.CardNotFound)
	return d
}

// TestOwnerReadsBillingAddress of a card of the sandbox.
func TestOwnerReadsBillingAddress(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	b.awaitBalance(card, 1500)
	if d := b.readsDetails(card, "automatic"); d.ThreeDSecure.Destination+d.ThreeDSecure.Instructions != "" {
		t.Errorf("nobody is asked: %+v", d.ThreeDSecure)
	}
}

// limitsCard limits a card that a test plays the vendor of, with a top-up between the limits. It has 13.00 on it.
func (b *buyer) limitsCard(c vendorCard, month bool) {
	t, path := b.w.t, "/api/cards/"+c.id+"/limits"
	t.Helper()
	set := `{"perTransactionUsdCents":300}`
	if month {
		set = `{"perTransactionUsdCents":300,"perMonthUsdCents":100000,"blockedCategories":["7995"]}`
	}
	var before, after limits
	b.put(path, set).into(t, 200, &before)
	c.charge(301)
	b.awaitBalance(c.id, 1300)
	var page transactions
	b.get("/api/cards/"+c.id+"/transactions?pageSize=1").into(t, 200, &page)
	if len(page.Transactions) != 1 || page.Transactions[0].DeclineReason != "limit_exceeded" {
		t.Errorf("beyond the limit: %+v", page.Transactions)
	}
	var o paidOrder
	b.topUp("top-up-of-a-limited-card", 2500).into(t, 200, &o)
	b.awaitStatus(o.OrderID, "fulfilled")
	b.awaitBalance(c.id, 3750)
	b.get(path).into(t, 200, &after)
	if fmt.Sprint(before) != fmt.Sprint(after) || after.PerTransactionUsdCents != 300 {
		t.Errorf("the limits were %+v, and are %+v after a top-up", before, after)
	}
	b.put(path, `{}`).into(t, 200, nil)
	b.awaitBalance(c.id, 3750)
	c.charge(3751)
	c.charge(301)
	b.awaitBalance(c.id, 3449)
}

// awaitBalance waits until a card has a balance.
func (b *buyer) awaitBalance(card string, cents int) {
	b.w.t.Helper()
	eventually(b.w.t, func() (bool, string) {
		var got struct{ AvailableUsdCents int }
		b.get("/api/cards/"+card+"/balance").into(b.w.t, 200, &got)
		return got.AvailableUsdCents == cents, fmt.Sprint(got.AvailableUsdCents, " cents on the card")
	})
}
