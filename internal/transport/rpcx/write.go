package rpcx

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// marshalOptions are what writeMessage writes, but for the spacing, which protojson varies on purpose.
var marshalOptions = protojson.MarshalOptions{EmitDefaultValues: true}

// writeMessage appends the compact form of what protojson writes with marshalOptions. The members of a message are
// known from its descriptor, so that nothing is looked up or sorted again for each answer.
func writeMessage(dst []byte, m protoreflect.Message) ([]byte, error) {
	if ts, ok := m.Interface().(*timestamppb.Timestamp); ok && ts.CheckValid() == nil {
		return writeTime(dst, ts.AsTime()), nil
	}
	if m.Descriptor().ParentFile().Package() == "google.protobuf" {
		return writeWellKnown(dst, m)
	}
	dst = append(dst, '{')
	begin := len(dst)
	var err error
	for _, f := range membersOf(m.Descriptor()) {
		if f.optional && !m.Has(f.field) {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = append(dst, f.name...)
		if dst, err = f.write(dst, m.Get(f.field)); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// jsonMember is how a field is written.
type jsonMember struct {
	field protoreflect.FieldDescriptor
	// name is the member's name in quotes, with the colon.
	name []byte
	// optional members are left out when they are not set.
	optional bool
}

// messages are the members of messages, by descriptor, in the order in which they are declared.
var messages sync.Map

func membersOf(message protoreflect.MessageDescriptor) []jsonMember {
	if known, ok := messages.Load(message); ok {
		return known.([]jsonMember)
	}
	fields := message.Fields()
	members := make([]jsonMember, fields.Len())
	for i := range members {
		f := fields.Get(i)
		members[i] = jsonMember{field: f, name: []byte(strconv.Quote(f.JSONName()) + ":"),
			optional: f.HasPresence() || f.ContainingOneof() != nil}
	}
	messages.Store(message, members)
	return members
}

func (f jsonMember) write(dst []byte, v protoreflect.Value) ([]byte, error) {
	switch {
	case f.field.IsMap():
		return writeMap(dst, f.field, v.Map())
	case f.field.IsList():
		return writeList(dst, f.field, v.List())
	}
	return writeValue(dst, f.field, v)
}

func writeList(dst []byte, field protoreflect.FieldDescriptor, all protoreflect.List) (_ []byte, err error) {
	dst = append(dst, '[')
	for i := range all.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = writeValue(dst, field, all.Get(i)); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// writeMap sorts the entries as protojson does: numbers and booleans by value, text by bytes.
func writeMap(dst []byte, field protoreflect.FieldDescriptor, all protoreflect.Map) (_ []byte, err error) {
	keys := make([]protoreflect.MapKey, 0, all.Len())
	all.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool { keys = append(keys, key); return true })
	slices.SortFunc(keys, compareKeys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = writeText(dst, key.String(), field); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = writeValue(dst, field.MapValue(), all.Get(key)); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func compareKeys(a, b protoreflect.MapKey) int {
	switch a.Interface().(type) {
	case bool:
		return cmp.Compare(a.String(), b.String())
	case int32, int64:
		return cmp.Compare(a.Int(), b.Int())
	case uint32, uint64:
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.String(), b.String())
}

func writeValue(dst []byte, field protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return writeText(dst, v.String(), field)
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool()), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return append(strconv.AppendInt(append(dst, '"'), v.Int(), 10), '"'), nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return append(strconv.AppendUint(append(dst, '"'), v.Uint(), 10), '"'), nil
	case protoreflect.BytesKind:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes())
		return append(dst, '"'), nil
	case protoreflect.MessageKind:
		return writeMessage(dst, v.Message())
	case protoreflect.EnumKind:
		if value := field.Enum().Values().ByNumber(v.Enum()); value != nil {
			return append(append(append(dst, '"'), value.Name()...), '"'), nil
		}
		return strconv.AppendInt(dst, int64(v.Enum()), 10), nil
	default:
	}
	return dst, fmt.Errorf("write %s: a %s that has no JSON form here", field.FullName(), field.Kind())
}

const hexDigits = "0123456789abcdef"

// writeText escapes what JSON requires and nothing else.
func writeText(dst []byte, text string, field protoreflect.FieldDescriptor) ([]byte, error) {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= utf8.RuneSelf {
			if _, size := utf8.DecodeRuneInString(text[i:]); size > 1 {
				i += size - 1
				continue
			}
			return dst, fmt.Errorf("write %s: invalid UTF-8", field.FullName())
		}
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(append(dst, text[plain:i]...), '\\')
		plain = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, c)
		case '\b':
			dst = append(dst, 'b')
		case '\f':
			dst = append(dst, 'f')
		case '\n':
			dst = append(dst, 'n')
		case '\r':
			dst = append(dst, 'r')
		case '\t':
			dst = append(dst, 't')
		default:
			dst = append(dst, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return append(append(dst, text[plain:]...), '"'), nil
}

// writeTime has no fraction, or one of 3, 6 or 9 digits.
func writeTime(dst []byte, t time.Time) []byte {
	layout := `"2006-01-02T15:04:05.000000000Z"`
	switch nanos := t.Nanosecond(); {
	case nanos == 0:
		layout = `"2006-01-02T15:04:05Z"`
	case nanos%1_000_000 == 0:
		layout = `"2006-01-02T15:04:05.000Z"`
	case nanos%1000 == 0:
		layout = `"2006-01-02T15:04:05.000000Z"`
	}
	return t.AppendFormat(dst, layout)
}

// writeWellKnown leaves a message with a form of its own to protojson.
func writeWellKnown(dst []byte, m protoreflect.Message) ([]byte, error) {
	data, err := marshalOptions.Marshal(m.Interface())
	if err != nil {
		return dst, err
	}
	out := bytes.NewBuffer(dst)
	err = json.Compact(out, data)
	return out.Bytes(), err
}
