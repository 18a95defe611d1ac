package roamcard

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
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

// BrowserPresenter shows a card, or an eSIM, on a page that this machine serves once, on loopback, under an address that
// cannot be guessed.
type BrowserPresenter struct {
	// Open brings a person to the page: it starts a browser, or prints the address.
	Open func(ctx context.Context, url string) error
	// For is how long the page waits for its one view; zero means a minute.
	For time.Duration
}

// Present implements Presenter.
func (p BrowserPresenter) Present(ctx context.Context, c Credentials) (Presented, error) {
	return p.present(ctx, cardPage, struct {
		Number, Code string
		Month, Year  int
	}{Grouped(c.Number), c.SecurityCode, c.ExpiryMonth, c.ExpiryYear})
}

// PresentESIM implements ESIMPresenter.
func (p BrowserPresenter) PresentESIM(ctx context.Context, e ESIM) (Presented, error) {
	return p.present(ctx, esimPage, struct {
		QR                          template.URL
		LPA, SMDP, MatchingID, Card string
	}{template.URL(e.QRPNG.Reveal()), e.LPA.Reveal(), e.SMDPAddress.Reveal(), e.MatchingID.Reveal(), e.ICCID.Reveal()})
}

// present fills a page in, and shows it.
func (p BrowserPresenter) present(ctx context.Context, with *template.Template, content any) (Presented, error) {
	var html bytes.Buffer
	if err := with.Execute(&html, content); err != nil {
		return Presented{}, errors.New("fill the page in") // the reason could quote the content
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Presented{}, fmt.Errorf("listen for the browser: %w", err)
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails: the program ends when there is no randomness
	page := &onePage{
		host: listener.Addr().String(), path: "/" + base64.RawURLEncoding.EncodeToString(secret), html: html.Bytes(), seen: make(chan struct{}),
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
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case <-page.seen:
		_ = pause(ctx, linger)
		return Presented{Seen: true}, nil
	case <-patience.C:
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
	if r.Host != o.host || r.Method != http.MethodGet || r.URL.Path != o.path || (site != "" && site != "none" && site != "same-origin") {
		http.NotFound(w, r)
		return
	}
	o.mu.Lock()
	again := o.shown
	o.shown = true
	html := o.html
	o.html = nil
	o.mu.Unlock()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if again {
		http.Error(w, "This page was shown once. Ask for it again.", http.StatusGone)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	// What is not written was not seen, and cannot be any more.
	_, _ = w.Write(html)
	clear(html)
	close(o.seen)
}

var cardPage, esimPage = pageOf(`Your card`, `<dt>Number<dd>{{.Number}}<dt>Valid to<dd>{{printf "%02d/%d" .Month .Year}}<dt>Security code<dd>{{.Code}}`),
	pageOf(`Your eSIM`, `<dt><img src="{{.QR}}" alt="{{.LPA}}" width="300"><dt>SM-DP+ address<dd>{{.SMDP}}<dt>Activation code<dd>{{.MatchingID}}<dt>ICCID<dd>{{.Card}}`)

func pageOf(title, list string) *template.Template {
	return template.Must(template.New(title).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:16px system-ui;margin:15vh auto;max-width:26em}dl{border:1px solid #bbb;border-radius:1em;padding:1.5em}
dt{color:#666;font-size:.8em}dd{margin:0 0 1em;font:1.4em ui-monospace,monospace}</style>
<h1>` + title + `</h1><p>Shown once. Close this window when you are done.</p>
<dl>` + list + `</dl></html>
`))
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
