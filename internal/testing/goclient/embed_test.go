package goclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// elsewhere is a network that leads the page of a card to another host.
type elsewhere struct{ from, to string }

// RoundTrip implements http.RoundTripper.
func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/RevealCard") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(e.from), []byte(e.to))))
	return resp, err
}

func TestCardOfAnEmbedIssuerIsOpenedInABrowserOnly(t *testing.T) {
	t.Parallel()
	s := devserver.StartIssuer(t, "lithic")
	_, signer := s.Wallet(100_000_000)
	client := func(through http.RoundTripper) *roamcard.Client {
		c, err := roamcard.New(roamcard.Config{
			BaseURL: s.BaseURL, Signer: signer, HTTP: through, Poll: 100 * time.Millisecond,
			Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := client(http.DefaultTransport)
	bought, err := c.Cards.Purchase(t.Context(), "a-card-to-look-at")
	if err != nil {
		t.Fatal(err)
	}
	card, err := c.Cards.WaitUntilActive(t.Context(), bought.Order.GetOrderId())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cards.Reveal(t.Context(), card, roamcard.TerminalPresenter{}); !errors.Is(err,
		roamcard.ErrBrowserOnly) {
		t.Errorf("on a terminal: %v", err)
	}
	opened := ""
	browser := roamcard.BrowserPresenter{Open: func(_ context.Context, url string) error {
		opened = url
		return nil
	}}
	shown, err := c.Cards.Reveal(t.Context(), card, browser)
	if err != nil || shown.Seen || shown.Reason != roamcard.OpenedInBrowser {
		t.Fatalf("%+v, %v", shown, err)
	}
	resp, err := http.Post(opened, "application/x-www-form-urlencoded", nil) // the page's button
	if err != nil {
		t.Fatal(err)
	}
	page := readAll(resp)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(opened, s.BaseURL+"/reveal/") ||
		strings.Count(page, "<iframe ") != 4 {
		t.Errorf("%d: %d bytes", resp.StatusCode, len(page))
	}
	// A page of somebody else's is not opened, and not quoted.
	opened = ""
	there := strings.Replace(s.BaseURL, "127.0.0.1", "127.0.0.2", 1)
	shown, err = client(elsewhere{s.BaseURL, there}).Cards.Reveal(t.Context(), card, browser)
	if err == nil || opened != "" || shown.Seen || strings.Contains(err.Error(), "reveal/") {
		t.Errorf("a page elsewhere: %+v, %v, opened %t", shown, err, opened != "")
	}
}
