package rpc

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// till takes every payment. Its caller's deadline passes while it does.
type till struct {
	kind order.Kind
}

func (s till) Buy(ctx context.Context, p checkout.Purchase) (checkout.PaidOrder, error) {
	return s.paid(ctx, p.Kind)
}

func (s till) Create(ctx context.Context, r checkout.CreateRequest) (checkout.PaidOrder, error) {
	return s.paid(ctx, r.Kind)
}

func (s till) Pay(ctx context.Context, _ order.ID, _ string, _ x402.Resource) (checkout.PaidOrder, error) {
	return s.paid(ctx, s.kind)
}

func (till) WithReceipt(_ context.Context, paid checkout.PaidOrder) checkout.PaidOrder { return paid }

func (s till) paid(ctx context.Context, kind order.Kind) (checkout.PaidOrder, error) {
	<-ctx.Done()
	o := order.Order{ID: "ord_1", Kind: kind, Status: order.Fulfilled, Version: 3}
	return checkout.PaidOrder{Order: o, Payment: payment.Payment{Receipt: &payment.Receipt{}}, ProvenCaller: true}, nil
}

func (s till) Order(context.Context, order.ID, x402.Address) (checkout.PaidOrder, error) {
	return checkout.PaidOrder{Order: order.Order{ID: "ord_1", Kind: s.kind}}, nil
}

func (till) Linked(context.Context, order.ID) (l checkout.LinkedOrder, err error) { return l, nil }

func (till) WatchToken(order.Order) (secret.Text, time.Time) { return secret.Text{}, time.Now() }

// shelf has what was paid for, or is broken.
type shelf struct{ broken error }

func (s shelf) read(ctx context.Context) error { return errors.Join(ctx.Err(), s.broken) }

func (s shelf) Await(_ context.Context, o order.Order, _ time.Time) order.Order { return o }

func (shelf) Plans(context.Context, order.Order) ([]esim.Plan, error) { return nil, nil }

func (s shelf) HandOver(_ context.Context, o order.Order, _ bool, _ time.Time) (esim.Handed, error) {
	return esim.Handed{Order: o}, s.broken
}

func (s shelf) RotateToken(ctx context.Context, _ order.Order) (t esim.Token, err error) {
	return t, s.read(ctx)
}

func (s shelf) Credentials(ctx context.Context, _ order.Order) (c esim.Credentials, err error) {
	return c, s.read(ctx)
}

func (s shelf) view(ctx context.Context, _ []order.Order, messages []*roamcardv1.Order) error {
	for _, m := range messages {
		m.Delivery = &roamcardv1.EsimDelivery{}
	}
	return s.read(ctx)
}

// paidCalls are all calls that answer a payment, with a deadline that passes meanwhile.
func paidCalls(t *testing.T, s shelf) map[string]func() (*roamcardv1.Order, error) {
	t.Helper()
	h := newHarness(t)
	views := map[order.Kind]View{}
	for _, kind := range []order.Kind{card.Kind, topup.Kind, esim.Kind, esim.TopupKind} {
		views[kind] = s.view
	}
	sales := func(kind order.Kind) Sales {
		return Sales{OrderViews: OrderViews{Views: views, BaseURL: "https://shop.example"}, Checkout: till{kind}}
	}
	services := Services{
		Cards: CardService{Sales: sales("")},
		Esims: EsimService{
			Sales: sales(""), Delivery: s, Topups: s, Now: time.Now,
		},
		Orders: OrderService{Sales: sales(esim.Kind), Links: till{esim.Kind}, Orders: ownOrders{till{esim.Kind}}},
	}
	at := connect.NewClient(connecthttp.NewTransport(inside{served(t, services, h.auth)}, "http://shop.example"))
	token := h.session(authtest.NewWallet(t, "ada"), auth.ScopeOrders)
	late := func() context.Context {
		ctx, info := as(t, token)
		info.RequestHeader().Set(x402.HeaderSignature, "e30=")
		return ctx
	}
	cards := roamcardv1connect.NewCardServiceClient(at)
	esims := roamcardv1connect.NewEsimServiceClient(at)
	orders := roamcardv1connect.NewOrderServiceClient(at)
	plan := "pln_1"
	return map[string]func() (*roamcardv1.Order, error){
		"PurchaseCard": func() (*roamcardv1.Order, error) {
			res, err := cards.PurchaseCard(late(), &roamcardv1.PurchaseCardRequest{IdempotencyKey: "k"})
			return res.GetOrder(), err
		},
		"TopUpCard": func() (*roamcardv1.Order, error) {
			res, err := cards.TopUpCard(late(), &roamcardv1.TopUpCardRequest{IdempotencyKey: "k"})
			return res.GetOrder(), err
		},
		"PurchaseEsim": func() (*roamcardv1.Order, error) {
			res, err := esims.PurchaseEsim(late(), &roamcardv1.PurchaseEsimRequest{IdempotencyKey: "k", PlanId: &plan})
			return res.GetOrder(), err
		},
		"TopUpEsim": func() (*roamcardv1.Order, error) {
			res, err := esims.TopUpEsim(late(), &roamcardv1.TopUpEsimRequest{
				OrderId: "ord_2", IdempotencyKey: "k", PlanId: &plan,
			})
			return res.GetOrder(), err
		},
		"PayOrder": func() (*roamcardv1.Order, error) {
			res, err := orders.PayOrder(late(), &roamcardv1.PayOrderRequest{OrderId: "ord_1"})
			return res.GetOrder(), err
		},
		"SubmitPayment": func() (*roamcardv1.Order, error) {
			res, err := orders.SubmitPayment(late(), &roamcardv1.SubmitPaymentRequest{
				OrderId: "ord_1", PaymentSignature: "e30=",
			})
			return res.GetOrder(), err
		},
	}
}

// ownOrders are those of one wallet.
type ownOrders struct{ till }

func (ownOrders) Orders(context.Context, x402.Address, checkout.Query) ([]checkout.PaidOrder, order.ID, error) {
	return nil, "", nil
}

func (ownOrders) Receipts(
	context.Context, x402.Address, checkout.Query,
) ([]checkout.SignedReceipt, order.ID, error) {
	return nil, "", nil
}

func (ownOrders) Watch(
	context.Context, order.ID, x402.Address, int, time.Duration, func(checkout.PaidOrder) error,
) error {
	return nil
}

func (ownOrders) WatchAll(
	context.Context, x402.Address, map[order.ID]int, time.Duration, func(checkout.PaidOrder) error,
) error {
	return nil
}

// The money is taken: whoever still reads the answer gets the order, whatever deadline the request had.
func TestPaidAnswerOutlivesItsCallersDeadline(t *testing.T) {
	for name, call := range paidCalls(t, shelf{}) {
		if o, err := call(); err != nil || o.GetOrderId() != "ord_1" {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
}

// The money is taken: when the order cannot be read, the answer says of which one, and to send the same again.
func TestPaidAnswerThatFailsNamesItsOrder(t *testing.T) {
	for _, broken := range []error{
		errors.New("broken"), fault.New(fault.DependencyDown, "The database does not answer."), context.DeadlineExceeded,
	} {
		for name, call := range paidCalls(t, shelf{broken}) {
			_, err := call()
			p := problemOf(t, err)
			if p.GetCode() != string(fault.SettlementUnknown) || p.GetOrderId() != "ord_1" ||
				p.GetNextAction() != string(fault.RetrySameRequest) || p.GetSafeToPayAgain() ||
				connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("%s, %v: %v", name, broken, p)
			}
		}
	}
}

// inside serves requests of a client in this process, which waits for the answer however late it is.
type inside struct{ to http.Handler }

func (s inside) Do(r *http.Request) (*http.Response, error) {
	answer, request := httptest.NewRecorder(), httptest.NewRequest(r.Method, r.URL.String(), r.Body)
	request.Header = r.Header.Clone()
	request.Header.Set("Connect-Timeout-Ms", "20")
	s.to.ServeHTTP(answer, request)
	return answer.Result(), nil
}
