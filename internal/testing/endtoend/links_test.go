package endtoend_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestLinkTellsWhatIsPaidAndNotWhose(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	shown := func() (a answer, link map[string]any) {
		a = w.send(get("/api/orders/" + o.OrderID + "/payable"))
		a.into(t, 200, &link)
		return a, link
	}
	_, link := shown()
	address := b.address.String()
	for name, want := range map[string]any{
		"orderId": o.OrderID, "kind": "card_issue", "status": "payment_required", "amountUsdCents": 2500.0,
		"amount": "25000000", "network": "eip155:8453", "payTo": w.payTo.String(), "payable_url": o.PayableURL,
		"description": "Virtual card, 25.00 USD: 15.00 to spend after the 10.00 issue fee",
		"owner":       address[:6] + "…" + address[len(address)-4:],
	} {
		if link[name] != want {
			t.Errorf("%s is %v, want %v", name, link[name], want)
		}
	}
	if link["expiresAt"] == nil || link["updatedAt"] == nil {
		t.Errorf("%v", link)
	}
	b.payAndRepeat("GET", o.path(), o.OrderID, price())
	eventually(t, func() (bool, string) {
		_, link = shown()
		status, _ := link["status"].(string)
		return status == "fulfilled", status
	})
	a, link := shown()
	if link["payable_url"] != nil {
		t.Errorf("a paid order is payable at %v", link["payable_url"])
	}
	var own paidOrder
	b.get("/api/orders/"+o.OrderID).into(t, 200, &own)
	for what, secret := range map[string]string{
		"the owner": strings.ToLower(address[2:]), "the transaction": own.Payment.Transaction,
		"the card": own.Issuance.CardID,
	} {
		if secret == "" || strings.Contains(strings.ToLower(string(a.body)), strings.ToLower(secret)) {
			t.Errorf("strangers are told %s: %s", what, a.body)
		}
	}
	wantProblem(t, "no order", w.send(get("/api/orders/ord_none/payable")), 404, fault.OrderNotFound)
}

// paidAt pays an order over Connect, whose answer has the token that watches it.
func paidAt(t *testing.T, client roamcardv1connect.OrderServiceClient, id,
	payment string) *roamcardv1.PayOrderResponse {
	t.Helper()
	waits, cancel := waitContext(t)
	defer cancel()
	ctx, call := connect.NewClientContext(waits)
	call.RequestHeader().Set(x402.HeaderSignature, payment)
	paid, err := client.PayOrder(ctx, &roamcardv1.PayOrderRequest{OrderId: id})
	for connect.CodeOf(err) == connect.CodeUnavailable { // the payment is on its way
		pause(100 * time.Millisecond) // clock: spaces out the tries
		paid, err = client.PayOrder(ctx, &roamcardv1.PayOrderRequest{OrderId: id})
	}
	if err != nil {
		t.Fatal(err)
	}
	return paid
}

func TestWhoPaidWatchesTheOrderWithoutASession(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	client := roamcardv1connect.NewOrderServiceClient(calling(w.instances[0].url))
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	payment := header(t, b.payment())
	paid := paidAt(t, client, o.OrderID, payment)
	left := time.Until(paid.GetWatchTokenExpiresAt().AsTime())
	if paid.GetWatchToken() == "" || left <= 0 || left > time.Hour {
		t.Fatalf("a token for %s", left)
	}
	if again := paidAt(t, client, o.OrderID, payment); again.GetWatchToken() == "" || !again.GetOrder().GetReplayed() {
		t.Errorf("a repeat has no token: %v", again.GetOrder())
	}
	seen, err := watchWith(t, client, paid.GetWatchToken(), o.OrderID)
	if err != nil || len(seen) == 0 || seen[len(seen)-1].GetOrder().GetStatus() != "fulfilled" {
		t.Fatalf("watched %v, %v", seen, err)
	}
	other := w.buyer()
	other.signIn()
	foreign, next := other.createOrder(cardOrdersPath, "", ""), b.createOrder(ordersPath, "", "")
	for name, c := range map[string]struct {
		token, id string
		want      connect.Code
	}{
		"another wallet's": {paid.GetWatchToken(), foreign.OrderID, connect.CodeNotFound},
		"the owner's next": {paid.GetWatchToken(), next.OrderID, connect.CodeNotFound},
		"no order":         {paid.GetWatchToken(), "ord_none", connect.CodeNotFound},
		"no token":         {"", o.OrderID, connect.CodeUnauthenticated},
		"a wrong token":    {"owt_" + strings.Repeat("A", 100), o.OrderID, connect.CodeUnauthenticated},
		"a session":        {b.token, o.OrderID, connect.CodeUnauthenticated},
	} {
		if seen, err := watchWith(t, client, c.token, c.id); connect.CodeOf(err) != c.want || len(seen) > 0 {
			t.Errorf("%s: %d answers, %v", name, len(seen), err)
		}
	}
	// It watches, and does nothing else.
	for _, path := range []string{"/api/orders/" + o.OrderID, "/api/orders", "/api/cards"} {
		r := get(path).withHeader("X-Order-Watch-Token", paid.GetWatchToken())
		wantProblem(t, path, w.send(r), 401, fault.SessionInvalid)
	}
}

// watchWith collects what a stream shows to the holder of a watch token.
func watchWith(
	t *testing.T, client roamcardv1connect.OrderServiceClient, token, id string,
) (seen []*roamcardv1.WatchOrderResponse, err error) {
	t.Helper()
	ctx, cancel := waitContext(t)
	defer cancel()
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("X-Order-Watch-Token", token)
	in, err := client.WatchOrder(ctx, &roamcardv1.WatchOrderRequest{OrderId: id})
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return received(in.Receive)
}
