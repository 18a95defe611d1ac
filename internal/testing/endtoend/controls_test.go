package endtoend_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

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
	w := newWorld(t, plan{instances: 2})
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

// TestOwnerReadsTransactions: page by page, also those that were declined.
func TestOwnerReadsTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
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

// awaitBalance waits until a card has a balance.
func (b *buyer) awaitBalance(card string, cents int) {
	b.w.t.Helper()
	eventually(b.w.t, 30*time.Second, func() (bool, string) {
		var got struct{ AvailableUsdCents int }
		b.get("/api/cards/"+card+"/balance").into(b.w.t, 200, &got)
		return got.AvailableUsdCents == cents, fmt.Sprint(got.AvailableUsdCents, " cents on the card")
	})
}
