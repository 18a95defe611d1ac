package endtoend_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
)

// newestCard is the issuer's name for the newest card.
func (w *world) newestCard() string {
	w.t.Helper()
	cards := w.issuer.books().Cards
	if len(cards) == 0 {
		w.t.Fatal("the issuer has no card")
	}
	return cards[len(cards)-1].ID
}

func (w *world) setCardState(id, state string) {
	w.t.Helper()
	w.issuer.call("POST", "cards/"+id, map[string]any{"state": state})
}

// cardStatus is how an owner's list shows a card.
func (b *buyer) cardStatus(id string) string {
	b.w.t.Helper()
	var list struct{ Cards []struct{ ID, Status string } }
	b.get("/api/cards").into(b.w.t, 200, &list)
	for _, c := range list.Cards {
		if c.ID == id {
			return c.Status
		}
	}
	return "not listed"
}

// TestLockedCardIsNeitherRevealedNorToppedUp, and one that it terminated makes room for another. Nothing is
// paid meanwhile.
func TestLockedCardIsNeitherRevealedNorToppedUp(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{instances: 2})
	b := w.buyer()
	had := b.buyCard("the-first-card")
	card, at := had.Issuance.CardID, w.newestCard()
	open := b.createOrder("/api/orders", "", `{}`)
	paid := len(w.transfersFrom(b.address))
	for state, want := range map[string]string{"locked": "FROZEN"} {
		w.setCardState(at, state)
		// First of all, so that nothing but the claim's own look can know.
		wantProblem(t, "a top-up", b.topUp("top-up-of-a-locked-card", 2500), 409, fault.ActiveCardMissing)
		wantProblem(t, "the terms of an open order", w.send(get(open.path()).on(w.instances[1])),
			409, fault.ActiveCardMissing)
		wantProblem(t, "the balance", b.get("/api/cards/"+card+"/balance"), 409, fault.CardNotActive)
		wantProblem(t, "a reveal", b.post("/api/cards/"+card+"/reveal-challenge", `{}`), 409, fault.CardNotActive)
		wantProblem(t, "another open order", b.post("/api/orders", `{}`), 409, fault.ActiveCardMissing)
		wantProblem(t, "another card", b.buy("a-second-card"), 409, fault.CardAlreadyExists)
		if got := b.cardStatus(card); got != want {
			t.Errorf("listed as %s, want %s", got, want)
		}
	}
	if n := len(w.transfersFrom(b.address)); n != paid {
		t.Errorf("%d payments were made meanwhile", n-paid)
	}
	w.setCardState(at, "live")
	eventually(t, func() (bool, string) { // once what was read of it while it was locked is forgotten
		a := b.get("/api/cards/" + card + "/balance")
		return a.status == 200, clipped(a.body)
	})
	var o paidOrder
	b.topUp("top-up-once-it-is-unlocked", 2500).into(t, 200, &o)
	b.awaitStatus(o.OrderID, "fulfilled")
	w.setCardState(at, "terminated")
	wantProblem(t, "a top-up of a closed card", b.topUp("top-up-of-a-closed-card", 2500), 409, fault.ActiveCardMissing)
	if got := b.cardStatus(card); got != "CLOSED" {
		t.Errorf("listed as %s", got)
	}
	next := b.buyCard("the-next-card")
	if next.Issuance.CardID == card || b.cardStatus(next.Issuance.CardID) != "ACTIVE" || b.cardStatus(card) != "CLOSED" {
		t.Errorf("the next card %+v", next)
	}
	w.checkBooks()
}

// TestClosedCardCanBeReplacedAtOnce: also when nobody has looked at it since.
func TestClosedCardCanBeReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	b.buyCard("the-first-card")
	w.setCardState(w.newestCard(), "terminated")
	b.buyCard("the-next-card")
	w.checkBooks()
}

// TestCardStatesAreSyncedFromIssuer, by a job, and an issuer that is down changes nothing.
func TestCardStatesAreSyncedFromIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: func(c *app.Config) { c.IssuerStatesEvery = time.Second }})
	b := w.buyer()
	had := b.buyCard("a-card")
	stored := func(want string) {
		t.Helper()
		eventually(t, func() (bool, string) {
			n := w.count("SELECT count(*) FROM cards WHERE status = $1", want)
			return n == 1, fmt.Sprintf("%d cards are %s", n, want)
		})
	}
	w.setCardState(w.newestCard(), "locked")
	stored("FROZEN")
	w.setCardState(w.newestCard(), "live")
	stored("ACTIVE")
	w.issuer.fault("*", "error_before", 0, 0)
	w.setCardState(w.newestCard(), "terminated")
	if got := b.cardStatus(had.Issuance.CardID); got != "ACTIVE" {
		t.Errorf("while the issuer is down the card is listed as %s", got)
	}
	wantProblem(t, "a balance meanwhile", b.get("/api/cards/"+had.Issuance.CardID+"/balance"),
		http.StatusServiceUnavailable, fault.DependencyDown)
	w.issuer.clearFaults()
	stored("CLOSED")
	if n := w.count(
		"SELECT count(*) FROM jobs WHERE kind = 'card_states' AND status IN ('failed', 'operator_review')"); n != 0 {
		t.Errorf("%d jobs stay as alarms", n)
	}
}
