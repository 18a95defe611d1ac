package hostile_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// surfaces are attacks by inputs other than payments.
func surfaces() []attack {
	return []attack{
		{
			name: "requests-forged-by-resource", ref: "A36", by: owner, do: forgesRequests,
			held:    "transport/rpc TestResourceMustBeOnOwnOrigin",
			aim:     "the service fetches an address of its own network",
			defence: "a resource lies on the service's own origin, names what is paid for, and is never fetched",
		},
		{
			name: "events-with-people-in-them", by: stranger, do: reportsPeople,
			held:    "activity TestCheckRefusesForbiddenValuesInEveryMemberAndEncoding",
			aim:     "addresses, card numbers and tokens end up in the statistics and the log",
			defence: "names and properties are allowlisted, all texts are searched, and what is refused is not logged",
		},
		{
			name: "mcp-from-a-page", ref: "10.9", by: stranger, do: misusesMCP,
			aim:     "a web page or a batch reaches tools, or finds ones that hold a wallet's authority",
			defence: "Origin is checked, batches are refused, and no tool pays or shows credentials",
		},
		{
			name: "misleading-request-ids", by: stranger, do: writesTheLog,
			aim:     "lines in our log that we did not write",
			defence: "ids of callers are taken only when they are harmless, and the log escapes what it is given",
		},
		{
			name: "reads-of-what-is-not-public", ref: "API8", by: stranger, do: looksAround,
			aim:     "profiles, variables, files, the providers' control API, versions",
			defence: "no debugging routes on the public port; documents come from the program itself",
		},
		{
			name: "lying-client-addresses", by: stranger, do: liesAboutItself,
			held:    "limit TestAddressOfTrustsConfiguredProxiesOnly",
			aim:     "no rate applies, because each request says that it comes from somewhere else",
			defence: "X-Forwarded-For is trusted from configured proxies only",
		},
		{
			name: "provider-sends-nonsense", by: provider, do: providerLies,
			aim: "memory, money or secrets by answers of a provider that was taken over",
			defence: "answers are bounded, checked against a schema and our reference; what is unclear is asked again, never " +
				"repeated",
		},
		{
			name: "kill-switch-race", by: payer, do: racesTheSwitch,
			held:    "store TestSwitchIsAnsweredOnceNoClaimCanSucceed",
			aim:     "goods after an operator has closed their sale",
			defence: "a claim that comes after the switch has taken effect is refused, and nothing is charged",
		},
	}
}

func forgesRequests(r *trial) {
	var asked atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer trap.Close()
	p := r.wallet(1000)
	p.owns(r)
	host := strings.TrimPrefix(trap.URL, "http://")
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		r.Fatal(err)
	}
	for _, resource := range []string{
		trap.URL, trap.URL + "/x", "http://169.254.169.254/latest/meta-data/", "file:///etc/passwd",
		"gopher://" + host + "/_x", "http://[::ffff:7f00:1]:" + port,
		r.base + "@" + host, "http://" + strings.TrimPrefix(r.base, "http://") + "@" + host, "javascript:alert(1)",
		"//" + host, "http://2130706433:" + port,
		"http://0x7f.1:" + port, r.base + ":" + port, "https://" + host, r.base + "\\@" + host, "http://localhost:" + port,
		"http://" + strings.Repeat("a", 10_000),
	} {
		a := p.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500, "resource": resource})
		if a.status != http.StatusBadRequest {
			r.Errorf("resource %.60q: %d %.300s", resource, a.status, a.body)
		}
	}
	var o order
	p.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500, "resource": r.base + "/report?of=mine"}).into(r, &o)
	p.terms(r, "/pay/"+o.OrderID, nil)
	if asked.Load() != 0 {
		r.Errorf("the service made %d requests", asked.Load())
	}
}

func reportsPeople(r *trial) {
	p := r.wallet(0)
	rows := r.count("events")
	card, digits := "4000 0012 3456 7899", "4242424242424242"
	r.keep("a card in an event", digits)
	for i, text := range []string{
		p.address.Hex(), p.address.Hex()[2:], strings.Repeat("ab", 32), "4242-4242-4242-4242", digits, card,
		"８９０１０００００００００００００００", "192.168.7.9", "::1", "2001:db8::1",
		"Bearer abcdefghijk", "eyJhbGciOiJIUzI1NiJ9.e30.abc", "someone@example.com", "Mozilla/5.0", "LPA:1$smdp.example$X",
		"%34%32%34%32424242424242", "8944500102198304826", "rcs_abcdefgh",
	} {
		for place, body := range map[string]map[string]any{
			"path":       {"eventName": "page_view", "path": "/" + text},
			"name":       {"eventName": text},
			"properties": {"eventName": "page_view", "properties": map[string]any{"note": text}},
			"key":        {"eventName": "page_view", "properties": map[string]any{text: 1}},
			"member":     {"eventName": "page_view", text: 1},
		} {
			body["eventId"], body["visitorId"] = uuid.NewString(), uuid.NewString()
			if a := r.caller().send(r.Context(), "POST", "/api/events", body); a.status != http.StatusBadRequest {
				r.Errorf("text %d as %s: %d %.200s", i, place, a.status, a.body)
			}
		}
	}
	if now := r.count("events"); now != rows {
		r.Errorf("%d events were kept", now-rows)
	}
	for _, program := range r.programs {
		if strings.Contains(program.Log.String(), digits) {
			r.Error("a refused event is in the log")
		}
	}
}

func misusesMCP(r *trial) {
	c := r.caller()
	headers := []string{"Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18"}
	call := func(method string, params any, more ...string) answer {
		return c.send(r.Context(), "POST", "/mcp",
			map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, append(more, headers...)...)
	}
	for _, origin := range []string{"https://evil.example", "null", "file://", r.base + ".evil.example"} {
		if a := call("tools/list", map[string]any{}, "Origin", origin); a.status != http.StatusForbidden {
			r.Errorf("origin %s: %d", origin, a.status)
		}
	}
	batch := `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`
	for name, body := range map[string]string{
		"batch": batch, "empty batch": "[]",
		"big": `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("a", 70<<10) + `"}}`,
		"deep": `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat(
			"}", 2001), "none": "null", "text": `"ping"`,
	} {
		a := c.send(r.Context(), "POST", "/mcp", body, headers...)
		if a.status == http.StatusOK && !strings.Contains(string(a.body), `"error"`) || a.status >= 500 {
			r.Errorf("%s: %d %.200s", name, a.status, a.body)
		}
	}
	if a := c.send(r.Context(), "POST", "/mcp", batch, "Content-Type", "text/plain", "Accept",
		"application/json"); a.status < 400 || a.status >= 500 {
		r.Errorf("as a form: %d", a.status)
	}
	tools := call("tools/list", map[string]any{})
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				Annotations struct{ ReadOnlyHint bool }
			}
		}
	}
	tools.into(r, &list)
	if len(list.Result.Tools) == 0 {
		r.Fatalf("no tools: %.300s", tools.body)
	}
	for _, tool := range list.Result.Tools {
		if !tool.Annotations.ReadOnlyHint {
			r.Errorf("%s is not read-only", tool.Name)
		}
	}
	for _, name := range []string{"purchase_card", "reveal", "../admin", "tools/call", strings.Repeat("a", 1000)} {
		if a := call("tools/call", map[string]any{"name": name, "arguments": map[string]any{}}); !strings.Contains(
			string(a.body), "rror") {
			r.Errorf("tool %.20s: %d %.200s", name, a.status, a.body)
		}
	}
}

func writesTheLog(r *trial) {
	mark := "forged" + strings.ReplaceAll(uuid.NewString(), "-", "")
	for _, id := range []string{
		mark + "\tlevel=ERROR", mark + `" level=ERROR`, mark + "\u2028x", strings.Repeat(mark, 40), "$(" + mark + ")",
		"\x1b[31m" + mark,
	} {
		for _, header := range []string{"X-Request-Id", "User-Agent", "Traceparent", "Idempotency-Key", "Baggage"} {
			a := r.caller().send(r.Context(), "GET", "/api/cards", nil, header, id)
			if strings.Contains(a.header.Get("X-Request-Id"), mark) {
				r.Errorf("%s %.40q is taken", header, id)
			}
		}
	}
	for _, p := range r.programs {
		if strings.Contains(p.Log.String(), mark) {
			r.Errorf("the log has it: %s", mark)
		}
	}
}

func looksAround(r *trial) {
	c := r.caller()
	for _, path := range []string{
		"/debug/pprof/", "/debug/vars", "/metrics", "/.git/config", "/.env", "/control/books", "/control/faults", "/v1/cards",
		"/api/../../etc/passwd", "/docs/../../etc/passwd",
		"/api/admin", "/server-status", "/api/admin/config", "/swagger.json", "/actuator/env",
	} {
		a := c.send(r.Context(), "GET", path, nil)
		if a.status == http.StatusOK || a.status >= 500 {
			r.Errorf("%s: %d %.200s", path, a.status, a.body)
		}
		if a.header.Get("Server") != "" || a.header.Get("X-Powered-By") != "" {
			r.Errorf("%s tells what serves it: %v", path, a.header)
		}
	}
}

func liesAboutItself(r *trial) {
	c, counts := r.caller(), map[int]int{}
	begin := time.Now()
	for n := range 200 {
		address := fmt.Sprintf("203.0.113.%d", n)
		a := c.send(r.Context(), "POST", cardPath, keyed("k"), "X-Forwarded-For", address, "X-Real-Ip", address, "Forwarded",
			"for="+address, "True-Client-Ip", address, "Cf-Connecting-Ip", address)
		counts[a.status]++
	}
	r.limited(counts, 60, 1, time.Since(begin))
}

// providerLies lets both providers misbehave while buyers buy: each ends with one good for one payment.
func providerLies(r *trial) {
	defer r.sandbox("DELETE", "/control/faults", nil, nil)
	defer r.sandbox("DELETE", "/control/esim/faults", nil, nil)
	var buyers []*wallet
	for _, mode := range []string{"huge", "malformed", "truncated", "wrong_owner", "unknown_state", "error_after"} {
		p := r.wallet(100)
		r.sandbox("POST", "/control/faults", map[string]any{"op": "open", "mode": mode, "times": 1}, nil)
		body := keyed(uuid.NewString())
		p.offers(r.Context(), cardPath, body, p.pays(r, p.terms(r, cardPath, body)).header(r))
		buyers = append(buyers, p)
		if !whole && len(buyers) == 3 {
			break
		}
	}
	r.rest()
	for _, p := range buyers {
		r.exactly(p, 1)
	}
}

// racesTheSwitch keeps buying while an operator closes the sale.
func racesTheSwitch(r *trial) {
	set := func(paused bool) {
		r.operate("POST", "/api/admin/switches/esim", uuid.NewString(),
			map[string]any{"paused": paused, "reason": "the suite tries it"}, nil)
	}
	defer func() {
		set(false)
		r.paysFor(esimPath, http.StatusPaymentRequired)
	}()
	p := r.wallet(1000)
	offered := p.terms(r, esimPath, keyed("k"))
	set(true)
	r.paysFor(esimPath, http.StatusServiceUnavailable)
	before := r.goods()
	a := p.offers(r.Context(), esimPath, keyed("late"), p.pays(r, offered).header(r))
	if a.status != http.StatusServiceUnavailable {
		r.Errorf("a payment after the switch: %d %.300s", a.status, a.body)
	}
	r.nothing(before, p)
}

// paysFor waits until a path's terms are answered with a status.
func (r *trial) paysFor(path string, status int) {
	r.Helper()
	c := r.caller()
	r.await(fmt.Sprintf("%s is answered %d", path, status), func() error {
		if a := c.send(r.Context(), "POST", path, keyed("k")); a.status != status {
			return fmt.Errorf("%d %s", a.status, a.code())
		}
		return nil
	})
}
