package rpcx

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money/decimal"
)

// plainInteger has no fraction, no exponent, no plus, no leading zero, and is not -0. Integers in quotes are such.
var plainInteger = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// ValueFromText is the value of a field, or of one of its elements, that the text of a path variable or query parameter
// has, by the same rules as a body; ok is false when it has none, and problem says why.
func ValueFromText(
	field protoreflect.FieldDescriptor, path, text string,
) (value protoreflect.Value, problem fault.Field, ok bool) {
	value, rule, message := valueOf(field, text)
	if rule != "" {
		return value, fault.Field{Path: Clip(path, maxPath), Rule: rule, Message: message}, false
	}
	return value, fault.Field{}, true
}

// valueOf is the value of a text, or the rule that it breaks.
func valueOf(field protoreflect.FieldDescriptor, text string) (value protoreflect.Value, rule, message string) {
	kind := field.Kind()
	switch kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return value, "json.type", "Cannot be given in the URL."
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return value, "json.utf8", "Must be valid UTF-8 without NUL."
		}
		rule, message = textProblem(field, text)
	default:
		// What is no token of JSON is no value of a body either.
		if text, rule, message = tokenValue(kind, text); rule == "" && !json.Valid([]byte(text)) {
			rule, message = "json.type", expectation(kind)
		}
	}
	if rule != "" {
		return value, rule, message
	}
	// All of these have been read before.
	switch kind {
	case protoreflect.StringKind:
		value = protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		data, _ := decodedBase64(text)
		value = protoreflect.ValueOfBytes(data)
	case protoreflect.EnumKind:
		value = protoreflect.ValueOfEnum(field.Enum().Values().ByName(protoreflect.Name(text)).Number())
	case protoreflect.BoolKind:
		value = protoreflect.ValueOfBool(text == "true")
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, _ := strconv.ParseInt(text, 10, 32)
		value = protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, _ := strconv.ParseInt(text, 10, 64)
		value = protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, _ := strconv.ParseUint(text, 10, 32)
		value = protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		n, _ := strconv.ParseUint(text, 10, 64)
		value = protoreflect.ValueOfUint64(n)
	case protoreflect.FloatKind:
		x, _ := strconv.ParseFloat(text, 32)
		value = protoreflect.ValueOfFloat32(float32(x))
	case protoreflect.DoubleKind:
		x, _ := strconv.ParseFloat(text, 64)
		value = protoreflect.ValueOfFloat64(x)
	}
	return value, "", ""
}

// textProblem says why a JSON string is no value of a field; empty when it is one.
func textProblem(field protoreflect.FieldDescriptor, text string) (rule, message string) {
	switch kind := field.Kind(); kind {
	case protoreflect.StringKind:
		return "", ""
	case protoreflect.EnumKind:
		if field.Enum().Values().ByName(protoreflect.Name(text)) == nil {
			return "json.enum", "Is none of the documented values."
		}
		return "", ""
	case protoreflect.BytesKind:
		if !isBase64(text) {
			return "json.type", expectation(kind)
		}
		return "", ""
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		// ProtoJSON writes 64-bit integers in quotes because JavaScript's numbers cannot hold them,
		// and so does every generated client.
		if !plainInteger.MatchString(text) {
			return "json.integer", expectation(kind)
		}
		_, rule, message = tokenValue(kind, text)
		return rule, message
	default:
		return "json.type", expectation(kind)
	}
}

// tokenValue is a JSON number, true or false as a value of a field of the kind, an integer in its plain spelling; the
// rule and the message say why it is none, and are empty when it is one.
func tokenValue(kind protoreflect.Kind, token string) (value, rule, message string) {
	switch kind {
	case protoreflect.BoolKind:
		if token != "true" && token != "false" {
			return token, "json.type", expectation(kind)
		}
		return token, "", ""
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return integer(kind, token, func(s string) error { _, err := strconv.ParseInt(s, 10, 32); return err })
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return integer(kind, token, func(s string) error { _, err := strconv.ParseInt(s, 10, 64); return err })
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return integer(kind, token, func(s string) error { _, err := strconv.ParseUint(s, 10, 32); return err })
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return integer(kind, token, func(s string) error { _, err := strconv.ParseUint(s, 10, 64); return err })
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		bits := 64
		if kind == protoreflect.FloatKind {
			bits = 32
		}
		if token == "true" || token == "false" {
			return token, "json.type", expectation(kind)
		}
		if _, err := strconv.ParseFloat(token, bits); err != nil {
			return token, "json.range", "Is outside the range of the member."
		}
		return token, "", ""
	default:
		return token, "json.type", expectation(kind)
	}
}

// integer reads an exact integer in any spelling. What is rounded anywhere else is refused here.
func integer(kind protoreflect.Kind, token string, parse func(string) error) (value, rule, message string) {
	plain, err := decimal.Whole(token)
	switch {
	case errors.Is(err, decimal.ErrLarge) || (err == nil && parse(plain) != nil):
		return token, "json.range", "Is outside the range of the member."
	case err != nil:
		return token, "json.integer", expectation(kind)
	}
	return plain, "", ""
}

func expectation(kind protoreflect.Kind) string {
	switch kind {
	case protoreflect.StringKind:
		return "Must be a string."
	case protoreflect.BytesKind:
		return "Must be a base64 string."
	case protoreflect.EnumKind:
		return "Must be one of the documented values, by name."
	case protoreflect.BoolKind:
		return "Must be true or false."
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "Must be a number."
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return "Must be an object."
	default:
		return "Must be an integer, without quotes; 2500.0 and 2.5e3 are one, 2500.5 is none."
	}
}

func isBase64(text string) bool {
	_, ok := decodedBase64(text)
	return ok
}

// decodedBase64 reads what protojson reads: either alphabet, padded or not.
func decodedBase64(text string) (data []byte, ok bool) {
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	if len(text)%4 == 0 {
		text = strings.TrimRight(text, "=")
	}
	data, err := encoding.DecodeString(text)
	return data, err == nil && !strings.ContainsAny(text, "\r\n")
}

// Clip bounds what an answer repeats of a caller's own text.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	// It may be cut in the middle of a character.
	return strings.ToValidUTF8(text[:most], "") + "…"
}
