package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep the members of a header may nest. Real headers reach five.
const maxDepth = 16

// parseJSON reads one JSON object into maps, slices, strings, json.Number, bool and nil. It is stricter than
// encoding/json, because two readers that take the same bytes differently are how one payment is
// checked and another one settled: no duplicate member, no text that is not Unicode, no deep nesting,
// nothing after the object.
func parseJSON(data []byte) (map[string]any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the JSON is not valid UTF-8")
	}
	// The decoder reads token by token below and is not asked to find every slip of grammar there.
	if !json.Valid(data) {
		return nil, errors.New("the content is not one JSON value")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readValue(d, 1)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is content after the JSON object")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the JSON is not an object")
	}
	return object, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the JSON nests deeper than %d", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, errors.New("the JSON ends early")
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return readObject(d, depth)
		}
		return readArray(d, depth)
	case string:
		return t, checkText(t)
	default:
		return t, nil
	}
}

func readObject(d *json.Decoder, depth int) (map[string]any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, errors.New("the JSON ends early")
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("a JSON member has no name")
		}
		if err := checkText(name); err != nil {
			return nil, err
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("the member %q occurs twice", clip(name))
		}
		if object[name], err = readValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func readArray(d *json.Decoder, depth int) ([]any, error) {
	array := []any{}
	for d.More() {
		v, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := d.Token()
	return array, err
}

// checkText refuses NUL, which no column of text holds, and the replacement character, which is what
// the decoder makes of a lone surrogate.
func checkText(s string) error {
	if strings.ContainsRune(s, utf8.RuneError) || strings.ContainsRune(s, 0) {
		return errors.New("a JSON text is not valid Unicode")
	}
	return nil
}

// object is a JSON object with the path that leads to it. The first wrong member stays in err, and
// every later read answers zero.
type object struct {
	path    string
	members map[string]any
	err     *error
}

func (o object) fail(name, want string) {
	if *o.err == nil {
		*o.err = fmt.Errorf("%s%s must be %s", o.path, name, want)
	}
}

func (o object) has(name string) bool { return o.members[name] != nil }

// text is a required string.
func (o object) text(name string) string {
	s, ok := o.members[name].(string)
	if !ok {
		o.fail(name, "a string")
	}
	return s
}

// optionalText is a string or absent.
func (o object) optionalText(name string) string {
	if !o.has(name) {
		return ""
	}
	return o.text(name)
}

// number is a required number, as it was written.
func (o object) number(name string) json.Number {
	n, ok := o.members[name].(json.Number)
	if !ok {
		o.fail(name, "a number")
	}
	return n
}

// object is a required member object.
func (o object) object(name string) object {
	m, ok := o.members[name].(map[string]any)
	if !ok {
		o.fail(name, "an object")
	}
	return object{path: o.path + name + ".", members: m, err: o.err}
}

// optionalObject is an object, null or absent.
func (o object) optionalObject(name string) object {
	if !o.has(name) {
		return object{path: o.path + name + ".", err: o.err}
	}
	return o.object(name)
}

// only refuses any member that is not named.
func (o object) only(names ...string) {
	for name := range o.members {
		if !slices.Contains(names, name) && *o.err == nil {
			*o.err = fmt.Errorf("%s%s is not a known member", o.path, clip(name))
		}
	}
}

// clip keeps a stranger's text short in an error.
func clip(s string) string {
	if len(s) > 32 {
		return strings.ToValidUTF8(s[:32], "") + "…"
	}
	return s
}
