package endtoend_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/limit"
)

// statusView is what anybody sees of how the service stands.
type statusView struct {
	Status   string
	AsOf     time.Time
	Products []struct {
		Product, Title, Status, Reason string
		Since                          time.Time
		Delivery                       *struct{ MedianMs, Count int }
	}
}

// word is the status of a product.
func (s statusView) word(product string) string {
	for _, p := range s.Products {
		if p.Product == product {
			return p.Status
		}
	}
	return "not shown"
}

// awaitStatusOf asks until a product has a status: an answer is cached for some seconds.
func (w *world) awaitStatusOf(product, want string) (s statusView, text string) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(get("/api/status"))
		s = statusView{}
		a.into(w.t, http.StatusOK, &s)
		text = string(a.body)
		return s.word(product) == want, text
	})
	return s, text
}

// TestStatusTellsStrangersHowEachProductStands: in JSON and on a page, without a word of providers, floats or reasons.
func TestStatusTellsStrangersHowEachProductStands(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) {
		c.TopupPaused, c.Limits = true, limit.Rates{limit.Poll: {Count: 1000, Per: time.Minute}}
	}})
	b := w.buyer()
	b.buyCard("k")
	s, _ := w.awaitStatusOf("card_issue", "open")
	if s.word("card_topup") != "paused" || s.word("esim") == "not shown" {
		t.Errorf("%+v", s)
	}
	eventually(t, func() (bool, string) {
		s, text := w.awaitStatusOf("card_issue", "open")
		d := s.Products[0].Delivery
		return d != nil && d.Count == 1 && d.MedianMs < 600_000, text
	})

	before := time.Now().Add(-time.Minute)
	w.setSwitch("card_issue", true, "1")
	s, text := w.awaitStatusOf("card_issue", "paused")
	if p := s.Products[0]; p.Reason == "" || p.Title != "Cards" || p.Since.Before(before) || p.Since.After(s.AsOf) {
		t.Errorf("%+v", p)
	}
	page := w.send(get("/status"))
	wantStatus(t, "the page", page, http.StatusOK)
	if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") ||
		!strings.Contains(string(page.body), "<h2>Cards</h2>\n<p class=\"state paused\">Paused</p>") {
		t.Errorf("%s\n%s", page.header, page.body)
	}
	for _, secret := range []string{"drill", "sandbox", "float", "issuer", "supplier", "USDC"} {
		if strings.Contains(text+string(page.body), secret) {
			t.Errorf("%q is shown to strangers", secret)
		}
	}
	if page.header.Get("Ratelimit-Limit") == "" {
		t.Error("the page is not counted by the address's limits")
	}
	style := w.send(get("/status/style.css"))
	wantStatus(t, "the style", style, http.StatusOK)
}

// TestStatusIsDegradedWhileAProviderFails, and open again afterwards.
func TestStatusIsDegradedWhileAProviderFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	w.awaitStatusOf("card_issue", "open")
	w.issuer.setFloat(0)
	s, text := w.awaitStatusOf("card_issue", "degraded")
	if s.Status != "degraded" || s.Products[0].Reason == "" || strings.Contains(text, "float") {
		t.Errorf("%s", text)
	}
	w.issuer.setFloat(10_000_000)
	w.awaitStatusOf("card_issue", "open")
}
