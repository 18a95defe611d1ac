package endtoend_test

import (
	"net/http/httptest"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// lithicFloat is what the account has that cards are loaded from.
const lithicFloat = 10_000_000

// newLithicWorld sells cards of Lithic, which the fake plays, and reveals them in this way.
func newLithicWorld(t *testing.T, reveal string) (*world, *lithicfake.Server) {
	t.Helper()
	fake := lithicfake.New(lithicfake.Config{Float: lithicFloat, Numbers: reveal == "inline"})
	web := httptest.NewServer(fake)
	t.Cleanup(web.Close)
	return newAdminWorld(t, 100_000_000, plan{change: func(c *app.Config) {
		c.IssuerProvider, c.IssuerURL, c.IssuerKey = lithic.Name, web.URL, secret.New(lithicfake.DevKey)
		c.Own = provider.Values{
			lithic.FloatKey: secret.New(lithicfake.Float), lithic.ProgramKey: secret.New(lithicfake.Program),
			lithic.TransferKey: secret.New("TRANSFER/ACCOUNT_TO_ACCOUNT/load"), lithic.RevealKey: secret.New(reveal),
			lithic.BillingKey:      secret.New("Programme Inc; 1 Programme Street; ; Dover; DE; 19901; US"),
			lithic.ChallengeKey:    secret.New("out_of_band"),
			lithic.InstructionsKey: secret.New("Approve it with the operator."),
		}
	}}), fake
}

// wantBooks wants the vendor to have made so many cards and transfers, each once, and no money out of nothing.
func wantBooks(t *testing.T, fake *lithicfake.Server, cards, transfers int) {
	t.Helper()
	on, moved, memos := map[string]int64{}, map[string]bool{}, map[string]bool{}
	for _, one := range fake.Transfers() {
		if moved[one.Token] || one.Status != "SETTLED" {
			t.Errorf("the transfer %+v", one)
		}
		moved[one.Token] = true
		on[one.From] -= one.Amount
		on[one.To] += one.Amount
	}
	for _, one := range fake.Cards() {
		if memos[one.Memo] || on[one.Token] != one.Balance || one.Balance < 0 {
			t.Errorf("the card %+v was moved %d", one, on[one.Token])
		}
		memos[one.Memo] = true
	}
	if float := fake.FloatBalance(); float != lithicFloat+on[lithicfake.Float] {
		t.Errorf("the float is %d and was moved %d", float, on[lithicfake.Float])
	}
	if len(memos) != cards || len(moved) != transfers {
		t.Errorf("%d cards and %d transfers, want %d and %d", len(memos), len(moved), cards, transfers)
	}
}

func TestBuyerUsesACardOfLithic(t *testing.T) {
	t.Parallel()
	w, fake := newLithicWorld(t, "inline")
	b := w.buyer()
	o := b.buyCard("a-card-of-lithic-1")
	b.topUp("a-load-of-lithic-1", 2500).into(t, 200, nil)
	w.awaitSettled()
	wantBooks(t, fake, 1, 3)
	made := fake.Cards()[0]

	var shown struct {
		Credentials struct{ Number string } `json:"credentials"`
	}
	b.reveal(o.Issuance.CardID).into(t, 200, &shown)
	if shown.Credentials.Number != made.Number {
		t.Error("the card that is shown is another")
	}
	w.wantFindings("the books of Lithic and ours")
	if asked := w.issuer.books().Requests; len(asked) > 0 {
		t.Errorf("the sandbox was asked for %v", asked)
	}

	// What the vendor does is seen: a card that it pauses takes no top-up.
	fake.SetState(made.Token, "PAUSED")
	wantProblem(t, "a top-up of a paused card", b.topUp("a-load-of-lithic-2", 2500), 409, fault.ActiveCardMissing)
	fake.SetState(made.Token, "OPEN")
	// So is what is spent, and money that nobody accounts for: the books are told by the vendor's events.
	fake.Spend(made.Token, 300)
	w.wantFindings("after a purchase with the card")
	fake.Donate(made.Token, 1000, "a gift")
	w.wantFindings("with money of somebody else's on the card", reconcile.CardBalanceHigh)
}

// TestAnswersOfLithicThatAreLostCostNothingTwice: of each step the answer is lost once, or the request before it.
func TestAnswersOfLithicThatAreLostCostNothingTwice(t *testing.T) {
	onlyTorture(t, "provider/lithic TestLithicPassesTheKit")
	t.Parallel()
	w, fake := newLithicWorld(t, "inline")
	b := w.buyer()
	fake.Fault("open", vendorfake.TimeoutAfter)
	fake.Fault("move", vendorfake.TimeoutBefore)
	fake.Fault("account", vendorfake.ErrorBefore)
	o := b.buyCard("a-card-of-lithic-1")
	if o.Issuance.CardID == "" {
		t.Errorf("bought %+v", o)
	}
	w.awaitSettled()
	wantBooks(t, fake, 1, 2)
	fake.Fault("move", vendorfake.TimeoutAfter)
	fake.Fault("moved", vendorfake.RateLimited)
	loaded := b.topUp("a-load-of-lithic-1", 2500)
	if loaded.status != 200 && loaded.status != 202 {
		t.Errorf("the top-up: %d %s", loaded.status, loaded.body)
	}
	w.awaitSettled()
	wantBooks(t, fake, 1, 3)
	w.wantFindings("the books of Lithic and ours")
}

func TestOwnerFreezesACardOfLithic(t *testing.T) {
	onlyTorture(t, "provider/lithic TestWhatStaffHasPausedStaysPaused and its kit")
	t.Parallel()
	w, fake := newLithicWorld(t, "inline")
	b := w.buyer()
	o := b.buyCard("a-card-of-lithic-1")
	w.awaitSettled()
	at := fake.Cards()[0].Token
	own := vendorCard{
		id: o.Issuance.CardID,
		charge: func(cents int64) {
			fake.Charge(at, cents, lithicfake.Merchant{Name: "Corner shop", Category: "5411", Country: "CHE"})
		},
		lock:   func() { fake.SetReason(at, "PAUSED", "INTERNAL_REVIEW") },
		unlock: func() { fake.SetReason(at, "PAUSED", "") },
	}
	b.ownsCard(own)
	if d := b.readsDetails(own.id, "out_of_band"); d.ThreeDSecure.Instructions != "Approve it with the operator." {
		t.Errorf("the instructions are %+v", d.ThreeDSecure)
	}
	b.limitsCard(own, false)
	for _, missing := range []string{
		`{"perTransactionUsdCents":1,"perMonthUsdCents":1}`, `{"allowedCategories":["5411"]}`,
	} {
		wantProblem(t, missing, b.put("/api/cards/"+own.id+"/limits", missing), 409, fault.CardControlMissing)
	}
	w.wantFindings("the books of Lithic and ours")
}
