// Package demo buys a card and an eSIM from a running service with the Go client, and shows each step.
//
//	shop ─► 402, terms checked ─► wallet ─► signed once, paid, answer lost ─► same bytes again: the same order ─►
//	card ACTIVE ─► 15.00 on it ─► revealed, sealed to a key made here ─► eSIM ─► what it cost, by the chain
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
)

// Config is what a run needs: a service, a chain, and wallets that may buy.
type Config struct {
	// BaseURL is the service's own origin, as it calls itself.
	BaseURL string
	// RPCURL is a JSON-RPC endpoint of the chain, to read balances.
	RPCURL string
	// USDC and PayTo pin the asset and the payee; empty means whatever the service publishes.
	USDC, PayTo string
	// Wallets are private keys in hex, best first. The first with enough USDC and no card buys.
	Wallets []secret.Text
	// Out gets the steps or, with JSON, one summary.
	Out  io.Writer
	JSON bool
	// TTY allows a line that is drawn over itself, and the QR code.
	TTY bool
	// ShowCard prints the whole card number and code. A sandbox card buys nothing.
	ShowCard bool
	// HTTP makes the requests; nil means the network.
	HTTP http.RoundTripper
	// Deadline bounds each wait; zero means two minutes.
	Deadline time.Duration
}

// Summary is the result of a run.
type Summary struct {
	OK bool `json:"ok"`
	// Error says what went wrong and what to do, when OK is false.
	Error       string `json:"error,omitempty"`
	BaseURL     string `json:"baseUrl"`
	Wallet      string `json:"wallet,omitempty"`
	OrderID     string `json:"orderId,omitempty"`
	Transaction string `json:"transaction,omitempty"`
	CardID      string `json:"cardId,omitempty"`
	// Card is the number with its middle hidden, or the card's id where its issuer shows it on a page alone.
	Card        string `json:"card,omitempty"`
	ESIMOrderID string `json:"esimOrderId,omitempty"`
	// SpentUSDCents is by how much the wallet's balance on chain fell.
	SpentUSDCents  roamcard.Cents `json:"spentUsdCents"`
	FeeUSDCents    roamcard.Cents `json:"feeUsdCents"`
	OnCardUSDCents roamcard.Cents `json:"onCardUsdCents"`
	ESIMUSDCents   roamcard.Cents `json:"esimUsdCents"`
	// PaidRequests is how often the card's paid request was sent; Transfers how often money moved for it.
	PaidRequests int `json:"paidRequests"`
	Transfers    int `json:"transfers"`
	// Replayed says that the last repeat was answered from the record.
	Replayed bool   `json:"replayed"`
	Steps    []Step `json:"steps"`
	Millis   int64  `json:"milliseconds"`
}

// Step is one part of a run and the time it took.
type Step struct {
	Name   string `json:"name"`
	Millis int64  `json:"milliseconds"`
}

// ErrNoWallet says that no wallet at hand can buy a card.
var ErrNoWallet = errors.New("no wallet can buy a card")

// ErrOutcome says that the service broke a promise: money moved twice, or a repeat was another order.
var ErrOutcome = errors.New("the outcome is not as promised")

// Run buys and shows. An error says what to do next. With JSON the summary is written in any case.
func Run(ctx context.Context, c Config) (Summary, error) {
	c.BaseURL = strings.TrimSuffix(c.BaseURL, "/")
	if c.Deadline == 0 {
		c.Deadline = 2 * time.Minute
	}
	if c.HTTP == nil {
		c.HTTP = outward.New(outward.Config{Rule: outward.Rule{Anywhere: true}}).Transport
	}
	s := &story{
		Config: c, network: &lossy{next: c.HTTP}, key: roamcard.NewKey(),
		narrator: &narrator{out: c.Out, quiet: c.JSON, tty: c.TTY, now: time.Now}, summary: Summary{BaseURL: c.BaseURL},
	}
	began := time.Now()
	err := s.tell(ctx)
	s.end()
	s.summary.OK, s.summary.Steps, s.summary.Millis = err == nil, s.steps, time.Since(began).Milliseconds()
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

func writeJSON(w io.Writer, s Summary) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	return nil
}

// story is the state of one run.
type story struct {
	Config
	*narrator
	network *lossy
	// key is the idempotency key of the card.
	key string
	// What the card costs, and what of that is the fee and stays on it.
	price, fee, stays roamcard.Cents
	client            *roamcard.Client
	before            roamcard.USDC
	signed            int
	summary           Summary
}

func (s *story) tell(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		s.readOffer, s.askPrice, s.buy, s.awaitCard, s.awaitBalance, s.reveal, s.travel, s.count,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open makes a client of a wallet with an empty journal.
func (s *story) open(signer roamcard.Signer) (*roamcard.Client, error) {
	const most = 10_000 // cents; enough for a card and an eSIM
	return roamcard.New(roamcard.Config{
		BaseURL: s.BaseURL, Signer: signer, HTTP: s.network, Poll: lookEvery,
		Policy: roamcard.Policy{
			Mode: roamcard.Autonomous, MaxPerPayment: most, MaxPerDay: most, PayTo: s.PayTo, Asset: s.USDC,
		},
		Events: &roamcard.Events{
			Signed: func(q roamcard.Quote) {
				s.say("Signed an EIP-3009 authorization of %s USDC.", q.Amount)
				if s.signed++; s.signed == 1 {
					s.say("Its nonce is derived from address, wallet and idempotency key, so the token itself")
					s.say("refuses a second payment for this purchase.")
				}
			},
			Replay: func(_ string, _ int, after time.Duration, err error) {
				s.say("Has it been paid? Unknown: %v. The same bytes again in %s.", err, after)
			},
		},
	})
}

// readOffer reads what the service publishes. The client checks the payment against it.
func (s *story) readOffer(ctx context.Context) error {
	s.begin("Look at the shop")
	visitor, err := s.open(nil)
	if err != nil {
		return err
	}
	shop, err := visitor.Discovery.Config(ctx)
	if _, answered := errors.AsType[*roamcard.APIError](err); err != nil && !answered {
		return fmt.Errorf("nothing answers at %s: %w. Next: start one with roamcard dev", s.BaseURL, err)
	}
	if err != nil {
		return err
	}
	if shop.GetEnvironment() != "sandbox" {
		return fmt.Errorf("%s is a %s service and a card there costs real money: the demo buys in a sandbox only; start "+
			"one with roamcard dev",
			s.BaseURL, shop.GetEnvironment())
	}
	if shop.GetBaseUrl() != s.BaseURL {
		return fmt.Errorf("the service at %s calls itself %s: use that address, signatures are bound to it", s.BaseURL,
			shop.GetBaseUrl())
	}
	card := shop.GetCard()
	s.price, s.fee = roamcard.Cents(card.GetWalletPaymentUsdCents()), roamcard.Cents(card.GetCardIssueFeeUsdCents())
	s.stays = roamcard.Cents(card.GetExpectedAvailableAfterIssueUsdCents())
	s.say("GET /api/config")
	s.say("A card costs %s USD in USDC on %s. %s of it is the issue fee, %s stays to spend.", s.price,
		shop.GetNetwork().GetNetwork(), s.fee, s.stays)
	return nil
}

// count reads on chain what the run cost.
func (s *story) count(ctx context.Context) error {
	s.begin("Count the money")
	after, err := s.balance(ctx)
	if err != nil {
		return err
	}
	want := s.price + s.summary.ESIMUSDCents
	spent := s.before - after
	if spent != units(want) {
		return fmt.Errorf("%w: the wallet spent %s USDC; expected %s", ErrOutcome, spent.Dollars(), want)
	}
	s.summary.SpentUSDCents = want
	s.say("Balance on chain: %s, before %s.", after.Dollars(), s.before.Dollars())
	return nil
}

func (s *story) balance(ctx context.Context) (roamcard.USDC, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	return roamcard.USDCBalance(ctx, s.RPCURL, s.summary.Wallet)
}

func units(c roamcard.Cents) roamcard.USDC { return roamcard.USDC(c * 10_000) }

func (s *story) conclude() {
	s.print("\n")
	s.say("Spent      %s USDC by %s", s.summary.SpentUSDCents, s.summary.Wallet)
	s.say("Card       %s USDC in %d transfer, however often it was asked for (%d times)", s.price, s.summary.Transfers,
		s.summary.PaidRequests)
	s.say("           %s USD of it are on card %s, %s USD are the issue fee", s.summary.OnCardUSDCents, s.summary.Card,
		s.summary.FeeUSDCents)
	s.say("eSIM       %s USDC", s.summary.ESIMUSDCents)
	s.say("Took       %.1f s", float64(s.summary.Millis)/1000)
}
