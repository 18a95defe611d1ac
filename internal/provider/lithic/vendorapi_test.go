package lithic_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/testing/vendorapi"
)

const document = "lithic.yml"

// TestRequestsAndAnswersMatchTheDocument: every request that the adapter can send, and every answer of the fake.
func TestRequestsAndAnswersMatchTheDocument(t *testing.T) {
	b := start(t, lithicfake.Config{PageSize: 2}, true)
	v := vendorapi.Prism(t, document, b.web.URL)
	b.config.URL, b.config.HTTP = v.URL, v.Client()
	b.Issuer = dial(t, b.config)
	var all []card.Account
	for range 3 {
		all = append(all, b.opened(2500))
	}
	a := all[0]
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 1000}
	for _, m := range []card.Movement{
		m, {Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Withdrawal, Amount: 1000},
		{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Withdrawal, Amount: 1_000_000}, // declined
	} {
		if _, err := b.Move(t.Context(), m); err != nil {
			t.Errorf("%s: %v", m.Direction, err)
		}
	}
	if moved, err := b.Moved(t.Context(), a.ID, m.Ref); err != nil || moved.State != card.MoveSucceeded {
		t.Errorf("%+v, %v", moved, err)
	}
	if _, err := b.Moved(t.Context(), a.ID, fulfilmenttest.NewRef()); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("a transfer that never was: %v", err)
	}
	b.wantBalance(a.ID, 2500)
	if _, err := b.Credentials(t.Context(), a.ID); err != nil {
		t.Errorf("credentials: %v", err)
	}
	if _, err := b.Show(t.Context(), a.ID,
		card.Look{Origin: "https://cards.example", Until: b.clock.now().Add(time.Minute)}); err != nil {
		t.Errorf("show: %v", err)
	}
	b.clock.pass(time.Second)
	if said, err := b.Probe(t.Context()); err != nil {
		t.Errorf("%s, %v", said, err)
	}
	got := books{}
	next := b.read(got, "")
	b.clock.pass(time.Hour)
	b.fake.SetState(a.ID, "PAUSED")
	b.clock.pass(time.Second)
	b.read(got, next)
	b.want(got)
	b.useControls(a.ID)
	b.fake.SetFloat(1)
	if refused, err := b.Open(t.Context(), opening(2500)); err != nil || refused.State != card.AccountRejected {
		t.Errorf("%+v, %v", refused, err)
	}
	m.Amount++ // the token was used: the vendor rejects it
	_, err := b.Move(t.Context(), m)
	b.handles().WantUnknown(t, err)
	closed := b.fake.Cards()[3].Token
	for what, least := range map[string]int{
		"POST /v1/cards": 4, "GET /v1/cards": 8, "GET /v1/cards/" + a.ID: 2, "PATCH /v1/cards/" + closed: 1,
		"PATCH /v1/cards/" + a.ID: 3, "GET /v1/transactions": 5,
		"POST /v1/cards/" + a.ID + "/embed":   1,
		"GET /v1/cards/" + a.ID + "/balances": 3, "GET /v1/financial_accounts/" + lithicfake.Float + "/balances": 1,
		"GET /v1/card_programs/" + lithicfake.Program: 1, "POST /v1/book_transfers": 8, "GET /v1/book_transfers": 2,
		"GET /v1/book_transfers/" + m.Ref.String(): 2, "GET /v1/events": 2,
	} {
		if n := v.Checked()[what]; n < least {
			t.Errorf("%s was checked %d times, want %d", what, n, least)
		}
	}
}

// useControls makes the requests of owner's controls, with every form of their answers.
func (b *bench) useControls(account string) {
	b.Helper()
	for _, status := range []string{"SETTLED", "PENDING", "VOIDED", "EXPIRED", "DECLINED"} {
		p := b.fake.Charge(account, 100, lithicfake.AShop)
		b.fake.EditPurchase(p.Token, func(p *lithicfake.Purchase) { p.Status = status })
	}
	b.fake.Charge(account, 1_000_000, lithicfake.AShop)
	b.fake.Return(account, 100)
	b.fake.SetReason(account, "OPEN", "INTERNAL_REVIEW")
	if _, err := b.SetFrozen(b.Context(), account, true); err != nil {
		b.Errorf("freeze: %v", err)
	}
	if _, err := b.SetFrozen(b.Context(), account, false); refusalOf(err) == nil {
		b.Errorf("a pause with a reason is undone: %v", err)
	}
	b.fake.SetReason(account, "PAUSED", "")
	for _, frozen := range []bool{false, true} {
		if _, err := b.SetFrozen(b.Context(), account, frozen); err != nil {
			b.Errorf("frozen %t: %v", frozen, err)
		}
	}
	for _, l := range []card.Limits{{Transaction: 300}, {Month: 300}, {}} {
		if _, err := b.SetLimits(b.Context(), account, l); err != nil {
			b.Errorf("set %+v: %v", l, err)
		}
		b.fake.Charge(account, 301, lithicfake.AShop)
	}
	if all := b.listed(account, 2); len(all) < 7 {
		b.Errorf("%d transactions", len(all))
	}
	if _, _, err := b.Transactions(b.Context(), account, newToken().String(), 10); refusalOf(err) == nil {
		b.Errorf("a cursor of no page: %v", err)
	}
}

// TestValidatorFindsWhatDoesNotMatch keeps the test above from passing although nothing is checked.
func TestValidatorFindsWhatDoesNotMatch(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/balances") {
			b.web.Config.Handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"data":[{"available_amount":"much"}],"has_more":false}`))
	}))
	defer upstream.Close()
	v := vendorapi.Prism(t, document, upstream.URL)
	a := fulfilmenttest.NewRef().String()
	for name, c := range map[string]struct {
		method, path, body string
	}{
		"an enum":       {http.MethodPost, "/v1/cards", `{"type":"PAPER"}`},
		"no member":     {http.MethodPost, "/v1/cards", `{"state":"OPEN"}`},
		"a wrong type":  {http.MethodPost, "/v1/book_transfers", `{"amount":"12"}`},
		"a wrong path":  {http.MethodGet, "/v1/purses", ``},
		"a query":       {http.MethodGet, "/v1/cards?page_size=1000", ``},
		"an odd answer": {http.MethodGet, "/v1/cards/" + a + "/balances", ``},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, v.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", lithicfake.DevKey)
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := v.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if found := v.Violations(); len(found) != 1 {
			t.Errorf("%s: %s %s %s: %q", name, c.method, c.path, c.body, found)
		}
	}
}
