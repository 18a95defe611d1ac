// Package demo tells a buyer's story against a running service: it pays for a card over plain HTTP and shows each step.
//
//	config, discovery ─► 402, terms checked ─► signed in ─► signed once ─► paid, answer lost ─►
//	same bytes again: the same order ─► card ACTIVE ─► 15.00 on it ─► revealed, sealed to a key made here
package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what the story needs: a service, a chain, and wallets that may buy.
type Config struct {
	// BaseURL is the service's own origin, as it calls itself.
	BaseURL string
	// RPCURL is a JSON-RPC endpoint of the chain, to read balances.
	RPCURL string
	// USDC and PayTo pin the asset and the payee; empty means whatever the service publishes.
	USDC, PayTo string
	// Wallets are private keys in hex, best first. The first with enough USDC and no card buys.
	Wallets []telemetry.Secret
	// Out gets the story or, with JSON, one summary.
	Out  io.Writer
	JSON bool
	// TTY allows a line that is drawn over itself.
	TTY bool
	// ShowCard prints the whole card number and code. A sandbox card buys nothing.
	ShowCard bool
	// HTTP makes the requests; nil means a client of its own.
	HTTP *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Wait pauses, and ends early with the context's error; nil means a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// Patience bounds the wait for the card and for its balance, each; zero means two minutes.
	Patience time.Duration
}

// Summary is what came of the story.
type Summary struct {
	OK bool `json:"ok"`
	// Error says what went wrong and what to do, when OK is false.
	Error       string `json:"error,omitempty"`
	BaseURL     string `json:"baseUrl"`
	Wallet      string `json:"wallet,omitempty"`
	OrderID     string `json:"orderId,omitempty"`
	Transaction string `json:"transaction,omitempty"`
	CardID      string `json:"cardId,omitempty"`
	// Card is the number with its middle hidden.
	Card string `json:"card,omitempty"`
	// SpentUSDCents is by how much the wallet's balance on chain fell.
	SpentUSDCents  money.Cents `json:"spentUsdCents"`
	FeeUSDCents    money.Cents `json:"feeUsdCents"`
	OnCardUSDCents money.Cents `json:"onCardUsdCents"`
	// PaidRequests is how often the paid request was sent; Transfers how often money moved for it.
	PaidRequests int `json:"paidRequests"`
	Transfers    int `json:"transfers"`
	// Replayed says that the last repeat was answered from the record.
	Replayed bool   `json:"replayed"`
	Steps    []Step `json:"steps"`
	Millis   int64  `json:"milliseconds"`
}

// Step is one part of the story and the time it took.
type Step struct {
	Name   string `json:"name"`
	Millis int64  `json:"milliseconds"`
}

// ErrTerms says that what the service asks for is not what it publishes or what was pinned. Nothing
// was signed.
var ErrTerms = errors.New("the terms are not as published")

// ErrNoWallet says that no wallet at hand can buy a card.
var ErrNoWallet = errors.New("no wallet can buy a card")

// ErrOutcome says that the service broke a promise of the story: money moved twice, or a repeat was
// another order.
var ErrOutcome = errors.New("the outcome is not as promised")

// Run tells the story. An error says what to do next; a *Problem is the service's own answer. With
// JSON the summary is written in any case.
func Run(ctx context.Context, c Config) (Summary, error) {
	c = c.complete()
	s := &story{
		Config: c, client: client{http: c.HTTP, base: c.BaseURL}, key: "demo-" + rand.Text(),
		narrator: &narrator{out: c.Out, quiet: c.JSON, tty: c.TTY, now: c.Now},
		summary:  Summary{BaseURL: c.BaseURL},
	}
	began := c.Now()
	err := s.tell(ctx)
	s.end()
	s.summary.OK, s.summary.Steps, s.summary.Millis = err == nil, s.steps, c.Now().Sub(began).Milliseconds()
	if err != nil {
		s.summary.Error = err.Error()
	}
	if c.JSON {
		return s.summary, errors.Join(err, writeJSON(c.Out, s.summary))
	}
	if err == nil {
		s.conclude()
	}
	return s.summary, err
}

func (c Config) complete() Config {
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	careful := http.Client{}
	if c.HTTP != nil {
		careful = *c.HTTP
	}
	// A redirect would carry the payment to an address that nobody checked.
	careful.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.HTTP = &careful
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = pause
	}
	if c.Patience == 0 {
		c.Patience = 2 * time.Minute
	}
	return c
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func writeJSON(w io.Writer, s Summary) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// story is one run: what is known so far.
type story struct {
	Config
	*narrator
	client  client
	key     string
	shop    shop
	terms   terms
	wallet  wallet
	before  money.USDC
	order   order
	token   telemetry.Secret
	summary Summary
}

func (s *story) tell(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		s.lookAround, s.askPrice, s.buy, s.awaitCard, s.awaitBalance, s.reveal,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shop is what the service publishes of itself.
type shop struct {
	BaseURL string `json:"baseUrl"`
	Network struct {
		Network      string `json:"network"`
		ChainID      uint64 `json:"chainId"`
		Asset        string `json:"asset"`
		AssetName    string `json:"assetName"`
		AssetVersion string `json:"assetVersion"`
		PayTo        string `json:"payTo"`
	} `json:"network"`
	Card struct {
		Price     money.Cents `json:"walletPaymentUsdCents"`
		Fee       money.Cents `json:"cardIssueFeeUsdCents"`
		Available money.Cents `json:"expectedAvailableAfterIssueUsdCents"`
	} `json:"card"`
	Environment string `json:"environment"`
}

// discovery is the part of the purchase contract that a payment rests on.
type discovery struct {
	Payment struct {
		Asset    string `json:"asset"`
		PayTo    string `json:"payTo"`
		Amount   string `json:"amount"`
		Resource string `json:"resource"`
	} `json:"payment"`
}

// lookAround reads what the service publishes and pins the terms of the payment to it.
func (s *story) lookAround(ctx context.Context) error {
	s.begin("Look at the shop")
	if err := s.client.get(ctx, "/api/config", telemetry.Secret{}, &s.shop); err != nil {
		if _, answered := errors.AsType[*Problem](err); answered {
			return err
		}
		return fmt.Errorf("nothing answers at %s: %w. Next: start one with roamcard dev", s.BaseURL, err)
	}
	var d discovery
	if err := s.client.get(ctx, "/api/card/discovery", telemetry.Secret{}, &d); err != nil {
		return err
	}
	if s.shop.Environment != "sandbox" {
		return fmt.Errorf("%s is a %s service and a card there costs real money: the demo buys in a sandbox only; start one with roamcard dev",
			s.BaseURL, s.shop.Environment)
	}
	if s.shop.BaseURL != s.BaseURL {
		return fmt.Errorf("the service at %s calls itself %s: use that address, signatures are bound to it", s.BaseURL, s.shop.BaseURL)
	}
	var err error
	if s.terms, err = s.pin(d); err != nil {
		return err
	}
	s.say("GET /api/config, GET /api/card/discovery")
	s.say("A card costs %s USD in USDC on %s. %s of it is the issue fee, %s stays to spend.",
		s.shop.Card.Price, s.terms.network, s.shop.Card.Fee, s.shop.Card.Available)
	return nil
}

// pin makes the terms that the challenge must meet: what both documents say, and what was pinned.
func (s *story) pin(d discovery) (terms, error) {
	t := terms{network: s.shop.Network.Network, amount: s.shop.Card.Price.USDC(), resource: s.BaseURL + purchasePath}
	if t.network != x402.NetworkID || s.shop.Network.ChainID != x402.ChainID {
		return t, fmt.Errorf("%w: the network is %q, not %s", ErrTerms, t.network, x402.NetworkID)
	}
	asset, err := agreed("asset", s.shop.Network.Asset, d.Payment.Asset, s.USDC)
	if err != nil {
		return t, err
	}
	if t.payTo, err = agreed("payee", s.shop.Network.PayTo, d.Payment.PayTo, s.PayTo); err != nil {
		return t, err
	}
	if d.Payment.Amount != t.amount.String() || d.Payment.Resource != t.resource {
		return t, fmt.Errorf("%w: config and discovery name different amounts or resources", ErrTerms)
	}
	t.domain = x402.Domain{
		Name: s.shop.Network.AssetName, Version: s.shop.Network.AssetVersion, ChainID: s.shop.Network.ChainID, Contract: asset,
	}
	return t, nil
}

// agreed is the address that config and discovery both name, and the pin if there is one.
func agreed(what, config, discovery, pinned string) (x402.Address, error) {
	a, err := x402.ParseAddress(config)
	if err != nil {
		return a, fmt.Errorf("%w: the %s is %q", ErrTerms, what, config)
	}
	others := []string{discovery}
	if pinned != "" {
		others = append(others, pinned)
	}
	for _, other := range others {
		if b, err := x402.ParseAddress(other); err != nil || a != b {
			return a, fmt.Errorf("%w: the %s is %s in the configuration and %q elsewhere", ErrTerms, what, a, other)
		}
	}
	return a, nil
}

func (s *story) conclude() {
	s.print("\n")
	s.say("Spent      %s USDC by %s, in %d transfer, however often it was asked for (%d times)",
		s.summary.SpentUSDCents, s.summary.Wallet, s.summary.Transfers, s.summary.PaidRequests)
	s.say("Issue fee  %s USD", s.summary.FeeUSDCents)
	s.say("On card    %s USD, card %s", s.summary.OnCardUSDCents, s.summary.Card)
	s.say("Order      %s", s.summary.OrderID)
	s.say("Took       %.1f s", float64(s.summary.Millis)/1000)
}
