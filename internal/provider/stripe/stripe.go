// Package stripe issues cards with Stripe Issuing: the card ports over the vendor's API, by its own client library.
//
//	Open ────────▶ POST issuing/cards            a virtual card of the programme's holder, with a limit of all time
//	Account ─────▶ GET issuing/cards/{id}        found by our reference among the newest cards
//	Move ────────▶ GET, POST issuing/cards/{id}  the limit as it is to be, and a record of the load in the metadata
//	Moved ───────▶ GET issuing/cards/{id}        that record
//	Balance ─────▶ authorizations, transactions  the limit less what is spent and held
//	SetFrozen ───▶ GET, POST issuing/cards/{id}  the state, and a mark in the metadata that the owner asked for it
//	Limits ──────▶ GET issuing/cards/{id}        those per authorization and month, and the categories
//	SetLimits ───▶ GET, POST issuing/cards/{id}  all limits, that of all time as it is
//	Details ─────▶ GET issuing/cardholders/{id}  the programme's name, address, phone and email address
//	Transactions ▶ authorizations, transactions  what was authorized with what came of it, and what came unasked
//	Stock ───────▶ all of these, and balance     what no card is allowed to spend
//	Unlock ──────▶ POST ephemeral_keys           for a page on which Stripe.js shows the number
//
// There is no money on a card. Stripe keeps one balance for all cards, and enforces each card's limit.
package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v85"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

const (
	defaultTimeout         = 10 * time.Second
	defaultVisibilityDelay = 30 * time.Second
	defaultFloatEvery      = 30 * time.Second
	defaultFloatAge        = 5 * time.Minute
)

// Config is how the vendor is reached. Zero values mean what the comments say.
type Config struct {
	// URL is where the vendor's API begins, without its /v1; stripego.APIURL if empty. It is https, unless its host is
	// loopback.
	URL string
	// Key is a secret or restricted key.
	Key secret.Text
	// Cardholder is the ID of the operator's own cardholder, in whose name all cards are.
	Cardholder string
	// Publishable is the account's publishable key, which pages show, and Elements the URL of Stripe.js; that of the
	// version that the library pins if empty.
	Publishable, Elements string
	// Instructions tell owners what to do about a 3-D Secure challenge; words of the adapter's if empty.
	Instructions string
	// PerSecond is how many calls this process may make in any second; zero is no bound.
	PerSecond int
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one request; 10 s if zero.
	Timeout time.Duration
	// VisibilityDelay is how long after a send its reference may still appear; 30 s if zero.
	VisibilityDelay time.Duration
	// FloatEvery is how often the float is read; 30 s if zero, each time if negative. FloatAge is how old it may become
	// while reading it takes longer than one call may; 5 min if zero.
	FloatEvery, FloatAge time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Issuer is Stripe Issuing as the card domain sees it: a provider.IssuerClient. It is safe for concurrent use.
type Issuer struct {
	wire
	cardholder  string
	publishable string
	// instructions may be empty.
	instructions string
	elements     *url.URL
	// api is the origin that Stripe.js calls.
	api             string
	visibilityDelay time.Duration
	// references are all cards of the account, by our references.
	references *references
	// spent is what was ever spent with the cards of the account.
	spent *spending
	float *floatReader
}

var (
	_ card.Issuer     = (*Issuer)(nil)
	_ card.Vault      = (*Issuer)(nil)
	_ card.Stock      = (*Issuer)(nil)
	_ card.CardLister = (*Issuer)(nil)
	_ card.Book       = (*Issuer)(nil)
	_ card.Controls   = (*Issuer)(nil)
)

// Dial makes an Issuer. It sends nothing yet.
func Dial(cfg Config) (*Issuer, error) {
	w, err := dial(cfg)
	if err == nil && !isID(cfg.Cardholder) {
		err = errors.New("the cardholder is not an ID")
	}
	if err == nil && !isPublishable(cfg.Publishable) {
		err = errors.New("the publishable key is none")
	}
	if err != nil {
		return nil, fmt.Errorf("dial Stripe: %w", err)
	}
	elements, err := elementsAt(cmp.Or(cfg.Elements, elementsURL))
	if err != nil {
		return nil, fmt.Errorf("dial Stripe: %w", err)
	}
	i := &Issuer{
		wire: w, cardholder: cfg.Cardholder, publishable: cfg.Publishable, elements: elements, api: w.origin,
		visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay), instructions: cfg.Instructions,
	}
	i.references = newReferences(i.listCards)
	i.spent = newSpending(i.listTransactions)
	i.float = &floatReader{
		every: cmp.Or(cfg.FloatEvery, defaultFloatEvery), most: cmp.Or(cfg.FloatAge, defaultFloatAge), turn: newTurn(),
	}
	return i, nil
}

func dial(cfg Config) (wire, error) {
	base, err := outward.Rule{}.Origin(cmp.Or(cfg.URL, stripego.APIURL))
	switch {
	case err != nil:
		return wire{}, err
	case cfg.Key.IsZero():
		return wire{}, errors.New("there is no key")
	}
	w := wire{
		host: base.Host, origin: base.Scheme + "://" + base.Host, key: cfg.Key, now: cfg.Now, tracer: cfg.Tracer,
		metrics: cfg.Metrics, quota: limit.NewQuota(cfg.PerSecond),
		timeout: cmp.Or(cfg.Timeout, defaultTimeout),
	}
	client := outward.New(outward.Config{Timeout: w.timeout, Most: maxAnswer, Through: cfg.HTTP})
	client.Transport = guard{client.Transport, strings.TrimRight(base.Path, "/")}
	w.backend = stripego.GetBackendWithConfig(stripego.APIBackend, &stripego.BackendConfig{
		URL:        stripego.String(base.Scheme + "://" + base.Host),
		HTTPClient: client,
		// Its errors quote answers.
		LeveledLogger:     &stripego.LeveledLogger{Level: stripego.LevelNull},
		MaxNetworkRetries: stripego.Int64(0),
		EnableTelemetry:   stripego.Bool(false),
	})
	if w.now == nil {
		w.now = time.Now
	}
	if w.tracer == nil {
		w.tracer = otel.Tracer("roamcard/provider/stripe")
	}
	return w, nil
}

// Traits says what may be done after an unknown outcome. Stripe takes an idempotency key once within 24 h. After that,
// Open and Move find what the reference has made before they send: a card by its metadata, a load by the card's.
func (i *Issuer) Traits() fulfilment.Traits {
	return fulfilment.Traits{Deduplicates: true, VisibilityDelay: i.visibilityDelay}
}

// Capabilities implements provider.IssuerClient.
func (i *Issuer) Capabilities() card.Capabilities {
	return card.Capabilities{
		Funding: card.Limit, Reveal: card.RevealEmbed, Holder: card.HolderProgramme, Freeze: true, Transactions: true,
		Close: true, Limits: card.LimitKinds{Transaction: true, Month: true, Merchants: true},
		Details: card.DetailKinds{
			Billing:    true,
			Challenges: []card.ChallengeMethod{card.ChallengeNone, card.ChallengeSMS, card.ChallengeEmail},
		},
	}
}

// Credentials implements card.Vault: Stripe shows the number in a frame of its own, by an ephemeral key of the page.
func (i *Issuer) Credentials(context.Context, string) (card.Credentials, error) {
	return card.Credentials{}, card.ErrEmbedOnly
}
