package roamcard

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect/v2"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

const (
	// firstAnswer is how long the first answer may take: a gateway that holds streams back shows none.
	firstAnswer = 5 * time.Second
	// silence is how long a stream may bring nothing: the service ends it after 30 s.
	silence = 45 * time.Second
	// maxStreamFailures is how many streams in a row may break before they brought anything; then only asking is left.
	maxStreamFailures = 2
)

// Watch calls seen with an order now and whenever it changed, until it is final, seen returns false, or
// ctx ends. It follows the service's stream, goes on where a stream that broke left off, and asks again and
// again where streams do not get through.
func (o Orders) Watch(ctx context.Context, id string, seen func(*roamcardv1.Order) bool) error {
	if err := notEmpty("the order", id); err != nil {
		return err
	}
	w := &watch{client: o.client, id: id, seen: seen}
	for {
		if w.failures < maxStreamFailures {
			brought, err := w.stream(ctx)
			switch {
			case w.done:
				return nil
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil && brought:
				continue // its time was over
			case err != nil && !brought:
				w.failures++
			}
		}
		// What is wrong with more than the stream shows here.
		if err := w.look(ctx); err != nil || w.done {
			return err
		}
		if err := pause(ctx, o.client.config.Poll); err != nil {
			return err
		}
	}
}

// watch is how far an order has been followed.
type watch struct {
	client   *Client
	id       string
	seen     func(*roamcardv1.Order) bool
	cursor   *uint32
	last     string
	failures int
	done     bool
}

// stream follows the order until the stream ends, and says whether it brought anything.
func (w *watch) stream(ctx context.Context) (brought bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := firstAnswer
	if w.cursor != nil {
		wait = silence
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
	in, err := w.client.Services.Order.WatchOrder(ctx, &roamcardv1.WatchOrderRequest{OrderId: w.id, After: w.cursor})
	if err != nil {
		return false, explained(err, raw)
	}
	for !w.done {
		var seen *roamcardv1.WatchOrderResponse
		if seen, err = in.Receive(); err != nil {
			break
		}
		silent.Reset(silence)
		cursor := seen.GetCursor()
		w.cursor, brought, w.failures = &cursor, true, 0
		w.show(seen.GetOrder())
	}
	// What was received is whole; that the rest is not wanted is no failure.
	if closed := in.Close(); w.done || errors.Is(err, io.EOF) && closed == nil {
		return brought, nil
	} else if closed != nil {
		err = errors.Join(err, closed)
	}
	return brought, explained(err, raw)
}

// look reads the order once. A failure that may pass is left to the next look.
func (w *watch) look(ctx context.Context) error {
	o, err := w.client.Orders.Get(ctx, w.id)
	switch {
	case err == nil:
		w.show(o)
	case !mayPass(err):
		return err
	}
	return nil
}

func (w *watch) show(o *roamcardv1.Order) {
	if now := stateOf(o); now != w.last {
		w.last = now
		w.done = !w.seen(o) || StatusOf(o).Final()
	}
}

// stateOf is what may change about an order.
func stateOf(o *roamcardv1.Order) string {
	return strings.Join([]string{o.GetStatus(), o.GetIssuance().GetStatus(), o.GetTopup().GetStatus(),
		o.GetDelivery().GetStatus(), o.GetEsimTopup().GetStatus()}, " ")
}

// mayPass says that a failure to read may pass by itself.
func mayPass(err error) bool {
	if told, ok := errors.AsType[*APIError](err); ok {
		return told.Retryable
	}
	return connect.CodeOf(err) == connect.CodeUnavailable
}
