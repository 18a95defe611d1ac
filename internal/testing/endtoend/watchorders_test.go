package endtoend_test

import (
	"testing"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/money"
)

// watchAll collects what one stream shows of several orders.
func watchAll(
	t *testing.T, client roamcardv1connect.OrderServiceClient, token string, orders ...*roamcardv1.WatchedOrder,
) (seen []*roamcardv1.WatchOrdersResponse, err error) {
	t.Helper()
	ctx, cancel := waitContext(t)
	defer cancel()
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("Authorization", token)
	in, err := client.WatchOrders(ctx, &roamcardv1.WatchOrdersRequest{Orders: orders})
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return received(in.Receive)
}

func watched(id string, after ...uint32) *roamcardv1.WatchedOrder {
	o := &roamcardv1.WatchedOrder{OrderId: id}
	if len(after) > 0 {
		o.After = proto.Uint32(after[0])
	}
	return o
}

func TestOneStreamFollowsSeveralOrders(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	client := roamcardv1connect.NewOrderServiceClient(calling(w.instances[0].url))
	b := w.buyer()
	b.signIn()
	token := b.bearer()["Authorization"]
	var bought paidOrder
	b.buy("followed").into(t, 200, &bought)
	open := b.createOrder("/api/esim/orders", "opened", "{}")
	// The open one is paid while the stream runs, which ends with the last of them.
	var seen []*roamcardv1.WatchOrdersResponse
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		seen, err = watchAll(t, client, token, watched(bought.OrderID), watched(open.OrderID))
	}()
	b.payAndRepeat("GET", open.path(), open.OrderID, money.Cents(open.AmountUsdCents).USDC())
	<-ended
	if err != nil || len(seen) == 0 {
		t.Fatalf("%d answers, %v", len(seen), err)
	}
	cursors, last := map[string]uint32{}, map[string]string{}
	for _, s := range seen {
		id := s.GetOrder().GetOrderId()
		if s.GetCursor() <= cursors[id] {
			t.Errorf("%s: cursor %d after %d", id, s.GetCursor(), cursors[id])
		}
		cursors[id], last[id] = s.GetCursor(), s.GetOrder().GetStatus()
	}
	if len(cursors) != 2 || last[bought.OrderID] != "fulfilled" || last[open.OrderID] != "fulfilled" {
		t.Fatalf("the stream ended at %v", last)
	}
	// What is final is shown once in every stream, whatever was seen of it.
	again, err := watchAll(t, client, token,
		watched(bought.OrderID, cursors[bought.OrderID]), watched(open.OrderID, cursors[open.OrderID]))
	if err != nil || len(again) != 2 {
		t.Errorf("going on after the end: %d answers, %v", len(again), err)
	}
	stranger := w.buyer()
	stranger.signIn()
	many := make([]*roamcardv1.WatchedOrder, 51)
	for i := range many {
		many[i] = watched(bought.OrderID)
	}
	for what, c := range map[string]struct {
		token  string
		orders []*roamcardv1.WatchedOrder
		want   connect.Code
	}{
		"nobody":         {"", []*roamcardv1.WatchedOrder{watched(bought.OrderID)}, connect.CodeUnauthenticated},
		"a stranger":     {stranger.bearer()["Authorization"], many[:1], connect.CodeNotFound},
		"one is missing": {token, []*roamcardv1.WatchedOrder{many[0], watched("ord_none")}, connect.CodeNotFound},
		"none":           {token, nil, connect.CodeInvalidArgument},
		"no id":          {token, []*roamcardv1.WatchedOrder{{}}, connect.CodeInvalidArgument},
		"one twice":      {token, many[:2], connect.CodeInvalidArgument},
		"too many":       {token, many, connect.CodeInvalidArgument},
	} {
		if seen, err := watchAll(t, client, c.token, c.orders...); connect.CodeOf(err) != c.want || len(seen) > 0 {
			t.Errorf("%s: %d answers, %v; expected %v", what, len(seen), err, c.want)
		}
	}
}

func TestOrdersAreListedByKindWithTheirPlans(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	b.signIn()
	b.createOrder(cardOrdersPath, "", "")
	esim := b.createOrder("/api/esim/orders", "opened", "{}")
	listed := func(query string) (orders []map[string]any) {
		var page struct{ Orders []map[string]any }
		b.get("/api/orders"+query).into(t, 200, &page)
		return page.Orders
	}
	if all := listed(""); len(all) != 2 {
		t.Errorf("%d orders", len(all))
	}
	esims := listed("?kind=esim")
	if len(esims) != 1 || esims[0]["orderId"] != esim.OrderID {
		t.Fatalf("of eSIMs: %v", esims)
	}
	if name := esims[0]["delivery"].(map[string]any)["planName"]; name == nil || name == "" {
		t.Errorf("a delivery without its plan's name: %v", esims[0])
	}
	if none := listed("?kind=nothing"); len(none) != 0 {
		t.Errorf("of nothing: %v", none)
	}
	if active := listed("?kind=card_issue&status=active"); len(active) != 1 {
		t.Errorf("active cards: %v", active)
	}
}
