package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// BenchmarkTranscoder is one answer by three ways, without a network: the REST route that is transcoded onto
// the handler, the same handler called in Connect's JSON, and a handler written by hand for this answer.
func BenchmarkTranscoder(b *testing.B) {
	newServer, err := rpcx.Servers(rpcx.Config{Callers: anybody{}})
	if err != nil {
		b.Fatal(err)
	}
	server := newServer()
	roamcardv1connect.RegisterCardServiceHandler(server, fixed{})
	roamcardv1connect.RegisterOrderServiceHandler(server, fixed{})
	procedures, router := http.NewServeMux(), rest.New(rest.Config{})
	connecthttp.Mount(procedures, server, rpcx.OverHTTP(rpcx.MaxMessage)...)
	if err := router.Mount(server); err != nil {
		b.Fatal(err)
	}
	hand := http.NewServeMux()
	hand.HandleFunc("POST /api/card/purchase", purchaseByHand)
	hand.HandleFunc("GET /api/orders/{order_id}", orderByHand)

	want := compact(b, inProcess(router, "POST", "/api/card/purchase", purchaseBody))
	for _, c := range []struct {
		name               string
		handler            http.Handler
		method, path, body string
		// member is where the order is in the answer.
		member string
	}{
		{"post-hand", hand, "POST", "/api/card/purchase", purchaseBody, ""},
		{"post-connect", procedures, "POST", roamcardv1connect.CardServicePurchaseCardProcedure, purchaseBody, "order"},
		{"post-rest", router, "POST", "/api/card/purchase", purchaseBody, ""},
		{"get-hand", hand, "GET", "/api/orders/ord_1", "", ""},
		{"get-connect", procedures, "POST", roamcardv1connect.OrderServiceGetOrderProcedure, `{"orderId":"ord_1"}`, "order"},
		{"get-rest", router, "GET", "/api/orders/ord_1", "", ""},
	} {
		got := inProcess(c.handler, c.method, c.path, c.body)
		if c.member != "" {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(got, &members); err != nil {
				b.Fatal(err)
			}
			got = members[c.member]
		}
		if !bytes.Equal(compact(b, got), want) {
			b.Fatalf("%s answers %s, want %s", c.name, got, want)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				inProcess(c.handler, c.method, c.path, c.body)
			}
		})
	}
}

// anybody takes every caller for a wallet.
type anybody struct{ rpcx.Callers }

// Authenticate implements rpcx.Callers.
func (anybody) Authenticate(context.Context, string) (auth.Caller, error) {
	return auth.Caller{Kind: auth.KindWallet, Scopes: []auth.Scope{auth.ScopeOrders, auth.ScopeCards}}, nil
}

// fixed answers every call with one order.
type fixed struct {
	roamcardv1connect.UnimplementedCardServiceHandler
	roamcardv1connect.UnimplementedOrderServiceHandler
}

var sold = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func soldOrder() *roamcardv1.Order {
	return &roamcardv1.Order{
		OrderId: "ord_1", OperationId: "0b9d4a52-8f0e-4c3e-9a57-0d1b7c5b2f10", Kind: "card_issue", Status: "settled",
		AmountUsdCents: 2500,
		Payment: &roamcardv1.Payment{
			Payer: "0x1111111111111111111111111111111111111111", Network: "eip155:8453", Asset: usdc().String(),
			Amount:      "25000000",
			Transaction: "0x00000000000000000000000000000000000000000000000000000000000000aa", SettledAt: timestamppb.New(sold),
		},
		CreatedAt: timestamppb.New(sold), Replayed: proto.Bool(true),
	}
}

// PurchaseCard implements roamcardv1connect.CardServiceHandler.
func (fixed) PurchaseCard(context.Context, *roamcardv1.PurchaseCardRequest) (*roamcardv1.PurchaseCardResponse, error) {
	return &roamcardv1.PurchaseCardResponse{Order: soldOrder()}, nil
}

// GetOrder implements roamcardv1connect.OrderServiceHandler.
func (fixed) GetOrder(context.Context, *roamcardv1.GetOrderRequest) (*roamcardv1.GetOrderResponse, error) {
	return &roamcardv1.GetOrderResponse{Order: soldOrder()}, nil
}

// plainOrder is the order as a struct for encoding/json.
type plainOrder struct {
	OrderID     string       `json:"orderId"`
	OperationID string       `json:"operationId"`
	Kind        string       `json:"kind"`
	Status      string       `json:"status"`
	Amount      uint32       `json:"amountUsdCents"`
	Payment     plainPayment `json:"payment"`
	CreatedAt   string       `json:"createdAt"`
	Replayed    bool         `json:"replayed"`
}

type plainPayment struct {
	Payer       string `json:"payer"`
	Network     string `json:"network"`
	Asset       string `json:"asset"`
	Amount      string `json:"amount"`
	Transaction string `json:"transaction"`
	SettledAt   string `json:"settledAt"`
}

func purchaseByHand(w http.ResponseWriter, r *http.Request) {
	var request struct {
		IdempotencyKey string `json:"idempotencyKey"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10))
	body.DisallowUnknownFields()
	if err := body.Decode(&request); err != nil || request.IdempotencyKey == "" || len(request.IdempotencyKey) > 200 {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	writeByHand(w)
}

func orderByHand(w http.ResponseWriter, r *http.Request) {
	if id := r.PathValue("order_id"); id == "" || len(id) > 64 {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	writeByHand(w)
}

func writeByHand(w http.ResponseWriter) {
	o := soldOrder()
	p := o.GetPayment()
	body, err := json.Marshal(plainOrder{
		OrderID: o.GetOrderId(), OperationID: o.GetOperationId(), Kind: o.GetKind(), Status: o.GetStatus(),
		Amount: o.GetAmountUsdCents(),
		Payment: plainPayment{
			Payer: p.GetPayer(), Network: p.GetNetwork(), Asset: p.GetAsset(), Amount: p.GetAmount(),
			Transaction: p.GetTransaction(),
			SettledAt:   p.GetSettledAt().AsTime().Format(time.RFC3339),
		},
		CreatedAt: o.GetCreatedAt().AsTime().Format(time.RFC3339), Replayed: o.GetReplayed(),
	})
	if err != nil {
		http.Error(w, "internal", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// inProcess makes one call in process. What a recorder costs is in every way's figure.
func inProcess(h http.Handler, method, path, body string) []byte {
	r := httptest.NewRequest(method, path, bytes.NewReader([]byte(body)))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.Bytes()
}

// compact has the members in one order.
func compact(b *testing.B, text []byte) []byte {
	b.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		b.Fatalf("%v in %s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return out
}
