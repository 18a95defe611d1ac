package rpcx_test

import (
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// TestPatternsAreSaidInWords: each field with a pattern has a form, and no other has one.
func TestPatternsAreSaidInWords(t *testing.T) {
	patterns := 0
	var look func(messages protoreflect.MessageDescriptors)
	look = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			look(messages.Get(i).Messages())
			for j := range messages.Get(i).Fields().Len() {
				field := messages.Get(i).Fields().Get(j)
				rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
				form, _ := proto.GetExtension(field.Options(), roamcardv1.E_Form).(string)
				has := rules.GetString().HasPattern() || rules.GetRepeated().GetItems().GetString().HasPattern()
				if has != (form != "") || len(form) > 120 {
					t.Errorf("%s: a pattern: %t, its form %q", field.FullName(), has, form)
				}
				if has {
					patterns++
				}
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("roamcard.v1", func(f protoreflect.FileDescriptor) bool {
		look(f.Messages())
		return true
	})
	if patterns < 20 {
		t.Errorf("only %d patterns were looked at", patterns)
	}
}

func TestBrokenPatternIsTheFieldsForm(t *testing.T) {
	element := func(name string) *validate.FieldPathElement {
		return validate.FieldPathElement_builder{FieldName: &name}.Build()
	}
	const unknown = "does not match the documented pattern"
	limits := (&roamcardv1.SetCardLimitsRequest{}).ProtoReflect().Descriptor()
	for name, c := range map[string]struct {
		path    []string
		message protoreflect.MessageDescriptor
		rule    string
		want    string
	}{
		"of a list":         {[]string{"allowed_categories"}, limits, "string.pattern", "must be four digits"},
		"another rule":      {[]string{"allowed_categories"}, limits, "string.len", "as the rule says"},
		"a field of old":    {[]string{"gone"}, limits, "string.pattern", unknown},
		"below no message":  {[]string{"allowed_categories", "x"}, limits, "string.pattern", unknown},
		"without a message": {[]string{"allowed_categories"}, nil, "string.pattern", unknown},
	} {
		text, path := "as the rule says", []*validate.FieldPathElement(nil)
		for _, part := range c.path {
			path = append(path, element(part))
		}
		v := validate.Violation_builder{
			RuleId: &c.rule, Message: &text, Field: validate.FieldPath_builder{Elements: path}.Build(),
		}.Build()
		violations := validate.Violations_builder{Violations: []*validate.Violation{v}}.Build()
		if got := rpcx.ViolationFields(violations, c.message)[0].Message; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
