package roamcard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect/v2"
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
func named(next connect.ClientFunc) connect.ClientFunc {
	return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
		stream, err := next(ctx, spec)
		if err != nil {
			return nil, err
		}
		return &namedStream{stream, ctx}, nil
	}
}

// namedStream is a stream that is not opened for a request that was refused.
type namedStream struct {
	connect.ClientStream
	ctx context.Context
}

// Send implements connect.ClientStream.
func (s *namedStream) Send(message any) error {
	if err := givenIn(s.ctx, message); err != nil {
		return err
	}
	return s.ClientStream.Send(message)
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
