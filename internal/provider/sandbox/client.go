package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// ClientConfig is how a vendor is reached. Zero values mean what the comments say.
type ClientConfig struct {
	// URL is where the server is, without the /v1.
	URL string
	// APIKey is DevKey if empty.
	APIKey secret.Text
	// HTTP may be nil. Only its transport is used.
	HTTP *http.Client
	// Timeout bounds one call; 10 s if zero.
	Timeout time.Duration
	// VisibilityDelay is how long after a send its reference may still appear; 30 s if zero.
	VisibilityDelay time.Duration
	// SpendLimits says that the server opens cards with limits.
	SpendLimits bool
	// Now is time.Now if nil.
	Now func() time.Time
	// Tracer is the process's own if nil.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *telemetry.Metrics
}

// Issuer is the sandbox issuer as the card domain sees it: a card.Issuer, card.Vault and card.Stock.
// It is safe for concurrent use.
type Issuer struct {
	wire            *wire.Client
	visibilityDelay time.Duration
	limits          bool
}

var (
	_ card.Issuer     = (*Issuer)(nil)
	_ card.Vault      = (*Issuer)(nil)
	_ card.Stock      = (*Issuer)(nil)
	_ card.CardLister = (*Issuer)(nil)

	_ card.Controls = (*Issuer)(nil)
	_ card.Closer   = (*Issuer)(nil)
)

// Dial makes an Issuer. It sends nothing yet.
func Dial(cfg ClientConfig) (*Issuer, error) {
	w, err := dial(cfg, "issuer")
	if err != nil {
		return nil, fmt.Errorf("dial the sandbox issuer: %w", err)
	}
	return &Issuer{
		wire: w, visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay), limits: cfg.SpendLimits,
	}, nil
}

// Traits says what may be done after an unknown outcome: the server takes a reference once only.
func (i *Issuer) Traits() fulfilment.Traits {
	return fulfilment.Traits{Deduplicates: true, VisibilityDelay: i.visibilityDelay}
}

// Capabilities are those of the server that is dialled.
func (i *Issuer) Capabilities() card.Capabilities {
	c := card.Capabilities{
		Funding: card.Purse, BINs: true, Reveal: card.RevealInline, Holder: card.HolderProgramme,
		Freeze: true, Transactions: true, Close: true,
		Limits:  card.LimitKinds{Transaction: true, Month: true, Merchants: true},
		Details: card.DetailKinds{Billing: true, Challenges: []card.ChallengeMethod{card.ChallengeAutomatic}},
	}
	if i.limits {
		c.Funding = card.Limit
	}
	return c
}

// Open implements card.Issuer.
func (i *Issuer) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	amount := "loadCents"
	if o.Limit {
		amount = "limitCents"
	}
	var got cardAnswer
	err := i.call(ctx, request{
		op: "open", method: http.MethodPost, path: []string{"cards"}, route: "/v1/cards",
		body: map[string]any{
			"reference": o.Ref.String(), amount: int64(o.Load), "currency": currencyUSD, "scenario": scenario.In(ctx),
			"note": o.Buyer,
		},
	}, &got)
	if err != nil {
		return card.Account{}, fmt.Errorf("open a card: %w", err)
	}
	account, err := got.account(o.Ref)
	if err == nil && account.Loaded != o.Load {
		err = wire.Unclear("the answer is about another amount")
	}
	if err != nil {
		return card.Account{}, fmt.Errorf("open a card: %w", err)
	}
	return account, nil
}

// Account implements card.Issuer.
func (i *Issuer) Account(ctx context.Context, ref fulfilment.Ref) (card.Account, error) {
	var got listAnswer[cardAnswer]
	err := i.call(ctx, request{
		op: "account", method: http.MethodGet, path: []string{"cards"}, route: "/v1/cards", ref: uuid.UUID(ref),
	}, &got)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	account, err := only(got, func(one cardAnswer) (card.Account, error) { return one.account(ref) }, sameAccount)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	return account, nil
}

// Accounts implements card.CardLister.
func (i *Issuer) Accounts(ctx context.Context, after string) ([]card.Account, string, error) {
	rq := request{op: "accounts", method: http.MethodGet, path: []string{"cards"}, route: "/v1/cards"}
	if after != "" {
		rq.query = url.Values{"after": {after}}
	}
	var got struct {
		listAnswer[cardAnswer]
		Next string `json:"next"`
	}
	if err := i.call(ctx, rq, &got); err != nil {
		return nil, "", fmt.Errorf("list cards: %w", err)
	}
	if got.Items == nil || (got.Next != "" && (got.Next == after || len(*got.Items) == 0)) {
		return nil, "", fmt.Errorf("list cards: %w", wire.Unclear("the list in the answer does not match the documentation"))
	}
	page := make([]card.Account, 0, len(*got.Items))
	for _, one := range *got.Items {
		ref, err := uuid.Parse(one.Reference)
		if err != nil {
			return nil, "", fmt.Errorf("list cards: %w", wire.Unclear("a reference in the answer is none"))
		}
		account, err := one.account(fulfilment.Ref(ref))
		if err != nil {
			return nil, "", fmt.Errorf("list cards: %w", err)
		}
		page = append(page, account)
	}
	return page, got.Next, nil
}

// Move implements card.Issuer.
func (i *Issuer) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	direction := intoCard
	if m.Direction == card.Withdrawal {
		direction = outOfCard
	}
	body := map[string]any{
		"reference": m.Ref.String(), "direction": direction, "amountCents": int64(m.Amount),
		"currency": currencyUSD, "scenario": scenario.In(ctx),
	}
	if i.limits {
		body["limitCents"] = int64(m.Target)
	}
	var got movementAnswer
	err := i.call(ctx, request{
		op: "move", method: http.MethodPost, path: []string{"cards", m.Account, "movements"},
		route: "/v1/cards/{id}/movements", body: body,
	}, &got)
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("ask for a %s: %w", m.Direction, err)
	}
	moved, err := got.moved(m.Ref)
	if err == nil && (moved.Amount != m.Amount || moved.Account != m.Account || moved.Direction != m.Direction ||
		(moved.Target != 0 && moved.Target != m.Target)) {
		err = wire.Unclear("the answer is about another movement")
	}
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("ask for a %s: %w", m.Direction, err)
	}
	return moved, nil
}

// Moved implements card.Issuer.
func (i *Issuer) Moved(ctx context.Context, account string, ref fulfilment.Ref) (card.MovementRecord, error) {
	var got listAnswer[movementAnswer]
	err := i.call(ctx, request{
		op: "moved", method: http.MethodGet, path: []string{"movements"}, route: "/v1/movements", ref: uuid.UUID(ref),
	}, &got)
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("read a movement: %w", err)
	}
	moved, err := only(got, func(one movementAnswer) (card.MovementRecord, error) { return one.moved(ref) }, sameMoved)
	if err == nil && moved.Account != account {
		err = wire.Unclear("the answer is about another card")
	}
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("read a movement: %w", err)
	}
	return moved, nil
}

// Balance implements card.Vault.
func (i *Issuer) Balance(ctx context.Context, account string) (card.Balance, error) {
	var got balanceAnswer
	err := i.call(ctx, request{
		op: "balance", method: http.MethodGet, path: []string{"cards", account, "balance"},
		route: "/v1/cards/{id}/balance", confidential: true,
	}, &got)
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", err)
	}
	balance, err := got.balance(account)
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", err)
	}
	return balance, nil
}

// Credentials implements card.Vault.
func (i *Issuer) Credentials(ctx context.Context, account string) (card.Credentials, error) {
	var got sensitiveAnswer
	err := i.call(ctx, request{
		op: "sensitive", method: http.MethodPost, path: []string{"cards", account, "sensitive"},
		route: "/v1/cards/{id}/sensitive", confidential: true,
	}, &got)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", err)
	}
	credentials, err := got.credentials(account)
	if err != nil {
		return card.Credentials{}, fmt.Errorf("read card credentials: %w", err)
	}
	return credentials, nil
}

// Stock implements card.Stock.
func (i *Issuer) Stock(ctx context.Context) (card.Inventory, error) {
	asOf := i.wire.Now().UTC()
	var float accountAnswer
	err := i.call(ctx, request{op: "stock", method: http.MethodGet, path: []string{"account"}, route: "/v1/account"},
		&float)
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the float: %w", err)
	}
	var bins listAnswer[binAnswer]
	err = i.call(ctx, request{op: "stock", method: http.MethodGet, path: []string{"bins"}, route: "/v1/bins"}, &bins)
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the card ranges: %w", err)
	}
	inventory, err := inventoryOf(float, bins)
	if err != nil {
		return card.Inventory{}, fmt.Errorf("read the stock: %w", err)
	}
	inventory.AsOf = asOf
	return inventory, nil
}

// call sends once, and knows the issuer's refusals.
func (i *Issuer) call(ctx context.Context, rq request, into any) error {
	return send(ctx, i.wire, rq, refusals, into)
}
