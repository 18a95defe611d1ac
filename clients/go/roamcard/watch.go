package roamcard

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// WatchOrder calls seen with an order now and whenever it changed, until it is final, seen returns false, or
// ctx ends. It follows the service's stream, goes on where a stream that ended left off, and asks again and
// again where streams do not get through.
func (c *Client) WatchOrder(ctx context.Context, id string, seen func(*roamcardv1.Order) bool) error {
	w := &watch{client: c, id: id, seen: seen}
	for {
		err := w.stream(ctx)
		if err != nil && !mayPass(err) {
			if told, ok := errors.AsType[*APIError](err); ok && told.Code != connect.CodeUnimplemented.String() {
				return err
			}
			if err := w.poll(ctx); err != nil {
				return err
			}
		}
		if w.done || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if err := pause(ctx, c.config.Poll); err != nil {
				return err
			}
		}
	}
}

// watch is how far an order has been followed.
type watch struct {
	client *Client
	id     string
	seen   func(*roamcardv1.Order) bool
	cursor uint32
	last   string
	done   bool
}

// stream follows the order until the stream ends.
func (w *watch) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	token, err := w.client.token(ctx, "")
	if err != nil {
		return err
	}
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("Authorization", "Bearer "+token)
	in, err := w.client.Order.WatchOrder(ctx, &roamcardv1.WatchOrderRequest{OrderId: w.id, After: &w.cursor})
	if err != nil {
		return explained(err)
	}
	for in.Receive() {
		w.cursor = in.Msg().GetCursor()
		if w.show(in.Msg().GetOrder()); w.done {
			break
		}
	}
	err = in.Err()
	// What was received is whole; that the rest is not wanted is no failure.
	if closed := in.Close(); !w.done {
		err = errors.Join(err, closed)
	}
	if w.done || err == nil {
		return nil
	}
	return explained(err)
}

// poll looks at the order again and again.
func (w *watch) poll(ctx context.Context) error {
	for !w.done {
		o, err := w.client.GetOrder(ctx, w.id)
		switch {
		case err == nil:
			w.show(o)
		case !mayPass(err):
			return err
		}
		if w.done {
			return nil
		}
		if err := pause(ctx, w.client.config.Poll); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) show(o *roamcardv1.Order) {
	if now := look(o); now != w.last {
		w.last = now
		w.done = !w.seen(o) || final(o.GetStatus())
	}
}
