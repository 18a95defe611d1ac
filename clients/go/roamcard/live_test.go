package roamcard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/app"
)

// serve runs a development server for the test.
func serve(t *testing.T) app.Ready {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan app.Ready, 1), make(chan error, 1)
	go func() {
		ended <- app.Dev(ctx, app.DevConfig{
			Addr: "127.0.0.1:0", Log: app.DevLogger(io.Discard, ""), Out: io.Discard, OnReady: func(r app.Ready) { ready <- r },
		})
	}()
	t.Cleanup(stop)
	select {
	case r := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Errorf("the development server: %v", err)
			}
		})
		return r
	case err := <-ended:
		t.Fatalf("start the development server: %v", err)
	}
	return app.Ready{}
}

// lossy is a network that loses answers: it lets the service act and then fails.
type lossy struct{ lose atomic.Int32 }

func (l *lossy) RoundTrip(req *http.Request) (*http.Response, error) {
	paid := req.Header.Get("PAYMENT-SIGNATURE") != ""
	res, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && paid && l.lose.Add(-1) >= 0 {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return nil, errors.New("the answer was lost")
	}
	return res, err
}

func spent(t *testing.T, r app.Ready, s roamcard.Signer, before string) string {
	t.Helper()
	now, err := roamcard.USDCBalance(t.Context(), r.RPCURL, s.Address())
	if err != nil {
		t.Fatal(err)
	}
	if before == "" {
		return now
	}
	return before + " -> " + now
}

// TestABuyersStory buys a card, tops it up and shows it on a running service, over a network that loses answers.
func TestABuyersStory(t *testing.T) {
	r := serve(t)
	signer, err := roamcard.NewKeySigner(r.Wallets[1].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal.json")
	network := &lossy{}
	replays := 1
	client := func() *roamcard.Client {
		j, err := roamcard.NewFileJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := roamcard.New(roamcard.Config{
			BaseURL: r.BaseURL, Signer: signer, Journal: j, HTTP: network, Poll: 50 * time.Millisecond, MaxReplays: &replays,
			Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 5000, MaxPerDay: 20_000},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	before := spent(t, r, signer, "")

	network.lose.Store(2)
	_, err = client().BuyCard(ctx, "first card")
	if unclear, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err); !ok || unclear.IdempotencyKey != "first card" {
		t.Fatalf("two lost answers: %v; expected an ambiguous payment", err)
	}
	c := client() // another life of the program, with the journal of the one before
	order, err := c.BuyCard(ctx, "first card")
	if err != nil || !order.GetReplayed() {
		t.Fatalf("resumed: %v, replayed %v", err, order.GetReplayed())
	}
	card, err := c.WaitUntilActive(ctx, order.GetOrderId())
	if err != nil {
		t.Fatal(err)
	}
	if got := spent(t, r, signer, before); got != "10000.000000 -> 9975.000000" {
		t.Errorf("USDC %s; expected to pay 25.00 once", got)
	}
	_, err = c.BuyCard(ctx, "second card")
	if !errors.Is(err, &roamcard.APIError{Code: "card_already_exists"}) {
		t.Errorf("a second card: %v", err)
	}

	topup, err := c.TopUp(ctx, 2500, "")
	if err != nil || topup.GetTopup().GetCardCreditUsdCents() != 2450 {
		t.Fatalf("top-up: %v, %v", err, topup)
	}
	if err := c.WatchOrder(ctx, topup.GetOrderId(), func(*roamcardv1.Order) bool { return true }); err != nil {
		t.Fatal(err)
	}
	for balance := uint32(0); balance != 3950; {
		b, err := c.Balance(ctx, card)
		if err != nil {
			t.Fatal(err)
		}
		balance = uint32(b.GetAvailableUsdCents())
	}
	if got := spent(t, r, signer, before); got != "10000.000000 -> 9950.000000" {
		t.Errorf("USDC %s; expected to pay twice 25.00", got)
	}
	revealOnPage(t, ctx, c, card)
}

// revealOnPage looks at the card where a person would, and checks that it shows once.
func revealOnPage(t *testing.T, ctx context.Context, c *roamcard.Client, card string) {
	t.Helper()
	var page, again, stranger string
	get := func(url, host string) string {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return res.Status + " " + string(body)
	}
	seen, err := c.Reveal(ctx, card, roamcard.BrowserPresenter{Open: func(_ context.Context, url string) error {
		stranger = get(url, "rebound.example")
		page = get(url, "")
		again = get(url, "")
		return nil
	}})
	if err != nil || !seen.Seen {
		t.Fatalf("reveal: %v, %v", seen, err)
	}
	if !regexp.MustCompile(`\d{4} \d{4} \d{4} \d{4}`).MatchString(page) || !strings.HasPrefix(page, "200") {
		t.Errorf("the page shows no card")
	}
	if !strings.HasPrefix(again, "410") || !strings.HasPrefix(stranger, "404") {
		t.Errorf("a second view: %.3s, another host: %.3s; expected 410 and 404", again, stranger)
	}
}
