package roamcard

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// presentFor is how long a card waits to be looked at.
	presentFor = time.Minute
	// linger is how long a page that was seen still tells who comes again that it was.
	linger = 1500 * time.Millisecond
)

// BrowserPresenter shows a card, or an eSIM, on a page that this machine serves once, on loopback, under an address
// that cannot be guessed. A page of the service's that shows a card is opened as it is.
type BrowserPresenter struct {
	// Open brings a person to the page: it starts a browser, or prints the address.
	Open func(ctx context.Context, url string) error
	// For is how long the page waits for its one view; zero means a minute.
	For time.Duration
}

// Present implements Presenter.
func (p BrowserPresenter) Present(ctx context.Context, c Credentials) (Presented, error) {
	validTo := fmt.Sprintf("%02d/%d", c.ExpiryMonth, c.ExpiryYear)
	return p.present(ctx, pageOf("Your card",
		filled(`<dt>Number<dd>%s<dt>Valid to<dd>%s<dt>Security code<dd>%s`, Grouped(c.Number), validTo, c.SecurityCode)))
}

// PresentESIM implements ESIMPresenter.
func (p BrowserPresenter) PresentESIM(ctx context.Context, e ESIM) (Presented, error) {
	return p.present(ctx, pageOf("Your eSIM",
		filled(`<dt><img src="%s" alt="%s" width="300"><dt>SM-DP+ address<dd>%s<dt>Activation code<dd>%s<dt>ICCID<dd>%s`,
			e.QRPNG.Reveal(), e.LPA.Reveal(), e.SMDPAddress.Reveal(), e.MatchingID.Reveal(), e.ICCID.Reveal())))
}

// PresentPage implements PagePresenter.
func (p BrowserPresenter) PresentPage(ctx context.Context, url string) (Presented, error) {
	if err := p.Open(ctx, url); err != nil {
		return Presented{}, fmt.Errorf("open the page: %w", err)
	}
	return Presented{Reason: OpenedInBrowser}, nil
}

// present shows a page.
func (p BrowserPresenter) present(ctx context.Context, content string) (Presented, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Presented{}, fmt.Errorf("listen for the browser: %w", err)
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails: the program ends when there is no randomness
	page := &onePage{
		host: listener.Addr().String(), path: "/" + base64.RawURLEncoding.EncodeToString(secret), html: []byte(content),
		seen: make(chan struct{}),
	}
	srv := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	wait := p.For
	if wait == 0 {
		wait = presentFor
	}
	answer, err := p.show(ctx, page, wait)
	// A view that is being written is let finish.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err = errors.Join(err, srv.Shutdown(ending))
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return answer, err
}

func (p BrowserPresenter) show(ctx context.Context, page *onePage, wait time.Duration) (Presented, error) {
	if err := p.Open(ctx, "http://"+page.host+page.path); err != nil {
		return Presented{}, fmt.Errorf("open the page: %w", err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-page.seen:
		_ = pause(ctx, linger)
		return Presented{Seen: true}, nil
	case <-timer.C:
		return Presented{Reason: "timeout"}, nil
	case <-ctx.Done():
		return Presented{Reason: "cancelled"}, nil
	}
}

// onePage serves its content once and to this machine's own navigation alone.
type onePage struct {
	host, path string
	mu         sync.Mutex
	html       []byte
	shown      bool
	seen       chan struct{}
}

// ServeHTTP implements http.Handler.
func (o *onePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Host != o.host || r.Method != http.MethodGet || r.URL.Path != o.path ||
		(site != "" && site != "none" && site != "same-origin") {
		http.NotFound(w, r)
		return
	}
	o.mu.Lock()
	again := o.shown
	o.shown = true
	content := o.html
	o.html = nil
	o.mu.Unlock()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if again {
		http.Error(w, "This page was shown once. Ask for it again.", http.StatusGone)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	// What is not written was not seen, and cannot be any more.
	_, _ = w.Write(content)
	clear(content)
	close(o.seen)
}

// filled puts texts into a pattern, each escaped for an element or a quoted attribute. It is not html/template, which
// would add 270 kB to every program, whether it shows anything or not.
func filled(pattern string, texts ...string) string {
	escaped := make([]any, len(texts))
	for i, text := range texts {
		escaped[i] = html.EscapeString(text)
	}
	return fmt.Sprintf(pattern, escaped...)
}

func pageOf(title, list string) string {
	return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:16px system-ui;margin:15vh auto;max-width:26em}
dl{border:1px solid #bbb;border-radius:1em;padding:1.5em}
dt{color:#666;font-size:.8em}dd{margin:0 0 1em;font:1.4em ui-monospace,monospace}</style>
<h1>` + title + `</h1><p>Shown once. Close this window when you are done.</p>
<dl>` + list + `</dl></html>
`
}

// Grouped writes a card's number in fours, as cards show it.
func Grouped(number string) string {
	var b strings.Builder
	for i, r := range []rune(number) {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
