package roamcard

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect/v2"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// WatchAll calls seen with each of several orders, 50 at most, now and whenever it changed, until all are final, seen
// returns false, or ctx ends. It follows them over one stream of the service's, goes on where a stream that broke left
// off, and asks again and again where streams do not get through.
func (o Orders) WatchAll(ctx context.Context, ids []string, seen func(*roamcardv1.Order) bool) error {
	for _, id := range ids {
		if err := notEmpty("an order", id); err != nil {
			return err
		}
	}
	w := &watchAll{client: o.client, seen: seen, moving: map[string]*uint32{}, last: map[string]string{}}
	for _, id := range ids {
		w.moving[id] = nil
	}
	for !w.over() {
		brought, err := false, errors.New("streams do not get through")
		if w.failures < maxStreamFailures {
			if brought, err = w.stream(ctx); err != nil && !brought {
				w.failures++
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && brought:
			continue // its time was over
		case err != nil:
			if err := w.look(ctx); err != nil {
				return err
			}
		}
		// The service shows what is final in every stream: one that ended well and brought nothing has missed nothing.
		if w.over() {
			return nil
		}
		if err := pause(ctx, o.client.config.Poll); err != nil {
			return err
		}
	}
	return nil
}

// watchAll is how far several orders have been followed.
type watchAll struct {
	client *Client
	seen   func(*roamcardv1.Order) bool
	// moving are those that are not final, and where to go on.
	moving   map[string]*uint32
	last     map[string]string
	failures int
	stopped  bool
}

// over says that there is nothing to follow any more, or that nobody wants to.
func (w *watchAll) over() bool { return w.stopped || len(w.moving) == 0 }

// stream follows the orders until the stream ends, and says whether it brought anything.
func (w *watchAll) stream(ctx context.Context) (brought bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, wait := &roamcardv1.WatchOrdersRequest{}, firstAnswer
	for _, id := range slices.Sorted(maps.Keys(w.moving)) {
		if w.moving[id] != nil {
			wait = silence
		}
		req.Orders = append(req.Orders, &roamcardv1.WatchedOrder{OrderId: id, After: w.moving[id]})
	}
	silent := time.AfterFunc(wait, cancel)
	defer silent.Stop()
	token, err := w.client.token(ctx, "")
	if err != nil {
		return false, err
	}
	var raw RawResponse
	ctx, call := connect.NewClientContext(WithRawResponse(ctx, &raw))
	call.RequestHeader().Set("Authorization", "Bearer "+token)
	in, err := w.client.Services.Order.WatchOrders(ctx, req)
	if err != nil {
		return false, explained(err, raw)
	}
	for !w.over() {
		var seen *roamcardv1.WatchOrdersResponse
		if seen, err = in.Receive(); err != nil {
			break
		}
		silent.Reset(silence)
		o, cursor := seen.GetOrder(), seen.GetCursor()
		brought, w.failures, w.moving[o.GetOrderId()] = true, 0, &cursor
		w.show(o)
	}
	// What was received is whole; that the rest is not wanted is no failure.
	if closed := in.Close(); w.over() || errors.Is(err, io.EOF) && closed == nil {
		return brought, nil
	} else if closed != nil {
		err = errors.Join(err, closed)
	}
	return brought, explained(err, raw)
}

// look reads each order once. A failure that may pass is left to the next look.
func (w *watchAll) look(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(w.moving)) {
		o, err := w.client.Orders.Get(ctx, id)
		switch {
		case err == nil:
			w.show(o)
		case !mayPass(err):
			return err
		}
		if w.stopped {
			return nil
		}
	}
	return nil
}

func (w *watchAll) show(o *roamcardv1.Order) {
	if StatusOf(o).Final() {
		delete(w.moving, o.GetOrderId())
	}
	if now := stateOf(o); now != w.last[o.GetOrderId()] {
		w.last[o.GetOrderId()] = now
		w.stopped = !w.seen(o)
	}
}
