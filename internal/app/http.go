package app

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/transport/discovery"
	"github.com/roamcard/roamcard/internal/transport/edge"
	"github.com/roamcard/roamcard/internal/transport/mcp"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpc"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/transport/web"
	"github.com/roamcard/roamcard/internal/transport/webhooks"
)

// serveHTTP mounts the services on the edge, by their procedures and by their REST routes, and the documents.
func (a *App) serveHTTP(listener net.Listener, p *Parts) error {
	c := a.config
	openAPI, err := c.publicOpenAPI()
	if err != nil {
		return err
	}
	var did []byte
	if p.signer != nil {
		if did, err = p.signer.Document(); err != nil {
			return fmt.Errorf("make the document of the receipts' keys: %w", err)
		}
	}
	site, err := discovery.New(discovery.Config{
		OpenAPI: openAPI, BaseURL: c.BaseURL, Environment: c.Environment, Version: Version, Contact: c.Contact,
		Terms: c.terms(), Protocol: mcp.Protocol, Protocols: mcp.Protocols(), Started: time.Now(),
		Paused: pausedPaths(a.products), DID: did, NotFound: http.HandlerFunc(rest.NotFound),
	})
	if err != nil {
		return fmt.Errorf("make the documents: %w", err)
	}
	newServer, err := rpcx.Servers(rpcx.Config{
		Callers: p.who, Deliveries: p.deliveries, Watches: p.sells, Limits: p.limits, Refusals: a.store.OperatorTokens(),
	})
	if err != nil {
		return fmt.Errorf("make the services: %w", err)
	}
	a.board = a.newBoard()
	sells := a.selling(p, site)
	buyers, operators := newServer(), newServer()
	a.services(sells).Register(buyers, operators)
	servers := []*rpcx.Server{buyers}
	if c.AdminAddr == "" {
		servers = append(servers, operators)
	} else if err := a.listenForOperators(operators, p); err != nil {
		return err
	}
	router, err := a.mount(servers)
	if err != nil {
		return err
	}
	raw, rates, err := a.raw(p, site, router, sells)
	if err != nil {
		return err
	}
	a.server, err = edge.New(edge.Config{
		Listener: listener, Addr: c.Addr, BaseURL: c.BaseURL, Servers: servers, REST: router,
		Raw: raw, Limits: p.limits, Rates: rates,
		MaxRequests: c.MaxRequests, MaxConns: c.MaxConns, MaxConnsPerAddress: c.MaxConnsPerAddress,
		TrustedProxies: c.TrustedProxies, NoCORS: []string{"/api/admin/", rpc.OperatorPath, card.LinkPath, web.AssetsPath},
		Log: a.log, Tracing: otel.GetTracerProvider(), Metrics: a.metrics, Now: a.config.now,
	})
	if err != nil {
		return fmt.Errorf("make the edge: %w", err)
	}
	return a.serveConsole(operators, p.limits)
}

// mount gives the methods of servers to a router, by their REST routes.
func (a *App) mount(servers []*rpcx.Server) (*rest.Router, error) {
	pay, err := web.PayDocument()
	if err != nil {
		return nil, err
	}
	missing, err := web.MissingDocument()
	if err != nil {
		return nil, err
	}
	router := rest.New(rest.Config{Log: a.log, Missing: missing, Pages: map[string]rest.Page{
		rpc.PayProcedure: pay,
	}})
	for _, server := range servers {
		if err := router.Mount(server); err != nil {
			return nil, err
		}
	}
	return router, nil
}

// raw are the handlers outside of the services, and how their requests are counted: the documents, the tools of agents,
// what providers send, the pages, and the routes of products.
func (a *App) raw(
	p *Parts, site *discovery.Site, router *rest.Router, sells Selling,
) (raw map[string]http.Handler, rates map[string]limit.Class, err error) {
	raw = site.Handlers()
	toolbox, err := mcp.Handlers(mcp.Config{
		API: tools{router, p.limits}, OpenAPI: site.OpenAPI(), Descriptor: site.ServerCard(), BaseURL: a.config.BaseURL,
		Origins: a.config.MCPOrigins, Version: site.InterfaceVersion(), Log: a.log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make the MCP endpoint: %w", err)
	}
	maps.Copy(raw, toolbox)
	raw[webhooks.Pattern] = webhooks.Handler(p.inbox)
	rates = map[string]limit.Class{"POST /mcp": limit.MCP, webhooks.Pattern: limit.Poll}
	pages, err := a.pages()
	if err != nil {
		return nil, nil, err
	}
	for pattern, handler := range pages {
		raw[pattern], rates[pattern] = handler, limit.Poll
	}
	for _, m := range a.products {
		if m.Routes == nil {
			continue
		}
		for pattern, handler := range m.Routes(sells) {
			raw[pattern], rates[pattern] = handler, limit.Unpaid
		}
	}
	return raw, rates, nil
}

// pages are what people open: the shop, the status, and what they load.
func (a *App) pages() (map[string]http.Handler, error) {
	pages, err := web.Assets(http.HandlerFunc(rest.NotFound))
	if err != nil {
		return nil, err
	}
	maps.Copy(pages, web.StatusPage(a.board))
	shop, err := web.ShopDocument()
	if err != nil {
		return nil, err
	}
	pages[web.HomePattern] = web.Home(shop, http.HandlerFunc(rest.NotFound))
	return pages, nil
}

// tools serves the calls of MCP tools, which bypass the edge. A call that asks for terms is counted as an unpaid
// request.
type tools struct {
	router *rest.Router
	limits *limit.Limiter
}

// ServeHTTP implements http.Handler.
func (t tools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if class := t.router.Rate(t.router.Pattern(r)); class == limit.Unpaid {
		_, _, err := t.limits.Take(class, limit.Address(r.Context()))
		if f, refused := fault.As(err); refused {
			rest.Problem(w, r, f)
			return
		}
	}
	t.router.ServeHTTP(w, r)
}
