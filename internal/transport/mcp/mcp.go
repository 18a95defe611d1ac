// Package mcp serves read-only tools over the Model Context Protocol. Each is a call of the service's own API.
//
//	POST /mcp -> front: host, origin, size, one JSON-RPC request -> the SDK: versions, methods -> tool
//	tool      -> GET of a documented route, without any of the caller's headers -> structured content
//
// A tool's call has neither session nor payment, so that it reads only what is public, and buys nothing.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/transport/static"
)

// Protocol is the documented version.
const Protocol = "2025-06-18"

// Protocols are the supported versions, newest first. A client that initializes with an unknown version gets the newest
// that has initialize, as the specification asks: the second.
func Protocols() []string { return []string{"2026-07-28", "2025-11-25", Protocol, "2025-03-26"} }

// Config is what the endpoint is made of.
type Config struct {
	// API serves the routes that the tools read; their calls are anonymous.
	API http.Handler
	// OpenAPI describes these routes; the tools' schemas are taken from it.
	OpenAPI []byte
	// Descriptor is what GET answers: the server card.
	Descriptor []byte
	// BaseURL is the service's own origin; requests for other hosts are refused.
	BaseURL string
	// Origins are the origins of pages that may call, in addition to the service's own.
	Origins []string
	Version string
	Log     *slog.Logger
}

// Handlers are the endpoint's handlers by their patterns.
func Handlers(c Config) (map[string]http.Handler, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	tools, err := bind(c)
	if err != nil {
		return nil, err
	}
	f := &front{host: base.Hostname(), self: c.BaseURL, origins: c.Origins, descriptor: static.New(http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"public, max-age=300"},
		"Access-Control-Allow-Origin": {"*"}, "Vary": {"Accept"},
	}, c.Descriptor)}
	server := sdk.NewServer(&sdk.Implementation{Name: "roamcard", Title: "roamcard", Version: c.Version},
		&sdk.ServerOptions{
			Instructions: "Read-only discovery of roamcard: virtual cards and travel eSIMs, paid by " +
				"x402. These tools never purchase and hold no wallet authority. Begin with get_agent_contract.",
			Capabilities:              &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			SupportedProtocolVersions: Protocols(),
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
				c.TTLMs, c.CacheScope = 300_000, "public"
			},
		})
	for _, t := range tools {
		server.AddTool(t.described, t.serve)
	}
	addFixtures(server)
	f.sdk = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: rpcx.MaxMessage, PropagateRequestCancellation: true,
		// Behind a proxy on the same machine it would refuse every request; front checks the host.
		DisableLocalhostProtection: true,
	})
	return map[string]http.Handler{"GET /mcp": http.HandlerFunc(f.get), "POST /mcp": http.HandlerFunc(f.post)}, nil
}

// bind makes every tool of the table. One whose route is not documented, and so not served, is an error.
func bind(c Config) ([]*tool, error) {
	api, err := readOpenAPI(c.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var tools []*tool
	var errs []error
	for _, e := range table {
		t, err := newTool(c, api, e)
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %s: %w", e.name, err))
			continue
		}
		tools = append(tools, t)
	}
	return tools, errors.Join(errs...)
}
