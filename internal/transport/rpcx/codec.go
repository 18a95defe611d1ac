package rpcx

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
)

// JSON makes handlers read JSON strictly (see CheckJSON) and write it compact, with default values. A document that
// does not match is refused with a schema_invalid fault that names the members. The refusal happens in an
// interceptor of this option: put it inside Errors and outside everything that reads the message.
//
// Connect itself would turn the codec's error into a bare invalid_argument: it wraps what Unmarshal
// returns, drops the details of an inner *connect.Error, and runs no interceptor. So the codec stores its
// findings in the message and succeeds, and the interceptor turns them into the fault. Neither works
// without the other, so neither is exported.
func JSON() connect.HandlerOption {
	mark := make([]byte, 16)
	// Never fails; see crypto/rand.
	_, _ = rand.Read(mark)
	return connect.WithHandlerOptions(
		// Both names: with "json" alone, Connect's own lenient codec would serve requests that name
		// the character set.
		connect.WithCodec(codec{name: "json", mark: mark}),
		connect.WithCodec(codec{name: "json; charset=utf-8", mark: mark}),
		connect.WithInterceptors(findings{mark: mark}),
	)
}

// UnmarshalJSON reads a JSON document strictly into a message. The error is a schema_invalid fault.
func UnmarshalJSON(data []byte, message proto.Message) error {
	data, fields := checkJSON(data, message.ProtoReflect().Descriptor())
	if len(fields) > 0 {
		return Malformed(fields...)
	}
	if err := (protojson.UnmarshalOptions{}).Unmarshal(data, message); err != nil {
		// CheckJSON accepts each member by itself; this is about several, such as two members of a oneof.
		// The text of protojson's error differs between builds and is not repeated.
		return Malformed(fault.Field{Rule: "json.value",
			Message: "The members cannot be given together or hold an impossible value."})
	}
	return nil
}

// MarshalJSON writes a message as the API shows it: camelCase, default values included, compact.
func MarshalJSON(message proto.Message) ([]byte, error) {
	return codec{}.MarshalAppend(nil, message)
}

// Malformed is the fault of a request with wrong members. It lists the first few: a list of all could be
// twenty times as long as the request.
func Malformed(fields ...fault.Field) *fault.Fault {
	fields = fields[:min(len(fields), maxFieldProblems)]
	return fault.New(fault.SchemaInvalid, "The request has members that are wrong, see fields.").With(fields...)
}

// findingsField is the largest field number there is; no message of ours uses it.
const findingsField = protowire.MaxValidNumber

// codec is the strict JSON codec of connect's handlers.
type codec struct {
	name string
	// mark distinguishes findings of this process from an unknown field that a caller sent.
	mark []byte
}

func (c codec) Name() string { return c.name }

func (c codec) IsBinary() bool { return false }

func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (c codec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", message)
	}
	written, err := writeMessage(dst, m.ProtoReflect())
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return written, nil
}

func (c codec) MarshalStable(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// Unmarshal reads strictly. Findings about the document are stored in the message, see JSON.
func (c codec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	err := UnmarshalJSON(data, m)
	f, ok := fault.As(err)
	if !ok {
		return err
	}
	found, err := proto.Marshal(&roamcardv1.Problem{Detail: f.Detail, Fields: wireFields(f.Fields)})
	if err != nil {
		return fmt.Errorf("keep findings: %w", err)
	}
	proto.Reset(m)
	unknown := protowire.AppendTag(nil, findingsField, protowire.BytesType)
	unknown = protowire.AppendBytes(unknown, append(bytes.Clone(c.mark), found...))
	m.ProtoReflect().SetUnknown(unknown)
	return nil
}

// findings refuses messages in which the codec stored its findings.
type findings struct{ mark []byte }

func (i findings) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := i.check(req.Any()); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (i findings) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i findings) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, checkedConn{StreamingHandlerConn: conn, findings: i})
	}
}

type checkedConn struct {
	connect.StreamingHandlerConn
	findings findings
}

func (c checkedConn) Receive(message any) error {
	if err := c.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	return c.findings.check(message)
}

func (i findings) check(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 {
		return nil
	}
	number, kind, n := protowire.ConsumeTag(unknown)
	if n < 0 || number != findingsField || kind != protowire.BytesType {
		return nil
	}
	value, n := protowire.ConsumeBytes(unknown[n:])
	found, ours := bytes.CutPrefix(value, i.mark)
	if n < 0 || !ours {
		return nil
	}
	var problem roamcardv1.Problem
	if err := proto.Unmarshal(found, &problem); err != nil {
		return fmt.Errorf("read findings: %w", err)
	}
	return fault.New(fault.SchemaInvalid, problem.Detail).With(faultFields(problem.Fields)...)
}
