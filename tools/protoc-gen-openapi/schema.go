package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// side is the way a message travels; it decides which members are always there.
type side string

const (
	// asked: members are required when the rules refuse their absence, and no others are allowed.
	asked side = "request"
	// answered: the server writes zero values, so what has no presence is always there. Later
	// versions may add members.
	answered side = "response"
)

// fieldSet names fields of one message.
type fieldSet map[protoreflect.Name]bool

// message refers to the schema of a message, which it adds to the components. Fields in `leftOut`
// travel elsewhere.
func (d *document) message(m protoreflect.MessageDescriptor, s side, leftOut fieldSet) (object, error) {
	switch m.FullName() {
	case "google.protobuf.Timestamp":
		return object{"type": "string", "format": "date-time"}, nil
	case "google.protobuf.Value":
		// This API has them for amounts alone. Generators of clients know no list of types.
		return object{"oneOf": []object{{"type": "number"}, {"type": "string"}}}, nil
	case "google.protobuf.Struct":
		return object{"type": "object", "additionalProperties": true}, nil
	}
	if m.ParentFile().Package() == "google.protobuf" {
		return nil, fmt.Errorf("%s has no translation", m.FullName())
	}
	name := schemaName(m)
	use := fmt.Sprint(m.FullName(), " in a ", s, " without ", leftOut)
	if d.uses[name] == "" {
		d.uses[name] = use // before its fields, for a message may contain itself
		if err := d.addSchema(name, m, s, leftOut); err != nil {
			return nil, err
		}
	}
	if d.uses[name] != use {
		return nil, fmt.Errorf("one name for two schemas: %s, and %s", d.uses[name], use)
	}
	return object{"$ref": "#/components/schemas/" + name}, nil
}

// schemaName is the name of a message. Generators of clients call by an operation's name and "Response" what holds its
// whole answer, and so that ending is left to them.
func schemaName(m protoreflect.MessageDescriptor) string {
	name := string(m.Name())
	if bare, is := strings.CutSuffix(name, "Response"); is {
		return bare + "Result"
	}
	return name
}

func (d *document) addSchema(name string, m protoreflect.MessageDescriptor, s side, leftOut fieldSet) error {
	properties, required := object{}, []string{}
	for f := range each[protoreflect.FieldDescriptor](m.Fields()) {
		if leftOut[f.Name()] {
			continue
		}
		property, always, err := d.field(f, s)
		if err != nil {
			return err
		}
		properties[f.JSONName()] = property
		if always {
			required = append(required, f.JSONName())
		}
	}
	schema := object{"type": "object", "properties": properties}
	if text := comment(m); text != "" {
		schema["description"] = text
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	if s == asked {
		schema["additionalProperties"] = false
	}
	d.add("schemas", name, schema)
	return nil
}

// field is the schema of a field, and whether it is always there.
func (d *document) field(f protoreflect.FieldDescriptor, s side) (schema object, always bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", f.FullName(), err)
		}
	}()
	r := rules{}
	if err := d.option(f, "buf.validate.field", &r); err != nil {
		return nil, false, err
	}
	switch {
	case f.IsMap():
		err = errors.New("maps have no translation")
	case f.IsList():
		schema, err = d.list(f, s, r)
	default:
		schema, err = d.value(f, s, r)
	}
	if err != nil {
		return nil, false, err
	}
	always = r.refusesAbsence(f, schema) || s == answered && !f.HasPresence()
	if text := comment(f); text != "" {
		schema["description"] = text
	}
	if options, ok := f.Options().(*descriptorpb.FieldOptions); ok && options.GetDebugRedact() {
		schema["x-sensitive"] = true
	}
	return schema, always, nil
}

func (d *document) list(f protoreflect.FieldDescriptor, s side, r rules) (object, error) {
	if err := r.check("repeated"); err != nil {
		return nil, err
	}
	list := r.of("repeated")
	items, err := d.value(f, s, list.of("items"))
	if err != nil {
		return nil, err
	}
	delete(list, "items")
	schema := object{"type": "array", "items": items}
	return schema, list.addTo(schema)
}

// value is the schema of one value of a field.
func (d *document) value(f protoreflect.FieldDescriptor, s side, r rules) (object, error) {
	kind := f.Kind().String()
	if err := r.check(kind); err != nil {
		return nil, err
	}
	schema := object{}
	switch f.Kind() {
	case protoreflect.MessageKind:
		return d.message(f.Message(), s, nil)
	case protoreflect.StringKind:
		schema["type"] = "string"
	case protoreflect.BoolKind:
		schema["type"] = "boolean"
	case protoreflect.DoubleKind:
		schema["type"] = "number"
	case protoreflect.Int32Kind:
		schema["type"], schema["minimum"], schema["maximum"] = "integer", math.MinInt32, math.MaxInt32
	case protoreflect.Uint32Kind:
		schema["type"], schema["minimum"], schema["maximum"] = "integer", 0, math.MaxUint32
	default:
		// 64-bit integers would be JSON strings, and enums upper-case constants.
		return nil, fmt.Errorf("%s has no translation; see uint32, and string with `in`", kind)
	}
	if err := r.of(kind).addTo(schema); err != nil {
		return nil, err
	}
	if s == asked && schema["type"] == "string" && schema["enum"] == nil && schema["format"] == nil &&
		schema["pattern"] == nil {
		schema["pattern"] = noNUL
	}
	return schema, nil
}

// noNUL is what every text of a request must match: no database column holds the character NUL.
const noNUL = `^[^\x00]*$`
