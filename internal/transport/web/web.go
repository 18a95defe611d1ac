// Package web serves pages for people, who see them in a browser where agents and programs cannot see what they show.
package web

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/transport/static"
)

// Cards show cards on pages, by links that work once.
type Cards interface {
	// CheckLink says whether a link can be opened, and uses nothing. Its errors are those of OpenLink.
	CheckLink(ctx context.Context, token string) error
	// OpenLink uses a link; unlock is its page's token. card.ErrNotFound and card.ErrLinkUsed say that it is none.
	OpenLink(ctx context.Context, token string) (shown card.Shown, unlock secret.Text, err error)
	// Unlock uses the page's token.
	Unlock(ctx context.Context, token, nonce string) (secret.Text, error)
}

// Config is what pages that show cards are made of.
type Config struct {
	Cards Cards
	// Parts have the script that is served, and are those of cards whose issuer has none of its own.
	Parts card.PageParts
	// Origin is ours.
	Origin string
	Log    *slog.Logger
}

// RevealPages are the handlers of pages that show cards, by patterns of http.ServeMux.
func RevealPages(c Config) map[string]http.Handler {
	p := pages{c}
	routes := map[string]http.Handler{
		"GET " + card.LinkPath + "{token}":        http.HandlerFunc(p.ask),
		"POST " + card.LinkPath + "{token}":       http.HandlerFunc(p.open),
		"GET " + card.LinkPath + "page/style.css": file("text/css; charset=utf-8", "no-store", style("reveal.css")),
	}
	if c.Parts.VendorScript != "" {
		routes["GET "+card.LinkPath+"page/script.js"] = file("text/javascript; charset=utf-8", "no-store", c.Parts.Script)
		routes["POST "+card.LinkPath+"page/unlock"] = http.HandlerFunc(p.unlock)
	}
	return routes
}

//go:embed missing.html reveal.html reveal.css status.html status.css
var files embed.FS

var page = template.Must(template.ParseFS(files, "reveal.html"))

// pages shows cards in frames of their issuer's.
type pages struct{ Config }

// policy is the Content-Security-Policy of a page: what the page has and the parts name, and nothing else.
func (p pages) policy(of content) string {
	forms := "'none'"
	if of.Ask {
		forms = "'self'"
	}
	rules := []string{"default-src 'none'", "style-src 'self'", "base-uri 'none'", "form-action " + forms,
		"frame-ancestors 'none'"}
	if len(of.Frames) > 0 || of.VendorScript != "" {
		rules = append(rules, "frame-src "+strings.Join(of.parts.Frames, " "))
	}
	if of.VendorScript != "" {
		rules = append(rules, "script-src 'self' "+strings.Join(of.parts.Scripts, " "),
			"connect-src 'self' "+strings.Join(of.parts.Connects, " "))
	}
	return strings.Join(rules, "; ")
}

// content fills reveal.html.
type content struct {
	Title, Text  string
	Frames       []card.Frame
	Values       []card.Value
	VendorScript string
	parts        card.PageParts
	// Ask has a button that shows the card.
	Ask bool
}

// ask offers to show a card. It uses nothing: chat clients, scanners of mail and browsers load links that nobody has
// followed.
func (p pages) ask(w http.ResponseWriter, r *http.Request) {
	if !alone(r) {
		p.say(w, http.StatusForbidden, apart)
		return
	}
	if err := p.Cards.CheckLink(r.Context(), r.PathValue("token")); err != nil {
		status, text := p.refused(r.Context(), err)
		p.say(w, status, text)
		return
	}
	p.write(w, http.StatusOK, content{
		Title: "Your card", Text: "It is shown once, for a minute. Make sure that nobody else sees your screen.", Ask: true,
	})
}

// open shows a card to the person who pressed the button, once.
func (p pages) open(w http.ResponseWriter, r *http.Request) {
	if !alone(r) || !p.pressed(r) {
		p.say(w, http.StatusForbidden, apart)
		return
	}
	shown, unlock, err := p.Cards.OpenLink(r.Context(), r.PathValue("token"))
	if err != nil {
		status, text := p.refused(r.Context(), err)
		p.say(w, status, text)
		return
	}
	parts := p.Parts
	if shown.Parts != nil {
		parts = *shown.Parts
	}
	c := content{
		Title: "Your card", Text: "Shown once, for a minute. Close this window when you are done.", Frames: shown.Frames,
		Values: shown.Values, VendorScript: parts.VendorScript, parts: parts,
	}
	if c.VendorScript != "" {
		c.Values = append(c.Values, card.Value{Name: "unlock", Content: unlock.Reveal()})
	}
	// The window forgets the card by itself: it loads what is left of the link, which is that it was used.
	w.Header().Set("Refresh", "60")
	p.write(w, http.StatusOK, c)
}

const apart = "This page is opened by itself, in a window of its own."

// alone reports whether a request is a navigation of a whole window, as far as its browser says.
func alone(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return (dest == "" || dest == "document") &&
		!strings.Contains(r.Header.Get("Sec-Purpose")+r.Header.Get("Purpose"), "prefetch")
}

// pressed reports whether a post is of our own button, as far as its browser says. A page that sends no referrer has
// the origin null.
func (p pages) pressed(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	return (origin == "" || origin == "null" || origin == p.Origin) && (site == "" || site == "same-origin")
}

// refused is the status and the text of what went wrong.
func (p pages) refused(ctx context.Context, err error) (status int, text string) {
	switch f, ok := fault.As(err); {
	case errors.Is(err, card.ErrNotFound):
		return http.StatusNotFound, "There is nothing here. Ask for the card again."
	case errors.Is(err, card.ErrLinkUsed):
		return http.StatusGone, "This link was used or has expired. Ask for the card again."
	case ok:
		if f.Status >= http.StatusInternalServerError {
			p.Log.WarnContext(ctx, "a card was not shown", "error", err)
		}
		return f.Status, f.Detail + " Ask for the card again."
	default:
		p.Log.ErrorContext(ctx, "a card was not shown", "error", err)
		return http.StatusInternalServerError, "The card cannot be shown now. Ask for it again."
	}
}

func (p pages) say(w http.ResponseWriter, status int, text string) {
	p.write(w, status, content{Title: "Card", Text: text})
}

func (p pages) write(w http.ResponseWriter, status int, c content) {
	var b bytes.Buffer
	if err := page.Execute(&b, c); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", p.policy(c))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser may have gone
}

// maxUnlock is longer than any token with its nonce.
const maxUnlock = 2 << 10

// unlock answers the script of a page that was opened, once.
func (p pages) unlock(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if !p.own(r) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var asked struct{ Token, Nonce string }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUnlock))
	if err != nil || json.Unmarshal(body, &asked) != nil || asked.Token == "" || asked.Nonce == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	key, err := p.Cards.Unlock(r.Context(), asked.Token, asked.Nonce)
	if err != nil {
		status, _ := p.refused(r.Context(), err)
		w.WriteHeader(status)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"secret": key.Reveal()}) // the browser may have gone
}

// own reports whether a request is one of our page's script. A browser does not tell the origin of a page that sends no
// referrer; it says by Sec-Fetch-Site, which no script can set, that it is the same.
func (p pages) own(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	same := origin == p.Origin && site == "" ||
		site == "same-origin" && (origin == p.Origin || origin == "" || origin == "null")
	return same && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

func style(name string) []byte {
	content, _ := files.ReadFile(name) // it is embedded
	return content
}

// file is what a page loads.
func file(kind, cache string, content []byte) http.Handler {
	return static.New(http.Header{"Content-Type": {kind}, "Cache-Control": {cache}}, content)
}
