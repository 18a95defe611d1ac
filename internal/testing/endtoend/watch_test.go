package endtoend_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// calling is how generated clients call a server.
func calling(at string, options ...connecthttp.Option) *connect.Client {
	return connect.NewClient(connecthttp.NewTransport(http.DefaultClient, at, options...))
}

// received is what a stream brings until its end.
func received[T any](receive func() (T, error)) (all []T, err error) {
	for {
		one, err := receive()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
}

// watch collects what a stream shows of an order.
func watch(t *testing.T, client roamcardv1connect.OrderServiceClient, token string,
	req *roamcardv1.WatchOrderRequest) ([]*roamcardv1.WatchOrderResponse, error) {
	t.Helper()
	ctx, cancel := waitContext(t)
	defer cancel()
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("Authorization", token)
	in, err := client.WatchOrder(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return received(in.Receive)
}

func TestOnlyTheOwnerWatchesAnOrder(t *testing.T) {
	w := borrowWorld(t, 1)
	for name, opts := range map[string][]connecthttp.Option{
		"Connect":      nil,
		"Connect JSON": {connecthttp.WithProtoJSON()},
		"gRPC-Web":     {connecthttp.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			b := w.buyer()
			b.signIn()
			var bought paidOrder
			b.buy("followed").into(t, 200, &bought) // paid; the card comes while we look
			client := roamcardv1connect.NewOrderServiceClient(calling(w.instances[0].url, opts...))
			req := &roamcardv1.WatchOrderRequest{OrderId: bought.OrderID}
			seen, err := watch(t, client, b.bearer()["Authorization"], req)
			if err != nil || len(seen) == 0 {
				t.Fatalf("%d answers, %v", len(seen), err)
			}
			last := seen[len(seen)-1]
			if got := last.GetOrder(); got.GetStatus() != "fulfilled" || got.GetIssuance().GetStatus() != "active" {
				t.Errorf("the stream ended at %s, issuance %s", got.GetStatus(), got.GetIssuance().GetStatus())
			}
			for i := 1; i < len(seen); i++ {
				if seen[i].GetCursor() <= seen[i-1].GetCursor() {
					t.Errorf("cursor %d after %d", seen[i].GetCursor(), seen[i-1].GetCursor())
				}
			}
			cursor := last.GetCursor()
			again, err := watch(t, client, b.bearer()["Authorization"],
				&roamcardv1.WatchOrderRequest{OrderId: bought.OrderID, After: &cursor})
			if err != nil || len(again) != 0 {
				t.Errorf("going on after the last change: %d answers, %v; expected the end at once", len(again), err)
			}
			stranger := w.buyer()
			stranger.signIn()
			for what, c := range map[string]struct {
				token string
				req   *roamcardv1.WatchOrderRequest
				want  connect.Code
			}{
				"nobody":     {"", req, connect.CodeUnauthenticated},
				"a stranger": {stranger.bearer()["Authorization"], req, connect.CodeNotFound},
				"no order": {b.bearer()["Authorization"], &roamcardv1.WatchOrderRequest{OrderId: "ord_none"},
					connect.CodeNotFound},
				"no id": {b.bearer()["Authorization"], &roamcardv1.WatchOrderRequest{}, connect.CodeInvalidArgument},
			} {
				if seen, err := watch(t, client, c.token, c.req); connect.CodeOf(err) != c.want || len(seen) > 0 {
					t.Errorf("%s: %d answers, %v; expected %v", what, len(seen), err, c.want)
				}
			}
		})
	}
}
