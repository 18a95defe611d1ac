// Package wiretest writes a vendor's answers in other words that mean the same.
package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// ReadsAlike wants an answer to be read alike in all forms of Respelled.
func ReadsAlike(t *testing.T, answer string, words []string, read func(body []byte) (any, error)) {
	t.Helper()
	var want any
	Respelled(t, answer, words, func(t *testing.T, body []byte) {
		t.Helper()
		got, err := read(body)
		if want == nil {
			if want = got; got == nil {
				t.Fatalf("not read as it is: %v", err)
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read as %+v, %v; want %+v", got, err, want)
		}
	})
}

// Respelled calls check with an answer as it is, and then with each of its values in each other form that vendors give
// such a value, one at a time: numbers and booleans in quotes, whole numbers with a fraction of zero or an exponent,
// times with another zone or none. The words are the members whose case means nothing.
func Respelled(t *testing.T, answer string, words []string, check func(t *testing.T, body []byte)) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(answer))
	decoder.UseNumber()
	var whole any
	if err := decoder.Decode(&whole); err != nil {
		t.Fatal(err)
	}
	encode := func(form string) []byte {
		body, err := json.Marshal(whole)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		return body
	}
	check(t, encode("as it is"))
	forms := 0
	var each func(at, member string, value any, set func(any))
	each = func(at, member string, value any, set func(any)) {
		switch v := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				each(at+"."+name, name, v[name], func(other any) { v[name] = other })
			}
			return
		case []any:
			for i := range v {
				each(fmt.Sprintf("%s[%d]", at, i), member, v[i], func(other any) { v[i] = other })
			}
			return
		}
		for _, other := range others(value, slices.Contains(words, member)) {
			set(other)
			body := encode(at)
			forms++
			t.Run(fmt.Sprintf("%s as %s", at, text(other)), func(t *testing.T) { check(t, body) })
			set(value)
		}
	}
	each("", "", whole, func(any) {})
	if forms == 0 {
		t.Error("the answer has no value that has another form")
	}
}

func text(value any) string {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(value) // it was encoded before
	return strings.TrimSpace(b.String())
}

func others(value any, word bool) []any {
	switch v := value.(type) {
	case bool:
		return []any{fmt.Sprint(v)}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return []any{v.String(), json.Number(v.String() + "0"), json.Number(v.String() + "e0")}
		}
		shifted := v.String() + "00e-2"
		if v.String() == "0" {
			shifted = "0e-2"
		}
		return []any{
			v.String(), v.String() + ".0", json.Number(v.String() + ".0"), json.Number(v.String() + "e0"),
			json.Number(shifted),
		}
	case string:
		if word {
			return []any{strings.ToUpper(v), strings.ToLower(v), " " + v}
		}
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return times(at)
		}
	}
	return nil
}

func times(at time.Time) (all []any) {
	east, utc := time.FixedZone("", 2*60*60), at.UTC()
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05-07"} {
		all = append(all, utc.Format(form), at.In(east).Format(form))
	}
	return append(all, utc.Format("2006-01-02T15:04:05"), utc.Format("2006-01-02 15:04:05"),
		utc.Format("2006-01-02T15:04:05.000"), utc.Format("2006-01-02 15:04:05 UTC"), json.Number(fmt.Sprint(at.Unix())),
		fmt.Sprint(at.UnixMilli()))
}
