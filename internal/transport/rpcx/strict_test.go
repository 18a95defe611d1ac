package rpcx

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// The well-known types that the test's message uses.
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// everything is a message with a member of each kind that has a JSON form of its own.
func everything(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	type kind = descriptorpb.FieldDescriptorProto_Type
	number := int32(0)
	field := func(name string, k kind, typeName string, repeated bool) *descriptorpb.FieldDescriptorProto {
		number++
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: proto.Int32(number), Type: k.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if typeName != "" {
			f.TypeName = &typeName
		}
		if repeated {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		return f
	}
	message := descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("everything.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/struct.proto", "google/protobuf/timestamp.proto",
			"google/protobuf/wrappers.proto"},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("Color"),
			Value: []*descriptorpb.EnumValueDescriptorProto{
				{Name: proto.String("COLOR_UNSPECIFIED"), Number: proto.Int32(0)},
				{Name: proto.String("COLOR_RED"), Number: proto.Int32(1)},
			}}},
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Everything"),
			Field: []*descriptorpb.FieldDescriptorProto{
				field("some_text", descriptorpb.FieldDescriptorProto_TYPE_STRING, "", false),
				field("cents", descriptorpb.FieldDescriptorProto_TYPE_UINT32, "", false),
				field("delta", descriptorpb.FieldDescriptorProto_TYPE_INT32, "", false),
				field("big", descriptorpb.FieldDescriptorProto_TYPE_INT64, "", false),
				field("ratio", descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, "", false),
				field("flag", descriptorpb.FieldDescriptorProto_TYPE_BOOL, "", false),
				field("raw", descriptorpb.FieldDescriptorProto_TYPE_BYTES, "", false),
				field("color", descriptorpb.FieldDescriptorProto_TYPE_ENUM, ".test.Color", false),
				field("child", message, ".test.Everything", false),
				field("items", message, ".test.Everything", true),
				field("tags", descriptorpb.FieldDescriptorProto_TYPE_STRING, "", true),
				field("at", message, ".google.protobuf.Timestamp", false),
				field("free", message, ".google.protobuf.Struct", false),
				field("any_value", message, ".google.protobuf.Value", false),
				field("wrapped", message, ".google.protobuf.UInt32Value", false),
				func() *descriptorpb.FieldDescriptorProto {
					f := field("odd_name", descriptorpb.FieldDescriptorProto_TYPE_STRING, "", false)
					f.JsonName = proto.String("odd_name")
					return f
				}(),
				field("counts", message, ".test.Everything.CountsEntry", true),
			},
			NestedType: []*descriptorpb.DescriptorProto{{
				Name: proto.String("CountsEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
				Field: []*descriptorpb.FieldDescriptorProto{
					{Name: proto.String("key"), Number: proto.Int32(1),
						Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
						Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
					{Name: proto.String("value"), Number: proto.Int32(2),
						Type:  descriptorpb.FieldDescriptorProto_TYPE_UINT32.Enum(),
						Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
				},
			}},
		}},
	}
	descriptor, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return descriptor.Messages().ByName("Everything")
}

func TestCheckJSONAcceptsDocumentedForms(t *testing.T) {
	message := everything(t)
	for _, doc := range []string{
		`{}`,
		" \n{ \"someText\" : \"a\" }\t",
		`{"someText":"caf\u00e9 \ud83d\ude00 \\ \" \/ \b\f\n\r\t","cents":0,"delta":-7,"ratio":-0.5e3}`,
		`{"big":9007199254740993}`, `{"big":"9007199254740993"}`,
		`{"flag":true,"raw":"AAEC","color":"COLOR_RED"}`,
		`{"raw":"_-8"}`, `{"raw":"AA=="}`,
		`{"child":{"child":{"cents":4294967295}}}`,
		`{"items":[{"cents":1},{}],"tags":["a","b"]}`,
		`{"at":"2026-11-21T03:00:00Z"}`,
		`{"free":{"a":{"b":[1,null,"x",2.5]}},"anyValue":null}`,
		`{"anyValue":-25.0100000000000000000e0}`, `{"anyValue":123456789012345}`, `{"anyValue":"1234567890123456"}`,
		`{"wrapped":7}`,
		`{"odd_name":"x"}`,
		`{"counts":{"a":1,"b":2}}`,
		strings.Repeat(`{"child":`, 15) + `{}` + strings.Repeat(`}`, 15),
	} {
		if fields := CheckJSON([]byte(doc), message); len(fields) > 0 {
			t.Errorf("CheckJSON(%s) = %v", doc, fields)
		}
		if err := protojson.Unmarshal([]byte(doc), dynamicpb.NewMessage(message)); err != nil {
			t.Errorf("protojson disagrees about %s: %v", doc, err)
		}
	}
}

func TestCheckJSONRefusesUndocumentedForms(t *testing.T) {
	for _, c := range []struct{ name, doc, path, rule string }{
		{"empty", ``, "", "json.syntax"},
		{"array", `[]`, "", "json.type"},
		{"null document", `null`, "", "json.type"},
		{"trailing data", `{} {}`, "", "json.syntax"},
		{"trailing comma", `{"cents":1,}`, "", "json.syntax"},
		{"byte order mark", "\xef\xbb\xbf{}", "", "json.syntax"},
		{"invalid UTF-8", "{\"someText\":\"\xff\"}", "", "json.utf8"},
		{"raw control character", "{\"someText\":\"\n\"}", "", "json.syntax"},
		{"NUL", `{"someText":"a\u0000"}`, "someText", "json.utf8"},
		{"lone high surrogate", `{"someText":"\ud800"}`, "someText", "json.utf8"},
		{"lone low surrogate", `{"someText":"\udc00x"}`, "someText", "json.utf8"},
		{"reversed pair", `{"someText":"\udc00\ud800"}`, "someText", "json.utf8"},
		{"surrogate before another escape", `{"someText":"\ud800\u0041"}`, "someText", "json.utf8"},
		{"surrogate in free content", `{"free":{"a":["\ud800"]}}`, "free.a[0]", "json.utf8"},
		{"unknown member", `{"nope":1}`, "nope", "json.unknown"},
		{"unknown member below", `{"items":[{},{"nope":1}]}`, "items[1].nope", "json.unknown"},
		{"proto name", `{"some_text":"x"}`, "some_text", "json.unknown"},
		{"camel case of an odd name", `{"oddName":"x"}`, "oddName", "json.unknown"},
		{"other case", `{"SomeText":"x"}`, "SomeText", "json.unknown"},
		{"extension syntax", `{"[test.ext]":1}`, "[test.ext]", "json.unknown"},
		{"duplicate", `{"cents":1,"cents":1}`, "cents", "json.duplicate"},
		{"duplicate by escape", `{"cents":1,"c\u0065nts":1}`, "cents", "json.duplicate"},
		{"duplicate in free content", `{"free":{"a":1,"a":2}}`, "free.a", "json.duplicate"},
		{"duplicate map key", `{"counts":{"a":1,"\u0061":2}}`, "counts.a", "json.duplicate"},
		{"quoted integer", `{"cents":"2500"}`, "cents", "json.type"},
		{"fraction", `{"cents":2500.5}`, "cents", "json.integer"},
		{"small fraction", `{"cents":2500.0000000000000000001}`, "cents", "json.integer"},
		{"exponent", `{"cents":25e-1}`, "cents", "json.integer"},
		{"quoted exponent for 64 bits", `{"big":"1e2"}`, "big", "json.integer"},
		{"large exponent", `{"cents":1e999999999}`, "cents", "json.range"},
		{"small exponent", `{"cents":1e-999999999}`, "cents", "json.integer"},
		{"fraction in a list", `{"items":[{"cents":1.0},{"cents":1.5}]}`, "items[1].cents", "json.integer"},
		{"negative unsigned", `{"cents":-1}`, "cents", "json.range"},
		{"too large", `{"cents":4294967296}`, "cents", "json.range"},
		{"too large for 64 bits", `{"big":9223372036854775808}`, "big", "json.range"},
		{"quoted fraction for 64 bits", `{"big":"1.0"}`, "big", "json.integer"},
		{"boolean integer", `{"cents":true}`, "cents", "json.integer"},
		{"quoted number", `{"ratio":"1.5"}`, "ratio", "json.type"},
		{"more digits than a float has", `{"anyValue":25.0000000000000001}`, "anyValue", "json.number"},
		{"more digits than a float has, at once", `{"anyValue":1234567890123456}`, "anyValue", "json.number"},
		{"NaN", `{"ratio":"NaN"}`, "ratio", "json.type"},
		{"too large a double", `{"ratio":1e999}`, "ratio", "json.range"},
		{"number for text", `{"someText":5}`, "someText", "json.type"},
		{"quoted boolean", `{"flag":"true"}`, "flag", "json.type"},
		{"enum by number", `{"color":1}`, "color", "json.type"},
		{"unknown enum", `{"color":"COLOR_BLUE"}`, "color", "json.enum"},
		{"not base64", `{"raw":"*"}`, "raw", "json.type"},
		{"null", `{"someText":null}`, "someText", "json.null"},
		{"null message", `{"child":null}`, "child", "json.null"},
		{"null in a list", `{"tags":[null]}`, "tags[0]", "json.null"},
		{"object for a list", `{"tags":{}}`, "tags", "json.type"},
		{"list for an object", `{"child":[]}`, "child", "json.type"},
		{"object for a number", `{"cents":{}}`, "cents", "json.type"},
		{"bad time", `{"at":"yesterday"}`, "at", "json.type"},
		{"time as a number", `{"at":5}`, "at", "json.type"},
		{"list for a struct", `{"free":[]}`, "free", "json.type"},
		{"quoted wrapper", `{"wrapped":"7"}`, "wrapped", "json.type"},
		{"too deep", strings.Repeat(`{"child":`, 16) + `{}` + strings.Repeat(`}`, 16), "", "json.depth"},
		{"far too deep", strings.Repeat(`[`, 100000), "", "json.depth"},
	} {
		fields := CheckJSON([]byte(c.doc), everything(t))
		if len(fields) == 0 || fields[0].Path != c.path || fields[0].Rule != c.rule {
			t.Errorf("%s: CheckJSON = %v, want %s at %q", c.name, fields, c.rule, c.path)
		}
	}
}

// TestIntegersHaveManySpellings: an exact integer is read exactly, however it is written.
func TestIntegersHaveManySpellings(t *testing.T) {
	message := everything(t)
	for _, c := range []struct{ doc, want string }{
		{`{"cents":2500.0}`, `{"cents":2500}`},
		{`{"cents":2.5e3,"delta":-7.00}`, `{"cents":2500,"delta":-7}`},
		{`{"delta":-0,"cents":-0.0e5}`, `{}`},
		{` { "cents" : 25E+2 , "someText":"2.5e3","delta":7 }`, `{"cents":2500,"someText":"2.5e3","delta":7}`},
		{`{"big":9007199254740993.0}`, `{"big":9007199254740993}`},
		{`{"big":9.223372036854775807e18}`, `{"big":9223372036854775807}`},
		{`{"cents":4294967295.0000}`, `{"cents":4294967295}`},
		{`{"items":[{"cents":1.0},{"cents":2e0}],"ratio":1.0}`, `{"items":[{"cents":1},{"cents":2}],"ratio":1}`},
		{`{"counts":{"a":1.0},"wrapped":7.0,"child":{"cents":1e1}}`, `{"counts":{"a":1},"wrapped":7,"child":{"cents":10}}`},
		{`{"cents":0e999999999}`, `{}`},
	} {
		got, want := dynamicpb.NewMessage(message), dynamicpb.NewMessage(message)
		if err := UnmarshalJSON([]byte(c.doc), got); err != nil {
			t.Errorf("%s: %v", c.doc, err)
		}
		if err := protojson.Unmarshal([]byte(c.want), want); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s is %v, want %v, %v", c.doc, got, want, err)
		}
	}
}

func TestCheckJSONReportsWrongMembersUpToLimit(t *testing.T) {
	var rules []string
	for _, f := range CheckJSON([]byte(`{"cents":"1","some_text":"x","child":{"flag":null}}`), everything(t)) {
		rules = append(rules, f.Path+" "+f.Rule)
	}
	if diff := cmp.Diff([]string{"cents json.type", "some_text json.unknown", "child.flag json.null"},
		rules); diff != "" {
		t.Error(diff)
	}
	many := `{"tags":[` + strings.Repeat(`1,`, 200) + `1]}`
	if n := len(CheckJSON([]byte(many), everything(t))); n != maxFieldProblems {
		t.Errorf("%d problems reported, want %d", n, maxFieldProblems)
	}
	long := CheckJSON([]byte(`{"`+strings.Repeat("é", 500)+`":1}`), everything(t))
	if len(long) != 1 || len(long[0].Path) > maxPath+len("…") {
		t.Errorf("a long member name is repeated: %v", long)
	}
}

func TestValueFromTextFollowsRulesOfBody(t *testing.T) {
	fields := everything(t).Fields()
	for _, c := range []struct {
		field, text string
		want        any
	}{
		{"someText", `a "b" </script>`, `a "b" </script>`},
		{"someText", "", ""},
		{"cents", "7", uint32(7)},
		{"cents", "7.0", uint32(7)},
		{"cents", "7e1", uint32(70)},
		{"flag", "false", false},
		{"flag", "true", true},
		{"color", "COLOR_RED", protoreflect.EnumNumber(1)},
		{"ratio", "1.5", 1.5},
	} {
		value, problem, ok := ValueFromText(fields.ByJSONName(c.field), c.field, c.text)
		if !ok || value.Interface() != c.want {
			t.Errorf("%s=%q: %v, %v", c.field, c.text, value, problem)
		}
	}
	for _, c := range []struct{ field, text, rule string }{
		{"someText", "\xff", "json.utf8"},
		{"someText", "a\x00", "json.utf8"},
		{"cents", "", "json.integer"},
		{"cents", "07", "json.integer"},
		{"cents", "7.5", "json.integer"},
		{"cents", "+7", "json.integer"},
		{"cents", "7,\"flag\":true", "json.integer"},
		{"cents", "4294967296", "json.range"},
		{"flag", "TRUE", "json.type"},
		{"color", "1", "json.enum"},
		{"ratio", "0x1p-2", "json.type"},
		{"ratio", "inf", "json.type"},
		{"child", "{}", "json.type"},
	} {
		value, problem, ok := ValueFromText(fields.ByJSONName(c.field), c.field, c.text)
		if ok || problem.Rule != c.rule {
			t.Errorf("%s=%q: %v, %v, want %s", c.field, c.text, value, problem, c.rule)
		}
	}
}

// FuzzCheckJSON proves that protojson reads every accepted document, and that what protojson writes is accepted
// again.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"someText":"\ud83d\ude00","cents":1}`, `{"items":[{"tags":["a"]}],"free":{"a":null}}`,
		`{"cents":1,"c\u0065nts":2}`, `{"at":"2026-11-21T03:00:00Z","big":"5","raw":"AA=="}`, `{"counts":{"a":1}}`,
		`{"cents":2.5e3,"delta":-0}`, `{"counts":{"a":1.0},"big":1e18,"wrapped":10e-1}`,
		`{"someText":"\ud800"}`, `[[[[`, `{"child":{"child":{"ratio":1e400}}}`, "\xef\xbb\xbf{}", `{"a`, `"\u`,
	} {
		f.Add([]byte(seed))
	}
	message := everything(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(CheckJSON(data, message)) > 0 {
			return
		}
		read := dynamicpb.NewMessage(message)
		if err := UnmarshalJSON(data, read); err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		written, err := protojson.Marshal(read)
		if err != nil {
			t.Skip("not representable, such as an infinite number in a Struct")
		}
		if fields := CheckJSON(written, message); len(fields) > 0 {
			t.Fatalf("%s does not pass a second time: %v", written, fields)
		}
	})
}
