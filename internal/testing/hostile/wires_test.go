package hostile_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// wires are attacks by malformed HTTP.
func wires() []attack {
	return []attack{
		{
			name: "smuggled-requests", ref: "A32", by: stranger, do: smuggles,
			aim:     "a second request inside a first, in the name of whoever shares our proxy's connection",
			defence: "what two readers could read in two ways is refused, and the connection is closed after chunks",
		},
		{
			name: "two-payments-in-one-request", ref: "A30", by: payer, do: paysTwice,
			aim:     "one payment is checked and another one settled",
			defence: "a request has one payment header",
		},
		{
			name: "odd-paths", ref: "A34", by: stranger, do: oddPaths,
			aim:     "a paid or private route under another name, without its checks",
			defence: "one router, exact paths; methods are not overridden",
		},
		{
			name: "another-host", ref: "A33", by: stranger, do: otherHosts,
			aim:     "the challenge names the attacker's origin, where clients then pay",
			defence: "the resource is made from the configured origin, never from the request",
		},
		{
			name: "cached-answers", ref: "A35", by: stranger, do: readsCaches,
			aim:     "a cache hands one buyer's answer to another",
			defence: "everything about payments, orders and cards is no-store",
		},
		{
			name: "foreign-pages", by: stranger, do: crossesOrigins,
			aim:     "a web page uses its visitor's place in the network to operate the service",
			defence: "no cookies; operators' routes answer no other origin",
		},
	}
}

// raw sends bytes and reads what comes until the program closes, or is silent where nobody asks it to close.
func (r *trial) raw(text string) (responses []*http.Response, all string) {
	r.Helper()
	silence := time.Minute
	if !strings.Contains(text, "Connection: close") {
		silence = 1500 * time.Millisecond // clock: an answer that comes later shows nothing, and fails nothing
	}
	c, err := r.dial(r.address())
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	traffic.requests.Add(1)
	traffic.bytes.Add(int64(len(text)))
	_ = c.SetDeadline(time.Now().Add(silence))
	_, _ = io.WriteString(c, text) // it may be refused before its end
	got, _ := io.ReadAll(c)        // ends at the deadline
	reader := bufio.NewReader(bytes.NewReader(got))
	for {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			return responses, string(got)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return responses, string(got)
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		responses = append(responses, res)
	}
}

func smuggles(r *trial) {
	const inner = "GET /api/config HTTP/1.1\r\nHost: roamcard\r\n\r\n"
	const post = "POST /api/events HTTP/1.1\r\nHost: roamcard\r\nContent-Type: application/json\r\n"
	chunks := func(size string) string { return size + "\r\n{}\r\n0\r\n\r\n" }
	for name, text := range map[string]string{
		"length and chunks":        post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks("2") + inner,
		"chunks and length":        post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunks("2") + inner,
		"two lengths":              post + "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" + inner,
		"a list of lengths":        post + "Content-Length: 2, 40\r\n\r\n{}" + inner,
		"a length with a sign":     post + "Content-Length: +2\r\n\r\n{}" + inner,
		"a length in hex":          post + "Content-Length: 0x2\r\n\r\n{}" + inner,
		"a blank before the colon": post + "Content-Length : 2\r\n\r\n{}" + inner,
		"a folded header":          post + "Content-Length: 2\r\nX-A: a\r\n Transfer-Encoding: chunked\r\n\r\n{}",
		"chunks by another name":   post + "Transfer-Encoding: xchunked\r\n\r\n" + chunks("2") + inner,
		"chunks twice": post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunks("2") +
			inner,
		"chunks, a tab":    post + "Transfer-Encoding:\tchunked, identity\r\n\r\n" + chunks("2") + inner,
		"a bare line feed": post + "Transfer-Encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n" + inner,
		"a huge chunk":     post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff0\r\n{}\r\n0\r\n\r\n" + inner,
		"an endless extension": post + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("a", 20<<10) +
			"\r\n{}\r\n0\r\n\r\n" + inner,
		"two hosts":           "GET /api/config HTTP/1.1\r\nHost: roamcard\r\nHost: evil\r\n\r\n",
		"no host":             "GET /api/config HTTP/1.1\r\n\r\n",
		"NUL in a header":     "GET /api/config HTTP/1.1\r\nHost: roamcard\r\nX-A: a\x00b\r\n\r\n",
		"a name with a blank": "GET /api/config HTTP/1.1\r\nHost: roamcard\r\nPayment Signature: x\r\n\r\n",
	} {
		responses, all := r.raw(text)
		if len(responses) > 1 {
			r.Errorf("%s: %d answers to one request: %.300s", name, len(responses), all)
		}
		for _, res := range responses {
			if res.StatusCode < 400 || res.StatusCode >= 500 && res.StatusCode != http.StatusNotImplemented {
				r.Errorf("%s: %s", name, res.Status)
			}
		}
	}
}

func paysTwice(r *trial) {
	before := r.goods()
	p := r.wallet(100)
	offered := p.terms(r, cardPath, keyed("k"))
	one, two := p.pays(r, offered).header(r), p.pays(r, offered).header(r)
	body := `{"idempotencyKey":"k"}`
	const head = "POST /api/card/purchase HTTP/1.1\r\nHost: roamcard\r\nConnection: close\r\nContent-Type: " +
		"application/json\r\n"
	for name, headers := range map[string]string{
		"two":              headerPayment + ": " + one + "\r\n" + headerPayment + ": " + two + "\r\n",
		"the same twice":   headerPayment + ": " + one + "\r\n" + headerPayment + ": " + one + "\r\n",
		"of another case":  headerPayment + ": " + one + "\r\npayment-signature: " + two + "\r\n",
		"joined":           headerPayment + ": " + one + ", " + two + "\r\n",
		"under an old one": "X-PAYMENT: " + two + "\r\n" + headerPayment + ": " + one + "A\r\n",
	} {
		responses, all := r.raw(head + headers + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
		if len(responses) != 1 || responses[0].StatusCode != http.StatusBadRequest {
			r.Errorf("%s: %.300s", name, all)
		}
	}
	r.nothing(before, p)
}

func oddPaths(r *trial) {
	c := r.caller()
	for _, path := range []string{
		"/pay//x", "/pay/", "//api/card/purchase", "/api/card/purchase/", "/API/card/purchase", "/api/card/purchase;x",
		"/api/card/%70urchase/..",
		"/api/../api/card/purchase", "/api/card/purchase%00", "/api/card/purchase%2f", "/./api/card/purchase",
		"/api//card/purchase",
		"/api/admin/../card/purchase", "/api/card/purchase%0d%0aX-A:%20b", "/api/card\\purchase", "/pay/%2e%2e/api/config",
	} {
		responses, all := r.raw("POST " + path +
			" HTTP/1.1\r\nHost: roamcard\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		switch {
		case len(responses) != 1, responses[0].StatusCode >= 500:
			r.Errorf("%s: %.300s", path, all)
		case responses[0].StatusCode == http.StatusPaymentRequired, responses[0].StatusCode == http.StatusOK:
			r.Errorf("%s is a route: %.300s", path, all)
		}
	}
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method"} {
		if a := c.send(r.Context(), http.MethodGet, "/api/cards", nil, header,
			http.MethodDelete); a.status != http.StatusUnauthorized {
			r.Errorf("%s: %d", header, a.status)
		}
	}
	for _, method := range []string{"TRACE", "CONNECT", "PUT", "DELETE", "FOO"} {
		responses, all := r.raw(method + " /api/card/purchase HTTP/1.1\r\nHost: roamcard\r\nConnection: close\r\n\r\n")
		if len(responses) != 1 || responses[0].StatusCode < 400 || responses[0].StatusCode >= 500 {
			r.Errorf("%s: %.200s", method, all)
		}
	}
}

func otherHosts(r *trial) {
	for _, headers := range [][]string{
		{"Host", "evil.example"}, {"X-Forwarded-Host", "evil.example"}, {"X-Forwarded-Proto", "gopher"},
		{"Forwarded", "host=evil.example;proto=https"},
		{"X-Original-URL", "/evil.example"}, {"X-Rewrite-URL", "http://evil.example/"},
		{"X-Forwarded-Prefix", "/evil.example"},
	} {
		c := r.caller()
		for _, path := range []string{cardPath, esimPath} {
			a := c.send(r.Context(), http.MethodPost, path, keyed("k"), headers...)
			all := decoded(r, a.header.Get(headerRequired)) + string(a.body) + fmt.Sprint(a.header)
			if strings.Contains(all, "evil") || strings.Contains(all, "gopher") || !strings.Contains(all, r.base+path) {
				r.Errorf("%v: %.600s", headers, all)
			}
		}
		for _, path := range []string{"/api/openapi.json", "/.well-known/agent.json", "/api/agent", "/llms.txt"} {
			if a := c.send(r.Context(), http.MethodGet, path, nil, headers...); bytes.Contains(a.body, []byte("evil")) {
				r.Errorf("%v on %s: the answer names it", headers, path)
			}
		}
	}
}

func readsCaches(r *trial) {
	p := r.wallet(1000)
	card := p.owns(r)
	var open order
	p.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500}).into(r, &open)
	esim, header := p.buys(r, esimPath)
	check := func(name string, a answer) {
		if a.err != nil || !strings.Contains(a.header.Get("Cache-Control"), "no-store") {
			r.Errorf("%s: %d may be cached: %q %v", name, a.status, a.header.Get("Cache-Control"), a.err)
		}
	}
	for _, path := range []string{"/api/cards", "/api/cards/" + card + "/balance", "/api/orders",
		"/api/orders/" + open.OrderID, "/api/esim/orders/" + esim.OrderID,
		"/api/esim/orders/" + esim.OrderID + "/credentials", "/pay/" + open.OrderID, "/api/x402/pay/" +
			open.OrderID, "/api/auth/session", "/pay/none", "/api/admin/orders"} {
		check(path, p.get(r, path))
	}
	check("the terms", p.send(r.Context(), http.MethodPost, esimPath, keyed("k")))
	check("a refusal", p.send(r.Context(), http.MethodPost, esimPath, "{"))
	check("another's payment", p.send(r.Context(), http.MethodPost, esimPath, keyed("other"), headerPayment, header))
	check("a reveal's challenge", p.post(r, "/api/cards/"+card+"/reveal-challenge", map[string]any{}))
	r.exactly(p, 2)
}

func crossesOrigins(r *trial) {
	c := r.caller()
	for _, path := range []string{"/api/admin/orders", "/api/admin/switches", "/api/admin/card-issue-fee/jobs"} {
		a := c.send(r.Context(), http.MethodOptions, path, nil, "Origin", "https://evil.example",
			"Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization")
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			r.Errorf("%s lets pages of %q in", path, a.header.Get("Access-Control-Allow-Origin"))
		}
	}
	a := c.send(r.Context(), http.MethodGet, "/api/config", nil, "Origin", "https://evil.example", "Cookie", "session=x")
	if a.header.Get("Access-Control-Allow-Credentials") != "" || len(a.header.Values("Set-Cookie")) > 0 {
		r.Errorf("credentials are sent along: %v", a.header)
	}
}
