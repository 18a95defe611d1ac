package mcp

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/gen"
)

const base = "https://api.roamcard.test"

// TestToolsAreListed compares the table with the twelve tools of the contract, and the listed tools with the
// table.
func TestToolsAreListed(t *testing.T) {
	twelve := map[string]string{
		"get_agent_contract": "/api/agent", "get_wallet_requirements": "/api/agent", "get_config": "/api/config",
		"get_card_contract": "/api/card/discovery", "get_topup_contract": "/api/card/topup/discovery",
		"get_esim_contract": "/api/esim/discovery", "list_esim_plans": "/api/esim/plans",
		"get_readiness": "/ready", "get_esim_readiness": "/api/esim/ready", "get_install_command": "/api/agent",
		"get_openapi": "/api/openapi.json", "get_payable_url": "/pay/{orderId}",
	}
	got := map[string]string{}
	for _, e := range table {
		got[e.name] = e.path
	}
	if diff := cmp.Diff(twelve, got); diff != "" {
		t.Errorf("the table is not the contract's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(twelve)), listed(t)); diff != "" {
		t.Errorf("the tools listed are not the contract's (-want +got):\n%s", diff)
	}
}

// TestUndocumentedRouteIsErrorAtStart removes each route from the document: without it, the endpoint is not made.
func TestUndocumentedRouteIsErrorAtStart(t *testing.T) {
	for _, e := range table {
		var document map[string]any
		if err := json.Unmarshal(gen.OpenAPI, &document); err != nil {
			t.Fatal(err)
		}
		delete(document["paths"].(map[string]any), e.path)
		without, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Handlers(Config{API: &fakeAPI{}, OpenAPI: without, BaseURL: base, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "tool "+e.name+": ") {
			t.Errorf("without %s: %v", e.path, err)
		}
	}
}

// listed are the names of the tools that clients see.
func listed(t *testing.T) []string {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	o := read(t, call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}.to(endpoint(t, &fakeAPI{})))
	if err := json.Unmarshal(o.Result, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func TestToolsAreDescribed(t *testing.T) {
	var list struct {
		Tools []struct {
			Name, Title, Description string
			InputSchema              jsonschema.Schema
			OutputSchema             jsonschema.Schema
			Annotations              map[string]any
		}
	}
	o := read(t, call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}.to(endpoint(t, &fakeAPI{})))
	if err := json.Unmarshal(o.Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		hints := map[string]any{"title": tool.Title, "readOnlyHint": true, "idempotentHint": true,
			"destructiveHint": false, "openWorldHint": false}
		if diff := cmp.Diff(hints, tool.Annotations); diff != "" {
			t.Errorf("%s: %s", tool.Name, diff)
		}
		if tool.Title == "" || len(tool.Description) < 40 {
			t.Errorf("%s is not described", tool.Name)
		}
		for which, schema := range map[string]*jsonschema.Schema{"input": &tool.InputSchema,
			"output": &tool.OutputSchema} {
			if _, err := schema.Resolve(nil); err != nil || schema.Type != "object" {
				t.Errorf("%s: its %s schema does not stand alone: %v", tool.Name, which, err)
			}
		}
	}
}

func TestToolAnswersLikeItsRoute(t *testing.T) {
	api := &fakeAPI{answers: map[string]answer{
		"/api/config": found("{\n \"baseUrl\": \"x\"\n}"),
		"/api/agent":  found(`{"wallet":{"contractVersion":1},"install":{"command":"npm"}}`),
		"/ready": {status: 503, mediaType: "application/problem+json",
			body: `{"code":"not_ready","detail":"Failing: issuer."}`},
		"/api/card/discovery":       {status: 500, mediaType: "text/plain", body: "a stack trace"},
		"/api/card/topup/discovery": found("panic"),
	}}
	h := endpoint(t, api)
	for name, want := range map[string]struct {
		failed     bool
		text       string
		structured string
	}{
		"get_config":              {false, `{"baseUrl":"x"}`, `{"baseUrl":"x"}`},
		"get_wallet_requirements": {false, `{"contractVersion":1}`, `{"contractVersion":1}`},
		"get_install_command":     {false, `{"command":"npm"}`, `{"command":"npm"}`},
		"get_readiness":           {true, `{"code":"not_ready","detail":"Failing: issuer."}`, ""},
		"get_card_contract":       {true, "The route answered 500.", ""},
		"get_topup_contract":      {true, "Something went wrong on our side.", ""},
	} {
		w := call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name +
			`","arguments":{}}}`}.to(h)
		got := result(t, w)
		if got.IsError != want.failed || len(got.Content) != 1 || got.Content[0].Text != want.text ||
			string(got.StructuredContent) != want.structured {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

type toolResult struct {
	IsError           bool
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
}

func result(t *testing.T, w *httptest.ResponseRecorder) toolResult {
	t.Helper()
	var got toolResult
	if err := json.Unmarshal(read(t, w).Result, &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return got
}

func TestArgumentsAreThoseOfTheRoute(t *testing.T) {
	h := endpoint(t, &fakeAPI{answers: map[string]answer{"/api/config": found(`{}`)}})
	for _, arguments := range []string{`{"token":"x"}`, `[]`, `"text"`, `{"orderId":{}}`} {
		w := call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_config","arguments":` +
			arguments + `}}`}.to(h)
		var got toolResult
		o := read(t, w)
		if o.Error != nil {
			continue // not even the protocol's form
		}
		if err := json.Unmarshal(o.Result, &got); err != nil || !got.IsError {
			t.Errorf("%s was taken: %s", arguments, w.Body)
		}
	}
	for _, arguments := range []string{``, `,"arguments":{}`, `,"arguments":null`} {
		w := call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_config"` + arguments +
			`}}`}.to(h)
		if result(t, w).IsError {
			t.Errorf("%q was refused: %s", arguments, w.Body)
		}
	}
}

// TestArgumentsFillPathAndQuery binds a tool to a route with parameters.
func TestArgumentsFillPathAndQuery(t *testing.T) {
	document := []byte(`{"paths":{"/things/{id}":{"get":{"parameters":[
		{"name":"id","in":"path","required":true,"description":"Which.","schema":{"type":"string"}},
		{"$ref":"#/components/parameters/Kind"},{"name":"X-Secret","in":"header","schema":{"type":"string"}}],
		"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}}}}}},
		"components":{"parameters":{"Kind":{"name":"kind","in":"query","schema":{"type":"string"}}},
		"schemas":{"Thing":{"type":"object","properties":{"part":{"$ref":"#/components/schemas/Thing"}}}}}}`)
	described, err := readOpenAPI(document)
	if err != nil {
		t.Fatal(err)
	}
	api := &fakeAPI{answers: map[string]answer{"/things/a/../b c": found(`{}`)}}
	tool, err := newTool(Config{API: api, BaseURL: base}, described, entry{name: "get_thing", path: "/things/{id}"})
	if err != nil {
		t.Fatal(err)
	}
	input, _ := json.Marshal(tool.described.InputSchema)
	if diff := cmp.Diff(`{"additionalProperties":false,"properties":{"id":{"description":"Which.","type":"string"},`+
		`"kind":{"type":"string"}},"required":["id"],"type":"object"}`, string(input)); diff != "" {
		t.Error(diff)
	}
	output, _ := json.Marshal(tool.described.OutputSchema)
	if diff := cmp.Diff(`{"$defs":{"Thing":{"properties":{"part":{"$ref":"#/$defs/Thing"}},"type":"object"}},`+
		`"properties":{"part":{"$ref":"#/$defs/Thing"}},"type":"object"}`, string(output)); diff != "" {
		t.Error(diff)
	}
	args, err := tool.read(json.RawMessage(`{"id":"a/../b c","kind":"x&y=z"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.call(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	if got := api.asked[0].URL.String(); got != base+"/things/a%2F..%2Fb%20c?kind=x%26y%3Dz" {
		t.Errorf("asked for %s", got)
	}
	for _, wrong := range []string{`{}`, `{"id":""}`, `{"id":1}`, `{"id":null}`, `{"id":"a","X-Secret":"s"}`} {
		if _, err := tool.read(json.RawMessage(wrong)); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

// TestPayableURLShowsNoTerms asks about orders in every state that the route distinguishes.
func TestPayableURLShowsNoTerms(t *testing.T) {
	document := []byte(`{"paths":{"/pay/{orderId}":{"get":{"parameters":[{"name":"orderId","in":"path",` +
		`"required":true,"schema":{"type":"string"}}]}}}}`)
	described, err := readOpenAPI(document)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(table, func(e entry) bool { return e.name == "get_payable_url" })
	secret := "25000000 0xpayee card_topup"
	for status, want := range map[int]string{
		402: `{"orderId":"ord_1","payable_url":"` + base + `/pay/ord_1"}`,
		200: "The order is not open for payment.",
		404: `{"code":"order_not_found"}`,
	} {
		a := answer{status: status, mediaType: "application/json", body: secret,
			header: http.Header{"Payment-Required": {secret}}}
		if status == 404 {
			a.mediaType, a.body = "application/problem+json", `{"code":"order_not_found"}`
		}
		tool, err := newTool(Config{API: &fakeAPI{answers: map[string]answer{"/pay/ord_1": a}}, BaseURL: base},
			described, table[at])
		if err != nil {
			t.Fatal(err)
		}
		got, err := tool.serve(t.Context(),
			&sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Arguments: json.RawMessage(`{"orderId":"ord_1"}`)}})
		if err != nil {
			t.Fatal(err)
		}
		text := got.Content[0].(*sdk.TextContent).Text
		if text != want || got.IsError != (status != 402) || strings.Contains(text, "25000000") {
			t.Errorf("%d: %s", status, text)
		}
	}
}

func TestToolOfUnknownRouteIsErrorAtStart(t *testing.T) {
	api, err := readOpenAPI(gen.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []entry{
		{name: "a", path: "/nowhere"}, {name: "b", path: "/api/card/purchase"},
		{name: "c", path: "/api/agent", member: "nothing"},
		{name: "d", path: "/llms.txt"},
	} {
		if _, err := newTool(Config{}, api, wrong); err == nil {
			t.Errorf("%s was bound", wrong.path)
		}
	}
}

// TestToolCallsHaveNoHeadersOfCaller proves that a tool's call is anonymous: no session or payment reaches the API.
func TestToolCallsHaveNoHeadersOfCaller(t *testing.T) {
	api := &fakeAPI{answers: map[string]answer{"/api/config": found(`{}`)}}
	call{
		body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_config",` +
			`"_meta":{"x402/payment":{"a":1}}}}`,
		header: map[string]string{
			"Authorization": "Bearer stolen", "Payment-Signature": "e30=", "X-Esim-Delivery-Token": "t",
			"Idempotency-Key": "k",
			"Cookie":          "a=b", "Sign-In-With-X": "e30=", "X-Forwarded-For": "10.0.0.1",
		},
	}.to(endpoint(t, api))
	if len(api.asked) != 1 {
		t.Fatalf("%d calls", len(api.asked))
	}
	r := api.asked[0]
	if len(r.Header) != 0 || r.Method != http.MethodGet || r.ContentLength != 0 {
		t.Errorf("%s with %v went to the API", r.Method, r.Header)
	}
}

func TestVersionsAreNegotiated(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	for asked, want := range map[string]string{
		"2024-11-05": "2025-11-25", "2025-03-26": "2025-03-26", "2025-06-18": Protocol, "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2099-01-01": "2025-11-25",
	} {
		w := call{
			body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + asked +
				`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			header: map[string]string{"Mcp-Protocol-Version": asked},
		}.to(h)
		var got struct {
			ProtocolVersion string
			Capabilities    map[string]any
			ServerInfo      struct{ Name, Version string }
		}
		if err := json.Unmarshal(read(t, w).Result, &got); err != nil {
			t.Fatalf("%s: %s", asked, w.Body)
		}
		if got.ProtocolVersion != want || got.ServerInfo.Version != "0.3.1" || len(got.Capabilities) != 1 ||
			got.Capabilities["tools"] == nil {
			t.Errorf("%s: %+v", asked, got)
		}
	}
	if !slices.Contains(Protocols(), Protocol) {
		t.Error("the documented version is not spoken")
	}
}
