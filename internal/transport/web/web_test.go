package web_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/transport/web"
)

// cards have one link, "once", which is used by whoever opens it.
type cards struct {
	shown           card.Shown
	opened, unlocks int
	fails           error
}

func (c *cards) CheckLink(_ context.Context, token string) error {
	switch {
	case token != "once":
		return card.ErrNotFound
	case c.opened > 0:
		return card.ErrLinkUsed
	default:
		return nil
	}
}

func (c *cards) OpenLink(_ context.Context, token string) (card.Shown, secret.Text, error) {
	if token != "once" {
		return card.Shown{}, secret.Text{}, card.ErrNotFound
	}
	if c.opened++; c.opened > 1 {
		return card.Shown{}, secret.Text{}, card.ErrLinkUsed
	}
	return c.shown, secret.New("second half"), c.fails
}

func (c *cards) Unlock(_ context.Context, token, nonce string) (secret.Text, error) {
	if token != "second half" || nonce != "n1" {
		return secret.Text{}, card.ErrNotFound
	}
	if c.unlocks++; c.unlocks > 1 {
		return secret.Text{}, card.ErrLinkUsed
	}
	return secret.New("the key"), c.fails
}

const origin = "https://cards.example"

func serve(c *cards, parts card.PageParts) http.Handler {
	mux := http.NewServeMux()
	pages := web.RevealPages(web.Config{Cards: c, Parts: parts, Origin: origin, Log: slog.New(slog.DiscardHandler)})
	for pattern, handler := range pages {
		mux.Handle(pattern, handler)
	}
	return mux
}

func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var framed = card.Shown{Frames: []card.Frame{{Title: "Number",
	URL: secret.New("https://vendor.example/f?session=s&type=n")}}}

func TestRevealPageIsShownOnce(t *testing.T) {
	c := &cards{shown: framed}
	h := serve(c, card.PageParts{Frames: []string{"https://vendor.example"}})
	// None of these is a person who opens the page.
	for name, r := range map[string]*httptest.ResponseRecorder{
		"a frame":               ask(h, http.MethodGet, "/reveal/once", "", "Sec-Fetch-Dest", "iframe"),
		"a script":              ask(h, http.MethodGet, "/reveal/once", "", "Sec-Fetch-Dest", "empty"),
		"a prefetch":            ask(h, http.MethodGet, "/reveal/once", "", "Sec-Purpose", "prefetch;prerender"),
		"a wrong token":         ask(h, http.MethodGet, "/reveal/twice", ""),
		"a wrong token, opened": ask(h, http.MethodPost, "/reveal/twice", ""),
		"a frame's button":      ask(h, http.MethodPost, "/reveal/once", "", "Sec-Fetch-Dest", "iframe"),
		"a script's post":       ask(h, http.MethodPost, "/reveal/once", "", "Sec-Fetch-Dest", "empty"),
		"another site's button": ask(h, http.MethodPost, "/reveal/once", "", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site",
			"cross-site", "Origin", "null"),
		"another origin's button": ask(h, http.MethodPost, "/reveal/once", "", "Origin", "https://evil.example"),
	} {
		if r.Code < 400 || strings.Contains(r.Body.String(), "session") || c.opened > 0 {
			t.Errorf("%s: %d, opened %d times", name, r.Code, c.opened)
		}
	}
	// Neither is who loads the link ahead, as chat clients and scanners of mail do.
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		offered := ask(h, method, "/reveal/once", "")
		const asks = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
		text, head := offered.Body.String(), offered.Header()
		if offered.Code != http.StatusOK || c.opened > 0 || strings.Contains(text, "session") ||
			!strings.Contains(text, `<form method="post"><button`) || head.Get("Refresh") != "" ||
			head.Get("Content-Security-Policy") != asks || head.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d, opened %d times: %s %v", offered.Code, c.opened, text, head)
		}
	}
	first := ask(h, http.MethodPost, "/reveal/once", "", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "same-origin",
		"Origin", "null")
	if first.Code != http.StatusOK ||
		!strings.Contains(first.Body.String(), `<iframe src="https://vendor.example/f?session=s&amp;type=n"`) ||
		strings.Contains(first.Body.String(), "second half") || strings.Contains(first.Body.String(), "<form") {
		t.Errorf("%d %s", first.Code, first.Body)
	}
	second := ask(h, http.MethodGet, "/reveal/once", "")
	if second.Code != http.StatusGone || strings.Contains(second.Body.String(), "session") {
		t.Errorf("again: %d %s", second.Code, second.Body)
	}
	if posted := ask(h, http.MethodPost, "/reveal/once", ""); posted.Code != http.StatusGone ||
		strings.Contains(posted.Body.String(), "session") {
		t.Errorf("opened again: %d %s", posted.Code, posted.Body)
	}
	const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	want := map[string]string{
		"Content-Security-Policy": policy + "; frame-src https://vendor.example", "Cache-Control": "no-store",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		"Content-Type": "text/html; charset=utf-8",
	}
	for _, r := range []*httptest.ResponseRecorder{first, second} {
		if r == second {
			want["Content-Security-Policy"] = policy
		}
		got := map[string]string{}
		for name := range want {
			got[name] = r.Header().Get(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers of a %d: %s", r.Code, diff)
		}
	}
	if first.Header().Get("Refresh") != "60" || second.Header().Get("Refresh") != "" {
		t.Error("the card stays in the window, or what is left of it is loaded again and again")
	}
	if style := ask(h, http.MethodGet, "/reveal/page/style.css", ""); style.Code != http.StatusOK {
		t.Errorf("the style: %d", style.Code)
	}
	if got := ask(h, http.MethodPost, "/reveal/page/unlock", "{}"); got.Code < 400 {
		t.Errorf("a page without a script is unlocked: %d", got.Code)
	}
}

var scripted = card.PageParts{
	Frames: []string{"https://js.vendor.example"}, Scripts: []string{"https://js.vendor.example"},
	Connects: []string{"https://api.vendor.example"}, VendorScript: "https://js.vendor.example/v.js",
	Script: []byte("// ours"),
}

func TestRevealPageIsUnlockedOnceByItsOwnScript(t *testing.T) {
	c := &cards{shown: card.Shown{Values: []card.Value{{Name: "card", Content: `c"1`}}}}
	h := serve(c, scripted)
	page := ask(h, http.MethodPost, "/reveal/once", "")
	for _, part := range []string{
		`<meta name="unlock" content="second half">`, `<meta name="card" content="c&#34;1">`,
		`<script src="https://js.vendor.example/v.js" defer></script>`, `<dd id="number"></dd>`,
	} {
		if !strings.Contains(page.Body.String(), part) {
			t.Errorf("the page has no %s: %s", part, page.Body)
		}
	}
	if policy := page.Header().Get("Content-Security-Policy"); !strings.HasSuffix(policy,
		"frame-src https://js.vendor.example; script-src 'self' https://js.vendor.example; "+
			"connect-src 'self' https://api.vendor.example") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
	if script := ask(h, http.MethodGet, "/reveal/page/script.js", ""); script.Body.String() != "// ours" {
		t.Errorf("the script is %s", script.Body)
	}
	const body, kind = `{"token":"second half","nonce":"n1"}`, "application/json"
	for name, r := range map[string]*httptest.ResponseRecorder{
		"another origin": ask(h, http.MethodPost, "/reveal/page/unlock", body, "Content-Type", kind, "Origin",
			"https://evil.example"),
		"an origin that is not told": ask(h, http.MethodPost, "/reveal/page/unlock", body, "Content-Type", kind, "Origin",
			"null"),
		"no origin": ask(h, http.MethodPost, "/reveal/page/unlock", body, "Content-Type", kind),
		"another site": ask(h, http.MethodPost, "/reveal/page/unlock", body, "Content-Type", kind, "Origin", origin,
			"Sec-Fetch-Site", "cross-site"),
		"a form": ask(h, http.MethodPost, "/reveal/page/unlock", body, "Content-Type", "text/plain", "Origin", origin),
		"no nonce": ask(h, http.MethodPost, "/reveal/page/unlock", `{"token":"second half"}`, "Content-Type", kind, "Origin",
			origin),
		"the link's token": ask(h, http.MethodPost, "/reveal/page/unlock", `{"token":"once","nonce":"n1"}`, "Content-Type",
			kind, "Origin", origin),
		"a long body": ask(h, http.MethodPost, "/reveal/page/unlock", strings.Repeat(" ", 3000)+body, "Content-Type", kind,
			"Origin", origin),
	} {
		if r.Code < 400 || c.unlocks > 0 {
			t.Errorf("%s: %d, unlocked %d times", name, r.Code, c.unlocks)
		}
	}
	for n, want := range []int{http.StatusOK, http.StatusGone} {
		got := ask(h, http.MethodPost, "/reveal/page/unlock", body, "Content-Type", kind, "Sec-Fetch-Site", "same-origin")
		if got.Code != want || strings.Contains(got.Body.String(), `{"secret":"the key"}`) != (n == 0) ||
			got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d: %d %s", n, got.Code, got.Body)
		}
	}
}

func TestRevealPageSaysWhatWentWrongAndNothingMore(t *testing.T) {
	for _, v := range []struct {
		fails error
		code  int
		says  string
	}{
		{fault.New(fault.CardNotActive, "The card is FROZEN."), http.StatusConflict, "The card is FROZEN."},
		{
			errors.Join(errors.New("inner"), fault.New(fault.DependencyDown, "The card issuer does not answer.")),
			http.StatusServiceUnavailable, "The card issuer does not answer.",
		},
		{errors.New("inner"), http.StatusInternalServerError, "cannot be shown now"},
	} {
		got := ask(serve(&cards{fails: v.fails}, card.PageParts{}), http.MethodPost, "/reveal/once", "")
		if text := got.Body.String(); got.Code != v.code || !strings.Contains(text, v.says) ||
			strings.Contains(text, "inner") {
			t.Errorf("%v: %d %s", v.fails, got.Code, text)
		}
	}
}
