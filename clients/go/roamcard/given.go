package roamcard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ErrEmpty says that a key, an id, a token or a reason was given and is empty, as a variable that is not set makes it.
// Nothing was signed or sent. What is to be made here is asked for by NewKey.
var ErrEmpty = errors.New("is given and empty")

// NoKey is the key of an order that has none: see Orders.CreateCard. Where something is paid a key is needed.
const NoKey = "\x00"

// blank reports a text that names nothing.
func blank(text string) bool { return strings.Trim(text, " \t\r\n\x00") == "" }

// notEmpty refuses a text that names nothing.
func notEmpty(name, text string) error {
	if blank(text) {
		return fmt.Errorf("%s %w", name, ErrEmpty)
	}
	return nil
}

// named refuses a call whose request or headers have an empty text in the place of what identifies something, before it
// signs in, signs or sends anything: every text that a request has to have is such a place.
type named struct{}

// WrapUnary implements connect.Interceptor.
func (named) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := givenIn(ctx, req.Any()); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (named) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return &namedConn{StreamingClientConn: next(ctx, spec), ctx: ctx}
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (named) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// namedConn is a stream that is never opened for a request that was refused: ending it would open it.
type namedConn struct {
	connect.StreamingClientConn
	ctx     context.Context
	refused error
}

// Send implements connect.StreamingClientConn.
func (c *namedConn) Send(message any) error {
	if c.refused = givenIn(c.ctx, message); c.refused != nil {
		return c.refused
	}
	return c.StreamingClientConn.Send(message)
}

// CloseRequest implements connect.StreamingClientConn.
func (c *namedConn) CloseRequest() error {
	if c.refused != nil {
		return nil
	}
	return c.StreamingClientConn.CloseRequest()
}

// CloseResponse implements connect.StreamingClientConn.
func (c *namedConn) CloseResponse() error {
	if c.refused != nil {
		return nil
	}
	return c.StreamingClientConn.CloseResponse()
}

func givenIn(ctx context.Context, request any) error {
	for _, name := range []string{"Idempotency-Key", deliveryHeader, "X-Order-Watch-Token"} {
		if values, ok := headersOf(ctx)[name]; ok {
			if err := notEmpty(name, strings.Join(values, "")); err != nil {
				return err
			}
		}
	}
	message, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	of := message.ProtoReflect()
	fields := of.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Kind() != protoreflect.StringKind || field.IsList() || field.HasPresence() && !of.Has(field) {
			continue
		}
		if err := notEmpty(field.JSONName(), of.Get(field).String()); err != nil {
			return err
		}
	}
	return nil
}
