package mcp

import (
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

const (
	ping  = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	paths = `{"jsonrpc":"2.0","id":"a","method":"prompts/list"}`
)

// TestRefusalsAreJSONRPC sends requests that the SDK would answer in plain text, or with more than we declare.
func TestRefusalsAreJSONRPC(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	for name, c := range map[string]struct {
		call
		status, code int
		id           string
	}{
		"unknown method": {call{body: `{"jsonrpc":"2.0","id":1,"method":"wallet/send"}`}, 200, unknownMethod,
			"1"},
		"prompts": {call{body: paths}, 200, unknownMethod, `"a"`},
		"resources": {call{body: `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`}, 200, unknownMethod,
			"1"},
		"discover, old": {call{body: `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`}, 200, unknownMethod,
			"1"},
		"not JSON":          {call{body: `{"jsonrpc":`}, 400, parseError, "null"},
		"nothing":           {call{body: ``}, 400, parseError, "null"},
		"two values":        {call{body: ping + ping}, 400, parseError, "null"},
		"batch":             {call{body: `[` + ping + `]`}, 400, invalidRequest, "null"},
		"text":              {call{body: `"ping"`}, 400, invalidRequest, "null"},
		"null":              {call{body: `null`}, 400, invalidRequest, "null"},
		"no version":        {call{body: `{"id":1,"method":"ping"}`}, 400, invalidRequest, "1"},
		"version 1":         {call{body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`}, 400, invalidRequest, "1"},
		"no method":         {call{body: `{"jsonrpc":"2.0","id":1}`}, 400, invalidRequest, "1"},
		"method is no text": {call{body: `{"jsonrpc":"2.0","id":1,"method":7}`}, 400, invalidRequest, "1"},
		"response":          {call{body: `{"jsonrpc":"2.0","id":1,"result":{}}`}, 400, invalidRequest, "1"},
		"id is null": {call{body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`}, 400, invalidRequest,
			"null"},
		"a member twice": {call{body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`}, 400, invalidRequest, "null"},
		"an argument twice": {call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_esim_plans",` +
			`"arguments":{"countryCode":"FR","countryCode":"DE"}}}`}, 400, invalidRequest, "1"},
		"an argument of no Unicode": {call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud800"}}`},
			400, invalidRequest, "1"},
		"id is an object": {call{body: `{"jsonrpc":"2.0","id":{},"method":"ping"}`}, 400, invalidRequest, "null"},
		"too large": {call{body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` +
			strings.Repeat("a", rpcx.MaxMessage) + `"}}`}, 413, invalidRequest, "null"},
		"media type": {call{body: ping, header: map[string]string{"Content-Type": "text/plain"}}, 415,
			invalidRequest, "null"},
		"form": {call{body: ping,
			header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, 415, invalidRequest,
			"null"},
		"packed": {call{body: ping, header: map[string]string{"Content-Encoding": "gzip"}}, 415,
			invalidRequest, "null"},
		"unspoken version": {call{body: ping, header: map[string]string{"Mcp-Protocol-Version": "2024-11-05"}}, 400,
			invalidRequest, "7"},
		"foreign host":       {call{body: ping, host: "evil.test"}, 403, invalidRequest, "null"},
		"foreign host, port": {call{body: ping, host: "evil.test:8402"}, 403, invalidRequest, "null"},
		"host below ours":    {call{body: ping, host: "x.api.roamcard.test"}, 403, invalidRequest, "null"},
		"foreign origin": {call{body: ping, header: map[string]string{"Origin": "https://evil.test"}}, 403,
			invalidRequest, "null"},
		"origin with our name": {call{body: ping,
			header: map[string]string{"Origin": "https://api.roamcard.test.evil.test"}}, 403, invalidRequest, "null"},
		"no origin": {call{body: ping, header: map[string]string{"Origin": "null"}}, 403, invalidRequest,
			"null"},
		"stream": {call{method: http.MethodGet, header: map[string]string{"Accept": "text/event-stream"}},
			405, invalidRequest, "null"},
		"descriptor, foreign": {call{method: http.MethodGet, host: "evil.test"}, 403, invalidRequest, "null"},
	} {
		w := c.to(h)
		o := read(t, w)
		if w.Code != c.status || o.Error == nil || o.Error.Code != c.code || string(o.ID) != c.id ||
			o.Error.Message == "" {
			t.Errorf("%s: %d %s, want %d, code %d, id %s", name, w.Code, w.Body, c.status, c.code, c.id)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: the refusal is %s", name, got)
		}
	}
}

func TestFrontServesLenientClients(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	for name, c := range map[string]call{
		"as documented": {body: ping,
			header: map[string]string{"Accept": "application/json, text/event-stream"}},
		"JSON only":       {body: ping, header: map[string]string{"Accept": "application/json"}},
		"no Accept":       {body: ping},
		"no Content-Type": {body: ping, header: map[string]string{"Content-Type": ""}},
		"with a charset": {body: ping,
			header: map[string]string{"Content-Type": "application/json; charset=utf-8"}},
		"our origin":            {body: ping, header: map[string]string{"Origin": base}},
		"a configured origin":   {body: ping, header: map[string]string{"Origin": "https://app.partner.test"}},
		"our host with a port":  {body: ping, host: "api.roamcard.test:443"},
		"our host in capitals":  {body: ping, host: "API.roamcard.TEST"},
		"loopback":              {body: ping, host: "127.0.0.1:8402"},
		"loopback, version 6":   {body: ping, host: "[::1]:8402"},
		"loopback by name":      {body: ping, host: "localhost:8402"},
		"the documented header": {body: ping, header: map[string]string{"Mcp-Protocol-Version": Protocol}},
	} {
		w := c.to(h)
		if o := read(t, w); w.Code != http.StatusOK || o.Error != nil || string(o.ID) != "7" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestAnswersHaveTheCallersID byte for byte, whatever the SDK reads it as.
func TestAnswersHaveTheCallersID(t *testing.T) {
	h := endpoint(t, &fakeAPI{answers: map[string]answer{"/api/config": found(`{"a":"<&>\u2028"}`)}})
	ids := []string{
		"0", "7", "-7", "999999999999999", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
		"9223372036854775807", "9223372036854775808", "18446744073709551616", "1.5", "-0", "-0.0", "1.0", "1e3", "1E+400",
		"0.1e-7", "123456789012345678901234567890.5", `""`, `"a"`, `"a b"`, `"\u0041"`, `"\/"`, `"<b>&"`, `"ü"`, `"\u2028"`,
		`"\ud800"`, `"9007199254740993"`, "\"\u2028\"",
	}
	one := big.NewInt(1)
	for _, bits := range []uint{31, 32, 52, 53, 54, 62, 63, 64} {
		n := new(big.Int).Lsh(one, bits)
		for _, near := range []*big.Int{new(big.Int).Sub(n, one), n, new(big.Int).Add(n, one)} {
			ids = append(ids, near.String(), "-"+near.String())
		}
	}
	for _, id := range ids {
		start := `{"jsonrpc":"2.0","id":` + id + `,"method":`
		newest := map[string]string{headerVersion: modern}
		stream := call{body: start + `"subscriptions/listen"}`, header: newest}
		if carried.MatchString(id) {
			stream.header = nil // it would not end
		}
		for name, c := range map[string]call{
			"a call":         {body: start + `"ping"}`},
			"a tool":         {body: start + `"tools/call","params":{"name":"get_config"}}`},
			"a wrong call":   {body: start + `"tools/call","params":7}`},
			"another method": {body: start + `"wallet/send"}`},
			"the newest":     {body: start + `"resources/list","params":{}}`, header: newest},
			"version 1":      {body: `{"jsonrpc":"1.0","id":` + id + `,"method":"ping"}`},
			"a stream":       stream,
			"no version":     {body: start + `"ping"}`, header: map[string]string{headerVersion: "2"}},
		} {
			w := c.to(h)
			if o := read(t, w); string(o.ID) != id {
				t.Errorf("%s by %s: %d %s", name, id, w.Code, w.Body)
			} else if (name == "a call" || name == "a tool") && (w.Code != http.StatusOK || o.Error != nil) {
				t.Errorf("%s by %s: %d %s", name, id, w.Code, w.Body)
			}
		}
	}
}

func TestEveryVersionIsServed(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	for _, version := range append(Protocols(), "") {
		if version == modern {
			continue // it has no ping
		}
		w := call{body: ping, header: map[string]string{headerVersion: version}}.to(h)
		if o := read(t, w); w.Code != http.StatusOK || o.Error != nil {
			t.Errorf("%s: %d %s", version, w.Code, w.Body)
		}
	}
	if !slices.Contains(Protocols(), "2025-11-25") {
		t.Error("2025-11-25 is not served")
	}
}

// TestEncodedBodyIsToldItsEncoding: a packed body is of the right type.
func TestEncodedBodyIsToldItsEncoding(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	w := call{body: ping, header: map[string]string{"Content-Encoding": "gzip"}}.to(h)
	if o := read(t, w); w.Header().Get("Accept-Encoding") != "identity" || !strings.Contains(o.Error.Message,
		"Content-Encoding") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	w = call{body: ping, header: map[string]string{"Content-Encoding": "identity"}}.to(h)
	if o := read(t, w); o.Error != nil {
		t.Errorf("identity: %s", w.Body)
	}
}

func TestNotificationsAreAccepted(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	for _, method := range []string{"notifications/initialized", "notifications/cancelled", "notifications/made/up"} {
		w := call{body: `{"jsonrpc":"2.0","method":"` + method + `"}`}.to(h)
		if w.Code != http.StatusAccepted || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}

func TestDescriptorIsServedToEveryOrigin(t *testing.T) {
	h := endpoint(t, &fakeAPI{})
	for name, c := range map[string]call{
		"plain": {method: http.MethodGet},
		"browser": {method: http.MethodGet, header: map[string]string{"Accept": "text/html, */*",
			"Origin": "https://elsewhere.test"}},
	} {
		w := c.to(h)
		if w.Code != http.StatusOK || w.Body.String() != `{"name":"card"}` ||
			w.Header().Get("Access-Control-Allow-Origin") != "*" ||
			w.Header().Get("Cache-Control") != "public, max-age=300" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
	if w := (call{method: http.MethodDelete}).to(h); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", w.Code)
	}
}

// FuzzPost sends any body: the answer is JSON-RPC or empty, and never a 5xx.
func FuzzPost(f *testing.F) {
	for _, seed := range []string{ping, paths, `[]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_config","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":-0.5e3,"method":"initialize","params":{"protocolVersion":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"!"}}`,
		`{"jsonrpc":"2.0","ID":1,"id":1,"Method":"ping","method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_payable_url",` +
			`"arguments":{"orderId":"../api/config?x#y"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_esim_plans",` +
			`"arguments":{"countryCode":"FR","type":"region"}}}`} {
		f.Add(seed, "")
		f.Add(seed, modern)
	}
	h := endpoint(f, &fakeAPI{answers: map[string]answer{"/api/config": found(`{}`)}})
	f.Fuzz(func(t *testing.T, body, version string) {
		w := call{body: body, header: map[string]string{"Mcp-Protocol-Version": version}}.to(h)
		if w.Code >= 500 {
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		if w.Code != http.StatusAccepted {
			read(t, w)
		}
	})
}
