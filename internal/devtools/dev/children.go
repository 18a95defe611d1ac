package dev

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/oidc"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/x402"
)

// blockTime is Base's: the chain makes blocks when nobody pays, so that authorizations expire there, too.
const blockTime = 2 * time.Second

// start starts the children that do not run elsewhere, and returns the configuration that uses them.
func (c Config) start(ctx context.Context, close *closers) (app.Config, Ready, error) {
	cfg, err := c.defaults()
	if err != nil {
		return cfg, Ready{}, err
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
		chain, err := devnet.StartChain(ctx, devnet.ChainConfig{
			Dir: filepath.Join(c.Dir, "chain"), BlockEvery: blockTime, OnlyEvery: c.OnlyEvery, Log: c.Log,
		})
		if err != nil {
			return cfg, Ready{}, fmt.Errorf("start the chain: %w", err)
		}
		close.add(chain.Close)
		c.RPCURL = chain.RPCURL
	}
	if c.SandboxURL == "" {
		s, err := StartSandbox(SandboxConfig{
			Addr: "127.0.0.1:0", Dir: filepath.Join(c.Dir, "sandbox"), SpendLimits: c.SpendLimits, Log: c.Log,
		})
		if err != nil {
			return cfg, Ready{}, fmt.Errorf("start the sandbox: %w", err)
		}
		close.add(s.Close)
		c.SandboxURL = s.URL
	}
	keys, err := readSecrets(c.Dir)
	if err != nil {
		return cfg, Ready{}, err
	}
	cfg.DatabaseURL, cfg.RPCURLs, cfg.IssuerURL = secret.New(c.DatabaseURL), []string{c.RPCURL}, c.SandboxURL
	cfg.Explorer, cfg.PublicNode = "", c.RPCURL
	cfg.IssuerKey, cfg.QuoteKey = secret.New(sandbox.DevKey), keys.quote
	cfg.ReceiptKeys = []secret.Text{keys.receipts}
	if err := cfg.Develop(app.Development{SandboxURL: c.SandboxURL, Keep: func(file, prefix string) (string, error) {
		return keep(filepath.Join(c.Dir, file), prefix)
	}}); err != nil {
		return cfg, Ready{}, fmt.Errorf("configure the products: %w", err)
	}
	if err := UseIssuer(&cfg, c.Issuer, c.SandboxURL); err != nil {
		return cfg, Ready{}, err
	}
	if err := UseSupplier(&cfg, c.Supplier, c.SandboxURL, c.SupplierVisibilityDelay); err != nil {
		return cfg, Ready{}, err
	}
	if err := cfg.Set("routing.rules", c.Routing); err != nil {
		return cfg, Ready{}, fmt.Errorf("read the routing rules: %w", err)
	}
	for _, set := range c.Set {
		key, value, _ := strings.Cut(set, "=")
		if err := cfg.Set(key, value); err != nil {
			return cfg, Ready{}, fmt.Errorf("set %s: %w", key, err)
		}
	}
	if err := cfg.CheckRouting(); err != nil {
		return cfg, Ready{}, err
	}
	cfg.AdminAddr, cfg.SecondOperator.Above = c.AdminAddr, money.Cents(c.SecondApproverAbove)
	if c.OIDCIssuer != "" {
		cfg.Issuer = oidc.Config{Issuer: c.OIDCIssuer, Audience: "roamcard", Roles: map[string]auth.Role{}}
		for _, role := range auth.Roles() {
			cfg.Issuer.Roles[string(role)] = role
		}
	}
	// --set operators=… adds others, such as a second approver.
	own := auth.Operator{Name: "dev", Hash: sha256.Sum256([]byte(keys.operator))}
	cfg.Operators = append([]auth.Operator{own}, cfg.Operators...)
	return cfg, c.ready(cfg, keys.operator), nil
}

// defaults is the configuration of every development server, and what c changes of it.
func (c Config) defaults() (app.Config, error) {
	preset := app.Defaults()
	cfg := app.Config{
		Environment: app.Sandbox, Contact: "operator@example.com", IssuerProvider: "sandbox",
		PaidAt: "latest", DeadAt: "safe", AssetName: "USD Coin",
		LogLevel: slog.LevelInfo, Slots: 8, LeaseTTL: 5 * time.Second, Wait: 20 * time.Second,
		Fairness: app.FairnessConfig{
			UnsettledPercent: preset.Fairness.UnsettledPercent, Delegates: preset.Fairness.Delegates,
		},
		IssuerPoll: 200 * time.Millisecond, IssuerDeadline: time.Hour, IssuerStatesEvery: 10 * time.Second,
		ReconcileEvery: time.Minute, MetricsAddr: "127.0.0.1:0", FacilitatorVerify: preset.FacilitatorVerify,
	}
	cfg.Asset = must(x402.ParseAddress(devnet.USDCAddress))
	cfg.PayTo = must(x402.ParseAddress(devnet.WalletsOf(devnet.RolePayee)[0].Address))
	cfg.Activity = []x402.Address{must(x402.ParseAddress(devnet.WalletsOf(devnet.RoleOperator)[0].Address))}
	cfg.TreasuryKey = secret.New(devnet.WalletsOf(devnet.RoleTreasury)[0].PrivateKey)
	cfg.RelayerKeys = []secret.Text{secret.New(devnet.WalletsOf(devnet.RoleRelayer)[0].PrivateKey)}

	cfg.IssuerLimits = c.SpendLimits
	cfg.IssuerCallTimeout = cmp.Or(c.IssuerCallTimeout, preset.IssuerCallTimeout)
	cfg.IssuerVisibilityDelay = cmp.Or(c.IssuerVisibilityDelay, preset.IssuerVisibilityDelay)
	if err := c.settlement(&cfg); err != nil {
		return cfg, err
	}
	if err := cfg.Set("limits", cmp.Or(c.Limits, DefaultLimits)); err != nil {
		return cfg, fmt.Errorf("read the limits: %w", err)
	}
	if c.Limits == "default" {
		cfg.MaxUnpaid = preset.MaxUnpaid
	}
	return cfg, nil
}

// settlement says who settles.
func (c Config) settlement(cfg *app.Config) error {
	order := c.Settlement
	switch {
	case order == "" && c.FacilitatorURL == "":
		order = app.SettlerRelayer
	case order == "":
		order = app.SettlerFacilitator + "," + app.SettlerRelayer
	}
	if err := cfg.Set("settlement.order", order); err != nil {
		return fmt.Errorf("read the order of settlement: %w", err)
	}
	if c.FacilitatorURL != "" {
		if err := cfg.Set("facilitator.url", c.FacilitatorURL); err != nil {
			return fmt.Errorf("read the facilitator's address: %w", err)
		}
	}
	if cfg.SettlesBy(app.SettlerFacilitator) && cfg.FacilitatorURL == "" {
		return errors.New("the facilitator's address is missing")
	}
	if cfg.SettlesBy(app.SettlerRelayer) {
		cfg.Fairness.SmartAccounts = smartaccount.All()
		// Of the last relayer; gas costs a thousand times what it costs on Base, and nothing.
		cfg.RelayerSmartAccountKeys = []secret.Text{secret.New(devnet.WalletsOf(devnet.RoleRelayer)[2].PrivateKey)}
		cfg.Fairness.SmartAccountGas = 1_000_000_000
	}
	return nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
