// Command protoc-gen-admin writes what the clients have for operators: a method for each of their rpcs, in TypeScript,
// Python and Go. Its name is the rpc's, without List or Get. Its arguments are the fields of the request, its result is
// the response: the one field that it has, a list where it has pages, or all of it.
package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/roamcard/roamcard/tools/options"
)

func main() {
	protogen.Options{}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		methods, err := methodsOf(plugin)
		if err != nil {
			return err
		}
		for name, write := range map[string]func([]method) string{
			"typescript/src/admin.ts": typescript, "python/src/roamcard/_async/admin.py": python,
			"go/roamcard/admin_lists.go": golang,
		} {
			plugin.NewGeneratedFile(name, "").P(strings.TrimSuffix(write(methods), "\n"))
		}
		return nil
	})
}

// method is an rpc of an operator.
type method struct {
	rpc, name string
	// service is operator, or activity for what a wallet's session may do.
	service                string
	request, response, doc string
	// positional are the fields that the path of REST names.
	positional, required, optional []field
	// keyed is set for an act that is done once for a key.
	keyed bool
	// result is the field of the response that is the result; nil for all of it. Paged lists have it on each page.
	result *field
	paged  bool
}

type field struct {
	name string
	kind protoreflect.Kind
	// values are those that a text may have, when they are few.
	values []string
	// message is the type of a message, and module the file that has it.
	message, module string
	repeated        bool
}

// methodsOf finds the rpcs of operators, in the order of the protos.
func methodsOf(plugin *protogen.Plugin) (all []method, err error) {
	files, types, err := options.Readable(&descriptorpb.FileDescriptorSet{File: plugin.Request.ProtoFile})
	if err != nil {
		return nil, fmt.Errorf("read the options: %w", err)
	}
	for _, file := range plugin.Files {
		for _, s := range file.Services {
			for _, m := range s.Methods {
				made, is, err := methodOf(files, types, m)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", m.Desc.FullName(), err)
				}
				if is {
					all = append(all, made)
				}
			}
		}
	}
	return all, nil
}

var inPath = regexp.MustCompile(`\{([a-z_]+)\}`)

// methodOf is false for an rpc that is none of operators.
func methodOf(
	files *protoregistry.Files, types *dynamicpb.Types, m *protogen.Method,
) (made method, is bool, err error) {
	policy, http := map[string]any{}, map[string]any{}
	d, err := files.FindDescriptorByName(m.Desc.FullName())
	if err != nil {
		return made, false, err
	}
	if err := options.Read(types, d, "roamcard.v1.policy", &policy); err != nil {
		return made, false, err
	}
	if policy["access"] != "ACCESS_OPERATOR" && policy["scope"] != "activity" {
		return made, false, nil
	}
	if err := options.Read(types, d, "google.api.http", &http); err != nil {
		return made, false, err
	}
	rpc := string(m.Desc.Name())
	made = method{
		rpc: rpc, name: strings.TrimPrefix(strings.TrimPrefix(rpc, "List"), "Get"),
		service: strings.ToLower(strings.TrimSuffix(string(m.Parent.Desc.Name()), "Service")),
		request: string(m.Input.Desc.Name()), response: string(m.Output.Desc.Name()),
		doc:   strings.TrimSpace(string(m.Comments.Leading)),
		keyed: policy["idempotencyHeader"] != nil,
	}
	var path []string
	for _, verb := range []string{"get", "post", "put"} {
		at, _ := http[verb].(string)
		for _, found := range inPath.FindAllStringSubmatch(at, -1) {
			path = append(path, found[1])
		}
	}
	for i := range m.Input.Fields {
		f := m.Input.Fields[i]
		one, must, err := argument(types, files, f)
		switch {
		case err != nil:
			return made, false, err
		case one.name == "page_size" || one.name == "page_token":
		case slices.Contains(path, one.name):
			made.positional = append(made.positional, one)
		case must:
			made.required = append(made.required, one)
		default:
			made.optional = append(made.optional, one)
		}
	}
	outputs := m.Output.Fields
	if len(outputs) == 2 && outputs[1].Desc.Name() == "next_page_token" {
		made.paged, outputs = true, outputs[:1]
	}
	if len(outputs) == 1 {
		result := fieldOf(outputs[0])
		made.result = &result
	}
	return made, true, nil
}

func fieldOf(f *protogen.Field) field {
	one := field{name: string(f.Desc.Name()), kind: f.Desc.Kind(), repeated: f.Desc.IsList()}
	if f.Message != nil {
		one.message = string(f.Message.Desc.Name())
		file := f.Message.Desc.ParentFile().Path()
		one.module = strings.TrimSuffix(file[strings.LastIndex(file, "/")+1:], ".proto")
	}
	return one
}

// argument is a field of a request, and whether it has to be given.
func argument(types *dynamicpb.Types, files *protoregistry.Files, f *protogen.Field) (one field, must bool, err error) {
	one = fieldOf(f)
	if one.repeated || one.message != "" {
		return one, false, fmt.Errorf("the field %s is no single value", one.name)
	}
	d, err := files.FindDescriptorByName(f.Desc.FullName())
	if err != nil {
		return one, false, err
	}
	rules := map[string]any{}
	if err := options.Read(types, d, "buf.validate.field", &rules); err != nil {
		return one, false, err
	}
	if text, ok := rules["string"].(map[string]any); ok {
		values, _ := text["in"].([]any)
		for _, v := range values {
			one.values = append(one.values, v.(string))
		}
	}
	return one, !f.Desc.HasPresence() || rules["required"] == true, nil
}

func lowerCamel(snake string) string {
	var b strings.Builder
	for i, word := range strings.Split(snake, "_") {
		if i > 0 && word != "" {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}

func upperCamel(snake string) string {
	name := lowerCamel(snake)
	return strings.ToUpper(name[:1]) + name[1:]
}

// snake is a name in camel case with lines: WhoAmI is who_am_i.
func snake(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// wrapped are the words of a text in lines of at most so many characters.
func wrapped(text string, most int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > most {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func quoted(values []string, between string) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = `"` + v + `"`
	}
	return strings.Join(all, between)
}
