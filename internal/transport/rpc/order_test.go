package rpc

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestOrderShowsPaymentOnceProven(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	operation := uuid.New()
	asset, payer := x402.Address{0: 8, 19: 3}, x402.Address{0: 0xaa, 19: 1}
	claimed := checkout.PaidOrder{
		Order: order.Order{
			ID: "ord_1", Operation: operation, Kind: card.Kind, Status: order.Settling, Owner: payer, Key: "k",
			Price: 2500, CreatedAt: at,
		},
		Payment: payment.Payment{Status: payment.Claimed, Network: x402.NetworkID, Asset: asset,
			Authorization: x402.Authorization{From: payer, Value: 25_000_000}},
	}
	want := &roamcardv1.Order{
		OrderId: "ord_1", OperationId: operation.String(), Kind: "card_issue", Status: "settling", AmountUsdCents: 2500,
		CreatedAt: timestamppb.New(at),
	}
	if diff := cmp.Diff(want, orderMessage(claimed), protocmp.Transform()); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	paid := claimed
	paid.Replayed, paid.Order.Status = true, order.Fulfilled
	paid.Payment.Receipt = &payment.Receipt{Transaction: x402.Hash{31: 7}, Payer: payer, Amount: 25_000_000,
		SettledAt: at.Add(time.Second)}
	want.Status, want.Replayed = "fulfilled", proto.Bool(true)
	want.Payment = &roamcardv1.Payment{
		Payer: payer.String(), Network: "eip155:8453", Asset: asset.String(), Amount: "25000000",
		Transaction: x402.Hash{31: 7}.String(), SettledAt: timestamppb.New(at.Add(time.Second)),
	}
	if diff := cmp.Diff(want, orderMessage(paid), protocmp.Transform()); diff != "" {
		t.Errorf("paid (-want +got):\n%s", diff)
	}
}

func TestOrderShowsRefund(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	paid := payment.Payment{Authorization: x402.Authorization{From: x402.Address{19: 1}, Value: 25_000_000}}
	back := &payment.Refund{Status: payment.RefundPaid, Receipt: &payment.Receipt{Transaction: x402.Hash{7},
		SettledAt: at}}
	dead := &payment.Refund{Status: payment.RefundDead}
	for _, tt := range []struct {
		name, want string
		paidOrder  checkout.PaidOrder
	}{
		{"promised and not signed", "pending", checkout.PaidOrder{Order: order.Order{Status: order.RefundPending}}},
		{"done", "refunded", checkout.PaidOrder{Order: order.Order{Status: order.Refunded}, Refund: back}},
		{"given up", "", checkout.PaidOrder{Order: order.Order{Status: order.OperatorReview}, Refund: dead}},
		{"delivered", "", checkout.PaidOrder{Order: order.Order{Status: order.Fulfilled}}},
	} {
		tt.paidOrder.Payment = paid
		got := orderMessage(tt.paidOrder).GetRefund()
		if got.GetStatus() != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if got != nil && (got.GetAmount() != "25000000" || got.GetTo() != paid.Authorization.From.String()) {
			t.Errorf("%s: %v", tt.name, got)
		}
		if done := tt.want == "refunded"; (got.GetTransaction() == back.Receipt.Transaction.String()) != done ||
			(got.GetRefundedAt() != nil) != done {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestCardOrderShowsStateOfCard(t *testing.T) {
	store := memory.New(nil).Cards()
	views := OrderViews{Views: map[order.Kind]View{
		card.Kind: CardView(store), esim.Kind: EsimView(planNames{"pln_1": "France 1 GB"}),
	}}
	for _, tt := range []struct {
		name  string
		order order.Status
		card  card.Status
		want  string
		fee   uint32
		left  uint32
	}{
		{"not begun", order.Settled, "", "queued", 1000, 1500},
		{"at the issuer", order.Provisioning, card.Pending, "pending", 1000, 1500},
		{"there", order.Fulfilled, card.Active, "active", 1000, 1500},
		{"there, and frozen", order.Fulfilled, card.Frozen, "active", 1000, 1500},
		{"closed", order.Fulfilled, card.Closed, "closed", 1000, 0},
		{"refused", order.OperatorReview, card.Failed, "review", 1000, 1500},
		{"paid back soon", order.RefundPending, card.Failed, "refused", 0, 0},
		{"paid back", order.Refunded, card.Failed, "refused", 0, 0},
		{"doubtful", order.OperatorReview, card.Pending, "review", 1000, 1500},
		{"doubtful before it began", order.OperatorReview, "", "review", 1000, 1500},
	} {
		o := order.Order{ID: order.NewID(time.Now()), Kind: card.Kind, Status: tt.order}
		id := uuid.New()
		if tt.card != "" {
			store.Put(card.Card{ID: id, Order: o.ID, Status: tt.card})
		}
		shown, err := views.orders(t.Context(), checkout.PaidOrder{Order: o})
		if err != nil || len(shown) != 1 {
			t.Fatalf("%s: %v, %v", tt.name, shown, err)
		}
		got := shown[0].GetIssuance()
		if got.GetStatus() != tt.want || got.GetCardIssueFeeUsdCents() != tt.fee ||
			got.GetExpectedAvailableAfterIssueUsdCents() != tt.left {
			t.Errorf("%s: %v", tt.name, got)
		}
		if named := got.CardId != nil; named != (tt.card != "") || (named && got.GetCardId() != id.String()) {
			t.Errorf("%s: card %q", tt.name, got.GetCardId())
		}
	}
	var bought []checkout.PaidOrder
	for _, plan := range []string{"pln_1", "pln_gone"} {
		bought = append(bought, checkout.PaidOrder{Order: order.Order{
			ID: "ord_2", Kind: esim.Kind, Status: order.Settled, Item: []byte(`{"planId":"` + plan + `"}`),
		}})
	}
	shown, err := views.orders(t.Context(), bought...)
	if err != nil || shown[0].Issuance != nil || shown[0].GetDelivery().GetStatus() != "pending" ||
		shown[0].GetDelivery().GetPlanId() != "pln_1" || shown[0].GetDelivery().GetPlanName() != "France 1 GB" {
		t.Errorf("another product: %v, %v", shown, err)
	}
	if shown[1].GetDelivery().GetPlanId() != "pln_gone" || shown[1].GetDelivery().PlanName != nil {
		t.Errorf("a plan that is not known any more: %v", shown[1])
	}
}

// Deliveries implements DeliveredEsims.
func (n planNames) Deliveries(_ context.Context, orders ...order.Order) (map[order.ID]esim.DeliveryStatus, error) {
	stand := map[order.ID]esim.DeliveryStatus{}
	for _, o := range orders {
		stand[o.ID] = esim.DeliveryOf(o.Status, "")
	}
	return stand, nil
}

type planNames map[esim.PlanID]string

// PlanNames implements PlanNames.
func (n planNames) PlanNames(context.Context, ...esim.PlanID) (map[esim.PlanID]string, error) {
	return n, nil
}
