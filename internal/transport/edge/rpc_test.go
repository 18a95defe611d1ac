package edge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"connectrpc.com/grpcreflect/v2"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

var buy = &roamcardv1.PurchaseCardRequest{IdempotencyKey: "k"}

func TestPaymentRequiredReachesEveryProtocol(t *testing.T) {
	e := start(t, &shop{purchase: unpaid}, nil)
	for name, client := range e.clients(t) {
		ctx, call := connect.NewClientContext(t.Context())
		_, err := client.PurchaseCard(ctx, buy)
		connectErr, p := problem(t, err)
		if connectErr.Code() != connect.CodeFailedPrecondition || connectErr.Message() != "Payment is required." {
			t.Errorf("%s: %v", name, connectErr)
		}
		if p.GetCode() != "payment_required" || p.GetStatus() != 402 || p.GetRequestId() == "" {
			t.Errorf("%s: problem %v", name, p)
		}
		if got := told(call, "Payment-Required"); got != "dGVybXM=" {
			t.Errorf("%s: Payment-Required %q", name, got)
		}
	}
}

func TestCallsAreServedOnEveryProtocol(t *testing.T) {
	e := start(t, &shop{}, nil)
	for name, client := range e.clients(t) {
		res, err := client.PurchaseCard(t.Context(), buy)
		if err != nil || res.GetOrder().GetOrderId() != "ord_1" {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

func TestViolationsReachEveryProtocol(t *testing.T) {
	e := start(t, &shop{}, nil)
	for name, client := range e.clients(t) {
		_, err := client.PurchaseCard(t.Context(), &roamcardv1.PurchaseCardRequest{})
		connectErr, p := problem(t, err)
		if connectErr.Code() != connect.CodeInvalidArgument || len(p.GetFields()) != 1 ||
			p.GetFields()[0].GetPath() != "idempotencyKey" {
			t.Errorf("%s: %v %v", name, connectErr, p)
		}
	}
}

// nonsense is a codec that sends its own bytes for any message.
type nonsense struct{}

func (nonsense) Name() string { return "json" }

func (nonsense) MarshalWrite(_ context.Context, to io.Writer, _ any) error {
	_, err := io.WriteString(to, `{"idempotency_key":"k"}`)
	return err
}

func (nonsense) UnmarshalRead(context.Context, io.Reader, any) error {
	return errors.New("not expected")
}

func TestMalformedJSONIsProblemOnGRPC(t *testing.T) {
	e := start(t, &shop{}, nil)
	client := roamcardv1connect.NewCardServiceClient(e.calling(overHTTP2(t), connecthttp.WithGRPC(),
		connecthttp.WithCodecs(nonsense{}, connectproto.NewBinaryCodec())))
	_, err := client.PurchaseCard(t.Context(), buy)
	_, p := problem(t, err)
	if p.GetCode() != "schema_invalid" || len(p.GetFields()) != 1 || p.GetFields()[0].GetPath() != "idempotency_key" {
		t.Errorf("problem %v", p)
	}
}

func TestConnectErrorsHaveStatusOfTheirFault(t *testing.T) {
	e := start(t, &shop{purchase: unpaid}, nil)
	procedure := roamcardv1connect.CardServicePurchaseCardProcedure
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		w := e.ask(t, "POST", procedure, []byte(`{"idempotencyKey":"k"}`), "Content-Type", contentType)
		if w.Code != 402 || w.Header().Get("Payment-Required") != "dGVybXM=" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", contentType, w.Code, w.Header())
		}
		if got := w.Header().Get("Cache-Control"); got != "private, no-store" {
			t.Errorf("%s: Cache-Control %q", contentType, got)
		}
	}
	w := e.ask(t, "POST", procedure, []byte{0, 0, 0, 0, 3, 0x0a, 1, 'k'}, "Content-Type", "application/grpc-web+proto")
	if w.Code != 200 {
		t.Errorf("gRPC-Web: %d", w.Code)
	}
}

func TestGRPCShowsNoInternalHeader(t *testing.T) {
	e := start(t, &shop{purchase: unpaid}, nil)
	r, err := http.NewRequestWithContext(t.Context(), "POST", e.url+roamcardv1connect.CardServicePurchaseCardProcedure,
		bytes.NewReader([]byte{0, 0, 0, 0, 3, 0x0a, 1, 'k'}))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc+proto")
	r.Header.Set("Te", "trailers")
	res, err := overHTTP2(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	var got []string
	for key := range res.Trailer {
		got = append(got, key)
	}
	slices.Sort(got)
	if want := []string{"Grpc-Message", "Grpc-Status", "Grpc-Status-Details-Bin",
		"Payment-Required"}; res.StatusCode != 200 || !slices.Equal(got, want) {
		t.Errorf("%d, trailers %v, headers %v", res.StatusCode, got, res.Header)
	}
	if strings.Contains(e.logs.String(), "invalid trailer") {
		t.Errorf("net/http complains: %s", e.logs)
	}
}

func TestUnknownProceduresAreUnimplemented(t *testing.T) {
	e := start(t, &shop{}, nil)
	nope := connect.Spec{Procedure: "/roamcard.v1.CardService/Nope"}
	for name, option := range map[string]connecthttp.Option{
		"Connect": connecthttp.WithProtoJSON(), "gRPC": connecthttp.WithGRPC(), "gRPC-Web": connecthttp.WithGRPCWeb(),
	} {
		err := e.calling(overHTTP2(t), option).CallUnary(t.Context(), nope, &roamcardv1.ListCardsRequest{},
			&roamcardv1.ListCardsResponse{})
		connectErr, p := problem(t, err)
		if connectErr.Code() != connect.CodeUnimplemented || p.GetCode() != "route_not_found" {
			t.Errorf("%s: %v", name, connectErr)
		}
	}
	for _, target := range []string{"/roamcard.v1.CardService", "/roamcard.v1.NoService/Nope"} {
		if w := e.ask(t, "POST", target, nil); w.Code != 404 || codeIn(t, w.Body.Bytes()) != "route_not_found" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

func TestResourceIsPathThatCallerUsed(t *testing.T) {
	var resource string
	e := start(t, &shop{purchase: func(ctx context.Context) error {
		resource = rpcx.Resource(ctx)
		return nil
	}}, nil)
	procedure := roamcardv1connect.CardServicePurchaseCardProcedure
	for _, target := range []string{procedure, "/api/card/purchase"} {
		w := e.ask(t, "POST", target, []byte(`{"idempotencyKey":"k"}`), "Content-Type", "application/json",
			"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "gopher", "X-Forwarded-Prefix", "/evil")
		if w.Code != 200 || resource != target {
			t.Errorf("%s: %d, resource %s", target, w.Code, resource)
		}
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	e := start(t, &shop{}, nil)
	stream := grpcreflect.NewClient(e.calling(overHTTP2(t), connecthttp.WithGRPC())).NewStream(t.Context())
	defer func() { _ = stream.Close() }()
	names, err := stream.ListServices()
	if err != nil || len(names) != 1 || names[0] != "roamcard.v1.CardService" {
		t.Errorf("ListServices = %v, %v", names, err)
	}
}

// TestReflectionDescribesNoServiceOfAnotherListener: operators' own is not for strangers.
func TestReflectionDescribesNoServiceOfAnotherListener(t *testing.T) {
	e := start(t, &shop{}, nil)
	stream := grpcreflect.NewClient(e.calling(overHTTP2(t), connecthttp.WithGRPC())).NewStream(t.Context())
	defer func() { _ = stream.Close() }()
	if files, err := stream.FileContainingSymbol("roamcard.v1.CardService"); err != nil || len(files) == 0 {
		t.Errorf("its own: %d files, %v", len(files), err)
	}
	if files, err := stream.FileContainingSymbol("google.protobuf.Timestamp"); err != nil || len(files) == 0 {
		t.Errorf("what its own refers to: %d files, %v", len(files), err)
	}
	if files, err := stream.FileContainingSymbol("grpc.health.v1.Health"); err != nil || len(files) == 0 {
		t.Errorf("health: %d files, %v", len(files), err)
	}
	for _, hidden := range []protoreflect.FullName{"roamcard.v1.OperatorService", "roamcard.v1.GetSummaryRequest"} {
		if files, err := stream.FileContainingSymbol(hidden); err == nil {
			t.Errorf("%s: %d files", hidden, len(files))
		}
	}
	if files, err := stream.FileByFilename("roamcard/v1/operator.proto"); err == nil {
		t.Errorf("the operators' file: %d files", len(files))
	}
}

// TestReflectionOverHTTP1IsRefused, and does not look like a failure of the service, which would set off an alert.
func TestReflectionOverHTTP1IsRefused(t *testing.T) {
	e := start(t, &shop{}, nil)
	w := e.ask(t, "POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nil)
	if w.Code != http.StatusNotFound || codeIn(t, w.Body.Bytes()) != "route_not_found" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestMessagesOfAStreamAreCounted as requests of their address.
func TestMessagesOfAStreamAreCounted(t *testing.T) {
	const most = 5
	e := start(t, &shop{}, limited(limit.Rates{limit.Poll: {Count: most, Per: time.Hour}}))
	stream := grpcreflect.NewClient(e.calling(overHTTP2(t), connecthttp.WithGRPC())).NewStream(t.Context())
	defer func() { _ = stream.Close() }()
	answered := 0
	for range 3 * most {
		if _, err := stream.ListServices(); err != nil {
			if connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("after %d: %v", answered, err)
			}
			break
		}
		answered++
	}
	if answered != most {
		t.Errorf("%d messages of a rate of %d are answered", answered, most)
	}
}
