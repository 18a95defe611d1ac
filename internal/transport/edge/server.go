// Package edge is the HTTP server: one port for Connect, gRPC, gRPC-Web, REST and documents.
//
// It adds request ids, CORS, logs and traces, limits, health and shutdown.
package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpchealth"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

const (
	maxHeaderBytes = 32 << 10
	// maxProbe is the longest message to health and reflection.
	maxProbe             = 16 << 10
	maxConcurrentStreams = 100
	// maxReceiveBuffer is what an HTTP/2 connection may send ahead. Each connection may cost as much.
	maxReceiveBuffer  = 64 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	// writeTimeout covers the longest wait of a paid call, 20 s, and the calls around it.
	writeTimeout        = 45 * time.Second
	idleTimeout         = 60 * time.Second
	defaultDrainTimeout = 30 * time.Second
)

// Config is what a Server is made of.
type Config struct {
	// Listener is where to serve. When it is nil, Serve listens on Addr.
	Listener net.Listener
	Addr     string
	// BaseURL is the service's own origin. With https, answers have Strict-Transport-Security.
	BaseURL string
	// Hosts are the hosts whose requests are answered, besides the loopback and the address that a connection came to;
	// empty answers every host's.
	Hosts []string
	// Servers have the methods that are served over Connect, gRPC and gRPC-Web.
	Servers []*connect.Server
	// REST holds the methods' REST routes; New adds everything else to it.
	REST *rest.Router
	// Raw are handlers under patterns of http.ServeMux, such as "POST /mcp".
	Raw map[string]http.Handler
	// Origins may read answers in a browser; empty means every origin.
	Origins []string
	// Rates are the classes of raw handlers, by pattern; a handler without one is not limited.
	Rates map[string]limit.Class
	// Limits counts requests; nil does not limit.
	Limits *limit.Limiter
	// MaxRequests is how many requests may run at once; zero does not limit.
	MaxRequests int
	// MaxConns is how many connections may be open at once, and MaxConnsPerAddress how many of them from one address
	// that is no trusted proxy; zero does not limit.
	MaxConns, MaxConnsPerAddress int
	// TrustedProxies are the proxies whose X-Forwarded-For names the client.
	TrustedProxies []netip.Prefix
	// NoCORS are path prefixes that no other origin may use in a browser: the operator routes.
	NoCORS []string
	Log    *slog.Logger
	// Tracing may be nil; then nothing is traced.
	Tracing trace.TracerProvider
	// Metrics may be nil; then nothing is counted.
	Metrics *telemetry.Metrics
	// DrainTimeout is how long Serve waits for running requests at the end; 30 s by default.
	DrainTimeout time.Duration
	Now          func() time.Time
}

// Server is the HTTP edge.
type Server struct {
	cfg    Config
	router *rest.Router
	rates  map[string]limit.Class
	// services are the full names of the services.
	services []string
	// procedures are the paths below which calls are refused in their own protocol.
	procedures []string
	safe       http.Header
	tracer     trace.Tracer
	refusal    *connecthttp.ErrorWriter
	health     *grpchealth.StaticChecker
	handler    http.Handler
	http       *http.Server
	// conns are the open connections, and underWay the number of running requests.
	conns    *conns
	bodies   limit.Bytes
	underWay atomic.Int64
}

// New makes the server with all routes. Routes that overlap are an error.
func New(cfg Config) (*Server, error) {
	if cfg.Tracing == nil {
		cfg.Tracing = noop.NewTracerProvider()
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = defaultDrainTimeout
	}
	s := &Server{
		cfg:     cfg,
		router:  cfg.REST,
		rates:   map[string]limit.Class{},
		safe:    safeHeaders(cfg.BaseURL),
		tracer:  cfg.Tracing.Tracer("github.com/roamcard/roamcard/internal/transport/edge"),
		refusal: connecthttp.NewErrorWriter(rpcx.OverHTTP(rpcx.MaxMessage)...),
	}
	if err := s.route(); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	s.handler = s.chain(s.router)
	s.conns = newConns(cfg)
	s.bodies.Each, s.bodies.All = BodiesEach, BodiesAll
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	// gRPC needs HTTP/2; TLS ends in front of us.
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Addr:      cfg.Addr,
		Handler:   s.handler,
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxConcurrentStreams,
			MaxReceiveBufferPerConnection: maxReceiveBuffer,
			MaxReceiveBufferPerStream:     maxReceiveBuffer,
		},
		ConnState:         s.conns.stateChanged,
		ConnContext:       withConn,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          ErrorLog(cfg.Log),
	}
	return s, nil
}

// route adds procedures, health, reflection and the raw routes to the REST routes.
func (s *Server) route() error {
	for _, server := range s.cfg.Servers {
		if err := s.addProcedures(server); err != nil {
			return err
		}
	}
	if err := s.addHealth(); err != nil {
		return err
	}
	if err := s.addReflection(); err != nil {
		return err
	}
	maps.Copy(s.rates, s.cfg.Rates)
	for pattern, handler := range s.cfg.Raw {
		if err := s.router.Handle(pattern, handler); err != nil {
			return err
		}
	}
	return nil
}

// Handler is the whole server without a network.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve serves until ctx ends, then lets running requests finish. It returns nil after a clean end.
func (s *Server) Serve(ctx context.Context) error {
	listener := s.cfg.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Addr); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.http.Serve(s.conns.listen(listener)) }()
	select {
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	err := s.Shutdown(drain)
	<-ended
	return err
}

// Drain reports the services as not serving to those who ask for their health, and goes on serving.
func (s *Server) Drain() {
	s.health.SetStatus("", grpchealth.StatusNotServing)
	for _, name := range s.services {
		s.health.SetStatus(name, grpchealth.StatusNotServing)
	}
}

// Shutdown reports the services as not serving, accepts no more connections and waits for running
// requests. When ctx ends first, their connections are closed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain: %w", err), s.http.Close())
	}
	return nil
}
