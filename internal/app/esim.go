package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

func esimRegistration() Registration {
	return Registration{
		Rows: store.EsimProduct(), Make: (*App).esims, Provided: (*App).esimsProvided, settings: esimSettings,
		Mistakes: Config.esimMistakes, Develop: developEsims, Examine: examineSupplier,
	}
}

// EsimConfig is everything about eSIMs.
type EsimConfig struct {
	// Provider names the supplier, URL and Key reach it.
	Provider, URL string
	Key           secret.Text
	// Keys seal the installation material, the first one from now on; see esim.ParseKeyring.
	Keys secret.Text
	// TokenKey makes delivery tokens.
	TokenKey secret.Text
	Paused   bool
	// MarginBPS is what is added to the supplier's cost.
	MarginBPS int
	SyncEvery time.Duration
	// StaleAfter is how old the catalogue may be for anything to be sold from it.
	StaleAfter time.Duration
	Poll       time.Duration
	Deadline   time.Duration
	// Waiters bounds the paid requests that wait for their eSIM.
	Waiters int
}

// esimSettings is the part of the configuration about eSIMs.
func esimSettings(m Modules) []setting {
	at := func(c *Config) *EsimConfig { return &c.Esim }
	return []setting{
		{key: "supplier.provider", help: "who supplies the eSIMs; sandbox eSIMs are not real", byDefault: "sandbox",
			set: oneOf(func(c *Config) *string { return &at(c).Provider }, m.supplierNames()...)},
		{key: "supplier.url", help: "the eSIM supplier, with the path of its API where it has one",
			set: func(c *Config, s string) (err error) { c.Esim.URL, err = apiURL(s); return err }},
		{key: "supplier.key", help: "the eSIM supplier's API key", secret: true,
			set: secretAt(func(c *Config) *secret.Text { return &at(c).Key })},
		{key: "esim.keys", help: "id:key pairs separated by commas, each key 32 bytes in hex, that seal installation " +
			"material; the first one seals, all open", secret: true, set: keyring},
		{key: "esim.token_key", help: "32 bytes in hex that make delivery tokens; the same in every process", secret: true,
			set: hexKey(func(c *Config) *secret.Text { return &at(c).TokenKey })},
		{key: "esim.paused", help: "closes the sale of eSIMs", byDefault: "false",
			set: boolean(func(c *Config) *bool { return &at(c).Paused })},
		{key: "esim.margin_bps", help: "what is added to the supplier's cost, in hundredths of a percent, before rounding " +
			"up to a cent", byDefault: "2500", set: basisPoints(func(c *Config) *int { return &at(c).MarginBPS })},
		{key: "esim.sync_every", help: "how often the catalogue is brought in step with the supplier", byDefault: "5m",
			set: duration(func(c *Config) *time.Duration { return &at(c).SyncEvery })},
		{key: "esim.stale_after", help: "how old the catalogue may be for anything to be sold from it", byDefault: "30m",
			set: duration(func(c *Config) *time.Duration { return &at(c).StaleAfter })},
		{key: "supplier.poll", help: "how often a pending eSIM is looked at", byDefault: "1s",
			set: duration(func(c *Config) *time.Duration { return &at(c).Poll })},
		{key: "supplier.deadline", help: "how long the supplier may leave an eSIM pending before an operator looks",
			byDefault: "1h", set: duration(func(c *Config) *time.Duration { return &at(c).Deadline })},
		{key: "esim.max_waiting", help: "how many paid requests may wait for their eSIM at once; those above are answered " +
			"without it", byDefault: "5000", set: number(func(c *Config) *int { return &at(c).Waiters })},
	}
}

// keyring keeps the text; the keys are made of it when the product is.
func keyring(c *Config, s string) error {
	c.Esim.Keys = secret.New(s)
	_, err := esim.ParseKeyring(c.Esim.Keys)
	return err
}

func basisPoints(at func(*Config) *int) func(*Config, string) error {
	return func(c *Config, s string) error {
		if s == "0" {
			*at(c) = 0
			return nil
		}
		if err := number(at)(c, s); err != nil {
			return err
		}
		if *at(c) > esim.MaxMarginBPS {
			return fmt.Errorf("%q is more than %d", s, esim.MaxMarginBPS)
		}
		return nil
	}
}

// esimMistakes are those that show only when several settings are seen together.
func (c Config) esimMistakes() []error {
	var wrong []error
	if chosen, err := c.supplier(); err == nil { // a name that is none was told when it was read
		wrong = c.providerMistakes("supplier.provider", "eSIMs", chosen.Registration,
			c.supplierConfig(chosen, nil, discard(), nil))
	}
	if c.Esim.SyncEvery > 0 && c.Esim.SyncEvery < time.Second {
		wrong = append(wrong, errors.New("esim.sync_every: must be at least 1s"))
	}
	if c.Esim.StaleAfter > 0 && c.Esim.StaleAfter <= c.Esim.SyncEvery {
		wrong = append(wrong, errors.New("esim.stale_after: must be longer than esim.sync_every"))
	}
	return wrong
}

const (
	supplierCallTimeout = 5 * time.Second
	// supplierVisibilityDelay is how long after a send the supplier may still take it up.
	supplierVisibilityDelay = 10 * time.Second
)

// supplierName is what the one that is chosen is called.
func (c Config) supplierName() string { return c.Esim.Provider }

// supplier is the one that is chosen.
func (c Config) supplier() (provider.Supplier, error) {
	all := c.Added.suppliers()
	i := slices.IndexFunc(all, func(s provider.Supplier) bool { return s.Name == c.Esim.Provider })
	if i < 0 {
		return provider.Supplier{}, fmt.Errorf("supplier.provider: %w", among(c.Esim.Provider, c.Added.supplierNames()...))
	}
	return all[i], nil
}

// callTimeout bounds one call to the supplier.
func (c EsimConfig) callTimeout(of provider.Supplier) time.Duration {
	return cmp.Or(of.CallTimeout, supplierCallTimeout)
}

func (c Config) supplierConfig(
	of provider.Supplier, journal esim.Journal, log *slog.Logger, metrics *telemetry.Metrics,
) provider.Config {
	return provider.Config{
		URL: c.Esim.URL, Key: c.Esim.Key, CallTimeout: c.Esim.callTimeout(of), VisibilityDelay: supplierVisibilityDelay,
		Journal: journal, Production: c.Environment == Production, Own: c.Own, Log: log, Metrics: metrics,
	}
}

// dialSupplier makes a client of the supplier. Nothing is asked yet.
func (c Config) dialSupplier(
	journal esim.Journal, log *slog.Logger, metrics *telemetry.Metrics,
) (provider.SupplierClient, error) {
	chosen, err := c.supplier()
	if err != nil {
		return nil, err
	}
	return chosen.Dial(c.supplierConfig(chosen, journal, log, metrics))
}

// dialSupplier returns the process's client of the supplier: a supplier counts the requests of all of them together.
func (a *App) dialSupplier() (provider.SupplierClient, error) {
	if a.supplier == nil {
		dialled, err := a.config.dialSupplier(a.store.SupplierJournal(a.config.supplierName()), a.log, a.metrics)
		if err != nil {
			return nil, fmt.Errorf("dial the supplier: %w", err)
		}
		a.supplier = dialled
	}
	return a.supplier, nil
}

// esimsProvided is what the supplier has made.
func (a *App) esimsProvided() (reconcile.Product, error) {
	supplier, err := a.dialSupplier()
	if err != nil {
		return nil, err
	}
	return esim.Made{Book: supplier, Plans: a.store.Esims()}, nil
}

// esims makes the eSIM product over its supplier.
func (a *App) esims(p *Parts) (Made, error) {
	c := a.config.Esim
	supplier, err := a.dialSupplier()
	if err != nil {
		return Made{}, err
	}
	chosen, err := a.config.supplier()
	if err != nil {
		return Made{}, err
	}
	capabilities := supplier.Capabilities()
	controls, offered := supplier.(esim.Controls)
	if !offered && capabilities != (esim.Capabilities{}) {
		return Made{}, errors.New("the eSIM supplier declares controls for owners that its adapter does not have")
	}
	keys, err := esim.ParseKeyring(c.Keys)
	if err != nil {
		return Made{}, fmt.Errorf("read esim.keys: %w", err)
	}
	tokenKey, err := hex.DecodeString(c.TokenKey.Reveal())
	if err != nil || len(tokenKey) < 32 {
		return Made{}, errors.New("decode the token key: not 32 bytes in hex")
	}
	e := esim.New(esim.Config{
		Store: a.store.Esims(), Supplier: supplier, Traits: supplier.Traits(), Keys: keys, TokenKey: tokenKey, Log: a.log,
		Capabilities: capabilities, Controls: controls, Now: time.Now,
		Paused: c.Paused, Switches: p.Switches, Payments: p.Payments,
		Workers:   p.Workers(settlement.Fulfilling, esim.Syncing),
		MarginBPS: c.MarginBPS, StaleAfter: c.StaleAfter, Poll: c.Poll, CallTimeout: c.callTimeout(chosen),
		Deadline: c.Deadline, Waiters: c.Waiters, UnsettledPercent: a.config.Fairness.UnsettledPercent,
		SyncEvery: c.SyncEvery,
	})
	return Made{
		Product: e, View: rpc.EsimView, Describe: rpc.DescribeEsims, Deliveries: e,
		Serve: func(all *rpc.Services, s Selling) {
			all.Esims = rpc.EsimService{
				Sales: s.Sales, Orders: s.sells, Plans: e, Delivery: e, Profiles: e,
				Capabilities: capabilities, Session: rpcx.SessionOf(s.who), Limits: s.limits,
				Availability: s.availability, Terms: a.config.terms(), Now: time.Now,
			}
		},
	}, nil
}

// developEsims is the eSIM part of every development server. The keys are next to the data, like the other development
// secrets.
func developEsims(c *Config, d Development) error {
	key, err := d.Keep("esim.keys", "dev:")
	if err != nil {
		return err
	}
	token, err := d.Keep("esim-token.key", "")
	c.Esim = EsimConfig{
		Provider: "sandbox", URL: d.SandboxURL, Key: secret.New(sandbox.DevKey),
		Keys: secret.New(key), TokenKey: secret.New(token), MarginBPS: 2500, SyncEvery: 5 * time.Second,
		StaleAfter: time.Minute, Poll: 200 * time.Millisecond, Deadline: time.Hour, Waiters: 5000,
	}
	return err
}

// examineSupplier asks the supplier for what costs nothing. Nothing is ordered, so nothing has to be kept.
func examineSupplier(ctx context.Context, cfg Config) Examination {
	const fix = "check supplier.provider, supplier.url, supplier.key and the supplier's own settings"
	supplier, err := cfg.dialSupplier(noJournal{}, discard(), nil)
	if err != nil {
		return Examination{Name: "esim supplier", Err: err, Fix: fix}
	}
	seen, err := supplier.Probe(ctx)
	return Examination{Name: "esim supplier", Detail: cfg.supplierName() + ": " + seen, Err: err, Fix: fix}
}

// noJournal is the journal of a client that orders nothing.
type noJournal struct{}

var errNoJournal = errors.New("nothing is ordered here")

// Begin implements esim.Journal.
func (noJournal) Begin(context.Context, esim.Sent) error { return errNoJournal }

// Name implements esim.Journal.
func (noJournal) Name(context.Context, fulfilment.Ref, string) error { return errNoJournal }

// Sent implements esim.Journal.
func (noJournal) Sent(context.Context, fulfilment.Ref) (esim.Sent, error) {
	return esim.Sent{}, errNoJournal
}

// SentBetween implements esim.Journal.
func (noJournal) SentBetween(context.Context, string, time.Time, time.Time) ([]esim.Sent, error) {
	return nil, errNoJournal
}

// Named implements esim.Journal.
func (noJournal) Named(context.Context, []string) (map[string]fulfilment.Ref, error) {
	return nil, errNoJournal
}
