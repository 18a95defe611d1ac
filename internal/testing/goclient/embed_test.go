package goclient_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
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
	var opened roamcardtest.Page
	browser := roamcard.BrowserPresenter{Open: func(ctx context.Context, url string) (err error) {
		opened, err = roamcardtest.Look(ctx, url)
		return err
	}}
	shown, err := c.Cards.Reveal(t.Context(), card, browser)
	if err != nil || shown.Seen || shown.Reason != roamcard.OpenedInBrowser {
		t.Fatalf("%+v, %v", shown, err)
	}
	if !strings.HasPrefix(opened.URL, s.BaseURL+"/reveal/") || strings.Count(opened.HTML, "<iframe ") != 4 {
		t.Errorf("%d bytes", len(opened.HTML))
	}
	// A page of somebody else's is not opened, and not quoted.
	opened = roamcardtest.Page{}
	there := strings.Replace(s.BaseURL, "127.0.0.1", "127.0.0.2", 1)
	shown, err = client(elsewhere{s.BaseURL, there}).Cards.Reveal(t.Context(), card, browser)
	if err == nil || opened.URL != "" || shown.Seen || strings.Contains(err.Error(), "reveal/") {
		t.Errorf("a page elsewhere: %+v, %v, opened %t", shown, err, opened.URL != "")
	}
}

// relay claims that the service does not seal.
type relay struct{ asked int }

// RoundTrip implements http.RoundTripper.
func (r *relay) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/CreateRevealChallenge") {
		return http.DefaultTransport.RoundTrip(req)
	}
	if r.asked++; r.asked > 1 {
		return http.DefaultTransport.RoundTrip(req)
	}
	_ = req.Body.Close() // it goes nowhere
	problem, err := proto.Marshal(&roamcardv1.Problem{Code: "sealing_missing", Status: http.StatusConflict})
	if err != nil {
		return nil, err
	}
	detail := map[string]any{"type": "roamcard.v1.Problem", "value": base64.RawStdEncoding.EncodeToString(problem)}
	body, err := json.Marshal(map[string]any{
		"code": "failed_precondition", "message": "it does not seal", "details": []any{detail},
	})
	return &http.Response{
		StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

// careful counts the texts that a wallet signs to reveal cards.
type careful struct {
	*roamcard.KeySigner
	reveals int
}

// SignMessage implements roamcard.Signer.
func (c *careful) SignMessage(ctx context.Context, text string) ([]byte, error) {
	if strings.Contains(text, "urn:roamcard:card:") {
		c.reveals++
	}
	return c.KeySigner.SignMessage(ctx, text)
}

func TestRelayThatSaysThatTheServiceDoesNotSealGetsNoSignature(t *testing.T) {
	t.Parallel()
	s := devserver.Start(t)
	_, key := s.Wallet(100_000_000)
	between, signer := &relay{}, &careful{KeySigner: key}
	c, err := roamcard.New(roamcard.Config{
		BaseURL: s.BaseURL, Signer: signer, HTTP: between, Poll: 100 * time.Millisecond,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 100_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	bought, err := c.Cards.Purchase(t.Context(), "a-card-to-steal")
	if err != nil {
		t.Fatal(err)
	}
	card, err := c.Cards.WaitUntilActive(t.Context(), bought.Order.GetOrderId())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := c.Cards.Reveal(t.Context(), card, roamcard.BrowserPresenter{
		Open: func(context.Context, string) error { t.Error("something is opened"); return nil },
	})
	if !errors.Is(err, roamcard.ErrTermsMismatch) || shown.Seen || signer.reveals != 0 || between.asked != 2 {
		t.Errorf("%+v, %v; asked %d times, signed %d", shown, err, between.asked, signer.reveals)
	}
}
