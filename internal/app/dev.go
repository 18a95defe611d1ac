package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// DevConfig is the development server: everything on loopback, with well-known keys.
type DevConfig struct {
	// Addr is where the API listens; port 0 picks a free one.
	Addr string
	// Dir keeps the database, the chain and the sandbox's books; empty is a new folder that is removed.
	Dir string
	// ReadyFile is written once everything answers; empty is ready.json in Dir.
	ReadyFile string
	// DatabaseURL, RPCURL and SandboxURL name parts that run elsewhere already.
	DatabaseURL, RPCURL, SandboxURL string
	// FacilitatorURL is a facilitator on the same chain. With one and no Settlement, it settles first.
	FacilitatorURL string
	// Settlement is the setting settlement.order; empty is the relayer.
	Settlement string
	// Limits is the setting limits; empty is DevLimits.
	Limits string
	// IssuerCallTimeout and IssuerHorizon are the settings of these names; zero takes the standards.
	IssuerCallTimeout, IssuerVisibilityDelay time.Duration
	// SpendLimits makes the sandbox issuer open cards with spending limits.
	SpendLimits bool
	Log         *slog.Logger
	// Out gets the banner; it may be nil.
	Out io.Writer
	// OnReady, when set, hears what the ready file tells.
	OnReady func(Ready)
}

// Ready is what the ready file tells: where everything is, and who has money.
type Ready struct {
	BaseURL        string        `json:"baseUrl"`
	RPCURL         string        `json:"rpcUrl"`
	ChainID        int64         `json:"chainId"`
	USDC           string        `json:"usdc"`
	PayTo          string        `json:"payTo"`
	OperatorToken  string        `json:"operatorToken"`
	SandboxURL     string        `json:"sandboxUrl"`
	MetricsURL     string        `json:"metricsUrl"`
	OperatorWallet ReadyWallet   `json:"operatorWallet"`
	Wallets        []ReadyWallet `json:"wallets"`
}

// ReadyWallet is a publicly known key of the development chain.
type ReadyWallet struct {
	Address    string `json:"address"`
	PrivateKey string `json:"privateKey"`
	// USDC is what the wallet was given, in dollars.
	USDC string `json:"usdc,omitempty"`
}

// DevLimits are the rates of development: everything comes from one address there, and tests are quick.
const DevLimits = "x20"

// blockTime is Base's: the chain ticks when nobody pays, so that authorizations expire there too.
const blockTime = 2 * time.Second

// Dev runs the development server until ctx ends.
func Dev(ctx context.Context, c DevConfig) (err error) {
	if err := loopback(c.Addr); err != nil {
		return err
	}
	if c.Dir == "" {
		if c.Dir, err = os.MkdirTemp("", "roamcard-dev-"); err != nil {
			return fmt.Errorf("make a data folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
		// The database may run as another user, who has to get in.
		if err := os.Chmod(c.Dir, 0o755); err != nil { //nolint:gosec // development data on loopback
			return fmt.Errorf("open the data folder: %w", err)
		}
	}
	if c.ReadyFile == "" {
		c.ReadyFile = filepath.Join(c.Dir, "ready.json")
	}
	out, err := telemetry.Start(ctx, "roamcard-dev", Version)
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	var close closers
	close.add(func() error { return out.Stop(context.WithoutCancel(ctx)) })
	defer func() { err = errors.Join(err, close.all()) }()
	// First of all, so that a taken address shows before the children are up.
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	cfg, ready, err := c.start(ctx, &close)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	cfg.Addr = listener.Addr().String()
	cfg.BaseURL = "http://" + cfg.Addr
	ready.BaseURL = cfg.BaseURL
	a, err := New(ctx, cfg, Options{Log: out.Logger(c.Log), Listener: listener, Telemetry: out, Migrate: true})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	close.add(a.Close)
	ready.MetricsURL = a.MetricsURL()
	return a.run(ctx, func(ctx context.Context) error {
		if err := a.awaitReady(ctx); err != nil {
			return err
		}
		if err := writeReady(c.ReadyFile, ready); err != nil {
			return err
		}
		banner(c.Out, c.ReadyFile, ready)
		if c.OnReady != nil {
			c.OnReady(ready)
		}
		return nil
	})
}

// StartDev runs Dev beside the caller and returns once it is ready. stop ends it, and gives what it ended with.
func StartDev(ctx context.Context, c DevConfig) (ready Ready, stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	up, ended := make(chan Ready, 1), make(chan error, 1)
	c.OnReady = func(r Ready) { up <- r }
	go func() { ended <- Dev(ctx, c) }()
	select {
	case ready = <-up:
		return ready, func() error { cancel(); return <-ended }, nil
	case err = <-ended:
		cancel()
		return Ready{}, nil, cmp.Or(err, context.Canceled) // before it was ready it ends well only when told to
	}
}

// start brings up the children that do not run elsewhere, and the configuration that uses them.
func (c DevConfig) start(ctx context.Context, close *closers) (Config, Ready, error) {
	cfg := devDefaults()
	cfg.IssuerLimits = c.SpendLimits
	cfg.IssuerCallTimeout, cfg.IssuerVisibilityDelay = cmp.Or(c.IssuerCallTimeout, issuerCallTimeout), cmp.Or(c.IssuerVisibilityDelay, issuerVisibilityDelay)
	if err := c.settle(&cfg); err != nil {
		return cfg, Ready{}, err
	}
	var err error
	if cfg.Limits, err = limit.Parse(cmp.Or(c.Limits, DevLimits)); err != nil {
		return cfg, Ready{}, fmt.Errorf("read the limits: %w", err)
	}
	if c.DatabaseURL == "" {
		db, err := devnet.StartPostgres(ctx, devnet.PostgresConfig{Dir: filepath.Join(c.Dir, "postgres"), Log: c.Log})
		if err != nil {
			return cfg, Ready{}, fmt.Errorf("start PostgreSQL: %w", err)
		}
		close.add(db.Close)
		c.DatabaseURL = db.URL()
	}
	if c.RPCURL == "" {
		chain, err := devnet.StartChain(ctx, devnet.ChainConfig{Dir: filepath.Join(c.Dir, "chain"), BlockEvery: blockTime, Log: c.Log})
		if err != nil {
			return cfg, Ready{}, fmt.Errorf("start the chain: %w", err)
		}
		close.add(chain.Close)
		c.RPCURL = chain.RPCURL
	}
	if c.SandboxURL == "" {
		s, err := StartSandbox(SandboxConfig{Addr: "127.0.0.1:0", Dir: filepath.Join(c.Dir, "sandbox"), SpendLimits: c.SpendLimits, Log: c.Log})
		if err != nil {
			return cfg, Ready{}, fmt.Errorf("start the sandbox: %w", err)
		}
		close.add(s.Close)
		c.SandboxURL = s.URL
	}
	token, key, err := devSecrets(c.Dir)
	if err != nil {
		return cfg, Ready{}, err
	}
	cfg.DatabaseURL, cfg.RPCURLs, cfg.IssuerURL = secret.New(c.DatabaseURL), []string{c.RPCURL}, c.SandboxURL
	cfg.IssuerKey, cfg.QuoteKey = secret.New(sandbox.DevKey), secret.New(key)
	if err := c.developProducts(&cfg); err != nil {
		return cfg, Ready{}, err
	}
	cfg.Operators = []auth.Operator{{Name: "dev", Hash: sha256.Sum256([]byte(token))}}
	return cfg, devReady(cfg, c, token), nil
}

// settle says who settles.
func (c DevConfig) settle(cfg *Config) (err error) {
	order := c.Settlement
	switch {
	case order == "" && c.FacilitatorURL == "":
		order = settlerRelayer
	case order == "":
		order = settlerFacilitator + "," + settlerRelayer
	}
	if cfg.Settlement, err = settlementOrder(order); err != nil {
		return fmt.Errorf("read the order of settlement: %w", err)
	}
	if c.FacilitatorURL != "" {
		if cfg.FacilitatorURL, err = service(c.FacilitatorURL); err != nil {
			return fmt.Errorf("read the facilitator's address: %w", err)
		}
	}
	if cfg.settlesBy(settlerFacilitator) && cfg.FacilitatorURL == "" {
		return errors.New("the facilitator's address is missing")
	}
	return nil
}

// devDefaults is the configuration of every development server.
func devDefaults() Config {
	cfg := Config{
		Environment: Sandbox, Contact: "operator@example.com", IssuerProvider: "sandbox", PaidAt: "latest", DeadAt: "safe", AssetName: "USD Coin",
		LogLevel: slog.LevelInfo, Slots: 8, Fairness: FairnessConfig{UnsettledPercent: unsettledPercent, Delegates: must(addresses(delegates))}, LeaseTTL: 5 * time.Second, Wait: 20 * time.Second,
		IssuerPoll: 200 * time.Millisecond, IssuerDeadline: time.Hour, IssuerStatesEvery: 10 * time.Second, ReconcileEvery: time.Minute, MetricsAddr: "127.0.0.1:0",
	}
	cfg.Asset = must(x402.ParseAddress(devnet.USDCAddress))
	cfg.PayTo = must(x402.ParseAddress(devnet.WalletsOf(devnet.RolePayee)[0].Address))
	cfg.Activity = []x402.Address{must(x402.ParseAddress(devnet.WalletsOf(devnet.RoleOperator)[0].Address))}
	cfg.TreasuryKey = secret.New(devnet.WalletsOf(devnet.RoleTreasury)[0].PrivateKey)
	cfg.RelayerKeys = []secret.Text{secret.New(devnet.WalletsOf(devnet.RoleRelayer)[0].PrivateKey)}
	return cfg
}

func devReady(cfg Config, c DevConfig, token string) Ready {
	operator := devnet.WalletsOf(devnet.RoleOperator)[0]
	r := Ready{
		RPCURL: c.RPCURL, ChainID: devnet.ChainID, USDC: cfg.Asset.String(), PayTo: cfg.PayTo.String(),
		OperatorToken: token, SandboxURL: c.SandboxURL,
		OperatorWallet: ReadyWallet{Address: operator.Address, PrivateKey: operator.PrivateKey},
	}
	for _, w := range devnet.WalletsOf(devnet.RoleBuyer) {
		r.Wallets = append(r.Wallets, ReadyWallet{Address: w.Address, PrivateKey: w.PrivateKey, USDC: money.USDC(w.USDC).Dollars()})
	}
	return r
}

// devSecrets keeps the operator's token and the quote key beside the data, so that a restart on the
// same folder honours what it handed out.
func devSecrets(dir string) (token, quoteKey string, err error) {
	if token, err = keep(filepath.Join(dir, "operator.token"), "rco_"); err != nil {
		return "", "", err
	}
	quoteKey, err = keep(filepath.Join(dir, "quote.key"), "")
	return token, quoteKey, err
}

func keep(path, prefix string) (string, error) {
	if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
		return string(b), nil
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: the program ends when there is no randomness
	text := prefix + hex.EncodeToString(random)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("keep a development secret: %w", err)
	}
	return text, nil
}

func banner(w io.Writer, readyFile string, r Ready) {
	if w == nil {
		return
	}
	fmt.Fprintf(w, `
  roamcard development server — loopback only, no real money, every key is public

  API             %s
  OpenAPI         %s/api/openapi.json
  Chain (8453)    %s
  Sandbox issuer  %s/control/books
  Metrics         %s
  Operator token  %s
  Demo wallet     %s with %s USDC

  Compare the books:  roamcard reconcile --ready-file %s
  Try:  roamcard demo   or   curl -i -X POST %s/api/card/purchase -H 'content-type: application/json' -d '{"idempotencyKey":"first"}'

`, r.BaseURL, r.BaseURL, r.RPCURL, r.SandboxURL, r.MetricsURL, r.OperatorToken, r.Wallets[0].Address, r.Wallets[0].USDC, readyFile, r.BaseURL)
}

// loopback refuses to show well-known keys to a network.
func loopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("read the address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s is not a loopback address: development keys are public", addr)
}

// SandboxConfig is the sandbox run alone.
type SandboxConfig struct {
	Addr, Dir, ReadyFile string
	// SpendLimits makes the issuer open cards with spending limits.
	SpendLimits bool
	Log         *slog.Logger
}

// RunningSandbox is a sandbox that listens.
type RunningSandbox struct {
	URL    string
	server *http.Server
	books  *sandbox.Server
	done   chan error
}

// StartSandbox starts the sandbox providers on a loopback address.
func StartSandbox(c SandboxConfig) (*RunningSandbox, error) {
	if err := loopback(c.Addr); err != nil {
		return nil, err
	}
	books, err := sandbox.NewServer(sandbox.Config{Dir: c.Dir, SpendLimits: c.SpendLimits, Log: c.Log, Now: time.Now})
	if err != nil {
		return nil, fmt.Errorf("open the books: %w", err)
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), books.Close())
	}
	s := &RunningSandbox{
		URL: "http://" + listener.Addr().String(), books: books, done: make(chan error, 1),
		server: &http.Server{Handler: books, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { s.done <- s.server.Serve(listener) }()
	return s, nil
}

// Close stops the sandbox and its books.
func (s *RunningSandbox) Close() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.books.Close())
}

// closers close in the reverse of the order in which things were opened.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c *closers) all() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	return errors.Join(errs...)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
