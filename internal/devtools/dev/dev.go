// Package dev runs the development server: the whole service on loopback, on a database, a chain and a sandbox that it
// starts itself, with well-known keys. It also runs the demo, and the chain or the sandbox alone.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Config is the development server: everything on loopback, with well-known keys.
type Config struct {
	// Addr is where the API listens; port 0 picks a free one.
	Addr string
	// ConsoleAddr is where the operators' console listens; empty is a free port of the host of Addr.
	ConsoleAddr string
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
	// Limits is the setting limits; empty is DefaultLimits.
	Limits string
	// IssuerCallTimeout and IssuerVisibilityDelay are the settings of these names; zero takes the defaults.
	IssuerCallTimeout, IssuerVisibilityDelay time.Duration
	// OnlyEvery makes transactions wait for the chain's next block.
	OnlyEvery bool
	// SpendLimits makes the sandbox issuer open cards with spending limits.
	SpendLimits bool
	// Issuer is one of Names, or several separated by commas; empty is the sandbox. Any other is played by the sandbox
	// process.
	Issuer string
	// Supplier is one of Names, or several separated by commas; empty is the sandbox. Any other is played by the sandbox
	// process.
	Supplier string
	// Routing is the setting routing.rules.
	Routing string
	// AdminAddr is the setting admin.addr, and SecondApproverAbove operators.second_approver_above in cents.
	AdminAddr           string
	SecondApproverAbove uint32
	// OIDCIssuer is the setting oidc.issuer; its tokens are for the audience roamcard, and its groups are the roles.
	OIDCIssuer string
	// SupplierVisibilityDelay is the setting visibility_delay of such a supplier; zero takes its default.
	SupplierVisibilityDelay time.Duration
	// Set are other settings, each as key=value.
	Set []string
	Log *slog.Logger
	// Out gets the banner; it may be nil.
	Out io.Writer
	// OnReady, if set, is called with what the ready file tells.
	OnReady func(Ready)
}

// DefaultLimits are the rates of development: everything comes from one address there, and tests are quick.
const DefaultLimits = "x20"

// decided are the settings that follow a flag.
var decided = map[string]string{
	"addr": "addr", "base_url": "addr", "console.addr": "console-addr", "admin.addr": "admin-addr",
	"operators.second_approver_above": "second-approver-above",
}

// Run runs the development server until ctx ends.
func Run(ctx context.Context, c Config) (err error) {
	for _, set := range c.Set {
		key, _, _ := strings.Cut(set, "=")
		if by, ok := decided[key]; ok {
			return fmt.Errorf("set %s: here it follows --%s", key, by)
		}
	}
	for _, addr := range []string{c.Addr, cmp.Or(c.ConsoleAddr, c.Addr)} {
		if err := loopback(addr); err != nil {
			return err
		}
	}
	if c.AdminAddr != "" {
		if err := loopback(c.AdminAddr); err != nil {
			return err
		}
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
	out, err := telemetry.Start(ctx, "roamcard-dev", app.Version, outward.Rule{Anywhere: true})
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
	cfg.ConsoleAddr = cmp.Or(c.ConsoleAddr, freeNextTo(cfg.Addr))
	ready.BaseURL = cfg.BaseURL
	a, err := app.New(ctx, cfg, app.Options{Log: out.Logger(c.Log), Listener: listener, Telemetry: out, Migrate: true})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	close.add(a.Close)
	ready.MetricsURL, ready.AdminURL, ready.ConsoleURL = a.MetricsURL(), a.AdminURL(), a.ConsoleURL()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Run(ctx) })
	group.Go(func() error {
		if err := a.AwaitReady(ctx); err != nil {
			return err
		}
		return c.announce(ready)
	})
	return group.Wait()
}

// announce says that the server is ready to whoever waits for it.
func (c Config) announce(r Ready) error {
	if err := writeReady(c.ReadyFile, r); err != nil {
		return err
	}
	banner(c.Out, c.ReadyFile, r)
	if c.OnReady != nil {
		c.OnReady(r)
	}
	return nil
}

// Start calls Run in a goroutine and returns once the server is ready. stop ends it and returns the error of Run.
func Start(ctx context.Context, c Config) (ready Ready, stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	up, ended := make(chan Ready, 1), make(chan error, 1)
	c.OnReady = func(r Ready) { up <- r }
	go func() { ended <- Run(ctx, c) }()
	select {
	case ready = <-up:
		return ready, func() error { cancel(); return <-ended }, nil
	case err = <-ended:
		cancel()
		return Ready{}, nil, cmp.Or(err, context.Canceled) // Run returns nil before the server is ready only if ctx ended
	}
}

// Logger is the logger of the development commands: text, warnings unless a level is named.
func Logger(w io.Writer, level string) *slog.Logger {
	l := slog.LevelWarn
	if level != "" && l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	return telemetry.NewLogger(w, l, false)
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

// freeNextTo is a free port of an address's host.
func freeNextTo(addr string) string {
	host, _, _ := net.SplitHostPort(addr) // it listens there
	return net.JoinHostPort(host, "0")
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
