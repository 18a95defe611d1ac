package activity_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/fault"
)

// submission is one line of the corpus.
type submission struct {
	Case string
	// Value is what the search alone must find; empty where only a type refuses.
	Value string
	Event struct {
		EventID, EventName, VisitorID, Path string
		Properties                          map[string]any
	}
}

func corpus(t testing.TB, file string) []submission {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []submission
	for line := range bytes.Lines(raw) {
		var s submission
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

func TestErrorCodesAreThoseOfProblems(t *testing.T) {
	for code, want := range map[string]bool{
		"terms_changed": true, "http_502": true, "http_200": false, "bogus": false, "terms_changed_": false, "": false,
	} {
		_, err := activity.Check(activity.Submission{
			EventID: uuid.NewString(), EventName: "error_shown", VisitorID: uuid.NewString(),
			Properties: map[string]any{"errorCode": code},
		})
		if (err == nil) != want {
			t.Errorf("%q: %v", code, err)
		}
	}
}

func TestCheckRefusesForbiddenValuesInEveryMemberAndEncoding(t *testing.T) {
	cases := corpus(t, "forbidden.jsonl")
	if len(cases) < 300 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		_, err := activity.Check(activity.Submission(c.Event))
		f, ok := fault.As(err)
		if !ok || f.Code != fault.EventRejected {
			t.Errorf("%s: %q accepted: %v", c.Case, c.Value, err)
			continue
		}
		shown, _ := json.Marshal(f) // strings always marshal
		if c.Value != "" && strings.Contains(string(shown), c.Value) {
			t.Errorf("%s: the refusal repeats it: %s", c.Case, shown)
		}
	}
}

// The second check works by itself, although the first one hides it.
func TestForbiddenFindsEveryValueWithoutTheTypes(t *testing.T) {
	for _, c := range corpus(t, "forbidden.jsonl") {
		if c.Value != "" && !activity.Forbidden(c.Value) {
			t.Errorf("%s: %q goes through the net", c.Case, c.Value)
		}
	}
}

func TestCheckAcceptsHarmlessEvents(t *testing.T) {
	cases := corpus(t, "benign.jsonl")
	if len(cases) < 200 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		if _, err := activity.Check(activity.Submission(c.Event)); err != nil {
			t.Errorf("%+v: %v", c.Event, err)
		}
	}
}

func TestAcceptKeepsNoIdentifier(t *testing.T) {
	const order, card, visitor = "ord_0199a3f7c1d20f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
		"0190f3a2-7c1d-4e5b-9a0c-3f2b1c0d9e8f", "7b1d2c3e-4f50-4a61-8b72-9c83ad94be05"
	e, err := activity.Check(activity.Submission{
		EventID: card, EventName: "page_view", VisitorID: visitor, Path: "/orders/" + order + "/cards/" + card + "/reveal",
	})
	if err != nil || e.Path != "/orders/{id}/cards/{id}/reveal" || e.ID == uuid.MustParse(card) {
		t.Fatalf("%+v, %v", e, err)
	}
	other, err := activity.Check(activity.Submission{
		EventID: strings.ToUpper(card), EventName: "page_view", VisitorID: strings.ToUpper(visitor),
	})
	if err != nil || other.ID != e.ID || other.Visitor != e.Visitor ||
		bytes.Contains(e.Visitor[:], []byte{0x7b, 0x1d, 0x2c, 0x3e}) {
		t.Errorf("visitor %x, then %x (%v)", e.Visitor, other.Visitor, err)
	}
}

// FuzzCheck looks for a text that gets into an event although the search finds something in it, and for one that breaks
// the check.
func FuzzCheck(f *testing.F) {
	for _, file := range []string{"forbidden.jsonl", "benign.jsonl"} {
		for i, c := range corpus(f, file) {
			if i%8 == 0 {
				f.Add(c.Event.EventName, c.Event.Path, "step", c.Value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name, path, property, value string) {
		e, err := activity.Check(activity.Submission{
			EventID: "0190f3a2-7c1d-4e5b-9a0c-3f2b1c0d9e8f", EventName: name, VisitorID: "7b1d2c3e-4f50-4a61-8b72-9c83ad94be05",
			Path: path, Properties: map[string]any{property: value},
		})
		if err != nil {
			if fault.Of(err) != fault.EventRejected {
				t.Fatalf("%v", err)
			}
			return
		}
		if activity.Forbidden(e.Path) || activity.Forbidden(e.Properties[property]) || len(e.Path) > 250 || len(value) > 64 {
			t.Fatalf("%+v was made of %q %q", e, path, value)
		}
	})
}
