package rpc

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/memory"
)

func TestAmountIsGivenInDollarsOrCents(t *testing.T) {
	text, number := structpb.NewStringValue, structpb.NewNumberValue
	for _, tt := range []struct {
		amount *structpb.Value
		cents  *uint32
		want   money.Cents // 0 for a refusal
	}{
		{nil, nil, 2500},
		{nil, proto.Uint32(25_000), 25_000},
		{number(25), nil, 2500},
		{number(25.01), nil, 2501},
		{number(249.99), nil, 24_999},
		{number(250), proto.Uint32(25_000), 25_000},
		{text("25"), nil, 2500},
		{text("25.5"), nil, 2550},
		{text("25.50"), proto.Uint32(2550), 2550},
		{number(25), proto.Uint32(2501), 0},
		{number(25.001), nil, 0},
		{number(25.000000000000004), nil, 0},
		{number(24.99), nil, 0},
		{number(250.01), nil, 0},
		{number(-25), nil, 0},
		{number(math.NaN()), nil, 0},
		{number(math.Inf(1)), nil, 0},
		{number(math.MaxFloat64), nil, 0},
		{text("25.500"), nil, 0},
		{text("1e2"), nil, 0},
		{text(""), nil, 0},
		{structpb.NewBoolValue(true), nil, 0},
		{structpb.NewNullValue(), nil, 0},
		{structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{number(25)}}), nil, 0},
		{&structpb.Value{}, nil, 0},
	} {
		got, err := grossOf(&roamcardv1.CreateOrderRequest{Amount: tt.amount, AmountUsdCents: tt.cents})
		if got != tt.want || (tt.want == 0) != (fault.Of(err) == fault.SchemaInvalid) {
			t.Errorf("%v and %v cents are %s, %v", tt.amount, tt.cents, got, err)
		}
	}
}

func TestUnpaidOrderShowsPayableURLAndExpiry(t *testing.T) {
	views := OrderViews{Views: map[order.Kind]View{card.Kind: CardView(memory.New(nil).Cards())},
		BaseURL: "https://shop.example"}
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		status order.Status
		url    string
		issue  string
	}{
		{order.PaymentRequired, "https://shop.example/pay/ord_1", "unpaid"},
		{order.Expired, "", "unpaid"},
		{order.Settling, "", "queued"},
		{order.Settled, "", "queued"},
	} {
		shown, err := views.orders(t.Context(), checkout.PaidOrder{Order: order.Order{ID: "ord_1",
			Kind: card.Kind, Status: tt.status, ExpiresAt: &until}})
		if err != nil {
			t.Fatal(err)
		}
		o := shown[0]
		if o.GetPayableUrl() != tt.url || o.GetIssuance().GetStatus() != tt.issue ||
			!o.GetExpiresAt().AsTime().Equal(until) {
			t.Errorf("%s: %v", tt.status, o)
		}
	}
}

func TestCreateCardOrderWithoutBINIsConflict(t *testing.T) {
	h := newHarness(t)
	h.issuer.SetBINs(card.BIN{Prefix: "400000"})
	ctx, _ := as(t, h.session(authtest.NewWallet(t, "ada"), auth.ScopeOrders))
	_, err := h.client.CreateCardOrder(ctx, &roamcardv1.CreateCardOrderRequest{})
	if p := problemOf(t, err); p.GetCode() != "card_bin_unavailable" || p.GetStatus() != 409 {
		t.Errorf("problem %v", p)
	}
}

func TestResourceMustBeOnOwnOrigin(t *testing.T) {
	views := OrderViews{BaseURL: "https://shop.example"}
	for _, good := range []string{"", "https://shop.example", "https://shop.example/a?b=c"} {
		if got, err := views.ownURL(good); err != nil || got != good {
			t.Errorf("%q is %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{
		"/a", "//shop.example/", "http://shop.example/", "https://shop.example:444/", "https://shop.example.evil/",
		"https://u@shop.example/",
		"https://evil.example/https://shop.example", "https://shop.example/#f", "https:shop.example",
		"mailto:a@shop.example", strings.Repeat("x", 100),
	} {
		if got, err := views.ownURL(bad); fault.Of(err) != fault.SchemaInvalid {
			t.Errorf("%q is %q, %v", bad, got, err)
		}
	}
}

// links has one order behind every link.
type links struct{ checkout.LinkedOrder }

func (l links) Linked(context.Context, order.ID) (checkout.LinkedOrder, error) {
	return l.LinkedOrder, nil
}

func (links) WatchToken(order.Order) (secret.Text, time.Time) { return secret.Text{}, time.Time{} }

func TestLinkTellsOfThePreconfirmationWhereSomebodyLooks(t *testing.T) {
	for name, seen := range map[string]*bool{"nobody looks": nil, "in no block": new(bool), "in one": proto.Bool(true)} {
		s := OrderService{Links: links{checkout.LinkedOrder{
			Order: order.Order{ID: "ord_1", Kind: card.Kind, Status: order.Settling}, Preconfirmed: seen,
		}}}
		res, err := s.GetPayableOrder(t.Context(), &roamcardv1.GetPayableOrderRequest{OrderId: "ord_1"})
		if err != nil {
			t.Fatal(err)
		}
		got := res.GetOrder()
		if (got.Preconfirmed == nil) != (seen == nil) || got.GetPreconfirmed() != (seen != nil && *seen) ||
			got.GetStatus() != "settling" || got.PayableUrl != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
