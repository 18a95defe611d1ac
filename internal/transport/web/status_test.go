package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/transport/web"
)

// board reports what it is given.
type board availability.Report

func (b board) Report(context.Context) (availability.Report, error) {
	return availability.Report(b), nil
}

func TestStatusPageShowsEveryProduct(t *testing.T) {
	at := time.Date(2026, 5, 4, 10, 20, 30, 0, time.UTC)
	mux := http.NewServeMux()
	for pattern, handler := range web.StatusPage(board{At: at, Products: []availability.Status{
		{Product: "a", Title: "Cards", State: availability.StateOpen, Since: at.Add(-time.Hour),
			Delivery: availability.DeliveryTime{Median: 2400 * time.Millisecond, Count: 3}},
		{Product: "b", Title: "<b>Plans", State: availability.StateDegraded, Reason: "Late & slow.", Since: at,
			Delivery: availability.DeliveryTime{Median: 90 * time.Minute, Count: 1}},
		{Product: "c", Title: "Data", State: availability.StatePaused, Reason: "Closed.", Since: at},
	}}) {
		mux.Handle(pattern, handler)
	}
	w := ask(mux, "GET", web.StatusPath, "")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %s", w.Code, w.Header())
	}
	page := w.Body.String()
	for _, want := range []string{
		"<h1>Some things do not work</h1>", "2026-05-04 10:20Z", "<h2>Cards</h2>", "2026-05-04 09:20Z",
		"Delivered in 2 s", `<p class="state open">Open</p>`, "<h2>&lt;b&gt;Plans</h2>", "Late &amp; slow.",
		"Delivered in 90 min", `<p class="state degraded">Degraded</p>`, `<p class="state paused">Paused</p>`,
		"Nothing delivered in the last hour", `href="/api/status"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, never := range []string{"<script", "style=", "<style", "http:", "https:", "onload"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'; style-src 'self'") || strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "script-src") {
		t.Errorf("the policy is %q", policy)
	}
	style := ask(mux, "GET", "/status/style.css", "")
	for _, want := range []string{"prefers-color-scheme: dark", "overflow-wrap"} {
		if style.Code != http.StatusOK || !strings.Contains(style.Body.String(), want) {
			t.Errorf("the style lacks %q: %d", want, style.Code)
		}
	}
	if strings.Contains(style.Body.String(), "url(") {
		t.Error("the style loads something")
	}
}
