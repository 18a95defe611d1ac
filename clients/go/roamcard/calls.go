package roamcard

import (
	"context"
	"errors"
	"io"
	"slices"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
)

// unary is a call with one answer.
type unary func(ctx context.Context, spec connect.Spec, request, answer any) error

// connected is how the generated clients call: in JSON, with named around every call, and around those with one answer
// the layers, the first of them the outermost.
func (c *Client) connected(layers ...func(unary) unary) *connect.Client {
	transport := connecthttp.NewTransport(c.HTTP, c.origin,
		connecthttp.WithProtoJSON(), connecthttp.WithReadMaxBytes(maxAnswer))
	return connect.NewClient(transport, named, func(next connect.ClientFunc) connect.ClientFunc {
		call := whole(next)
		for _, layer := range slices.Backward(layers) {
			call = layer(call)
		}
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			if spec.StreamType != connect.StreamTypeUnary {
				return next(ctx, spec)
			}
			return &pendingCall{ctx: ctx, spec: spec, call: call}, nil
		}
	})
}

// inner is the context of a call that another one needs: connect keeps the headers of a call in its context, and each
// has its own.
func inner(ctx context.Context) context.Context {
	ctx, _ = connect.NewClientContext(ctx)
	return ctx
}

// whole makes a call of a stream, from its request to its answer.
func whole(open connect.ClientFunc) unary {
	return func(ctx context.Context, spec connect.Spec, request, answer any) error {
		stream, err := open(ctx, spec)
		if err != nil {
			return err
		}
		if err = stream.Send(request); err == nil {
			err = stream.CloseSend()
		}
		if err == nil {
			err = stream.Receive(answer)
		}
		if closed := stream.Close(); err == nil {
			err = closed
		}
		return err
	}
}

// pendingCall is the stream of a call with one answer. The call is made when its answer is asked for, so that a layer
// can make it again.
type pendingCall struct {
	ctx     context.Context
	spec    connect.Spec
	call    unary
	request any
	made    bool
}

// SendHeaders implements connect.ClientStream.
func (*pendingCall) SendHeaders() error { return nil }

// Send implements connect.ClientStream.
func (p *pendingCall) Send(message any) error {
	if p.request != nil {
		return errors.New("a call has one request")
	}
	p.request = message
	return nil
}

// CloseSend implements connect.ClientStream.
func (*pendingCall) CloseSend() error { return nil }

// Receive implements connect.ClientStream.
func (p *pendingCall) Receive(message any) error {
	if p.made {
		return io.EOF
	}
	p.made = true
	return p.call(p.ctx, p.spec, p.request, message)
}

// Close implements connect.ClientStream.
func (*pendingCall) Close() error { return nil }
