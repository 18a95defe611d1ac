// Package lithic issues cards of Lithic: a provider.IssuerClient over the vendor's HTTP API.
//
//	Open ──▶ cards by memo, cards, book_transfers      a card that names our reference, then its load
//	Move ──▶ book_transfers                            between the float and a card; our reference is its token
//	Account, Moved ──▶ cards by memo, book_transfers/{token}
//	Changes ──▶ cards, book_transfers, events          all of it once, then what events name
//	SetFrozen, Close ──▶ cards/{token}                 read, then its state alone
//	Limits, SetLimits ──▶ cards/{token}                its spend limit alone
//	Details ──▶ no call                                the settings
//	Remainder ──▶ cards/{token}/balances               what is available, and what is pending
//	Transactions ──▶ transactions of the card
//
// A card is opened by two calls. While its load is missing, it counts as not opened: sent again, the opening finds the
// card and loads it. Every load has a token that follows from the reference, so that none is made twice.
package lithic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

const defaultVisibilityDelay = 30 * time.Second

// Config is how the vendor is reached. Zero values mean what the comments say.
type Config struct {
	// URL is the origin of the vendor's API. It is https, unless its host is loopback.
	URL string
	Key secret.Text
	// Float is the financial account that cards are loaded from, and Program the card programme they are made in.
	Float, Program uuid.UUID
	// Account is the account that cards are issued to, the operator's; uuid.Nil where the programme has but one.
	Account uuid.UUID
	// Transfer says how the programme names book transfers between the float and a card.
	Transfer Transfer
	// Billing is the programme's address, which merchants verify; nil where it is not told. Challenge is how 3-D Secure
	// challenges are answered; zero where it is not told.
	Billing   *card.Billing
	Challenge card.Challenge
	// Inline says that the programme may read card numbers. Without it cards are shown in the vendor's frame only.
	Inline bool
	// PerSecond is how many calls this process may make in any second; zero is no bound.
	PerSecond int
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one call; 10 s if zero.
	Timeout time.Duration
	// VisibilityDelay is how long after a send a card may still be missing from a search; 30 s if zero.
	VisibilityDelay time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Transfer is how a programme names a kind of book transfers.
type Transfer struct{ Category, Type, Subtype string }

// Issuer is Lithic as the card domain sees it. It is safe for concurrent use.
type Issuer struct {
	wire            *wire.Client
	base            *url.URL
	float, program  uuid.UUID
	account         uuid.UUID
	transfers       Transfer
	inline          bool
	billing         *card.Billing
	challenge       card.Challenge
	visibilityDelay time.Duration
}

var (
	_ card.Issuer     = (*Issuer)(nil)
	_ card.Vault      = (*Issuer)(nil)
	_ card.Stock      = (*Issuer)(nil)
	_ card.CardLister = (*Issuer)(nil)
	_ card.Book       = (*Issuer)(nil)
	_ card.Controls   = (*Issuer)(nil)
	_ card.Closer     = (*Issuer)(nil)
)

// Dial makes an Issuer. It sends nothing yet.
func Dial(cfg Config) (*Issuer, error) {
	base, err := outward.Rule{}.Origin(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("dial Lithic: %w", err)
	case cfg.Key.IsZero():
		return nil, errors.New("dial Lithic: there is no API key")
	case cfg.Float == uuid.Nil || cfg.Program == uuid.Nil:
		return nil, errors.New("dial Lithic: there is no financial account or no card programme")
	case cfg.Transfer.Category == "" || cfg.Transfer.Type == "" || cfg.Transfer.Subtype == "":
		return nil, errors.New("dial Lithic: it is not said how book transfers are named")
	}
	return &Issuer{
		wire: wire.New(wire.Config{
			Provider: Name, Role: "issuer", Base: base.JoinPath("v1"), HTTP: cfg.HTTP, Timeout: cfg.Timeout, Now: cfg.Now,
			Tracer: cfg.Tracer, Metrics: cfg.Metrics, Quota: limit.NewQuota(cfg.PerSecond),
			Authorize: func(h http.Header, _ []byte) { h.Set("Authorization", cfg.Key.Reveal()) },
		}),
		base: base, float: cfg.Float, program: cfg.Program, account: cfg.Account, transfers: cfg.Transfer, inline: cfg.Inline,
		visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay), billing: cfg.Billing, challenge: cfg.Challenge,
	}, nil
}

// Traits says what may be done after an unknown outcome: the token of a book transfer and the key of a card's creation
// are taken once, and a card is looked for before it is made.
func (i *Issuer) Traits() fulfilment.Traits {
	return fulfilment.Traits{Deduplicates: true, VisibilityDelay: i.visibilityDelay}
}

// Capabilities are those of the programme.
func (i *Issuer) Capabilities() card.Capabilities {
	c := card.Capabilities{
		Funding: card.Purse, BINs: true, Reveal: card.RevealEmbed, Holder: card.HolderProgramme, Freeze: true,
		Transactions: true, Close: true, Limits: card.LimitKinds{Transaction: true, Month: true, OneAmount: true},
		Details: i.detailKinds(),
	}
	if i.inline {
		c.Reveal = card.RevealInline
	}
	return c
}

// Probe makes every call that changes nothing, and says in a few words what it saw.
func (i *Issuer) Probe(ctx context.Context) (string, error) {
	stock, err := i.Stock(ctx)
	if err != nil {
		return "", err
	}
	none := fulfilment.Ref(uuid.New())
	if _, err := i.Account(ctx, none); !errors.Is(err, fulfilment.ErrNoRef) {
		return "", fmt.Errorf("look for a card that was never made: %w", orFound(err))
	}
	if _, err := i.Moved(ctx, none.String(), none); !errors.Is(err, fulfilment.ErrNoRef) {
		return "", fmt.Errorf("look for a transfer that was never made: %w", orFound(err))
	}
	page, _, err := i.Accounts(ctx, "")
	if err != nil {
		return "", err
	}
	if _, err := i.Changes(ctx, eventsSince(i.wire.Now())); err != nil {
		return "", err
	}
	return fmt.Sprintf("range %s, a float of %s USD, %d cards on the first page",
		stock.BINs[0].Prefix, stock.Float, len(page)), nil
}

func orFound(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	return err
}
