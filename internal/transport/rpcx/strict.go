package rpcx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/internal/fault"
)

const (
	// maxJSONDepth is how deep objects and arrays may nest.
	maxJSONDepth = 16
	// maxFieldProblems bounds the report on a document made to be all wrong.
	maxFieldProblems = 32
	// maxPath bounds what a report repeats of a caller's own member names.
	maxPath = 120
)

// CheckJSON lists where a JSON document differs from the documented form of a message; the list is empty
// when it does not. It is stricter than protojson, which also takes proto names, numbers in quotes, and null. An
// integer may be written in any way that JSON has: 2500, 2500.0 and 2.5e3 are one number, as JSON Schema has it.
func CheckJSON(data []byte, message protoreflect.MessageDescriptor) []fault.Field {
	_, fields := checkJSON(data, message)
	return fields
}

// checkJSON is CheckJSON, and gives the document with its integers written plainly.
func checkJSON(data []byte, message protoreflect.MessageDescriptor) ([]byte, []fault.Field) {
	if field := unreadable(data); field != nil {
		return nil, []fault.Field{*field}
	}
	g := &gate{data: data}
	g.space()
	g.message(message, "")
	if g.plain == nil || len(g.fields) > 0 {
		return data, g.fields
	}
	return append(g.plain, data[g.kept:]...), nil
}

// unreadable is what is wrong with a document before anything of it is read.
func unreadable(data []byte) *fault.Field {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return &fault.Field{Rule: "json.syntax", Message: "The body must not start with a byte order mark."}
	case !utf8.Valid(data):
		return &fault.Field{Rule: "json.utf8", Message: "The body must be valid UTF-8."}
	case depth(data) > maxJSONDepth:
		return &fault.Field{Rule: "json.depth", Message: fmt.Sprintf("The body nests deeper than %d levels.", maxJSONDepth)}
	case !json.Valid(data):
		return &fault.Field{Rule: "json.syntax", Message: "The body must be one JSON object."}
	}
	return nil
}

// depth is the deepest nesting of the document. It does not recurse, so that it is safe before anything is parsed.
func depth(data []byte) int {
	var now, most int
	inText := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

// gate compares a document, which is valid JSON, with the descriptor that it should match. Every method that
// reads a value leaves pos after that value.
type gate struct {
	data   []byte
	pos    int
	fields []fault.Field
	// plain is the document up to kept with its integers written plainly; nil while it is as it came.
	plain []byte
	kept  int
}

func (g *gate) report(path, rule, message string) {
	if len(g.fields) < maxFieldProblems {
		g.fields = append(g.fields, fault.Field{Path: Clip(path, maxPath), Rule: rule, Message: message})
	}
}

// message reads an object with the members of a message, or the JSON form of a well-known type.
func (g *gate) message(message protoreflect.MessageDescriptor, path string) {
	switch message.FullName() {
	case "google.protobuf.Value":
		g.value(path)
		return
	case "google.protobuf.Struct", "google.protobuf.Any":
		g.shaped('{', path, "Must be an object.")
		return
	case "google.protobuf.ListValue":
		g.shaped('[', path, "Must be an array.")
		return
	case "google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask":
		g.wellKnownText(message, path)
		return
	}
	if message.ParentFile().Path() == "google/protobuf/wrappers.proto" {
		g.single(message.Fields().ByName("value"), path)
		return
	}
	if g.data[g.pos] != '{' {
		g.report(path, "json.type", "Must be an object.")
		g.anything(path)
		return
	}
	g.object(path, func(name, at string) {
		field := message.Fields().ByJSONName(name)
		if field != nil {
			g.field(field, at)
			return
		}
		hint := "There is no such member."
		if proto := message.Fields().ByName(protoreflect.Name(name)); proto != nil {
			hint = fmt.Sprintf("There is no such member; its name is %s.", proto.JSONName())
		}
		g.report(at, "json.unknown", hint)
		g.anything(at)
	})
}

func (g *gate) field(field protoreflect.FieldDescriptor, path string) {
	switch {
	case field.IsMap():
		if g.data[g.pos] != '{' {
			g.shaped('{', path, "Must be an object.")
			return
		}
		g.object(path, func(_, at string) { g.single(field.MapValue(), at) })
	case field.IsList():
		if g.data[g.pos] != '[' {
			g.shaped('[', path, "Must be an array.")
			return
		}
		g.array(path, func(at string) { g.single(field, at) })
	default:
		g.single(field, path)
	}
}

// single reads one value of the field's kind.
func (g *gate) single(field protoreflect.FieldDescriptor, path string) {
	if field.Kind() == protoreflect.MessageKind || field.Kind() == protoreflect.GroupKind {
		if g.data[g.pos] == 'n' && field.Message().FullName() != "google.protobuf.Value" {
			g.null(path)
			return
		}
		g.message(field.Message(), path)
		return
	}
	switch c := g.data[g.pos]; {
	case c == 'n':
		g.null(path)
	case c == '{' || c == '[':
		g.report(path, "json.type", expectation(field.Kind()))
		g.anything(path)
	case c == '"':
		text, ok := g.text(path)
		if !ok {
			return
		}
		if rule, message := textProblem(field, text); rule != "" {
			g.report(path, rule, message)
		}
	default:
		start := g.pos
		token := g.token()
		value, rule, message := tokenValue(field.Kind(), token)
		if rule != "" {
			g.report(path, rule, message)
		}
		if value != token {
			g.plain = append(append(g.plain, g.data[g.kept:start]...), value...)
			g.kept = g.pos
		}
	}
}

func (g *gate) null(path string) {
	g.token()
	g.report(path, "json.null", "Must not be null; leave the member out.")
}

// wellKnownText reads a well-known type that is a string in JSON. protojson decides whether it is valid; asked
// about this value alone, its answer can be reported with a path.
func (g *gate) wellKnownText(message protoreflect.MessageDescriptor, path string) {
	start := g.pos
	g.anything(path)
	raw := g.data[start:g.pos]
	kind, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName())
	if raw[0] != '"' || err != nil || protojson.Unmarshal(raw, kind.New().Interface()) != nil {
		g.report(path, "json.type", fmt.Sprintf("Must be a %s in its JSON form.", message.Name()))
	}
}

// shaped reads a value of free content that must start with the bracket.
func (g *gate) shaped(bracket byte, path, message string) {
	if g.data[g.pos] != bracket {
		g.report(path, "json.type", message)
	}
	g.anything(path)
}

// maxDigits is how many digits of a number a float64 keeps whatever they are.
const maxDigits = 15

// value reads a value of any type for a google.protobuf.Value, which holds numbers as float64: a number that
// would change is refused.
func (g *gate) value(path string) {
	if c := g.data[g.pos]; c != '-' && (c < '0' || c > '9') {
		g.anything(path)
		return
	}
	digits, _, _ := strings.Cut(strings.ToLower(g.token()), "e")
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(digits, "0")
	}
	digits = strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(digits), "0")
	if len(digits) > maxDigits {
		g.report(path, "json.number", fmt.Sprintf("Must have at most %d digits; send it as a string.", maxDigits))
	}
}

// anything reads a value of any type. Its members must still be unique, and its strings valid.
func (g *gate) anything(path string) {
	switch g.data[g.pos] {
	case '{':
		g.object(path, func(_, at string) { g.anything(at) })
	case '[':
		g.array(path, g.anything)
	case '"':
		g.text(path)
	default:
		g.token()
	}
}

func (g *gate) object(path string, member func(name, at string)) {
	seen := map[string]bool{}
	g.pos++
	for g.space(); g.data[g.pos] != '}'; g.space() {
		name, _ := g.text(path)
		at := name
		if path != "" {
			at = path + "." + name
		}
		if seen[name] {
			g.report(at, "json.duplicate", "The member is given more than once.")
		}
		seen[name] = true
		g.space()
		g.pos++ // the colon
		g.space()
		member(name, at)
		g.space()
		if g.data[g.pos] == ',' {
			g.pos++
		}
	}
	g.pos++
}

func (g *gate) array(path string, item func(at string)) {
	g.pos++
	i := 0
	for g.space(); g.data[g.pos] != ']'; g.space() {
		item(path + "[" + strconv.Itoa(i) + "]")
		i++
		g.space()
		if g.data[g.pos] == ',' {
			g.pos++
		}
	}
	g.pos++
}

func (g *gate) space() {
	for g.pos < len(g.data) && strings.IndexByte(" \t\r\n", g.data[g.pos]) >= 0 {
		g.pos++
	}
}

// token reads a number, true, false or null.
func (g *gate) token() string {
	start := g.pos
	for g.pos < len(g.data) && strings.IndexByte(" \t\r\n,]}", g.data[g.pos]) < 0 {
		g.pos++
	}
	return string(g.data[start:g.pos])
}

// text reads a string and unescapes it; false when it has a NUL or half of a surrogate pair.
func (g *gate) text(path string) (string, bool) {
	rest := g.data[g.pos+1:]
	if end := bytes.IndexAny(rest, "\"\\"); rest[end] == '"' { // nothing to unescape
		g.pos += end + 2
		return string(rest[:end]), true
	}
	var b strings.Builder
	sound := true
	for g.pos++; g.data[g.pos] != '"'; g.pos++ {
		if g.data[g.pos] != '\\' {
			b.WriteByte(g.data[g.pos])
			continue
		}
		g.pos++
		if g.data[g.pos] != 'u' {
			b.WriteByte(unescaped[g.data[g.pos]])
			continue
		}
		switch r, whole := g.unicode(); {
		case !whole:
			sound = false
			g.report(path, "json.utf8", "Must not contain half of a surrogate pair.")
		case r == 0:
			sound = false
			g.report(path, "json.utf8", "Must not contain the character NUL.")
		default:
			b.WriteRune(r)
		}
	}
	g.pos++
	return b.String(), sound
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unicode reads the escape whose u is at pos, with the second half of a surrogate pair, and leaves
// pos on the last digit. It is false for half a pair.
func (g *gate) unicode() (rune, bool) {
	r := g.hex(g.pos + 1)
	g.pos += 4
	if !utf16.IsSurrogate(r) {
		return r, true
	}
	if g.pos+6 < len(g.data) && g.data[g.pos+1] == '\\' && g.data[g.pos+2] == 'u' {
		if whole := utf16.DecodeRune(r, g.hex(g.pos+3)); whole != utf8.RuneError {
			g.pos += 6
			return whole, true
		}
	}
	return 0, false
}

func (g *gate) hex(at int) rune {
	// The document is valid JSON: four hex digits are there.
	n, _ := strconv.ParseUint(string(g.data[at:at+4]), 16, 32)
	return rune(n)
}
