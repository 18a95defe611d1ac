package rpcx

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/fault"
)

// OverHTTP are the options of what is served over HTTP: strict JSON (see CheckJSON) next to the binary codec, messages
// of a bounded size, packed or not, and no answer packed, which a list of 500 kB would cost 5 ms for each caller that
// takes it so.
func OverHTTP(mostBytes int) []connecthttp.Option {
	return []connecthttp.Option{
		connecthttp.WithCodecs(connectproto.NewBinaryCodec(),
			// Both names: a client may name the character set.
			codec{name: connect.CodecNameJSON}, codec{name: "json; charset=utf-8"}),
		connecthttp.WithReadMaxBytes(mostBytes),
		connecthttp.WithCompressMinBytes(math.MaxInt),
	}
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

// usualAnswer is how many bytes most answers have at most: an order's has some 800.
const usualAnswer = 1 << 10

// MarshalJSON writes a message as the API shows it: camelCase, default values included, compact.
func MarshalJSON(message proto.Message) ([]byte, error) {
	written, err := writeMessage(make([]byte, 0, usualAnswer), message.ProtoReflect())
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	return written, nil
}

// MarshalField writes a field of a message as MarshalJSON does.
func MarshalField(message proto.Message, field protoreflect.FieldDescriptor) ([]byte, error) {
	m := message.ProtoReflect()
	if field.HasPresence() && !m.Has(field) {
		return nil, fmt.Errorf("marshal %s: there is none", field.FullName())
	}
	written, err := jsonMember{field: field}.write(make([]byte, 0, usualAnswer), m.Get(field))
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", field.FullName(), err)
	}
	return written, nil
}

// Malformed is the fault of a request with wrong members. It lists the first few: a list of all could be
// twenty times as long as the request.
func Malformed(fields ...fault.Field) *fault.Fault {
	fields = fields[:min(len(fields), maxFieldProblems)]
	return fault.New(fault.SchemaInvalid, "The request has members that are wrong, see fields.").With(fields...)
}

// codec is strict JSON for connect. What it says of a document is the cause of connect's error, where Errors finds it.
type codec struct{ name string }

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// IsBinary implements connect.StableCodec.
func (codec) IsBinary() bool { return false }

// MarshalWrite implements connect.Codec.
func (codec) MarshalWrite(_ context.Context, to io.Writer, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	written, err := MarshalJSON(m)
	if err != nil {
		return err
	}
	_, err = to.Write(written)
	return err
}

// MarshalWriteStable implements connect.StableCodec.
func (c codec) MarshalWriteStable(ctx context.Context, to io.Writer, message any) error {
	return c.MarshalWrite(ctx, to, message)
}

// UnmarshalRead implements connect.Codec. The error is a schema_invalid fault.
func (codec) UnmarshalRead(_ context.Context, from io.Reader, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	var document bytes.Buffer
	if _, err := document.ReadFrom(from); err != nil {
		return fmt.Errorf("read a message: %w", err)
	}
	return UnmarshalJSON(document.Bytes(), m)
}
