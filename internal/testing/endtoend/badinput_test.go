package endtoend_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// refusal is a request that must be refused: what is sent, and what must come back.
type refusal struct {
	name    string
	request request
	status  int
	code    fault.Code
}

// wantRefusals sends every wrong request and checks the answers. Nothing may come of any of them.
func (w *world) wantRefusals(cases []refusal) {
	w.t.Helper()
	before := w.footprint()
	for _, c := range cases {
		a := w.send(c.request)
		if a.err != nil {
			w.t.Errorf("%s: no answer: %v", c.name, a.err)
			continue
		}
		wantProblem(w.t, c.name, a, c.status, c.code)
		for _, flaw := range flaws(a) {
			w.t.Errorf("%s: %s: %s", c.name, flaw, clipped(a.body))
		}
	}
	w.wantFootprint("the refused requests left a trace", before)
}

func clipped(b []byte) string {
	if len(b) > 400 {
		return string(b[:400]) + "…"
	}
	return string(b)
}

// flaws are what keeps an answer from being the problem document that is documented.
func flaws(a answer) []string {
	var found []string
	flaw := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if a.status >= 500 {
		flaw("a failure of ours")
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		flaw("content type %q", got)
	}
	if !strings.Contains(a.header.Get("Cache-Control"), "no-store") {
		flaw("may be cached: %q", a.header.Get("Cache-Control"))
	}
	p := a.problem
	kind, known := fault.Lookup(fault.Code(p.Code))
	switch {
	case !known:
		flaw("the code %q is not in the catalogue", p.Code)
	case p.Retryable == nil || p.SafeToPayAgain == nil:
		flaw("retryable or safeToPayAgain is missing")
	case *p.Retryable != kind.Retryable || *p.SafeToPayAgain != kind.SafeToPayAgain ||
		p.NextAction != string(kind.NextAction) || p.Title != kind.Title:
		flaw("not as the catalogue has it")
	}
	if p.Status != a.status || p.Type != "/problems/"+p.Code || p.Detail == "" {
		flaw("status, type or detail is wrong")
	}
	if p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		flaw("the request id is %q in the body and %q in the header", p.RequestID, a.header.Get("X-Request-Id"))
	}
	if challenge := a.header.Get(x402.HeaderRequired); (a.status == http.StatusPaymentRequired) != (challenge != "") {
		flaw("PAYMENT-REQUIRED with status %d: %q", a.status, challenge)
	}
	if a.header.Get(x402.HeaderResponse) != "" {
		flaw("PAYMENT-RESPONSE though nothing was claimed")
	}
	if a.status == http.StatusUnauthorized && a.header.Get("Www-Authenticate") == "" {
		flaw("401 without WWW-Authenticate")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(a.body, &members) != nil {
		return append(found, "not an object")
	}
	documented := []string{"type", "title", "status", "detail", "code", "retryable", "safeToPayAgain", "nextAction",
		"requestId", "orderId", "fields"}
	for name := range members {
		if !slices.Contains(documented, name) {
			flaw("the member %q is not documented", name)
		}
	}
	return found
}

func TestMalformedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	good := header(t, b.payment())
	var cases []refusal
	add := func(name, body string, status int, code fault.Code) {
		// Unpaid and paid: a payment must not help a wrong body along.
		cases = append(cases, refusal{name, post(purchasePath, body), status, code},
			refusal{name + ", paid",
				post(purchasePath, body).with(map[string]string{x402.HeaderSignature: good}), status, code})
	}
	long := strings.Repeat("k", 201)
	for name, body := range map[string]string{
		"no member":          `{}`,
		"empty key":          `{"idempotencyKey":""}`,
		"key of 201":         `{"idempotencyKey":"` + long + `"}`,
		"key null":           `{"idempotencyKey":null}`,
		"key number":         `{"idempotencyKey":5}`,
		"key list":           `{"idempotencyKey":["a"]}`,
		"key object":         `{"idempotencyKey":{}}`,
		"key bool":           `{"idempotencyKey":true}`,
		"snake case":         `{"idempotency_key":"a"}`,
		"both cases":         `{"idempotencyKey":"a","idempotency_key":"a"}`,
		"wrong case":         `{"IdempotencyKey":"a"}`,
		"homoglyph":          `{"idempotencyKеy":"a"}`,
		"additional":         `{"idempotencyKey":"a","amountUsdCents":2500}`,
		"additional null":    `{"idempotencyKey":"a","extra":null}`,
		"duplicate":          `{"idempotencyKey":"a","idempotencyKey":"b"}`,
		"duplicate, escaped": `{"idempotencyKey":"a","idempotency\u004bey":"b"}`,
		"prototype":          `{"idempotencyKey":"a","__proto__":{}}`,
		"array":              `[{"idempotencyKey":"a"}]`,
		"string":             `"idempotencyKey"`,
		"number":             `7`,
		"null":               `null`,
		"blank":              ` `,
		"cut off":            `{"idempotencyKey":"a"`,
		"trailing comma":     `{"idempotencyKey":"a",}`,
		"trailing document":  `{"idempotencyKey":"a"}{}`,
		"trailing text":      `{"idempotencyKey":"a"} x`,
		"comment":            `{"idempotencyKey":"a"}//x`,
		"single quotes":      `{'idempotencyKey':'a'}`,
		"NaN":                `{"idempotencyKey":NaN}`,
		"byte order mark":    "\xef\xbb\xbf" + `{"idempotencyKey":"a"}`,
		"UTF-16":             "\xff\xfe{\x00}\x00",
		"not UTF-8":          "{\"idempotencyKey\":\"\xff\"}",
		"overlong":           "{\"idempotencyKey\":\"\xc0\x80\"}",
		"lone surrogate":     `{"idempotencyKey":"\ud800"}`,
		"NUL":                `{"idempotencyKey":"\u0000"}`,
		"raw control":        "{\"idempotencyKey\":\"a\nb\"}",
		"deep":               strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500),
		"deep lists":         strings.Repeat("[", 2000) + strings.Repeat("]", 2000),
	} {
		add(name, body, 400, fault.SchemaInvalid)
	}
	add("4097 bytes", `{"idempotencyKey":"a"`+strings.Repeat(" ", 4097-22)+`}`+" ", 413, fault.BodyTooLarge)
	add("1 MB", strings.Repeat(" ", 1<<20), 413, fault.BodyTooLarge)
	for name, contentType := range map[string]string{
		"form": "application/x-www-form-urlencoded", "text": "text/plain", "multipart": "multipart/form-data; boundary=x",
		"charset": "application/json; charset=utf-16", "protobuf": "application/proto", "parameter": "application/json; x=y",
		"nothing": "",
	} {
		cases = append(cases, refusal{"content type " + name, post(purchasePath, purchaseBody("a")).with(map[string]string{"Content-Type": contentType, x402.HeaderSignature: good}), 415,
			fault.MediaTypeUnsupported})
	}
	cases = append(cases,
		refusal{"gzip",
			post(purchasePath, purchaseBody("a")).with(map[string]string{"Content-Encoding": "gzip"}), 415,
			fault.MediaTypeUnsupported},
		refusal{"key in the query", post(purchasePath+"?idempotencyKey=a", purchaseBody("a")), 400,
			fault.SchemaInvalid},
		refusal{"unknown query", post(purchasePath+"?debug=1", purchaseBody("a")), 400, fault.SchemaInvalid},
		refusal{"broken query", post(purchasePath+"?%zz", purchaseBody("a")), 400, fault.SchemaInvalid},
		refusal{"paid, without a body", post(purchasePath, "").with(map[string]string{x402.HeaderSignature: good}), 400,
			fault.SchemaInvalid},
	)
	w.wantRefusals(cases)
}
