package agent

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestLocalServerAnswersByTheCallersID or refuses the request: no two ids have one answer.
func TestLocalServerAnswersByTheCallersID(t *testing.T) {
	t.Parallel()
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, Stdio(in, out)) }()
	t.Cleanup(func() {
		stop()
		_ = ask.Close()
		_ = answers.Close()
		<-ended
	})
	decoder := json.NewDecoder(answers)
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(ask, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		ID     json.RawMessage
		Result json.RawMessage
		Error  *struct{ Code int }
	}
	next := func() (a answer) {
		t.Helper()
		if err := decoder.Decode(&a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"c","version":"1"}}}`)
	var begun struct{ ProtocolVersion string }
	if a := next(); json.Unmarshal(a.Result, &begun) != nil || begun.ProtocolVersion != "2025-11-25" {
		t.Fatalf("initialize: %s %s", a.ID, a.Result)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for id, served := range map[string]bool{
		"0": true, "7": true, "-7": true, "999999999999999": true, `"a"`: true, `"ü"`: true, `"<b>"`: true, `""`: true,
		"9007199254740993": false, "-9007199254740993": false, "9223372036854775807": false, "9223372036854775808": false,
		"1.5": false, "1.0": false, "1e3": false, "-0": false, `"\ud800"`: false,
	} {
		say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		if a := next(); string(a.ID) != id || (a.Error == nil) != served || (a.Error != nil && a.Error.Code != -32600) {
			t.Errorf("%s: %s %s %+v", id, a.ID, a.Result, a.Error)
		}
	}
	say(`{"jsonrpc":"2.0","id":true,"method":"ping"}`)
	if a := next(); string(a.ID) != "null" || a.Error == nil || a.Error.Code != -32600 {
		t.Errorf("an id of another kind: %s %+v", a.ID, a.Error)
	}
	// The protocol has each message on a line of its own. What is none ends nothing.
	for _, c := range []struct {
		line string
		code int
	}{
		{"oops", -32700}, {`{"jsonrpc":"2.0",`, -32700}, {`"id":8,"method":"ping"}`, -32700}, {"5", -32600}, {"{}", -32600},
		{`{"JSONRPC":"2.0","ID":8,"Method":"ping"}`, -32600}, {`{"jsonrpc":"2.0","id":8}`, -32600},
		{`{"jsonrpc":"1.0","id":8,"method":"ping"}`, -32600}, {`{"jsonrpc":"2.0","id":8,"method":7}`, -32600},
	} {
		say(c.line)
		if a := next(); string(a.ID) != "null" || a.Error == nil || a.Error.Code != c.code {
			t.Errorf("%s: %s %+v", c.line, a.ID, a.Error)
		}
	}
	say("")
	say(`  {"jsonrpc":"2.0","id":8,"method":"ping"}  `)
	if a := next(); string(a.ID) != "8" || a.Error != nil {
		t.Errorf("after all that: %s %+v", a.ID, a.Error)
	}
}
