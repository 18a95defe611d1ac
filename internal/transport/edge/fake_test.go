package edge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// shop is a card service whose answers a test sets.
type shop struct {
	roamcardv1connect.UnimplementedCardServiceHandler
	purchase func(ctx context.Context) error
}

func (s *shop) PurchaseCard(
	ctx context.Context, _ *roamcardv1.PurchaseCardRequest,
) (*roamcardv1.PurchaseCardResponse, error) {
	if s.purchase != nil {
		if err := s.purchase(ctx); err != nil {
			return nil, err
		}
	}
	return &roamcardv1.PurchaseCardResponse{Order: &roamcardv1.Order{OrderId: "ord_1"}}, nil
}

func (s *shop) GetCardBalance(
	_ context.Context, req *roamcardv1.GetCardBalanceRequest,
) (*roamcardv1.GetCardBalanceResponse, error) {
	return &roamcardv1.GetCardBalanceResponse{CardId: req.GetId()}, nil
}

// challenge is a payment fault with its headers.
type challenge struct{ *fault.Fault }

func (c challenge) Headers() http.Header { return http.Header{"Payment-Required": {"dGVybXM="}} }

func (c challenge) Unwrap() error { return c.Fault }

func unpaid(context.Context) error { return challenge{fault.New(fault.PaymentRequired, "")} }

// anybody takes every caller for a wallet.
type anybody struct{ rpcx.Callers }

func (anybody) Authenticate(context.Context, string) (auth.Caller, error) {
	return auth.Caller{Kind: auth.KindWallet, Scopes: []auth.Scope{auth.ScopeOrders, auth.ScopeCards}}, nil
}

// edge is a running server on loopback.
type edge struct {
	*Server
	url  string
	addr string
	logs *logs
	// stop ends Serve; ended gets what it returned.
	stop  context.CancelFunc
	ended chan error
}

// start runs the edge over the shop. change may adjust the configuration.
func start(t *testing.T, s *shop, change func(*Config)) *edge {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	newServer, err := rpcx.Servers(rpcx.Config{Callers: anybody{}})
	if err != nil {
		t.Fatal(err)
	}
	methods, router := newServer(), rest.New(rest.Config{})
	roamcardv1connect.RegisterCardServiceHandler(methods, s)
	if err := router.Mount(methods); err != nil {
		t.Fatal(err)
	}
	out := &logs{}
	cfg := Config{
		Listener: listener, BaseURL: "https://card.example", Servers: []*connect.Server{methods},
		REST: router,
		Log:  telemetry.NewLogger(out, slog.LevelInfo, true), NoCORS: []string{"/api/admin/"},
		DrainTimeout: 5 * time.Second, Now: time.Now,
	}
	if change != nil {
		change(&cfg)
	}
	server, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &edge{Server: server, url: "http://" + listener.Addr().String(), addr: listener.Addr().String(), logs: out,
		stop: stop, ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.ended <- server.Serve(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return e
}

// ask sends one request through the whole server without a network.
func (e *edge) ask(t *testing.T, method, target string, body []byte, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, bytes.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, r)
	return w
}

// askFrom is ask from a network of its own, by a number.
func (e *edge) askFrom(
	t *testing.T, from, method, target string, headers ...string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	r.RemoteAddr = "203.0.113." + from + ":1"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, r)
	return w
}

// overHTTP2 is a client that speaks HTTP/2 without TLS, as gRPC needs it.
func overHTTP2(t *testing.T) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// clients are generated clients of every protocol.
func (e *edge) clients(t *testing.T) map[string]roamcardv1connect.CardServiceClient {
	t.Helper()
	h1 := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(h1.CloseIdleConnections)
	h2 := overHTTP2(t)
	client := func(by *http.Client, options ...connecthttp.Option) roamcardv1connect.CardServiceClient {
		return roamcardv1connect.NewCardServiceClient(e.calling(by, options...))
	}
	return map[string]roamcardv1connect.CardServiceClient{
		"Connect":            client(h1),
		"Connect JSON":       client(h1, connecthttp.WithProtoJSON()),
		"Connect gzip":       client(h1, connecthttp.WithSendGzip()),
		"Connect GET":        client(h1, connecthttp.WithHTTPGet()),
		"Connect on HTTP/2":  client(h2),
		"gRPC":               client(h2, connecthttp.WithGRPC()),
		"gRPC JSON":          client(h2, connecthttp.WithGRPC(), connecthttp.WithProtoJSON()),
		"gRPC-Web":           client(h1, connecthttp.WithGRPCWeb()),
		"gRPC-Web on HTTP/2": client(h2, connecthttp.WithGRPCWeb()),
	}
}

// calling is how clients of any service call.
func (e *edge) calling(by *http.Client, options ...connecthttp.Option) *connect.Client {
	return connect.NewClient(connecthttp.NewTransport(by, e.url, options...))
}

// told is a header of an answer, wherever the protocol has it.
func told(call *connect.CallInfo, name string) string {
	return cmp.Or(call.ResponseHeader().Get(name), call.ResponseTrailer().Get(name))
}

// problem is the problem detail of a failed call.
func problem(t *testing.T, err error) (*connect.Error, *roamcardv1.Problem) {
	t.Helper()
	connectErr, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is not a connect error", err)
	}
	for _, detail := range connectErr.Details() {
		value, err := connectproto.UnmarshalErrorDetail(detail)
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := value.(*roamcardv1.Problem); ok {
			return connectErr, p
		}
	}
	t.Fatalf("%v has no problem", err)
	return nil, nil
}

// codeIn is the code of a problem document.
func codeIn(t *testing.T, body []byte) string {
	t.Helper()
	var p struct{ Code string }
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return p.Code
}

// logs keeps what was logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
