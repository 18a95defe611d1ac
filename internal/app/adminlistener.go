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
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// operatorListener serves the operators' routes on a listener of their own, and nothing else.
type operatorListener struct {
	listener net.Listener
	*edge.Server
}

// publicOpenAPI is the description of the routes that the public listener serves.
func (c Config) publicOpenAPI() ([]byte, error) {
	if c.AdminAddr == "" {
		return gen.OpenAPI, nil
	}
	return discovery.WithoutOperators(gen.OpenAPI)
}

// listenForOperators gives the operators' methods the listener of their own.
func (a *App) listenForOperators(operators *rpcx.Server, p *Parts) error {
	c := a.config
	router := rest.New(rest.Config{Log: a.log})
	if err := router.Mount(operators); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.AdminAddr)
	if err != nil {
		return fmt.Errorf("listen for operators: %w", err)
	}
	server, err := edge.New(edge.Config{
		Listener: listener, BaseURL: c.BaseURL, Servers: []*rpcx.Server{operators}, REST: router,
		Limits: p.limits, MaxRequests: c.MaxRequests, MaxConns: c.MaxConns, MaxConnsPerAddress: c.MaxConnsPerAddress,
		TrustedProxies: c.TrustedProxies, NoCORS: []string{"/"},
		Log: a.log, Tracing: otel.GetTracerProvider(), Metrics: a.metrics, Now: a.config.now,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("make the edge of operators: %w", err), listener.Close())
	}
	a.operators = &operatorListener{listener, server}
	a.close.add(a.operators.close)
	return nil
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
