package app

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/routing"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpc"
)

func esimRegistration() Registration {
	return Registration{
		Rows: store.EsimProduct(), Make: (*App).esims, Provided: (*App).esimsProvided, settings: esimSettings,
		Validate: Config.esimMistakes, Develop: developEsims, Examine: examineEsims, Try: trySuppliers, role: esimRole,
	}
}

// EsimConfig is everything about eSIMs.
type EsimConfig struct {
	// Provider names the suppliers that sell, separated by commas, the preferred one first; Retired those that only serve
	// what they have sold. URL and Key reach the first one, unless it has settings of its own.
	Provider, Retired, URL string
	Key                    secret.Text
	// Keys seal the activation data, the first one from now on; see esim.ParseKeyring.
	Keys secret.Text
	// TokenKey makes delivery tokens. FormerTokenKeys open them, too.
	TokenKey        secret.Text
	FormerTokenKeys []secret.Text
	Paused          bool
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
		{key: "supplier.provider", help: "who supplies the eSIMs: one name, or several separated by commas, the preferred " +
			"one first; sandbox eSIMs are not real", byDefault: "sandbox",
			set: providerNames(func(c *Config) *string { return &at(c).Provider }, m.supplierNames())},
		{key: "supplier.retired", help: "suppliers that sell no more eSIMs and serve those that they have sold, separated " +
			"by commas", byDefault: none,
			set: providerNames(func(c *Config) *string { return &at(c).Retired }, m.supplierNames())},
		{key: "supplier.url", help: "the eSIM supplier, with the path of its API where it has one",
			set: func(c *Config, s string) (err error) { c.Esim.URL, err = apiURL(s); return err }},
		{key: "supplier.key", help: "the eSIM supplier's API key", secret: true,
			set: secretAt(func(c *Config) *secret.Text { return &at(c).Key })},
		{key: "esim.keys", help: "id:key pairs separated by commas, each key 32 bytes in hex, that seal activation " +
			"data; the first one seals, all open", secret: true, set: keyring},
		{key: "esim.token_key", help: "32 bytes in hex that make delivery tokens; several separated by commas, of which " +
			"the first makes them and all open them; the same in every process", secret: true,
			set: hexKeys(func(c *Config) (*secret.Text, *[]secret.Text) { return &at(c).TokenKey, &at(c).FormerTokenKeys })},
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
	all, err := c.suppliers()
	if err != nil {
		all = nil // a name that is none was told when it was read
	}
	for _, of := range all {
		chosenBy := "supplier.provider"
		if of.retired {
			chosenBy = "supplier.retired"
		}
		wrong = append(wrong, c.unreached(chosenBy, of.Name, of.first, of.reach)...)
		with := c.supplierConfig(of, nil, discard(), nil)
		wrong = append(wrong, c.providerMistakes(chosenBy, "eSIMs", of.Registration, with, of.reach)...)
	}
	for i, rule := range c.Routing {
		for _, code := range rule.Countries {
			if _, known := esim.ParseCountry(code); !known {
				wrong = append(wrong, fmt.Errorf("routing.rules: rule %d: no country has the code %s (ISO 3166-1)", i+1, code))
			}
		}
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

// supplierAt is a configured eSIM supplier.
type supplierAt struct {
	provider.Supplier
	reach   reach
	retired bool
	first   bool
	// client is nil until it is dialled.
	client provider.SupplierClient
}

// suppliers are the suppliers that are configured: those that sell, in order of preference, then those that are
// retired.
func (c Config) suppliers() (all []supplierAt, err error) {
	known := c.Added.suppliers()
	for i, name := range c.supplierNames() {
		at := slices.IndexFunc(known, func(s provider.Supplier) bool { return s.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("supplier.provider: %w", among(name, c.Added.supplierNames()...))
		}
		all = append(all, supplierAt{
			Supplier: known[at], retired: i >= len(named(c.Esim.Provider)), first: i == 0,
			reach: c.reachOf("supplier", name, i == 0, reach{
				url: c.Esim.URL, key: c.Esim.Key, webhooks: c.SupplierWebhookSecrets,
			}),
		})
	}
	if len(all) == 0 {
		return nil, errors.New("supplier.provider names no supplier")
	}
	return all, nil
}

// supplierNames are the names of all suppliers that are configured.
func (c Config) supplierNames() []string {
	return append(named(c.Esim.Provider), named(c.Esim.Retired)...)
}

// callTimeout bounds one call to a supplier.
func (s supplierAt) callTimeout() time.Duration { return cmp.Or(s.CallTimeout, supplierCallTimeout) }

func (c Config) supplierConfig(
	of supplierAt, journal esim.Journal, log *slog.Logger, metrics *telemetry.Metrics,
) provider.Config {
	return provider.Config{
		URL: of.reach.url, Key: of.reach.key, CallTimeout: of.callTimeout(), VisibilityDelay: supplierVisibilityDelay,
		Journal: journal, Production: c.Environment == Production, Own: c.Own, HTTP: c.Outside.HTTP,
		Log: log, Metrics: metrics,
	}
}

// dialSuppliers makes clients of the suppliers, each with its journal. Nothing is asked yet.
func (c Config) dialSuppliers(
	journal func(name string) esim.Journal, log *slog.Logger, metrics *telemetry.Metrics,
) ([]supplierAt, error) {
	all, err := c.suppliers()
	if err != nil {
		return nil, err
	}
	for i := range all {
		with := c.supplierConfig(all[i], journal(all[i].Name), log, metrics)
		if all[i].client, err = all[i].Dial(with); err != nil {
			return nil, fmt.Errorf("dial %s: %w", all[i].Name, err)
		}
	}
	return all, nil
}

// dialSuppliers returns the process's clients of the suppliers: a supplier counts the requests of all of them together.
func (a *App) dialSuppliers() ([]supplierAt, error) {
	if a.suppliers == nil {
		journal := func(name string) esim.Journal { return a.store.SupplierJournal(name) }
		dialled, err := a.config.dialSuppliers(journal, a.log, a.metrics)
		if err != nil {
			return nil, fmt.Errorf("dial the suppliers: %w", err)
		}
		a.suppliers = dialled
	}
	return a.suppliers, nil
}

// catalogueAges are the times since the plans of the suppliers that sell were read. One whose plans were never read is
// left out.
func (a *App) catalogueAges(ctx context.Context, now time.Time) (map[string]time.Duration, error) {
	synced, err := a.store.Esims().Synced(ctx)
	if err != nil {
		return nil, err
	}
	ages := map[string]time.Duration{}
	for _, name := range named(a.config.Esim.Provider) {
		if at, known := synced[name]; known {
			ages[name] = max(0, now.Sub(at))
		}
	}
	return ages, nil
}

// esimsProvided is what the suppliers have made.
func (a *App) esimsProvided() (reconcile.Product, error) {
	books, err := a.supplierBooks()
	if err != nil {
		return nil, err
	}
	return esim.IssuedRecords{Books: books, Plans: a.store.Esims()}, nil
}

func (a *App) supplierBooks() (books []esim.NamedBook, err error) {
	suppliers, err := a.dialSuppliers()
	if err != nil {
		return nil, err
	}
	for _, of := range suppliers {
		books = append(books, esim.NamedBook{Provider: of.Name, Book: of.client})
	}
	return books, nil
}

// routedEsims is what routing rules may say about eSIMs.
func (c Config) routedEsims() routing.Product {
	return routing.Product{
		Kind: esim.Kind, Setting: "supplier.provider", Providers: named(c.Esim.Provider),
		From: esim.MinPrice, To: esim.MaxPrice, Types: []string{string(esim.Country), string(esim.Region)},
	}
}

func esimRole(c Config) role {
	return role{
		name: "supplier", goods: "eSIMs", sells: c.Esim.Provider, retired: c.Esim.Retired,
		routed: c.routedEsims(),
		inUse:  func(ctx context.Context, s *store.Store) ([]string, error) { return s.Esims().Providers(ctx) },
	}
}

// esimRoute says who sells a plan. Without a rule about it, all suppliers do, and the buyer takes the cheapest.
func (c Config) esimRoute() esim.Route {
	if len(c.Routing) == 0 {
		return nil
	}
	routed := c.routedEsims()
	return func(p esim.Plan) (tiers [][]string) {
		names, ruled := c.Routing.For(routing.Sale{
			Product: esim.Kind, Price: p.Price, Countries: p.Countries, Type: string(p.Type),
		}, routed)
		if !ruled {
			return [][]string{names}
		}
		for _, name := range names {
			tiers = append(tiers, []string{name})
		}
		return tiers
	}
}

// esims makes the eSIM product over its suppliers.
func (a *App) esims(p *Parts) (Made, error) {
	c := a.config.Esim
	suppliers, err := a.dialSuppliers()
	if err != nil {
		return Made{}, err
	}
	var providers []esim.Provider
	for _, of := range suppliers {
		capabilities := of.client.Capabilities()
		controls, offered := of.client.(esim.Controls)
		if !offered && capabilities != (esim.Capabilities{}) {
			return Made{}, fmt.Errorf("the supplier %s declares controls for owners that its adapter does not have", of.Name)
		}
		canceller, takesBack := of.client.(esim.Canceller)
		if !takesBack && capabilities.Cancel {
			return Made{}, fmt.Errorf("the supplier %s declares that it takes eSIMs back, which its adapter does not", of.Name)
		}
		topper, adds := of.client.(esim.Topper)
		if !adds && capabilities.Topup {
			return Made{}, fmt.Errorf("the supplier %s declares that it adds data, which its adapter does not", of.Name)
		}
		providers = append(providers, esim.Provider{
			Name: of.Name, Supplier: of.client, Traits: of.client.Traits(), Capabilities: capabilities, Controls: controls,
			Canceller: canceller, Topper: topper, CallTimeout: of.callTimeout(), Retired: of.retired,
		})
	}
	keys, err := esim.ParseKeyring(c.Keys)
	if err != nil {
		return Made{}, fmt.Errorf("read esim.keys: %w", err)
	}
	tokenKey, err := hex.DecodeString(c.TokenKey.Reveal())
	if err != nil || len(tokenKey) < 32 {
		return Made{}, errors.New("decode the token key: not 32 bytes in hex")
	}
	former, err := hexBytes(c.FormerTokenKeys)
	if err != nil {
		return Made{}, fmt.Errorf("decode the token keys: %w", err)
	}
	e := esim.New(esim.Config{
		Store: a.store.Esims(), Providers: providers, Route: a.config.esimRoute(), Keys: keys, TokenKey: tokenKey,
		FormerTokenKeys: former,
		Log:             a.log, Now: a.config.now,
		Paused: c.Paused, Switches: p.Switches, Payments: p.Payments,
		Workers:   p.Workers(settlement.Fulfilling, esim.Syncing),
		MarginBPS: c.MarginBPS, StaleAfter: c.StaleAfter, Poll: c.Poll, CallTimeout: supplierCallTimeout,
		Deadline: c.Deadline, Working: a.working, Waiters: c.Waiters, UnsettledPercent: a.config.Fairness.UnsettledPercent,
		SyncEvery: c.SyncEvery, Limits: p.limits, Metrics: a.metrics,
	})
	p.noticed = append(p.noticed, e.Refresh)
	cancels := &esim.Cancellations{Esims: e, Store: a.store.Esims(), Chain: a.chain}
	topups := &esim.Topups{Esims: e, Store: a.store.Esims(), Cancels: a.store.Esims()}
	p.second[topups.Kind()] = topups
	return Made{
		Product: e, View: rpc.EsimView(e), Describe: rpc.DescribeEsims, Deliveries: e, Float: e.FloatOf,
		Returns: func(refunds *settlement.Settlement) []job.Work {
			cancels.Refunds = refunds
			return cancels.Jobs()
		},
		Serve: func(all *rpc.Services, s Selling) {
			all.Esims = rpc.EsimService{
				Sales: s.Sales, Orders: s.sells, Plans: e, Delivery: e, Profiles: e, Cancellations: cancels,
				Topups:       topups,
				Capabilities: e.Capabilities(),
				Availability: s.availability, Terms: a.config.terms(), Now: a.config.now,
			}
			all.Operator.Cancellations = cancels
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

// examineSuppliers asks the suppliers for what costs nothing. Nothing is ordered, so nothing has to be kept.
func examineEsims(ctx context.Context, cfg Config) []Examination {
	return append(examineSuppliers(ctx, cfg), examineSealed(ctx, cfg)...)
}

// examineSealed looks for activation data that no key of the configuration opens. It says nothing where the database
// cannot be read, which has a check of its own.
func examineSealed(ctx context.Context, cfg Config) []Examination {
	keys, err := esim.ParseKeyring(cfg.Esim.Keys)
	if err != nil {
		return nil // LoadFile has told
	}
	s, err := store.Open(ctx, store.Config{
		URL: cfg.DatabaseURL.Reveal(), MaxConns: 1, Now: time.Now, Products: cfg.StoredProducts(),
	})
	if err != nil {
		return nil
	}
	defer s.Close()
	lost, err := s.Esims().Sealed(ctx, keys.IDs())
	if err != nil {
		return nil
	}
	var told []string
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		told = append(told, fmt.Sprintf("%d eSIMs are sealed with %s", lost[id], id))
	}
	found := Examination{Name: "esim keys", Detail: "every eSIM is sealed with a key of esim.keys"}
	if len(told) > 0 {
		found.Err = fmt.Errorf("%s, which esim.keys does not have: nobody can open them", strings.Join(told, ", "))
		found.Fix = "add the former keys to esim.keys, behind the first"
	}
	return []Examination{found}
}

func examineSuppliers(ctx context.Context, cfg Config) (all []Examination) {
	const name = "esim supplier"
	suppliers, err := cfg.dialSuppliers(unjournaled, discard(), nil)
	if err != nil {
		return []Examination{{
			Name: name, Err: err, Fix: "check supplier.provider, supplier.url, supplier.key and the supplier's own settings",
		}}
	}
	for _, of := range suppliers {
		seen, err := of.client.Probe(ctx)
		all = append(all, Examination{
			Name: name, Detail: of.Name + ": " + seen, Err: err, Fix: "check supplier.provider, " + of.reach.urlSetting + ", " +
				of.reach.keySetting + " and the supplier's own settings",
		})
	}
	return all
}

func trySuppliers(ctx context.Context, cfg Config, s *store.Store, spend money.USDC) (all []Trial, err error) {
	journal := func(name string) esim.Journal { return s.SupplierJournal(name) }
	suppliers, err := cfg.dialSuppliers(journal, discard(), nil)
	if err != nil {
		return nil, err
	}
	for _, of := range suppliers {
		found := esim.Try(ctx, of.client, of.client.Traits(), spend, of.callTimeout())
		all = append(all, Trial{of.Name, found})
	}
	return all, nil
}

func unjournaled(string) esim.Journal { return noJournal{} }

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
func (noJournal) Named(context.Context, []string) (map[string]esim.Sent, error) {
	return nil, errNoJournal
}
