package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/roamcard/roamcard/tools/options"
)

// fixed.json holds what does not depend on the protos.
//
//go:embed fixed.json
var fixed []byte

// object is a JSON object; encoding/json sorts its members, so the document is always the same.
type object = map[string]any

// document is the OpenAPI description, and what it takes to write it. JSON shows the exported part.
type document struct {
	OpenAPI string          `json:"openapi"`
	Info    json.RawMessage `json:"info"`
	Servers json.RawMessage `json:"servers"`
	Tags    []object        `json:"tags"`
	// Paths are operations by path and verb; Components are definitions by kind and name.
	Paths      map[string]object `json:"paths"`
	Components map[string]object `json:"components"`

	types    *dynamicpb.Types
	problems catalogue
	// shared are the components to be had from fixed.json; only those referred to are shown.
	shared map[string]map[string]json.RawMessage
	// uses says what each schema name stands for.
	uses map[string]string
	// operations are the operation ids taken.
	operations map[string]bool
	// answers are the problem codes in use, by HTTP status.
	answers map[int]map[string]bool
}

// describe makes the document of the services in the named files.
func describe(protos []*descriptorpb.FileDescriptorProto, named []string, problems catalogue) ([]byte, error) {
	files, types, err := options.Readable(&descriptorpb.FileDescriptorSet{File: protos})
	if err != nil {
		return nil, fmt.Errorf("link protos: %w", err)
	}
	d := &document{
		OpenAPI: "3.1.0", Paths: map[string]object{}, Components: map[string]object{},
		types: types, problems: problems,
		uses: map[string]string{}, operations: map[string]bool{}, answers: map[int]map[string]bool{},
	}
	if err := d.start(); err != nil {
		return nil, fmt.Errorf("read fixed.json: %w", err)
	}
	for _, name := range slices.Sorted(slices.Values(named)) {
		file, err := files.FindFileByPath(name)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		for s := range each[protoreflect.ServiceDescriptor](file.Services()) {
			if err := d.service(s); err != nil {
				return nil, err
			}
		}
	}
	if err := d.documents(); err != nil {
		return nil, fmt.Errorf("read documents.json: %w", err)
	}
	problem, err := files.FindDescriptorByName("roamcard.v1.Problem")
	if err != nil {
		return nil, fmt.Errorf("find the problem message: %w", err)
	}
	if err := d.problemResponses(problem.(protoreflect.MessageDescriptor)); err != nil {
		return nil, err
	}
	return encode(d)
}

func (d *document) start() error {
	var base struct {
		Info, Servers json.RawMessage
		Components    map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(fixed, &base); err != nil {
		return err
	}
	d.Info, d.Servers, d.shared = base.Info, base.Servers, base.Components
	return nil
}

func (d *document) service(s protoreflect.ServiceDescriptor) error {
	tag := strings.TrimSuffix(string(s.Name()), "Service")
	before := len(d.operations)
	for m := range each[protoreflect.MethodDescriptor](s.Methods()) {
		if err := d.method(m, tag); err != nil {
			return fmt.Errorf("%s: %w", m.FullName(), err)
		}
	}
	if len(d.operations) > before {
		d.Tags = append(d.Tags, object{"name": tag, "description": comment(s)})
	}
	return nil
}

// put places an operation on its path.
func (d *document) put(r route, operation object) error {
	verb := "get"
	switch {
	case r.Post != "":
		verb = "post"
	case r.Put != "":
		verb = "put"
	}
	if d.Paths[r.template] == nil {
		d.Paths[r.template] = object{}
	}
	if d.Paths[r.template][verb] != nil || d.operations[r.id] {
		return fmt.Errorf("%s %s or the operation id %s is taken", verb, r.template, r.id)
	}
	d.Paths[r.template][verb] = operation
	d.operations[r.id] = true
	return nil
}

func (d *document) add(kind, name string, component any) {
	if d.Components[kind] == nil {
		d.Components[kind] = object{}
	}
	d.Components[kind][name] = component
}

// share refers to a component of fixed.json.
func (d *document) share(kind, name string) object {
	d.add(kind, name, d.shared[kind][name])
	return object{"$ref": "#/components/" + kind + "/" + name}
}

// encode writes JSON for people too: indented, with <, > and & as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return b.Bytes(), err
}

// each ranges over a list of descriptors.
func each[D any](list interface {
	Len() int
	Get(int) D
}) iter.Seq[D] {
	return func(yield func(D) bool) {
		for i := 0; i < list.Len() && yield(list.Get(i)); i++ {
		}
	}
}

// comment is the comment before a descriptor, with one line for each paragraph.
func comment(d protoreflect.Descriptor) string {
	var paragraphs []string
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		paragraphs = append(paragraphs, strings.Join(strings.Fields(paragraph), " "))
	}
	return strings.Join(paragraphs, "\n\n")
}
