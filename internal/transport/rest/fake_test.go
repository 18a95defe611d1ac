package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// fakeServices are the services with answers that a test sets, and the last request.
type fakeServices struct {
	roamcardv1connect.UnimplementedCardServiceHandler
	roamcardv1connect.UnimplementedOrderServiceHandler
	roamcardv1connect.UnimplementedAuthServiceHandler
	err error

	asked    proto.Message
	resource string
	preview  bool
	header   *connect.Header
}

// note records the request and returns the error of the answer.
func (f *fakeServices) note(ctx context.Context, asked proto.Message) error {
	f.asked, f.resource, f.preview = asked, rpcx.Resource(ctx), rpcx.IsPreview(ctx)
	call, _ := connect.CallInfoForServerContext(ctx)
	f.header = call.RequestHeader()
	call.ResponseHeader().Set("Payment-Response", "receipt")
	return f.err
}

func (f *fakeServices) PurchaseCard(
	ctx context.Context, req *roamcardv1.PurchaseCardRequest,
) (*roamcardv1.PurchaseCardResponse, error) {
	order := &roamcardv1.Order{OrderId: "ord_1", PayableUrl: proto.String("https://example.com/pay?a=1&b=2"),
		AmountUsdCents: 2500}
	return &roamcardv1.PurchaseCardResponse{Order: order}, f.note(ctx, req)
}

func (f *fakeServices) ListCards(
	ctx context.Context, req *roamcardv1.ListCardsRequest,
) (*roamcardv1.ListCardsResponse, error) {
	return &roamcardv1.ListCardsResponse{}, f.note(ctx, req)
}

// EnsureCard answers without its only member, which is an internal error.
func (f *fakeServices) EnsureCard(
	ctx context.Context, req *roamcardv1.EnsureCardRequest,
) (*roamcardv1.EnsureCardResponse, error) {
	return &roamcardv1.EnsureCardResponse{}, f.note(ctx, req)
}

func (f *fakeServices) GetCardBalance(
	ctx context.Context, req *roamcardv1.GetCardBalanceRequest,
) (*roamcardv1.GetCardBalanceResponse, error) {
	asOf := timestamppb.New(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	return &roamcardv1.GetCardBalanceResponse{CardId: req.GetId(), AvailableUsdCents: -5, AsOf: asOf}, f.note(ctx, req)
}

func (f *fakeServices) CreateRevealChallenge(
	ctx context.Context, req *roamcardv1.CreateRevealChallengeRequest,
) (*roamcardv1.CreateRevealChallengeResponse, error) {
	return &roamcardv1.CreateRevealChallengeResponse{IntentId: "i"}, f.note(ctx, req)
}

func (f *fakeServices) Logout(ctx context.Context, req *roamcardv1.LogoutRequest) (*roamcardv1.LogoutResponse, error) {
	return &roamcardv1.LogoutResponse{Revoked: true}, f.note(ctx, req)
}

func (f *fakeServices) ListOrders(
	ctx context.Context, req *roamcardv1.ListOrdersRequest,
) (*roamcardv1.ListOrdersResponse, error) {
	return &roamcardv1.ListOrdersResponse{}, f.note(ctx, req)
}

func (f *fakeServices) GetOrder(
	ctx context.Context, req *roamcardv1.GetOrderRequest,
) (*roamcardv1.GetOrderResponse, error) {
	return &roamcardv1.GetOrderResponse{Order: &roamcardv1.Order{OrderId: req.GetOrderId()}}, f.note(ctx, req)
}

// everybody takes every caller for whom a method needs.
type everybody struct{}

func (everybody) Authenticate(context.Context, string) (auth.Caller, error) {
	return auth.Caller{Kind: auth.KindWallet, Scopes: []auth.Scope{
		auth.ScopeOrders, auth.ScopeCards, auth.ScopeReveal, auth.ScopeActivity,
	}}, nil
}

func (e everybody) AuthenticateRequest(ctx context.Context, _ string) (auth.Caller, error) {
	return e.Authenticate(ctx, "")
}

func (everybody) Operator(context.Context, string) (auth.Caller, error) {
	return auth.Caller{Kind: auth.KindOperator, Role: auth.RoleAdmin}, nil
}

// noDeliveries opens nothing.
type noDeliveries struct{ rpcx.Deliveries }

// newServer is a server with what every service has around it, for everybody.
func newServer(t *testing.T) *connect.Server {
	t.Helper()
	newServer, err := rpcx.Servers(rpcx.Config{Callers: everybody{}, Deliveries: noDeliveries{}})
	if err != nil {
		t.Fatal(err)
	}
	return newServer()
}

// newRouter routes to the fake services.
func newRouter(t *testing.T, d *fakeServices) *Router {
	t.Helper()
	server, router := newServer(t), New(Config{})
	roamcardv1connect.RegisterCardServiceHandler(server, d)
	roamcardv1connect.RegisterOrderServiceHandler(server, d)
	roamcardv1connect.RegisterAuthServiceHandler(server, d)
	if err := router.Mount(server); err != nil {
		t.Fatal(err)
	}
	return router
}

// ask sends one request. headers are name, value pairs; a body announces itself as JSON unless they say otherwise.
func ask(t *testing.T, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(telemetry.WithRequestID(t.Context(), "req-1"), method, target,
		strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// challenge is a payment fault with its headers.
type challenge struct{ *fault.Fault }

func (c challenge) Headers() http.Header { return http.Header{"Payment-Required": {"terms"}} }

func (c challenge) Unwrap() error { return c.Fault }
