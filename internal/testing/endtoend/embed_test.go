package endtoend_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// page is a page that shows a card, as a browser gets it.
type page struct {
	answer
	frames []string
	meta   map[string]string
}

var (
	iframes = regexp.MustCompile(`<iframe src="([^"]+)"`)
	metas   = regexp.MustCompile(`<meta name="([a-z-]+)" content="([^"]*)">`)
)

// browse opens a page of the service's, and presses its button.
func (b *buyer) browse(path string) page {
	b.w.t.Helper()
	offered := b.load(get(path))
	if offered.status != 200 {
		return offered
	}
	if len(offered.frames) > 0 || offered.meta["unlock"] != "" || !strings.Contains(string(offered.body), "<button ") {
		b.w.t.Errorf("what the link loads: %s", offered.body)
	}
	return b.load(post(path, "").with(map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "null"}))
}

func (b *buyer) load(r request) page {
	b.w.t.Helper()
	p := page{
		answer: b.w.send(r.with(map[string]string{"Sec-Fetch-Dest": "document", "X-Forwarded-For": b.clientIP})),
		meta:   map[string]string{},
	}
	for _, found := range iframes.FindAllStringSubmatch(string(p.body), -1) {
		p.frames = append(p.frames, html.UnescapeString(found[1]))
	}
	for _, found := range metas.FindAllStringSubmatch(string(p.body), -1) {
		p.meta[found[1]] = html.UnescapeString(found[2])
	}
	return p
}

// link is the path of the page that shows a card.
func (b *buyer) link(card string) string {
	b.w.t.Helper()
	var shown struct {
		Credentials, Sealed any
		Embed               struct {
			URL       string
			ExpiresAt time.Time
		}
	}
	b.reveal(card).into(b.w.t, 200, &shown)
	path, ours := strings.CutPrefix(shown.Embed.URL, origin)
	if wait := time.Until(shown.Embed.ExpiresAt); !ours || !strings.HasPrefix(path, "/reveal/") || len(path) != len(
		"/reveal/")+43 || shown.Credentials != nil || shown.Sealed != nil || wait > time.Minute {
		b.w.t.Fatalf("revealed %d bytes for %s, ours: %t", len(shown.Embed.URL), wait, ours)
	}
	return path
}

// seen is the text of a frame, or the status that it is refused with.
func seen(t *testing.T, frame string) (string, int) {
	t.Helper()
	resp, err := http.Get(frame)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, text2, _ := strings.Cut(string(text), `<div id="app">`)
	shown, _, _ := strings.Cut(text2, "<")
	return shown, resp.StatusCode
}

// wantEmbedDeclared wants anybody to be told how cards are shown, who has bought nothing yet.
func (w *world) wantEmbedDeclared() {
	w.t.Helper()
	var terms struct {
		Credentials struct{ RevealKind, Sealing string }
	}
	w.send(get("/api/card/discovery")).into(w.t, 200, &terms)
	if terms.Credentials.RevealKind != "embed" || terms.Credentials.Sealing != "none" {
		w.t.Errorf("discovery: %+v", terms)
	}
}

// wantNoSealing wants a recipient key to be refused as discovery says, before anything is signed.
func (b *buyer) wantNoSealing(card string) {
	b.w.t.Helper()
	key := strings.Repeat("A", 42) + "E="
	wantProblem(b.w.t, "a recipient key", b.post("/api/cards/"+card+"/reveal-challenge", `{"recipientKey":"`+key+`"}`),
		409, fault.SealingMissing)
	ch := b.revealChallenge(card)
	body := strings.TrimSuffix(revealBody(ch.IntentID, b.sign(ch.Message)), "}")
	wantProblem(b.w.t, "a recipient key to a challenge without",
		b.post("/api/cards/"+card+"/reveal", body+`,"recipientKey":"`+key+`"}`), 409, fault.SealingMissing)
	// It was refused before the challenge was used.
	b.post("/api/cards/"+card+"/reveal", body+"}").into(b.w.t, 200, nil)
}

func TestLithicCardIsShownOnAPageOnce(t *testing.T) {
	t.Parallel()
	w, fake := newLithicWorld(t, "embed")
	w.wantEmbedDeclared()
	b, stranger := w.buyer(), w.buyer()
	o := b.buyCard("a-card-to-look-at-1")
	w.awaitSettled()
	stranger.signIn()
	b.wantNoSealing(o.Issuance.CardID)
	wantProblem(t, "another's card", stranger.post("/api/cards/"+o.Issuance.CardID+"/reveal-challenge", "{}"), 404,
		fault.CardNotFound)

	path, made := b.link(o.Issuance.CardID), fake.Cards()[0]
	// The last letter has bits to spare: another spelling of the token is another token.
	forged := path[:len(path)-1] + "_"
	for name, r := range map[string]request{
		"a frame":              get(path).with(map[string]string{"Sec-Fetch-Dest": "iframe"}),
		"a forger":             get(forged),
		"a forger's button":    post(forged, ""),
		"another origin":       post(path, "").with(map[string]string{"Origin": "https://evil.example"}),
		"another site":         post(path, "").with(map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "null"}),
		"a session as a token": get("/reveal/" + b.token),
	} {
		if got := w.send(r); got.status < 400 || strings.Contains(string(got.body), "session") {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	// A chat client and a scanner of mail load the link before its reader does.
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
		got := w.send(request{method: method, path: path})
		if got.status != 200 || strings.Contains(string(got.body), "session") {
			t.Errorf("loaded ahead: %d %s", got.status, got.body)
		}
	}
	shown := b.browse(path)
	if shown.status != 200 || len(shown.frames) != 4 || shown.header.Get("Referrer-Policy") != "no-referrer" ||
		shown.header.Get("Cache-Control") != "no-store" || shown.header.Get("Access-Control-Allow-Origin") != "" ||
		!strings.Contains(shown.header.Get("Content-Security-Policy"), "frame-ancestors 'none'; frame-src "+
			w.config.IssuerURL) {
		t.Fatalf("the page: %d, %d frames, %v", shown.status, len(shown.frames), shown.header)
	}
	if strings.Contains(string(shown.body), made.Number) {
		t.Error("the service has the number")
	}
	for n, want := range []string{made.Number, "06", "", made.Code} {
		got, status := seen(t, shown.frames[n])
		if _, again := seen(t, shown.frames[n]); status != 200 || (want != "" && got != want) || again != 401 {
			t.Errorf("frame %d: %d, then %d", n, status, again)
		}
	}
	if again := b.browse(path); again.status != http.StatusGone || len(again.frames) > 0 {
		t.Errorf("the page again: %d, %d frames", again.status, len(again.frames))
	}

	// A link that nobody opened in time, and one whose card changed meanwhile, show nothing.
	late, frozen := b.link(o.Issuance.CardID), b.link(o.Issuance.CardID)
	fake.SetState(made.Token, "PAUSED")
	if got := b.browse(frozen); got.status != 409 || len(got.frames) > 0 {
		t.Errorf("the page of a frozen card: %d", got.status)
	}
	fake.SetState(made.Token, "OPEN")
	w.exec(`UPDATE card_links SET expires_at = now() WHERE opened_at IS NULL`)
	if got := b.browse(late); got.status != http.StatusGone || len(got.frames) > 0 {
		t.Errorf("a late link: %d", got.status)
	}
	// The vendor's session is refused: the link is used, and the next look is another.
	fake.Fault("embed", "rate_limited")
	if got := b.browse(b.link(o.Issuance.CardID)); got.status != 503 || len(got.frames) > 0 {
		t.Errorf("a page without the vendor: %d", got.status)
	}
	if got := b.browse(b.link(o.Issuance.CardID)); got.status != 200 {
		t.Errorf("the next page: %d", got.status)
	}
}

func TestStripeCardIsShownOnAPageOnce(t *testing.T) {
	t.Parallel()
	w, vendor := newStripeWorld(t, plan{})
	w.wantEmbedDeclared()
	b, other := w.buyer(), w.buyer()
	o := b.buyCard("a-card-to-look-at-1")
	w.awaitSettled()
	b.wantNoSealing(o.Issuance.CardID)

	shown := b.browse(b.link(o.Issuance.CardID))
	made := vendor.Cards()[0]
	if shown.status != 200 || shown.meta["card"] != made.ID ||
		shown.meta["publishable-key"] != stripefake.DevPublishable ||
		!strings.Contains(string(shown.body), `<script src="`+w.config.IssuerURL+`/elements.js" defer>`) {
		t.Fatalf("the page: %d %v", shown.status, shown.meta)
	}
	// What the page's script does.
	asked, err := http.PostForm(w.config.IssuerURL+"/elements/nonce",
		url.Values{"key": {shown.meta["publishable-key"]}, "card": {made.ID}})
	if err != nil {
		t.Fatal(err)
	}
	var nonce struct{ Nonce string }
	read(asked).into(t, 200, &nonce)
	unlock := func(token string, header map[string]string) answer {
		return w.send(post("/reveal/page/unlock", `{"token":"`+token+`","nonce":"`+nonce.Nonce+`"}`).with(header))
	}
	own := map[string]string{"Origin": origin, "Sec-Fetch-Site": "same-origin"}
	for name, got := range map[string]answer{
		"another origin": unlock(shown.meta["unlock"], map[string]string{"Origin": "https://evil.example"}),
		"another token":  unlock(strings.Repeat("A", 43), own),
	} {
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s unlocks the page: %d", name, got.status)
		}
	}
	var key struct{ Secret string }
	unlock(shown.meta["unlock"], own).into(t, 200, &key)
	if again := unlock(shown.meta["unlock"], own); again.status != http.StatusGone {
		t.Errorf("unlocked again: %d", again.status)
	}
	// The page of another's card does not unlock this one, nor is the link's token the page's.
	theirs := other.buyCard("another-card-to-look-at")
	w.awaitSettled()
	link := other.link(theirs.Issuance.CardID)
	for name, token := range map[string]string{
		"the link's token":    strings.TrimPrefix(link, "/reveal/"),
		"another card's page": other.browse(link).meta["unlock"],
	} {
		if got := unlock(token, own); got.status == 200 || strings.Contains(string(got.body), "ek_") {
			t.Errorf("%s unlocks the card: %d", name, got.status)
		}
	}
	frame := w.config.IssuerURL + "/elements/frame?" + url.Values{
		"kind": {"issuingCardNumberDisplay"}, "card": {made.ID}, "nonce": {nonce.Nonce}, "secret": {key.Secret},
	}.Encode()
	if number, status := seen(t, frame); status != 200 || number != made.Number() {
		t.Errorf("the frame: %d, %d digits", status, len(number))
	}
	if _, again := seen(t, frame); again != 401 {
		t.Errorf("the frame again: %d", again)
	}
}

// TestSecretsOfCardPagesAreNeverExposed runs a look at a card, well and badly, and looks for the page's secrets in all
// that is written.
func TestSecretsOfCardPagesAreNeverExposed(t *testing.T) {
	var log lockedBuffer
	out := &sink{}
	collector := httptest.NewServer(out)
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	tel := startTelemetry(t)
	w, vendor := newStripeWorld(t, plan{
		telemetry: tel, log: tel.Logger(telemetry.NewLogger(&log, slog.LevelDebug, true)),
		change: func(c *app.Config) { c.MetricsAddr = "127.0.0.1:0" },
	})
	b := w.buyer()
	o := b.buyCard("a-card-to-look-at-1")
	w.awaitSettled()
	b.signIn()
	secrets := canaries{}
	// The first page is unlocked with a nonce that the vendor refuses, the second one as it should be.
	for n, broken := range []bool{true, false} {
		path := b.link(o.Issuance.CardID)
		for _, wrong := range []string{path + "/", path + "x", "/reveal/page" + path[len("/reveal"):], path + "/unlock"} {
			w.send(get(wrong))
			w.send(post(wrong, ""))
		}
		shown := b.browse(path)
		asked, err := http.PostForm(w.config.IssuerURL+"/elements/nonce",
			url.Values{"key": {shown.meta["publishable-key"]}, "card": {vendor.Cards()[0].ID}})
		if err != nil {
			t.Fatal(err)
		}
		var nonce, key struct{ Nonce, Secret string }
		read(asked).into(t, 200, &nonce)
		if broken {
			nonce.Nonce += "x"
		}
		got := w.send(post("/reveal/page/unlock", `{"token":"`+shown.meta["unlock"]+`","nonce":"`+nonce.Nonce+`"}`).with(
			map[string]string{"Origin": origin}))
		if broken != (got.status != 200) {
			t.Fatalf("unlocked with %d", got.status)
		}
		w.send(get("/reveal/" + shown.meta["unlock"]))
		for name, token := range map[string]string{"link": path[len("/reveal/"):], "page": shown.meta["unlock"]} {
			raw, err := base64.RawURLEncoding.DecodeString(token)
			if err != nil {
				t.Fatal(err)
			}
			secrets[fmt.Sprintf("the %s's token %d", name, n)] = token
			secrets[fmt.Sprintf("the %s's token %d, decoded", name, n)] = hex.EncodeToString(raw)
		}
		secrets[fmt.Sprintf("the nonce %d", n)] = nonce.Nonce
		if !broken {
			got.into(t, 200, &key)
			secrets["the ephemeral key"] = key.Secret
		}
	}
	metrics, dump := scrape(t, w.instances[0].metrics), w.rows("card_links", "t::text")
	w.instances[0].stop()
	if err := tel.Stop(t.Context()); err != nil {
		t.Errorf("send what is queued: %v", err)
	}
	secrets.wantAbsent(t, map[string]place{
		"the log":                {log.String(), `"route":"/reveal/{token}"`},
		"what the collector got": {out.String(), "/reveal/{token}"},
		"the metrics":            {metrics, "/reveal/{token}"},
		"the database":           {dump, o.Issuance.CardID},
	})
}
