package rpcx

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// TestAnswersAreWhatProtojsonWrites compares every message of the API, with fields that are set and that are not.
func TestAnswersAreWhatProtojsonWrites(t *testing.T) {
	filler := filler{rand.New(rand.NewPCG(1, 2))}
	messages := 0
	protoregistry.GlobalTypes.RangeMessages(func(kind protoreflect.MessageType) bool {
		if kind.Descriptor().ParentFile().Package() != roamcardv1.File_roamcard_v1_policy_proto.Package() {
			return true
		}
		messages++
		for range 30 {
			m := kind.New()
			filler.fill(m, 0)
			written(t, m.Interface())
		}
		written(t, kind.Zero().Interface())
		return true
	})
	if messages < 50 {
		t.Errorf("%d messages", messages)
	}
}

// TestEveryKindOfFieldIsWritten has what the API does not use yet.
func TestEveryKindOfFieldIsWritten(t *testing.T) {
	values, err := structpb.NewStruct(map[string]any{"b": []any{1.5, nil, "x"}, "a": map[string]any{"c": true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []proto.Message{
		values, structpb.NewNullValue(), wrapperspb.Int64(7), wrapperspb.Bytes([]byte{1, 2, 0xff}),
		&timestamppb.Timestamp{Seconds: 1, Nanos: 20}, &timestamppb.Timestamp{Seconds: -1, Nanos: 2000},
		&timestamppb.Timestamp{Nanos: 3_000_000}, &timestamppb.Timestamp{},
	} {
		written(t, m)
	}
	for _, m := range []proto.Message{
		&timestamppb.Timestamp{Nanos: -1}, wrapperspb.String("\xff"), &roamcardv1.Problem{Detail: "half \xe2\x82"},
	} {
		if got, err := MarshalJSON(m); err == nil {
			t.Errorf("%v is written as %s", m, got)
		}
	}
}

func TestEveryCharacterIsEscapedAsProtojsonDoes(t *testing.T) {
	var text []rune
	for r := rune(0); r < 0x300; r++ {
		text = append(text, r)
	}
	written(t, &roamcardv1.Problem{Detail: string(text) + "\u2028€\U0001F680\ufffd"})
}

func written(t *testing.T, m proto.Message) {
	t.Helper()
	want, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, want); err != nil {
		t.Fatal(err)
	}
	got, err := MarshalJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compact.String(), string(got)); diff != "" {
		t.Errorf("%s:\n%s", m.ProtoReflect().Descriptor().FullName(), diff)
	}
}

// filler sets fields to anything.
type filler struct{ *rand.Rand }

const deepest = 4

func (f filler) fill(m protoreflect.Message, depth int) {
	switch known := m.Interface().(type) {
	case *timestamppb.Timestamp:
		known.Seconds, known.Nanos = f.Int64N(4e9), []int32{0, 5, 6000, 7_000_000}[f.IntN(4)]
		return
	case *structpb.Struct:
		known.Fields = map[string]*structpb.Value{"a": structpb.NewNumberValue(1), "b": structpb.NewNullValue()}
		return
	}
	if known, ok := m.Interface().(*structpb.Value); ok {
		known.Kind = &structpb.Value_StringValue{StringValue: "a\n"}
		return
	}
	if m.Descriptor().ParentFile().Package() == "google.protobuf" {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if f.IntN(3) == 0 || depth == deepest && field.Message() != nil {
			continue
		}
		switch {
		case field.IsMap():
			entries := m.Mutable(field).Map()
			for range f.IntN(4) {
				value := entries.NewValue()
				if field.MapValue().Message() != nil {
					f.fill(value.Message(), depth+1)
				} else {
					value = f.value(field.MapValue())
				}
				entries.Set(f.value(field.MapKey()).MapKey(), value)
			}
		case field.IsList():
			all := m.Mutable(field).List()
			for range f.IntN(4) {
				if field.Message() != nil {
					f.fill(all.AppendMutable().Message(), depth+1)
				} else {
					all.Append(f.value(field))
				}
			}
		case field.Message() != nil:
			f.fill(m.Mutable(field).Message(), depth+1)
		default:
			m.Set(field, f.value(field))
		}
	}
}

func (f filler) value(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(f.IntN(2) == 0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(f.Int32() - 1<<30)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(f.Uint32())
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(f.Int64() - 1<<62)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(f.Uint64())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(time.Unix(f.Int64N(1e9), 0).String()))
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(f.IntN(values.Len())).Number())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(f.Float32())
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(f.Float64() * 1e30)
	default:
		return protoreflect.ValueOfString([]string{"", "plain", "ä\"\\\n\t\x01", "<&>\u2028"}[f.IntN(4)])
	}
}
