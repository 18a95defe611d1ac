package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// printable drops escape sequences, control characters, and characters that are invisible or change the text's
// direction.
type printable struct{ to io.Writer }

// Write implements io.Writer.
func (p printable) Write(text []byte) (int, error) {
	clean := bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && obeyed(r) {
			return -1
		}
		return r
	}, escapes.ReplaceAll(text, nil))
	if _, err := p.to.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escapes are the sequences of terminals: CSI, strings such as OSC, and the short ones. What is left of half a sequence
// has lost its first character, and is text.
var escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ " +
	"-/]*[@-~]|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\x07\x1b\u009c]*(?:\x07|\x1b\\\\|\u009c)|\x1b[ " +
	"-/]*[0-Z\\\\^-~]")

// obeyed reports whether a terminal acts on a character instead of showing it.
func obeyed(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d' // which some scripts need
	return unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || r == utf8.RuneError ||
		unicode.Is(unicode.Cf, r) && r != nonJoiner && r != joiner
}

// line is a text on one line, so that it cannot look like a line of this program.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case obeyed(r):
			return -1
		}
		return r
	}, escapes.ReplaceAllString(text, ""))
}

// tidy makes every text of a message one line.
func tidy(m proto.Message) { tidyMessage(m.ProtoReflect()) }

func tidyMessage(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, each protoreflect.Value) bool {
				v.Map().Set(k, tidied(f.MapValue(), each))
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, tidied(f, v.List().Get(i)))
			}
		default:
			m.Set(f, tidied(f, v))
		}
		return true
	})
}

// tidied is a value of a field, an element of one's list, or a value of one's map.
func tidied(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(line(v.String()))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		tidyMessage(v.Message())
	}
	return v
}

// escaped writes such characters as JSON escapes: the document stays the same. Such characters are only in strings.
func escaped(document []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(document) {
		switch {
		case r == '\n' || r == utf8.RuneError || !obeyed(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
