package app

import (
	"errors"
	"fmt"
	"net"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/gen"
	"github.com/roamcard/roamcard/internal/transport/discovery"
	"github.com/roamcard/roamcard/internal/transport/edge"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpc"
)

// operatorListener serves the operators' routes on a listener of their own, and nothing else.
type operatorListener struct {
	listener net.Listener
	*edge.Server
}

// splitOperators takes the operators' service out of those that the public listener serves, where the configuration
// gives it a listener of its own.
func (a *App) splitOperators(all []rpc.Handler, p *Parts) (public []rpc.Handler, err error) {
	if a.config.AdminAddr == "" {
		return all, nil
	}
	for _, h := range all {
		if h.Path != rpc.OperatorPath {
			public = append(public, h)
			continue
		}
		if a.operators, err = a.listenForOperators(h, p); err != nil {
			return nil, err
		}
		a.close.add(a.operators.close)
	}
	return public, nil
}

// publicOpenAPI is the description of the routes that the public listener serves.
func (c Config) publicOpenAPI() ([]byte, error) {
	if c.AdminAddr == "" {
		return gen.OpenAPI, nil
	}
	return discovery.WithoutOperators(gen.OpenAPI)
}

func (a *App) listenForOperators(h rpc.Handler, p *Parts) (*operatorListener, error) {
	c := a.config
	router := rest.New(rest.Config{Log: a.log})
	if err := router.Mount(h.Path, h.Handler); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.AdminAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for operators: %w", err)
	}
	server, err := edge.New(edge.Config{
		Listener: listener, BaseURL: c.BaseURL, Services: []edge.Service{{Path: h.Path, Handler: h.Handler}}, REST: router,
		Limits: p.limits, MaxRequests: c.MaxRequests, MaxConns: c.MaxConns, MaxConnsPerAddress: c.MaxConnsPerAddress,
		TrustedProxies: c.TrustedProxies, NoCORS: []string{"/"},
		Log: a.log, Tracing: otel.GetTracerProvider(), Metrics: a.metrics, Now: a.config.now,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the edge of operators: %w", err), listener.Close())
	}
	return &operatorListener{listener, server}, nil
}

// AdminURL is where the operators' routes are served, if that is a listener of their own.
func (a *App) AdminURL() string {
	if a.operators == nil {
		return ""
	}
	return "http://" + a.operators.listener.Addr().String()
}

func (l *operatorListener) close() error {
	// Serving closes it, too.
	if err := l.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the operators' listener: %w", err)
	}
	return nil
}
