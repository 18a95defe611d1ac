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

// refusals are the cases of a table.
type refusals []refusal

func (c *refusals) add(name string, r request, status int, code fault.Code) {
	*c = append(*c, refusal{name, r, status, code})
}

// wantRefusals sends every request and checks the answers. None of them may change anything.
func (w *world) wantRefusals(cases refusals) {
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
	w.wantFootprint("the refused requests changed something", before)
}

func clipped(b []byte) string {
	if len(b) > 400 {
		return string(b[:400]) + "…"
	}
	return string(b)
}

// flaws are the differences between an answer and the documented problem document.
func flaws(a answer) []string {
	var found []string
	flaw := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if a.status >= 500 {
		flaw("status %d is a server error", a.status)
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
		flaw("it differs from the catalogue")
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
		flaw("PAYMENT-RESPONSE without a claim")
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

// malformedBodies violate the schema of a purchase.
var malformedBodies = map[string]string{
	"no member":          `{}`,
	"empty key":          `{"idempotencyKey":""}`,
	"key of 201":         `{"idempotencyKey":"` + strings.Repeat("k", 201) + `"}`,
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
}

// otherContentTypes are not application/json.
var otherContentTypes = map[string]string{
	"form":      "application/x-www-form-urlencoded",
	"text":      "text/plain",
	"multipart": "multipart/form-data; boundary=x",
	"charset":   "application/json; charset=utf-16",
	"protobuf":  "application/proto",
	"parameter": "application/json; x=y",
	"nothing":   "",
}

func TestMalformedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	good := header(t, w.buyer().payment())
	body := purchaseBody("a")
	var cases refusals
	// A payment must not make a malformed body acceptable.
	addUnpaidAndPaid := func(name, body string, status int, code fault.Code) {
		cases.add(name, post(purchasePath, body), status, code)
		cases.add(name+", paid", post(purchasePath, body).paying(good), status, code)
	}
	for name, body := range malformedBodies {
		addUnpaidAndPaid(name, body, 400, fault.SchemaInvalid)
	}
	addUnpaidAndPaid("4097 bytes", `{"idempotencyKey":"a"`+strings.Repeat(" ", 4097-22)+`}`+" ", 413, fault.BodyTooLarge)
	addUnpaidAndPaid("1 MB", strings.Repeat(" ", 1<<20), 413, fault.BodyTooLarge)
	for name, contentType := range otherContentTypes {
		r := post(purchasePath, body).paying(good).withHeader("Content-Type", contentType)
		cases.add("content type "+name, r, 415, fault.MediaTypeUnsupported)
	}
	gzipped := post(purchasePath, body).withHeader("Content-Encoding", "gzip")
	cases.add("gzip", gzipped, 415, fault.MediaTypeUnsupported)
	cases.add("key in the query", post(purchasePath+"?idempotencyKey=a", body), 400, fault.SchemaInvalid)
	cases.add("unknown query", post(purchasePath+"?debug=1", body), 400, fault.SchemaInvalid)
	cases.add("broken query", post(purchasePath+"?%zz", body), 400, fault.SchemaInvalid)
	cases.add("paid, without a body", post(purchasePath, "").paying(good), 400, fault.SchemaInvalid)
	w.wantRefusals(cases)
}
