package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/edge"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/transport/web"
)

// consoleSettings are the settings of the operators' console.
func consoleSettings() []setting {
	return []setting{
		{key: "console.addr", help: "host and port of the operators' console, an origin of its own; keep it private",
			byDefault: none, set: text(func(c *Config) *string { return &c.ConsoleAddr })},
		{key: "console.hosts", help: "names by which browsers reach the console through a proxy, separated by commas",
			byDefault: none, set: func(c *Config, s string) (err error) { c.ConsoleHosts, err = hosts(s); return err }},
	}
}

// listenForConsole opens the console's address, so that a taken one shows before anything serves.
func (a *App) listenForConsole() (err error) {
	if a.config.ConsoleAddr == "" || a.config.NoServer {
		return nil
	}
	if a.consoleAt, err = net.Listen("tcp", a.config.ConsoleAddr); err != nil {
		return fmt.Errorf("listen for the console: %w", err)
	}
	a.close.add(func() error {
		// Serving closes it too.
		if err := a.consoleAt.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("close the console's listener: %w", err)
		}
		return nil
	})
	return nil
}

// serveConsole mounts the console's pages and the operators' routes, which are those of the API: the same handlers, and
// the same limits. Nothing that buyers use is on its origin, so that no script of a buyer's page runs there.
func (a *App) serveConsole(operators *rpcx.Server, limits *limit.Limiter) error {
	if a.consoleAt == nil {
		return nil
	}
	router := rest.New(rest.Config{Log: a.log})
	if err := router.Mount(operators); err != nil {
		return err
	}
	pages, err := web.Console(http.HandlerFunc(rest.NotFound))
	if err != nil {
		return err
	}
	rates := map[string]limit.Class{}
	for pattern := range pages {
		rates[pattern] = limit.Poll
	}
	c := a.config
	a.console, err = edge.New(edge.Config{
		Listener: a.consoleAt, BaseURL: c.BaseURL, Hosts: append([]string{c.ConsoleAddr}, c.ConsoleHosts...),
		Servers: []*rpcx.Server{operators}, REST: router, Raw: pages, Limits: limits, Rates: rates,
		MaxRequests: c.MaxRequests, MaxConns: c.MaxConns, MaxConnsPerAddress: c.MaxConnsPerAddress,
		TrustedProxies: c.TrustedProxies, NoCORS: []string{"/"},
		Log: a.log, Tracing: otel.GetTracerProvider(), Metrics: a.metrics, Now: a.config.now,
	})
	if err != nil {
		return fmt.Errorf("make the console's edge: %w", err)
	}
	return nil
}

// hosts reads names of hosts, without ports.
func hosts(s string) ([]string, error) {
	var all []string
	for part := range strings.SplitSeq(s, ",") {
		name := strings.TrimSpace(part)
		if u, err := url.Parse("https://" + name + "/"); name == "" || err != nil || u.Host != name || u.Port() != "" ||
			u.User != nil {
			return nil, errors.New("must be names of hosts without ports, like console.example.com, separated by commas")
		}
		all = append(all, name)
	}
	return all, nil
}

// ConsoleURL is the origin of the operators' console, or empty.
func (a *App) ConsoleURL() string {
	if a.consoleAt == nil {
		return ""
	}
	return "http://" + a.consoleAt.Addr().String()
}
