package app

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/roamcard/roamcard/internal/api"
	"github.com/roamcard/roamcard/internal/discovery"
	"github.com/roamcard/roamcard/internal/rest"
	"github.com/roamcard/roamcard/internal/server"
)

// face puts the services behind the edge: by their procedures, by their REST routes, and the documents
// beside them.
func (a *App) face(listener net.Listener, c api.Config) error {
	handlers, err := api.Handlers(c, a.log)
	if err != nil {
		return fmt.Errorf("make the services: %w", err)
	}
	router := rest.New(rest.Config{Log: a.log})
	services := make([]server.Service, len(handlers))
	for i, h := range handlers {
		services[i] = server.Service{Path: h.Path, Handler: h.Handler}
		if err := router.Mount(h.Path, h.Handler); err != nil {
			return err
		}
	}
	a.server, err = server.New(server.Config{
		Listener: listener, Addr: a.config.Addr, BaseURL: a.config.BaseURL, Services: services, REST: router,
		Raw:    map[string]http.Handler{"GET /api/openapi.json": discovery.OpenAPI()},
		NoCORS: []string{"/api/admin/", api.OperatorPath},
		Log:    a.log, Tracing: otel.GetTracerProvider(), Now: time.Now,
	})
	if err != nil {
		return fmt.Errorf("make the edge: %w", err)
	}
	return nil
}
