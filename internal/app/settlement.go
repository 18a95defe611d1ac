package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/gen"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/facilitator"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/discovery"
	"github.com/roamcard/roamcard/internal/x402"
)

// The settlers that the setting settlement.order names.
const (
	SettlerRelayer     = "relayer"
	SettlerFacilitator = "facilitator"
)

// settlerTurn is how long a payment waits for its first settler before the second is used, and the timeout of one call
// to a facilitator.
const settlerTurn = 8 * time.Second

// settlementOrder parses the setting. A Config without it uses only the relayer.
func settlementOrder(text string) ([]string, error) {
	text = strings.ReplaceAll(text, " ", "")
	const both, reversed = SettlerRelayer + "," + SettlerFacilitator, SettlerFacilitator + "," + SettlerRelayer
	if err := among(text, SettlerRelayer, SettlerFacilitator, both, reversed); err != nil {
		return nil, err
	}
	return strings.Split(text, ","), nil
}

// SettlesBy reports whether a settler is in the order.
func (c Config) SettlesBy(settler string) bool {
	return slices.Contains(c.Settlement, settler) || (len(c.Settlement) == 0 && settler == SettlerRelayer)
}

// settlementMistakes are the missing settings of the settlers in the order, and those of a facilitator that contradict.
func (c Config) settlementMistakes() []error {
	var wrong []error
	need := func(settler, key string, missing bool) {
		if missing && slices.Contains(c.Settlement, settler) {
			wrong = append(wrong,
				fmt.Errorf("%s (%s) is not set, and settlement.order names the %s", key, setting{key: key}.env(), settler))
		}
	}
	need(SettlerRelayer, "relayer.keys", len(c.RelayerKeys) == 0)
	need(SettlerFacilitator, "facilitator.url", c.FacilitatorURL == "")
	if len(c.Fairness.SmartAccounts) > 0 && !c.SettlesBy(SettlerRelayer) {
		wrong = append(wrong, errors.New("payment.smart_accounts names kinds, and settlement.order has no relayer, which "+
			"alone settles for them"))
	}
	if len(c.Fairness.SmartAccounts) > 0 && len(c.RelayerSmartAccountKeys) == 0 {
		wrong = append(wrong, errors.New("relayer.smart_account_keys is not set, and payment.smart_accounts names kinds: "+
			"their transactions are sent by a key of their own"))
	}
	return append(wrong, c.facilitatorMistakes()...)
}

// service reads the http or https URL of a service, which may lie below a path.
func service(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", errors.New("is not a URL like https://facilitator.example.com/v2")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// openSettlers makes the settlers. A relayer with keys that is not in the order settles no new payments, but maintains
// its open transactions.
func (a *App) openSettlers(ctx context.Context) error {
	keys, err := a.signers(ctx)
	if err != nil {
		return fmt.Errorf("open the keys:\n%w", err)
	}
	held := keys.senders()
	if len(held) > 0 || a.config.SettlesBy(SettlerRelayer) {
		on, err := a.findSettler(ctx)
		if err != nil {
			return err
		}
		if a.relayer, err = a.config.newRelayer(a.chain, on, a.store.Transactions().OfStored(), keys, a.log,
			a.metrics); err != nil {
			return fmt.Errorf("make the relayer: %w", err)
		}
	}
	if err := a.relayer.CheckKeys(ctx, a.store.Transactions()); err != nil {
		return fmt.Errorf("check the relayer keys: %w", err)
	}
	if a.config.SettlesBy(SettlerFacilitator) {
		sold, err := a.resources(a.store.Orders())
		if err != nil {
			return fmt.Errorf("list the products: %w", err)
		}
		if a.facilitator, err = a.config.newFacilitator(a.log, sold, a.chain, a.metrics); err != nil {
			return fmt.Errorf("make the facilitator: %w", err)
		}
	}
	return nil
}

// signers opens the keys, once.
func (a *App) signers(ctx context.Context) (Keys, error) {
	if a.keys == nil {
		keys, err := a.config.Keys(ctx)
		if err != nil {
			return Keys{}, err
		}
		a.keys = &keys
	}
	return *a.keys, nil
}

// findSettler looks for the contract of batches: after its deployment, processes are restarted. While too few nodes
// answer, there is none, and awaitSettler looks again.
func (a *App) findSettler(ctx context.Context) (settler.Contract, error) {
	if a.config.Fairness.MaxBatch == 1 {
		return settler.Contract{}, nil
	}
	on, err := a.chain.FindSettler(ctx)
	switch {
	case errors.Is(err, settler.ErrOtherCode):
		return on, err
	case err != nil:
		a.settlerUnknown = true
		a.log.WarnContext(ctx, "whether there is a contract for batches is unknown: until it is known, each payment gets a "+
			"transaction of its own", "cause", err)
	case on.IsZero():
		a.log.WarnContext(ctx, "the chain has no contract for batches: each payment gets a transaction of its own")
	default:
		a.log.InfoContext(ctx, "payments share transactions", "contract", on.Address().String(), "own", on.IsOwn())
	}
	return on, nil
}

// settlerLook is the time between two looks for the contract of batches, while too few nodes answer.
const settlerLook = 15 * time.Second

// awaitSettler looks for the contract of batches until enough nodes answer.
func (a *App) awaitSettler(ctx context.Context) {
	again := time.NewTicker(settlerLook)
	defer again.Stop()
	for a.settlerUnknown {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		a.settlerUnknown = false
		on, err := a.findSettler(ctx)
		if err != nil {
			a.log.ErrorContext(ctx, "there is no contract for batches", "cause", err)
			return
		}
		a.relayer.Use(on)
	}
}

func (c Config) newRelayer(
	on *chain.Chain, batches settler.Contract, transactions chain.Transactions, keys Keys,
	log *slog.Logger, metrics *telemetry.Metrics,
) (*chain.Relayer, error) {
	return chain.NewRelayer(chain.RelayerConfig{
		Chain: on, Transactions: transactions, Keys: keys.Relayers, Retired: keys.Retired,
		SmartAccountKeys: keys.SmartAccountRelayers, Settler: batches, MaxBatch: c.Fairness.MaxBatch,
		MaxFeePerGas: gwei(50), MinTip: big.NewInt(1_000), MinBalance: new(big.Int).Div(gwei(1_000_000), big.NewInt(10)),
		MaxHeadAge: MaxHeadAge, BumpAfter: 15 * time.Second, ResendAfter: 2 * time.Second, Now: c.now, Log: log,
		Budget: c.Fairness.budget(), Metrics: metrics,
	})
}

// MaxHeadAge is the age of the chain's latest block from which nothing is sold.
const MaxHeadAge = time.Minute

// paidOrderFunc finds the resource and extensions of a payment, see facilitator.Config.
type paidOrderFunc func(ctx context.Context, p payment.Payment) (x402.Resource, map[string]any, error)

// resources finds the product's purchase route for the facilitator, also for an order that was paid at its own URL:
// that URL is for one payer and must not be listed.
func (a *App) resources(orders store.Orders) (paidOrderFunc, error) {
	products, err := discovery.Products(discovery.Config{
		OpenAPI: gen.OpenAPI, BaseURL: a.config.BaseURL, Environment: a.config.Environment,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p payment.Payment) (x402.Resource, map[string]any, error) {
		o, err := orders.Find(ctx, p.Order)
		if err != nil {
			return x402.Resource{}, nil, fmt.Errorf("read the order: %w", err)
		}
		product := products[a.pathOf(o.Kind)]
		return product.Resource, product.Extensions, nil
	}, nil
}

// newFacilitator makes the client of the facilitator; without sold, on and metrics it can be asked what it supports.
func (c Config) newFacilitator(
	log *slog.Logger, sold paidOrderFunc, on *chain.Chain, metrics *telemetry.Metrics,
) (*facilitator.Facilitator, error) {
	terms := c.terms()
	of := facilitator.Config{
		URL: c.FacilitatorURL, Rule: c.rule(), Token: c.FacilitatorToken, Timeout: settlerTurn, Now: c.now, Log: log,
		Requirements: func(p payment.Payment) x402.Requirements { return terms.Requirements(p.Authorization.Value, nil) },
		Resource:     sold, Alone: !c.SettlesBy(SettlerRelayer), SkipVerify: !c.FacilitatorVerify, HTTP: c.Outside.HTTP,
		Reverts: c.Fairness.Reverts, Metrics: metrics,
	}
	if on != nil {
		of.Simulate = func(ctx context.Context, p payment.Payment) error {
			return on.Simulate(ctx, p.Authorization, p.Signature)
		}
		of.Reverted, of.HeadTime = on.Reverted, on.Following().Time
	}
	if c.hasFacilitatorKey() {
		key, err := c.facilitatorKey()
		if err != nil {
			return nil, fmt.Errorf("open facilitator.key_secret: %w", err)
		}
		of.TokenSource = key.Token
	}
	return facilitator.New(of)
}

// settler is the configured settler, or both as a failover.
func (a *App) settler() payment.Settler {
	named := a.settlers()
	if len(named) == 1 {
		return named[0].Settler
	}
	return payment.NewFailover(payment.FailoverConfig{
		Settlers: named, Turn: cmp.Or(a.config.SettlementTurn, settlerTurn), Now: a.config.now, Log: a.log,
	})
}

func (a *App) settlers() []payment.NamedSettler {
	order := a.config.Settlement
	if len(order) == 0 {
		order = []string{SettlerRelayer}
	}
	named := make([]payment.NamedSettler, len(order))
	for i, name := range order {
		named[i] = payment.NamedSettler{Name: name, Settler: a.relayer}
		if name == SettlerFacilitator {
			named[i].Settler = a.facilitator
		}
	}
	return named
}

// settlersReady is the readiness check of the settlers, and its name. Of two settlers, one has to be ready.
func (a *App) settlersReady() (name string, check func(context.Context) error) {
	ready := map[string]func(context.Context) error{}
	if a.relayer != nil {
		ready[SettlerRelayer] = a.relayer.Ready
	}
	if a.facilitator != nil {
		ready[SettlerFacilitator] = a.facilitator.Ready
	}
	named := a.settlers()
	if len(named) == 1 {
		return named[0].Name, ready[named[0].Name]
	}
	checks := make([]availability.Check, len(named))
	for i, s := range named {
		checks[i] = availability.Check{Name: s.Name, Run: ready[s.Name]}
	}
	return "settlement", func(ctx context.Context) error { return availability.AnyOf(ctx, checks) }
}
