package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/money/decimal"
)

// The values of an answer in the forms that vendors give them: documentation and answers differ in whether a number is
// in quotes, in how a time says its zone, and in the case of a word. What is null keeps its zero value.

// Text is a JSON string, number or boolean, as text.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(raw []byte) error {
	text, given, err := scalar(raw)
	if given {
		*t = Text(text)
	}
	return err
}

// Units reads a whole number that is not negative and at most so large, in any spelling: 75, 75.0 and 7.5e1 are one.
func (t Text) Units(most int64) (n int64, ok bool) {
	n, ok = whole(string(t))
	return n, ok && n >= 0 && n <= most
}

// Upper and Lower are a word in one case and without space around it: of a state, a currency, a country.
type (
	Upper string
	Lower string
)

// UnmarshalJSON implements json.Unmarshaler.
func (w *Upper) UnmarshalJSON(raw []byte) error {
	text, given, err := scalar(raw)
	if given {
		*w = Upper(strings.ToUpper(strings.TrimSpace(text)))
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Lower) UnmarshalJSON(raw []byte) error {
	text, given, err := scalar(raw)
	if given {
		*w = Lower(strings.ToLower(strings.TrimSpace(text)))
	}
	return err
}

// Int is a whole number of 64 bits, in any spelling, in quotes or not. A part of one is Undocumented.
type Int int64

// UnmarshalJSON implements json.Unmarshaler.
func (i *Int) UnmarshalJSON(raw []byte) error {
	text, given, err := scalar(raw)
	if err != nil || !given {
		return err
	}
	n, ok := whole(text)
	if !ok {
		return Undocumented
	}
	*i = Int(n)
	return nil
}

// Flag is true or false, in quotes or not, or 1 or 0.
type Flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *Flag) UnmarshalJSON(raw []byte) error {
	text, given, err := scalar(raw)
	if err != nil || !given {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "1":
		*f = true
	case "false", "0":
		*f = false
	default:
		return Undocumented
	}
	return nil
}

// Time is a point in time in UTC. What cannot be read is no time, and zero: whoever needs it has to check.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(raw []byte) error {
	text, given, err := scalar(raw)
	if err != nil || !given {
		return err
	}
	t.Time, _ = ParseTime(text)
	return nil
}

// forms are those of ISO 8601, with the zone's colon and without it, and without a zone, which is UTC. A fraction of a
// second may follow the seconds of each.
var forms = []string{
	time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02T15:04:05-07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04-0700", "2006-01-02T15:04-07", "2006-01-02T15:04", time.DateOnly,
}

// ParseTime reads a time of ISO 8601, with T or a space between its halves, or one in seconds or milliseconds since
// 1970. One of the year 1 is how some vendors write that there is none.
func ParseTime(text string) (time.Time, bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	const seconds, millis, date = 10, 13, len(time.DateOnly)
	if strings.Trim(text, "0123456789") == "" && (len(text) == seconds || len(text) == millis) {
		n, err := strconv.ParseInt(text, 10, 64)
		if len(text) == millis {
			return time.UnixMilli(n).UTC(), err == nil
		}
		return time.Unix(n, 0).UTC(), err == nil
	}
	if len(text) > date && text[date] == ' ' {
		text = text[:date] + "T" + text[date+1:]
	}
	for _, zone := range []string{"UTC", "GMT"} {
		if rest, named := strings.CutSuffix(text, zone); named {
			text = rest + "Z"
		}
	}
	text = strings.ReplaceAll(text, " ", "")
	for _, form := range forms {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC(), at.Year() > 1
		}
	}
	return time.Time{}, false
}

// scalar is the text of a JSON string, number or boolean; given is false for null.
func scalar(raw []byte) (text string, given bool, err error) {
	switch {
	case string(raw) == "null":
		return "", false, nil
	case raw[0] == '"':
		err = json.Unmarshal(raw, &text)
		return text, err == nil, err
	case raw[0] == '{' || raw[0] == '[':
		return "", false, Undocumented
	}
	return string(raw), true, nil
}

// whole reads a number in any spelling of JSON's, and with what texts have in addition: a plus, and zeros before it.
func whole(text string) (int64, bool) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "+")
	sign, digits := "", text
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, digits = "-", rest
	}
	for len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		digits = digits[1:]
	}
	plain, err := decimal.Whole(sign + digits)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(plain, 10, 64)
	return n, err == nil
}
