package rest

import "testing"

func TestMemberOfAnAnswerIsFoundAsItIsWritten(t *testing.T) {
	for _, c := range []struct {
		object, name, want string
		found              bool
	}{
		{`{"order":{"id":"a"}}`, "order", `{"id":"a"}`, true},
		{`{"a":1,"order":[1,{"order":2}],"b":3}`, "order", `[1,{"order":2}]`, true},
		{`{"a":{"order":1},"order":2}`, "order", `2`, true},
		{`{"a":"\",\"order\":1}","order":"x\\"}`, "order", `"x\\"`, true},
		{`{"a":["}","]"],"order":null}`, "order", `null`, true},
		{`{"a":true,"order":""}`, "order", `""`, true},
		{`{"a":1}`, "order", "", false},
		{`{}`, "order", "", false},
		{``, "order", "", false},
		{`{`, "order", "", false},
		{`[1]`, "order", "", false},
		{`{"order":}`, "order", "", false},
		{`{"order"}`, "order", "", false},
		{`{order:1}`, "order", "", false},
		{`{"order`, "order", "", false},
		{`{:}`, "order", "", false},
		{`{,,}`, "order", "", false},
	} {
		got, found := memberOf([]byte(c.object), c.name)
		if string(got) != c.want || found != c.found {
			t.Errorf("%s of %s: %q, %t", c.name, c.object, got, found)
		}
	}
}
