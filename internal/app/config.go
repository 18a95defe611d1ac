package app

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/oidc"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/routing"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/secret/custody"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is the configuration of an App. Each setting has a name in the file ("chain.rpc_url") and one in the
// environment ("ROAMCARD_CHAIN__RPC_URL"); see settings.
type Config struct {
	ProductConfig
	// Added are modules that a test adds to the program.
	Added Modules
	// Own are the settings that providers and added products have to themselves.
	Own provider.Values

	Addr        string
	BaseURL     string
	Environment string
	// PlaintextHosts are reached without TLS in production, too.
	PlaintextHosts []string
	DatabaseURL    secret.Text
	Database       DatabaseConfig
	RPCURLs        []string
	// NodePerSecond is how many calls a process makes in any second to each node; zero is any number.
	NodePerSecond int
	// PaidAt and DeadAt are the block tags at which a payment counts as paid, and as dead.
	PaidAt, DeadAt string
	// WitnessFrom is the amount from which a second node must show a payment; zero is every amount.
	WitnessFrom money.Cents
	// ReorgDepth is how many blocks have to be replaced for sales to pause, and ReorgCalm for how long they do; zero
	// takes the default.
	ReorgDepth int
	ReorgCalm  time.Duration
	// ChainWatch is how often the chain is checked while there are no requests; zero takes the default.
	ChainWatch time.Duration
	PayTo      x402.Address
	Asset      x402.Address
	AssetName  string
	// Settlement names the settlers in the order in which they are tried; empty means the relayer.
	Settlement []string
	// SettlementTurn is how long a payment waits for its first settler; zero takes the default.
	SettlementTurn time.Duration
	// RelayerKeys are references to the keys that send transactions, and RelayerRetired to those that only finish what
	// they began; see openReference.
	RelayerKeys, RelayerRetired []secret.Text
	// RelayerSmartAccountKeys are references to the keys that send the transactions of payers with code.
	RelayerSmartAccountKeys []secret.Text
	FacilitatorURL          string
	FacilitatorVerify       bool
	// FacilitatorToken is a bearer token. FacilitatorKeyID and FacilitatorKeySecret are an API key of the Coinbase
	// Developer Platform instead, which makes a token for each call; the secret may be a reference.
	FacilitatorToken     secret.Text
	FacilitatorKeyID     string
	FacilitatorKeySecret secret.Text
	// TreasuryKey refers to the key that signs refunds; without one operators refund by hand. TreasuryRetired are
	// references to former ones, which sign the refunds that they began again, or the accounts of former ones.
	TreasuryKey      secret.Text
	TreasuryRetired  []secret.Text
	TreasuryDeadline time.Duration
	// IssuerProvider names the issuers that sell cards, separated by commas, the preferred one first; IssuerRetired those
	// that only serve what they have sold. IssuerURL and IssuerKey reach the first one, unless it has settings of its own.
	IssuerProvider, IssuerRetired string
	IssuerURL                     string
	IssuerKey                     secret.Text
	// Routing says which provider to prefer for what.
	Routing routing.Rules
	// IssuerWebhookSecrets and SupplierWebhookSecrets are what webhooks are signed with; several while one is replaced.
	IssuerWebhookSecrets   []secret.Text
	SupplierWebhookSecrets []secret.Text
	// PayableFor is how long an unpaid order can be paid; zero takes the default.
	PayableFor time.Duration
	// MaxUnpaid is how many unpaid orders an owner may have; zero is unlimited.
	MaxUnpaid int
	// ExpiredRetention is how long orders that expired unpaid are kept; zero takes the default.
	ExpiredRetention time.Duration
	// QuoteKey signs quotes. FormerQuoteKeys verify them, too.
	QuoteKey        secret.Text
	FormerQuoteKeys []secret.Text
	// ReceiptKeys sign offers and receipts: the first of them, the others are published with it. Without any, none are
	// signed.
	ReceiptKeys []secret.Text
	Operators   []auth.Operator
	// SecondOperator says which decisions wait for a second operator.
	SecondOperator approval.Rule
	// Issuer is the one that operators may sign in with; without a URL they do not.
	Issuer oidc.Config
	// AdminAddr is the address of the operators' routes; empty serves them with all others.
	AdminAddr string
	Activity  []x402.Address
	// WorkRetention is how long finished jobs and released reservations of final orders are kept; zero takes the default.
	WorkRetention time.Duration
	// TimelineRetention is how long the lines of final orders' timelines are kept, but the last one and those of
	// operators; ReadRetention is how long the audit trail keeps what operators only read. Zero takes the default.
	TimelineRetention, ReadRetention time.Duration
	// EventsRetention and AuthRetention are how long product events, and expired challenges and sessions, are kept;
	// zero takes the default.
	EventsRetention, AuthRetention time.Duration
	// EventsMost is how many product events are kept at most; zero is unlimited.
	EventsMost     int
	LogLevel       slog.Level
	LogJSON        bool
	Slots          int
	LeaseTTL       time.Duration
	Wait           time.Duration
	IssuerPoll     time.Duration
	IssuerDeadline time.Duration
	// ReconcileEvery is how often the books are compared; zero is never.
	ReconcileEvery time.Duration
	// ReconcileRetention is how long the list of comparisons is kept. Zero takes the default.
	ReconcileRetention time.Duration
	// Limits are the rates of requests; nil disables the limits.
	Limits limit.Rates
	// TrustedProxies are the networks whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// Screening decides which payers are refused.
	Screening ScreeningConfig
	// Fairness keeps one payer from exhausting shared resources.
	Fairness FairnessConfig
	// MaxConns, MaxConnsPerAddress and MaxRequests bound concurrent connections and requests; zero is unlimited.
	MaxConns, MaxConnsPerAddress, MaxRequests int
	// DrainDelay is for how long requests are served after the process was asked to end.
	DrainDelay time.Duration
	// MetricsAddr is the address of the metrics for Prometheus; empty disables them.
	MetricsAddr string
	// Preconfirmed shows owners that a payment is in a block that is being built.
	Preconfirmed bool
	// ConsoleAddr is the address of the operators' console; empty disables it.
	ConsoleAddr string
	// ConsoleHosts are the names by which browsers reach the console, in addition to its address.
	ConsoleHosts []string
	// Explorer is where people look transactions up, and PublicNode a node for wallets of payers; both may be empty.
	Explorer, PublicNode string
	// Contact is the e-mail address of whoever runs the service.
	Contact string
	// MCPOrigins are the other origins whose pages may call the MCP endpoint.
	MCPOrigins []string
	// IssuerCallTimeout bounds one call to the issuer; IssuerVisibilityDelay is how long after that a call without an
	// answer may still take effect.
	IssuerCallTimeout, IssuerVisibilityDelay time.Duration
	// IssuerLimits says that the issuer opens cards with spending limits.
	IssuerLimits bool
	// IssuerStatesEvery is how often the issuer's list of cards is read; zero is never.
	IssuerStatesEvery time.Duration
	// NoWorker runs the server only, NoServer the worker only.
	NoWorker, NoServer bool
	// Outside is the way to everything outside of the process; the zero one is the network.
	Outside Outside
	// opened caches the keys; nil caches nothing.
	opened *openedKeys
}

// The environments.
const (
	Production = "production"
	Sandbox    = "sandbox"
)

// setting is a setting's name, its meaning, and how its text is parsed.
type setting struct {
	key, help, byDefault string
	secret               bool
	// shown is what is printed of a value that is no secret; nil is all of it but what may be secret in URLs.
	shown func(text string) string
	// holds reports whether a value has the secret itself, not only a reference to it; nil is every value of a secret.
	holds func(text string) bool
	set   func(c *Config, text string) error
}

// show is what is printed of a value.
func (s setting) show(value string) string {
	switch {
	case s.secret:
		return secret.Redacted
	case s.shown != nil:
		return s.shown(value)
	}
	return secret.MaskList(value)
}

// told is what is wrong with a value, which the error may quote.
func (s setting) told(err error, value string) string {
	text := err.Error()
	for _, part := range append([]string{value}, strings.Split(value, ",")...) {
		if part = strings.TrimSpace(part); strings.Contains(part, "://") {
			quoted := strconv.Quote(part)
			text = strings.NewReplacer(part, s.show(part), quoted[1:len(quoted)-1], s.show(part)).Replace(text)
		}
	}
	return secret.Mask(text)
}

func settings() []setting { return Modules{}.settings() }

// settings are all settings, in the order in which they are shown.
func (m Modules) settings() []setting {
	// The environment and the hosts of waySettings come before the addresses that they are about.
	return slices.Concat([]setting{
		{key: "addr", help: "host and port to listen on", byDefault: "127.0.0.1:8402",
			set: text(func(c *Config) *string { return &c.Addr })},
		{key: "base_url", help: "the service's public origin, as clients see it",
			set: func(c *Config, s string) (err error) { c.BaseURL, err = origin(s); return err }},
		{key: "environment", help: "production, or sandbox for providers that are not real", byDefault: Production,
			set: oneOf(func(c *Config) *string { return &c.Environment }, Production, Sandbox)},
	}, waySettings(), []setting{
		{key: "database.url", help: "PostgreSQL 15 or newer", secret: true, holds: holdsPassword,
			set: secretAt(func(c *Config) *secret.Text { return &c.DatabaseURL })},
		{key: "database.listen_url", help: "the server itself, where database.url is a pooler: for LISTEN and migrations",
			secret: true, holds: holdsPassword, byDefault: none,
			set: secretAt(func(c *Config) *secret.Text { return &c.Database.ListenURL })},
		{key: "database.owner_url", help: "the owner of the tables, for migrate alone: it grants the user of database.url " +
			"what serving takes", secret: true, holds: holdsPassword, byDefault: none,
			set: secretAt(func(c *Config) *secret.Text { return &c.Database.OwnerURL })},
		{key: "database.max_conns", help: "the most connections of a process's pool, 4 to 500; one more listens",
			byDefault: strconv.Itoa(defaultMaxConns),
			set:       within(leastMaxConns, mostMaxConns, func(c *Config) *int { return &c.Database.MaxConns })},
		{key: "database.query_mode", help: "cache_statement, or cache_describe behind a pooler that shares sessions",
			byDefault: none, set: oneOf(func(c *Config) *string { return &c.Database.QueryMode }, store.QueryModes()...)},
		{key: "chain.rpc_url", help: "JSON-RPC endpoints of Base, best first, separated by commas",
			shown: nodesShown,
			set:   func(c *Config, s string) (err error) { c.RPCURLs, err = urls(s); return err }},
		{key: "chain.per_second", help: "how many calls one process makes in any second to each node", byDefault: none,
			set: number(func(c *Config) *int { return &c.NodePerSecond })},
		{key: "chain.paid_at", help: "the block tag a payment must reach: latest, safe or finalized", byDefault: "latest",
			set: oneOf(func(c *Config) *string { return &c.PaidAt }, "latest", "safe", "finalized")},
		{key: "chain.dead_at", help: "the block tag at which an unused authorization counts as expired", byDefault: "safe",
			set: oneOf(func(c *Config) *string { return &c.DeadAt }, "safe", "finalized")},
		{key: "chain.witness_from", help: "the amount in US cents from which a second node must show a payment before " +
			"anything is delivered, where there are several nodes", byDefault: "0",
			set: cents(func(c *Config) *money.Cents { return &c.WitnessFrom })},
		{key: "chain.reorg_depth", help: "how many blocks may be replaced between two looks before nobody is asked to pay",
			byDefault: "3", set: number(func(c *Config) *int { return &c.ReorgDepth })},
		{key: "chain.reorg_pause", help: "for how long nobody is asked to pay after that", byDefault: "30s",
			set: duration(func(c *Config) *time.Duration { return &c.ReorgCalm })},
		{key: "chain.check_every", help: "how often the chain's nodes, the token and the settlers are looked at while " +
			"nobody asks, at most 10s", byDefault: availability.DefaultWatch.String(), set: func(c *Config, s string) error {
			if err := duration(func(c *Config) *time.Duration { return &c.ChainWatch })(c, s); err != nil {
				return err
			}
			// A cached failure expires after 15 s.
			if c.ChainWatch > 10*time.Second {
				return fmt.Errorf("%s is more than 10s", s)
			}
			return nil
		}},
		{key: "chain.preconfirmed", help: "show that a payment is in the block that a node with Flashblocks is building, " +
			"before it is settled; for display only", byDefault: "false",
			set: boolean(func(c *Config) *bool { return &c.Preconfirmed })},
		{key: "chain.explorer", help: "where people look transactions up, at /tx/ below it",
			byDefault: "https://basescan.org",
			set:       func(c *Config, s string) (err error) { c.Explorer, err = apiURL(s); return err }},
		{key: "chain.public_node", help: "a public node, for wallets of payers that do not know Base yet",
			byDefault: "https://mainnet.base.org",
			set:       func(c *Config, s string) (err error) { c.PublicNode, err = apiURL(s); return err }},
		{key: "payment.pay_to", help: "the address that is paid",
			set: address(func(c *Config) *x402.Address { return &c.PayTo })},
		{key: "payment.asset", help: "native USDC", byDefault: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
			set: address(func(c *Config) *x402.Address { return &c.Asset })},
		{key: "payment.asset_name", help: "the EIP-712 name of the asset", byDefault: "USD Coin",
			set: text(func(c *Config) *string { return &c.AssetName })},
		{key: "settlement.order", help: "who brings payments to the chain: relayer, facilitator, or both separated by a " +
			"comma, the first one first", byDefault: SettlerRelayer,
			set: func(c *Config, s string) (err error) { c.Settlement, err = settlementOrder(s); return err }},
		{key: "settlement.fallback_delay", help: "how long a payment waits for the first settler before the second acts too",
			byDefault: settlerTurn.String(), set: duration(func(c *Config) *time.Duration { return &c.SettlementTurn })},
		{key: "relayer.keys", help: "keys that send settlements and pay their gas, separated by commas: each a private " +
			"key or a reference to one", secret: true, holds: holdsKey,
			byDefault: none, set: secrets(func(c *Config) *[]secret.Text { return &c.RelayerKeys })},
		{key: "relayer.smart_account_keys", help: "keys that send settlements of smart accounts and nothing else, " +
			"separated by commas", secret: true, holds: holdsKey,
			byDefault: none, set: secrets(func(c *Config) *[]secret.Text { return &c.RelayerSmartAccountKeys })},
		{key: "relayer.retired", help: "keys that send no new settlements and finish those that they began, separated by " +
			"commas", secret: true, holds: holdsKey,
			byDefault: none, set: secrets(func(c *Config) *[]secret.Text { return &c.RelayerRetired })},
		{key: "facilitator.url", help: "a remote x402 facilitator, below which /verify, /settle and /supported lie",
			byDefault: none, set: func(c *Config, s string) (err error) { c.FacilitatorURL, err = service(s); return err }},
		{key: "facilitator.verify", help: "whether /verify is asked before each /settle, which some facilitators insist on",
			byDefault: "true", set: boolean(func(c *Config) *bool { return &c.FacilitatorVerify })},
		{key: "facilitator.token", help: "the bearer token the facilitator asks for", secret: true, byDefault: none,
			set: secretAt(func(c *Config) *secret.Text { return &c.FacilitatorToken })},
		{key: "facilitator.key_id", help: "the id of an API key of the Coinbase Developer Platform, for its facilitator",
			byDefault: none, set: text(func(c *Config) *string { return &c.FacilitatorKeyID })},
		{key: "facilitator.key_secret", help: "the secret of that key, Ed25519 or ECDSA, or a reference to it", secret: true,
			holds: holdsFacilitatorSecret, byDefault: none,
			set: secretAt(func(c *Config) *secret.Text { return &c.FacilitatorKeySecret })},
		{key: "treasury.key", help: "the key that refunds are signed with and paid from, or a reference to it; without " +
			"one an operator decides", secret: true, holds: holdsKey, byDefault: none,
			set: secretAt(func(c *Config) *secret.Text { return &c.TreasuryKey })},
		{key: "treasury.retired", help: "former treasuries, separated by commas: a key, or a reference to it, finishes the " +
			"refunds that it began; of one whose key is gone, the address", secret: true, holds: holdsKey, byDefault: none,
			set: secrets(func(c *Config) *[]secret.Text { return &c.TreasuryRetired })},
		{key: "treasury.refund_deadline", help: "how long a refund may stay undecided before an operator looks",
			byDefault: "24h", set: duration(func(c *Config) *time.Duration { return &c.TreasuryDeadline })},
		{key: "issuer.provider", help: "who issues the cards: one name, or several separated by commas, the preferred one " +
			"first; sandbox cards are not real", byDefault: "sandbox",
			set: providerNames(func(c *Config) *string { return &c.IssuerProvider }, m.issuerNames())},
		{key: "issuer.retired", help: "issuers that sell no more cards and serve those that they have sold, separated by " +
			"commas", byDefault: none,
			set: providerNames(func(c *Config) *string { return &c.IssuerRetired }, m.issuerNames())},
		{key: "issuer.url", help: "the card issuer",
			set: func(c *Config, s string) (err error) { c.IssuerURL, err = origin(s); return err }},
		{key: "issuer.key", help: "the card issuer's API key", secret: true,
			set: secretAt(func(c *Config) *secret.Text { return &c.IssuerKey })},
		{key: "issuer.poll", help: "how often a pending card is looked at", byDefault: "2s",
			set: duration(func(c *Config) *time.Duration { return &c.IssuerPoll })},
		{key: "issuer.deadline", help: "how long the issuer may leave a card pending before an operator looks",
			byDefault: "24h", set: duration(func(c *Config) *time.Duration { return &c.IssuerDeadline })},
		{key: "issuer.call_timeout", help: "how long one call to the issuer may take", byDefault: issuerCallTimeout.String(),
			set: duration(func(c *Config) *time.Duration { return &c.IssuerCallTimeout })},
		{key: "issuer.visibility_delay", help: "how long after that the issuer may still take a call up that it did not " +
			"answer", byDefault: issuerVisibilityDelay.String(),
			set: duration(func(c *Config) *time.Duration { return &c.IssuerVisibilityDelay })},
		{key: "issuer.spend_limits", help: "the issuer limits what is spent on a card: cards open with what remains after " +
			"the issue fee", byDefault: "false", set: boolean(func(c *Config) *bool { return &c.IssuerLimits })},
		{key: "issuer.sync_every", help: "how often the issuer's list of cards is read, for those that it locked or " +
			"terminated", byDefault: "5m",
			set: atLeast(time.Second, func(c *Config) *time.Duration { return &c.IssuerStatesEvery })},
		{key: "order.payable_for", help: "how long an unpaid order can be paid, at least 1m", byDefault: "30m",
			set: atLeast(time.Minute, func(c *Config) *time.Duration { return &c.PayableFor })},
		{key: "quote.key", help: "32 bytes in hex that sign quotes; several separated by commas, of which the first signs " +
			"and all verify; the same in every process", secret: true,
			set: hexKeys(func(c *Config) (*secret.Text, *[]secret.Text) { return &c.QuoteKey, &c.FormerQuoteKeys })},
		{key: "receipt.keys", help: "32 bytes in hex that sign offers and receipts; several separated by commas, of " +
			"which the first signs and all are published; the same in every process; none signs nothing", secret: true,
			byDefault: none, set: receiptKeys},
		{key: "operators", help: "name:sha256-of-token pairs in hex, separated by commas; a third part is the role: " +
			"viewer, support, treasurer or admin", secret: true, byDefault: none,
			set: func(c *Config, s string) (err error) { c.Operators, err = operators(s); return err }},
		{key: "activity.wallets", help: "wallets whose sessions may read and prune activity, separated by commas",
			byDefault: none, set: func(c *Config, s string) (err error) { c.Activity, err = addresses(s); return err }},
		{key: "reconcile.every", help: "how often the chain's, our own and the issuer's books are compared", byDefault: "10m",
			set: atLeast(time.Second, func(c *Config) *time.Duration { return &c.ReconcileEvery })},
		{key: "reconcile.retention", help: "how long the list of comparisons is kept, at least 24h",
			byDefault: defaultHistoryRetention.String(),
			set:       atLeast(24*time.Hour, func(c *Config) *time.Duration { return &c.ReconcileRetention })},
		{key: "contact.email", help: "the e-mail address of whoever runs the service, for registries and reports",
			byDefault: none, set: text(func(c *Config) *string { return &c.Contact })},
		{key: "mcp.origins", help: "origins whose pages may call the MCP endpoint, separated by commas", byDefault: none,
			set: func(c *Config, s string) (err error) { c.MCPOrigins, err = origins(s); return err }},
		{key: "events.retention", help: "how long product events are kept", byDefault: activity.DefaultRetention.String(),
			set: duration(func(c *Config) *time.Duration { return &c.EventsRetention })},
		{key: "auth.retention", help: "how long challenges and sessions are kept after they expire",
			byDefault: auth.DefaultRetention.String(),
			set:       duration(func(c *Config) *time.Duration { return &c.AuthRetention })},
		{key: "limits", help: "rates of requests: default, off, or changes to the default like reveal=10/1h, separated by " +
			"commas", byDefault: "default",
			set: func(c *Config, s string) (err error) { c.Limits, err = limit.Parse(s); return err }},
		{key: "trusted_proxies", help: "networks whose X-Forwarded-For is trusted, separated by commas", byDefault: none,
			set: func(c *Config, s string) (err error) { c.TrustedProxies, err = prefixes(s); return err }},
		{key: "metrics.addr", help: "host and port to show metrics to Prometheus on, at /metrics; keep it private",
			byDefault: none, set: text(func(c *Config) *string { return &c.MetricsAddr })},
		{key: "log.level", help: "debug, info, warn or error", byDefault: "info",
			set: func(c *Config, s string) error { return c.LogLevel.UnmarshalText([]byte(s)) }},
		{key: "log.format", help: "json or text", byDefault: "json", set: func(c *Config, s string) error {
			c.LogJSON = s == "json"
			return among(s, "json", "text")
		}},
		{key: "worker.slots", help: "how many deliveries run at once", byDefault: "8",
			set: number(func(c *Config) *int { return &c.Slots })},
		{key: "worker.lease", help: "how long a job's lease lasts without a heartbeat", byDefault: "20s",
			set: duration(func(c *Config) *time.Duration { return &c.LeaseTTL })},
		{key: "payment.wait", help: "how long a paid request waits for its settlement", byDefault: "20s",
			set: duration(func(c *Config) *time.Duration { return &c.Wait })},
	}, operatorSettings(), consoleSettings(), fairnessSettings(), edgeSettings(), screeningSettings(), webhookSettings(),
		m.productSettings(), routingSettings(), m.providerSettings(), m.reachSettings())
}

// The defaults of the issuer's delays, also in development.
const (
	issuerCallTimeout     = 5 * time.Second
	issuerVisibilityDelay = 10 * time.Second
)

// none is the default of a setting that may stay empty; "" means that it must be set.
const none = "-"

// Load reads the configuration: the environment over the file over the defaults. It reports all mistakes at once.
// lookup is os.LookupEnv; a name ending in _FILE names a file with the value.
func Load(
	file map[string]string, lookup func(string) (string, bool), read func(string) ([]byte, error),
) (Config, error) {
	return Modules{}.Load(file, lookup, read)
}

// Load reads the configuration of a program with added modules.
func (m Modules) Load(
	file map[string]string, lookup func(string) (string, bool), read func(string) ([]byte, error),
) (Config, error) {
	var (
		c     = Config{Added: m, opened: &openedKeys{}}
		wrong []error
		unset []setting
		bad   []string
		known = map[string]bool{}
	)
	for _, s := range m.settings() {
		known[s.key] = true
		value, source, err := s.value(file, lookup, read)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case value == "":
			unset = append(unset, s)
		case value == none:
		default:
			if err := s.set(&c, value); err != nil {
				bad = append(bad, s.key+" ("+s.env()+") is not set, and ")
				wrong = append(wrong, fmt.Errorf("%s (from the %s): %s", s.key, source, s.told(err, value)))
			}
		}
	}
	for _, s := range unset {
		if !c.reachedOtherwise(s.key) {
			wrong = append(wrong, fmt.Errorf("%s (%s) is not set: %s", s.key, s.env(), s.help))
		}
	}
	for key := range file {
		if !known[key] {
			wrong = append(wrong, fmt.Errorf("%s (from the file): there is no such setting; the nearest is %s", key,
				c.Added.nearest(key)))
		}
	}
	wrong = append(wrong, c.settlementMistakes()...)
	if c.Environment == Production && strings.HasPrefix(c.BaseURL, "http://") {
		wrong = append(wrong, errors.New("base_url: must be https in production"))
	}
	wrong = append(wrong, c.issuerMistakes()...)
	if c.Environment == Production && c.Contact == "" {
		wrong = append(wrong, errors.New("contact.email: must be set in production, where registries ask for it"))
	}
	wrong = append(wrong, c.screeningMistakes()...)
	wrong = append(wrong, c.operatorMistakes()...)
	wrong = append(wrong, c.webhookMistakes()...)
	wrong = append(wrong, c.productMistakes()...)
	wrong = append(wrong, c.routingMistakes()...)
	wrong = append(wrong, c.keyMistakes(true)...)
	wrong = append(wrong, c.wayMistakes(lookup)...)
	wrong = append(wrong, c.refusePublicPayee())
	// What cannot be read is not missing, too.
	wrong = slices.DeleteFunc(wrong, func(err error) bool {
		return err != nil && slices.ContainsFunc(bad, func(told string) bool { return strings.HasPrefix(err.Error(), told) })
	})
	return c, errors.Join(wrong...)
}

// Defaults is the configuration with every setting at its default. Settings without a default are empty.
func Defaults() Config {
	unset := func(string) (string, bool) { return "", false }
	c, _ := Load(nil, unset, nil) // the error names the settings without a default
	return c
}

// Set reads one setting by its name in the file, as Load does.
func (c *Config) Set(key, text string) error {
	for _, s := range c.Added.settings() {
		if s.key == key {
			return s.set(c, text)
		}
	}
	return fmt.Errorf("there is no setting %q; the nearest is %s", key, c.Added.nearest(key))
}

// Configured reports whether the environment sets anything.
func Configured() bool {
	for _, s := range settings() {
		if os.Getenv(s.env()) != "" || os.Getenv(s.env()+"_FILE") != "" {
			return true
		}
	}
	return false
}

func (s setting) env() string {
	return "ROAMCARD_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "__"))
}

func (s setting) value(
	file map[string]string, lookup func(string) (string, bool), read func(string) ([]byte, error),
) (value, source string, err error) {
	value, source, err = env(s.env(), lookup, read)
	if _, exposed := errors.AsType[*exposedError](err); exposed && !s.holdsSecret(value) {
		err = nil
	}
	if err != nil {
		return "", "", fmt.Errorf("%s (%s_FILE): %w", s.key, s.env(), err)
	}
	switch {
	case value != "":
		return value, source, nil
	case source != "" && s.byDefault == none:
		return none, source, nil // an empty file is how a setting with a secret is emptied
	case source != "":
		return "", source, nil
	}
	if v := strings.TrimSpace(file[s.key]); v != "" {
		return v, "file", nil
	}
	return s.byDefault, "default", nil
}

// env reads a variable of the environment, or the file that the variable with the suffix _FILE names. source is empty
// when neither is set.
func env(
	name string, lookup func(string) (string, bool), read func(string) ([]byte, error),
) (value, source string, err error) {
	v, _ := lookup(name)
	v = strings.TrimSpace(v)
	path, _ := lookup(name + "_FILE")
	switch {
	case v != "" && path != "":
		return "", "", errors.New("the variable without _FILE is set, too; set one of them")
	case v != "":
		return v, "environment", nil
	case path == "":
		return "", "", nil
	}
	b, err := read(path)
	return strings.TrimSpace(string(b)), "secret file", err
}

// Env reads a secret of the environment as settings are read: from the variable, or from the file that the variable
// with the suffix _FILE names, which others may neither write nor, outside its group, read.
func Env(name string) (string, error) {
	value, _, err := env(name, os.LookupEnv, func(path string) ([]byte, error) {
		return custody.Read(path, custody.GroupReaders, maxFile)
	})
	if err != nil {
		return "", fmt.Errorf("read %s_FILE: %w", name, err)
	}
	return value, nil
}

func text(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, s string) error { *at(c) = s; return nil }
}

func secretAt(at func(*Config) *secret.Text) func(*Config, string) error {
	return func(c *Config, s string) error { *at(c) = secret.New(s); return nil }
}

func secrets(at func(*Config) *[]secret.Text) func(*Config, string) error {
	return func(c *Config, s string) error {
		for part := range strings.SplitSeq(s, ",") {
			*at(c) = append(*at(c), secret.New(strings.TrimSpace(part)))
		}
		return nil
	}
}

func hexKey(at func(*Config) *secret.Text) func(*Config, string) error {
	return func(c *Config, s string) error {
		if b, err := hex.DecodeString(s); err != nil || len(b) < 32 {
			return errors.New("must be at least 32 bytes in hex")
		}
		*at(c) = secret.New(s)
		return nil
	}
}

// hexKeys reads one key or several: the first one is in use, the others are good for what was made with them.
func hexKeys(at func(*Config) (*secret.Text, *[]secret.Text)) func(*Config, string) error {
	return func(c *Config, s string) error {
		first, others := at(c)
		*others = nil
		for i, part := range strings.Split(s, ",") {
			var key secret.Text
			if err := hexKey(func(*Config) *secret.Text { return &key })(c, strings.TrimSpace(part)); err != nil {
				return err
			}
			if i == 0 {
				*first = key
			} else {
				*others = append(*others, key)
			}
		}
		return nil
	}
}

// receiptKeys reads the keys of receipts, the one that signs first.
func receiptKeys(c *Config, s string) error {
	var first secret.Text
	var others []secret.Text
	err := hexKeys(func(*Config) (*secret.Text, *[]secret.Text) { return &first, &others })(c, s)
	if err != nil {
		return err
	}
	all := append([]secret.Text{first}, others...)
	for _, key := range all {
		if hex.DecodedLen(len(key.Reveal())) != ed25519.SeedSize {
			return fmt.Errorf("must be %d bytes in hex", ed25519.SeedSize)
		}
	}
	c.ReceiptKeys = all
	return nil
}

// receiptSigner signs offers and receipts; nil without keys.
func (c Config) receiptSigner() (*receipt.Signer, error) {
	if len(c.ReceiptKeys) == 0 {
		return nil, nil
	}
	seeds, err := hexBytes(c.ReceiptKeys)
	if err != nil {
		return nil, fmt.Errorf("decode the keys of receipts: %w", err)
	}
	return receipt.New(c.BaseURL, seeds...)
}

// hexBytes are the keys as bytes.
func hexBytes(texts []secret.Text) (all [][]byte, err error) {
	for _, text := range texts {
		key, err := hex.DecodeString(text.Reveal())
		if err != nil || len(key) < 32 {
			return nil, errors.New("not 32 bytes in hex")
		}
		all = append(all, key)
	}
	return all, nil
}

func oneOf(at func(*Config) *string, values ...string) func(*Config, string) error {
	return func(c *Config, s string) error { *at(c) = s; return among(s, values...) }
}

func among(s string, values ...string) error {
	for _, v := range values {
		if s == v {
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s", s, strings.Join(values, ", "))
}

func address(at func(*Config) *x402.Address) func(*Config, string) error {
	return func(c *Config, s string) (err error) {
		if *at(c), err = x402.ParseAddress(s); err == nil {
			if at(c).IsZero() {
				return errors.New("the zero address is nobody's")
			}
			return nil
		}
		if _, plain := x402.ParseAddress(strings.ToLower(s)); plain == nil {
			return errors.New("the EIP-55 checksum, which the capital letters are, is wrong: a digit may be mistyped")
		}
		return err
	}
}

func addresses(s string) ([]x402.Address, error) {
	var all []x402.Address
	for part := range strings.SplitSeq(s, ",") {
		a, err := x402.ParseAddress(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		all = append(all, a)
	}
	return all, nil
}

func boolean(at func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, s string) (err error) { *at(c), err = strconv.ParseBool(s); return err }
}

func number(at func(*Config) *int) func(*Config, string) error {
	return func(c *Config, s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a positive number", s)
		}
		*at(c) = n
		return nil
	}
}

// within is number with bounds.
func within(least, most int, at func(*Config) *int) func(*Config, string) error {
	read := number(at)
	return func(c *Config, s string) error {
		if err := read(c, s); err != nil {
			return err
		}
		if *at(c) < least || *at(c) > most {
			return fmt.Errorf("%s is not within %d and %d", s, least, most)
		}
		return nil
	}
}

// cents reads an amount, which may be zero.
func cents(at func(*Config) *money.Cents) func(*Config, string) error {
	return func(c *Config, s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not an amount in US cents", s)
		}
		*at(c) = money.Cents(n)
		return nil
	}
}

func duration(at func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < time.Millisecond {
			return fmt.Errorf("%q is not a duration like 20s, of a millisecond at least", s)
		}
		*at(c) = d
		return nil
	}
}

// briefly reads a duration with an upper bound, which may be zero.
func briefly(most time.Duration, at func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > most {
			return fmt.Errorf("%q is not a duration from 0s to %s", s, most)
		}
		*at(c) = d
		return nil
	}
}

// atLeast is duration with a lower bound.
func atLeast(least time.Duration, at func(*Config) *time.Duration) func(*Config, string) error {
	read := duration(at)
	return func(c *Config, s string) error {
		if err := read(c, s); err != nil {
			return err
		}
		if *at(c) < least {
			return fmt.Errorf("%s is less than %s", s, least)
		}
		return nil
	}
}

// origin reads an absolute http or https URL without path, and returns it without a slash at the end.
func origin(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must be an origin like https://api.example.com")
	}
	return u.Scheme + "://" + u.Host, nil
}

// apiURL takes an origin with or without a path, and leaves a slash at its end out.
func apiURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", errors.New("must be the URL of an API, like https://api.example.com or https://api.example.com/v2")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

func origins(s string) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(s, ",") {
		o, err := origin(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func urls(s string) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(s, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, errors.New("must be http or https URLs separated by commas")
		}
		if slices.Contains(all, u.String()) {
			return nil, errors.New("name no URL twice: two answers of one node prove no more than one")
		}
		all = append(all, u.String())
	}
	return all, nil
}

func prefixes(s string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for part := range strings.SplitSeq(s, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is no network like 10.0.0.0/8", part)
		}
		all = append(all, p)
	}
	return all, nil
}
