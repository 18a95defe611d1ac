package hostile_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
)

// pages are attacks on the pages that show cards whose issuer shows them there only.
func pages() []attack {
	return []attack{
		{
			name: "card-page-loaded-ahead", by: stranger, do: loadsPages,
			aim: "another's card, or its link used up: the link is loaded by chat clients and scanners of mail, in frames, by " +
				"scripts and from other sites",
			defence: "loading a link shows and uses nothing; the post of the page's own button does, in a window of its own",
		},
		{
			name: "card-page-opened-again", by: watcher, do: opensPagesAgain,
			held:    "store TestCardLinkIsOpenedOnceAndUnlockedOnce",
			aim:     "a card by a link that was read somewhere: with its reader at once, later, or by another spelling",
			defence: "one guarded update opens a link, within a minute; it is stored as a hash and logged nowhere",
		},
		{
			name: "card-page-guessed", ref: "API1", by: owner, do: guessesPages,
			aim:     "another's card by a link of one's own",
			defence: "a link is 256 random bits, made for one card after its owner's signature, and opens no other",
		},
	}
}

// The program sells cards of an issuer that shows them on a page.
func TestHostilePages(t *testing.T) {
	w := newWorld(t)
	vendor := httptest.NewServer(lithicfake.New(lithicfake.Config{}))
	t.Cleanup(func() { vendor.CloseClientConnections(); vendor.Close() })
	w.books.Issuers = []string{vendor.URL + "/control/books"}
	w.start("ISSUER__PROVIDER", lithic.Name, "ISSUER__URL", vendor.URL, "ISSUER__KEY", lithicfake.DevKey,
		"LITHIC__FLOAT_ACCOUNT", lithicfake.Float, "LITHIC__CARD_PROGRAM", lithicfake.Program,
		"LITHIC__TRANSFER", "TRANSFER/ACCOUNT_TO_ACCOUNT/load")
	mount(t, w, pages())
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

// link is the path of a new page of the wallet's card.
func (p *wallet) link(t *trial, card string) string {
	t.Helper()
	c := p.challenge(t, card)
	var shown struct{ Embed struct{ URL string } }
	body := map[string]any{"intentId": c.IntentID, "signature": p.says(t, c.Message)}
	p.post(t, "/api/cards/"+card+"/reveal", body).into(t, &shown)
	token, ours := strings.CutPrefix(shown.Embed.URL, t.base+"/reveal/")
	if !ours || len(token) != 43 {
		t.Fatalf("a link of %d bytes, ours: %t", len(shown.Embed.URL), ours)
	}
	t.keep("a link", token)
	return "/reveal/" + token
}

// shows reports whether an answer has what a card is seen by.
func (a answer) shows() bool { return bytes.Contains(a.body, []byte("session=")) }

// opens presses the button of a page.
func (c *caller) opens(t *trial, path string, headers ...string) answer {
	return c.send(t.Context(), http.MethodPost, path, nil, headers...)
}

func loadsPages(r *trial) {
	p := r.wallet(1000)
	path := p.link(r, p.owns(r))
	stranger := r.caller()
	for name, headers := range map[string][]string{
		"a chat client":   {"User-Agent", "Slackbot-LinkExpanding 1.0"},
		"a mail scanner":  {"Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate"},
		"a prerender":     {"Sec-Purpose", "prefetch;prerender"},
		"a frame":         {"Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "cross-site"},
		"a script":        {"Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"},
		"a link with one": {"Sec-Fetch-Dest", "document", "Referer", "https://evil.example/"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			a := stranger.send(r.Context(), method, path, nil, headers...)
			if a.shows() || a.header.Get("Access-Control-Allow-Origin") != "" {
				r.Errorf("%s of %s: %d %v", method, name, a.status, a.header)
			}
			if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") ||
				a.header.Get("Cache-Control") != "no-store" || a.header.Get("Referrer-Policy") != "no-referrer" {
				r.Errorf("%s of %s: %v", method, name, a.header)
			}
		}
	}
	for name, headers := range map[string][]string{
		"another origin's": {"Origin", "https://evil.example"},
		"another site's":   {"Sec-Fetch-Site", "cross-site", "Origin", "null"},
		"a neighbour's":    {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Dest", "document"},
		"a frame's":        {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "iframe"},
		"a script's":       {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "empty"},
	} {
		if a := stranger.opens(r, path, headers...); a.status != http.StatusForbidden || a.shows() {
			r.Errorf("%s button: %d", name, a.status)
		}
	}
	if a := p.opens(r, path, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "document", "Origin", "null"); a.status !=
		http.StatusOK || !a.shows() {
		r.Errorf("the reader's own button, after all of them: %d", a.status)
	}
}

func opensPagesAgain(r *trial) {
	p, thief := r.wallet(1000), r.caller()
	path := p.link(r, p.owns(r))
	shown := 0
	for _, a := range race(20, func(int) answer { return thief.opens(r, path) }) {
		if a.shows() {
			shown++
		} else if a.status != http.StatusGone && a.status != http.StatusTooManyRequests {
			r.Errorf("%d %.300s", a.status, a.body)
		}
	}
	if shown != 1 {
		r.Errorf("one link was opened %d times", shown)
	}
	for _, spelling := range []string{
		path, path + "=", path + "%0A", path + "%00", path + "/", "/reveal/./" + path[len("/reveal/"):], path + "?again=1",
	} {
		if a := thief.opens(r, spelling); a.status < 400 || a.status >= 500 || a.shows() {
			r.Errorf("%d bytes more: %d", len(spelling)-len(path), a.status)
		}
	}
}

func guessesPages(r *trial) {
	victim, thief := r.wallet(1000), r.wallet(1000)
	card, own := victim.owns(r), thief.owns(r)
	c := thief.challenge(r, own)
	if a := thief.post(r, "/api/cards/"+card+"/reveal", map[string]any{
		"intentId": c.IntentID, "signature": thief.says(r, c.Message),
	}); a.status != http.StatusUnauthorized && a.status != http.StatusNotFound {
		r.Errorf("another's card by one's own signature: %d", a.status)
	}
	path := thief.link(r, own)
	flipped := []byte(path)
	flipped[len("/reveal/")] ^= 1
	for _, guess := range []string{
		string(flipped), strings.ToUpper(path), "/reveal/" + card, "/reveal/" + thief.token, path[:len(path)-1],
		"/reveal/" + strings.Repeat("A", 43), "/reveal/" + strings.Repeat("A", 4<<10),
	} {
		for _, a := range []answer{r.caller().opens(r, guess), r.caller().send(r.Context(), http.MethodGet, guess, nil)} {
			if a.status != http.StatusNotFound || a.shows() {
				r.Errorf("a guess of %d bytes: %d", len(guess), a.status)
			}
		}
	}
	if a := thief.opens(r, path); !a.shows() {
		r.Errorf("one's own card, after all of it: %d", a.status)
	}
}
