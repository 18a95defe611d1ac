package roamcard

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// presentFor is how long a card waits to be looked at.
	presentFor = time.Minute
	// linger is how long a page that was seen still tells who comes again that it was.
	linger = 1500 * time.Millisecond
)

// Why a page was not seen, or that it is not known.
const (
	// NotPressed is the reason of a page that was opened, and whose button nobody pressed in time.
	NotPressed = "not_pressed"
	// OpenedElsewhere is the reason of a page that was opened twice, so one of the two was not the person's browser. When
	// nobody had pressed by then it has shown nothing; otherwise somebody else may have seen it.
	OpenedElsewhere = "opened_elsewhere"
	// OpenedInBrowser is the reason of a page of the service's that was opened in a browser: whether it was seen is not
	// known.
	OpenedInBrowser = "opened_in_browser"
)

// BrowserPresenter shows a card, or an eSIM, on a page that this machine serves once, on loopback. The browser opens a
// file that only this user can read, and the file posts the page's secret: it is on no command line, which everybody on
// the machine can read. The page belongs to the browser that came first, and shows the card when the person presses its
// button. A page of the service's that shows a card is opened in the same way.
type BrowserPresenter struct {
	// Open brings a person to the page: it starts a browser with the address of the file, or prints it. The address is
	// no secret.
	Open func(ctx context.Context, url string) error
	// For is how long the page waits for its one view; zero means a minute.
	For time.Duration
}

// Present implements Presenter.
func (p BrowserPresenter) Present(ctx context.Context, c Credentials) (Presented, error) {
	validTo := fmt.Sprintf("%02d/%d", c.ExpiryMonth, c.ExpiryYear)
	return p.present(ctx, "Your card", filled(
		`<dl><dt>Number<dd>%s<dt>Valid to<dd>%s<dt>Security code<dd>%s</dl>`, Grouped(c.Number), validTo, c.SecurityCode))
}

// PresentESIM implements ESIMPresenter.
func (p BrowserPresenter) PresentESIM(ctx context.Context, e ESIM) (Presented, error) {
	return p.present(ctx, "Your eSIM", filled(
		`<dl><dt><img src="%s" alt="%s" width="300">`+
			`<dt>SM-DP+ address<dd>%s<dt>Activation code<dd>%s<dt>ICCID<dd>%s</dl>`,
		e.QRPNG.Reveal(), e.LPA.Reveal(), e.SMDPAddress.Reveal(), e.MatchingID.Reveal(), e.ICCID.Reveal()))
}

// PresentPage implements PagePresenter. It returns once the browser has the page.
func (p BrowserPresenter) PresentPage(ctx context.Context, url string) (Presented, error) {
	return p.serve(ctx, &onePage{title: "Your card", leads: url})
}

func (p BrowserPresenter) present(ctx context.Context, title, list string) (Presented, error) {
	return p.serve(ctx, &onePage{title: title, content: []byte(pageOf(title, shownText+list))})
}

// serve lets a browser have a page, for its time.
func (p BrowserPresenter) serve(ctx context.Context, page *onePage) (Presented, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Presented{}, fmt.Errorf("listen for the browser: %w", err)
	}
	page.host, page.secret, page.ended = listener.Addr().String(), randomText(), make(chan struct{})
	folder, address, err := page.write()
	if err != nil {
		return Presented{}, errors.Join(fmt.Errorf("write the file for the browser: %w", err), listener.Close())
	}
	defer func() { _ = os.RemoveAll(folder) }() // what it says is used up
	srv := &http.Server{
		Handler: page, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	wait := p.For
	if wait == 0 {
		wait = presentFor
	}
	reason, err := p.wait(ctx, page, address, wait)
	// A view that is being written is let finish.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err = errors.Join(err, srv.Shutdown(ending))
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return Presented{}, err
	}
	return page.outcome(reason), nil
}

// wait opens the page, and says why nothing came of it, if nothing did.
func (p BrowserPresenter) wait(ctx context.Context, page *onePage, address string, wait time.Duration) (string, error) {
	if err := p.Open(ctx, address); err != nil {
		return "", fmt.Errorf("open the page: %w", err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-page.ended:
		_ = pause(ctx, linger)
		return "", nil
	case <-timer.C:
		return "timeout", nil
	case <-ctx.Done():
		return "cancelled", nil
	}
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

const shownText = "<p>Shown once. Close this window when you are done.</p>"

func pageOf(title, content string) string {
	return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>` + title + `</title>
<style>body{font:16px system-ui;margin:15vh auto;max-width:26em}
dl{border:1px solid #bbb;border-radius:1em;padding:1.5em}button{font:inherit;padding:.6em 1.5em}
dt{color:#666;font-size:.8em}dd{margin:0 0 1em;font:1.4em ui-monospace,monospace}</style>
<h1>` + title + `</h1>` + content + `</html>
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
