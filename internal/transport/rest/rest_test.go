package rest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

var update = flag.Bool("update", false, "write testdata")

const (
	cardUUID = "0191d7a0-0000-7000-8000-000000000001"
	key      = `{"idempotencyKey":"k"}`
)

// TestRoutesAreAsCommitted compares the REST paths with a golden file; buf's breaking check does not see them.
func TestRoutesAreAsCommitted(t *testing.T) {
	var lines []string
	protoregistry.GlobalFiles.RangeFilesByPackage("roamcard.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				bindings, err := bindingsOf(file.Services().Get(i).Methods().Get(j))
				if err != nil {
					t.Error(err)
				}
				for _, b := range bindings {
					lines = append(lines, b.String())
				}
			}
		}
		return true
	})
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile("testdata/routes.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("routes changed; run the test with -update if that is meant (-committed +now):\n%s", diff)
	}
}

func TestSuccessIsCompactJSON(t *testing.T) {
	for _, c := range []struct{ method, target, body, want string }{
		{"POST", "/api/card/purchase", key,
			`{"orderId":"ord_1","operationId":"","kind":"","status":"",` +
				`"payable_url":"https://example.com/pay?a=1&b=2","amountUsdCents":2500}`},
		{"GET", "/api/cards", "", `{"cards":[]}`},
		{"GET", "/api/cards/" + cardUUID + "/balance", "", `{"cardId":"` + cardUUID +
			`","currency":"","availableUsdCents":-5,"asOf":"2026-11-21T03:00:00Z"}`},
		{"POST", "/api/auth/logout", "", `{"revoked":true}`},
		{"POST", "/api/auth/logout", " { } ", `{"revoked":true}`},
	} {
		w := ask(t, newRouter(t, &fakeServices{}), c.method, c.target, c.body)
		if w.Code != 200 || w.Body.String() != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s %s, want %s", c.method, c.target, w.Code, w.Header().Get("Content-Type"), w.Body,
				c.want)
		}
		if got := w.Header()["Cache-Control"]; !slices.Equal(got, []string{rpcx.PrivateNoStore}) {
			t.Errorf("%s %s: Cache-Control %q", c.method, c.target, got)
		}
		if got := w.Header().Get("Payment-Response"); got != "receipt" {
			t.Errorf("%s %s: the handler's header is lost: %q", c.method, c.target, got)
		}
	}
}

func TestPathQueryAndBodyBecomeOneMessage(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		want                 proto.Message
	}{
		{"GET", "/api/orders?status=active&pageSize=7", "",
			&roamcardv1.ListOrdersRequest{Status: proto.String("active"), PageSize: proto.Uint32(7)}},
		{"GET", "/api/orders", "", &roamcardv1.ListOrdersRequest{}},
		{"GET", "/api/orders/a%2Fb%20%22c%22", "", &roamcardv1.GetOrderRequest{OrderId: `a/b "c"`}},
		{"GET", "/api/orders/%2e%2e", "", &roamcardv1.GetOrderRequest{OrderId: ".."}},
		{"POST", "/api/cards/" + cardUUID + "/reveal-challenge", "",
			&roamcardv1.CreateRevealChallengeRequest{Id: cardUUID}},
		{"POST", "/api/cards/" + cardUUID + "/reveal-challenge", "{}",
			&roamcardv1.CreateRevealChallengeRequest{Id: cardUUID}},
		{"POST", "/api/cards/" + cardUUID + "/reveal-challenge", ` {"preferredMessageSchemes":["eip712"]} `,
			&roamcardv1.CreateRevealChallengeRequest{Id: cardUUID, PreferredMessageSchemes: []string{"eip712"}}},
	} {
		d := &fakeServices{}
		if w := ask(t, newRouter(t, d), c.method, c.target, c.body); w.Code != 200 {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
			continue
		}
		if diff := cmp.Diff(c.want, d.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s %s: %s", c.method, c.target, diff)
		}
		if d.resource != c.target {
			t.Errorf("%s %s: resource %s", c.method, c.target, d.resource)
		}
	}
}

// problem is a problem document.
type problem struct {
	Type, Title, Detail, Code, NextAction, RequestID string
	Status                                           int
	Fields                                           []fault.Field
}

func readProblem(t *testing.T, body []byte) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return p
}

func TestBadRequestsAreProblems(t *testing.T) {
	big := `{"idempotencyKey":"` + strings.Repeat("x", 5000) + `"}`
	reveal := "/api/cards/" + cardUUID + "/reveal-challenge"
	for _, c := range []struct {
		name, method, target, body string
		headers                    []string
		status                     int
		code, field                string
	}{
		{"unknown path", "GET", "/api/nope", "", nil, 404, "route_not_found", ""},
		{"trailing slash", "GET", "/api/cards/", "", nil, 404, "route_not_found", ""},
		{"unclean path", "GET", "/api//cards", "", nil, 404, "route_not_found", ""},
		{"unclean unknown path", "GET", "//nope", "", nil, 404, "route_not_found", ""},
		{"dots", "GET", "/api/../api/cards", "", nil, 404, "route_not_found", ""},
		{"other case", "GET", "/API/cards", "", nil, 404, "route_not_found", ""},
		{"procedure", "POST", "/roamcard.v1.CardService/ListCards", "{}", nil, 404, "route_not_found", ""},
		{"other method", "DELETE", "/api/cards", "", nil, 405, "method_not_allowed", ""},
		{"head of a POST", "HEAD", "/api/card/purchase", "", nil, 405, "method_not_allowed", ""},
		{"body too large", "POST", "/api/card/purchase", big, nil, 413, "body_too_large", ""},
		{"default limit", "POST", "/api/auth/challenge", strings.Repeat(" ", 16<<10+1), nil, 413, "body_too_large", ""},
		{"form", "POST", "/api/card/purchase", key, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			"media_type_unsupported", ""},
		{"no type", "POST", "/api/card/purchase", key, []string{"Content-Type", ""}, 415, "media_type_unsupported", ""},
		{"other charset", "POST", "/api/card/purchase", key,
			[]string{"Content-Type", "application/json; charset=latin1"}, 415, "media_type_unsupported", ""},
		{"other parameter", "POST", "/api/card/purchase", key, []string{"Content-Type", "application/json; v=1"}, 415,
			"media_type_unsupported", ""},
		{"gzip", "POST", "/api/card/purchase", key, []string{"Content-Encoding", "gzip"}, 415, "media_type_unsupported",
			""},
		{"not JSON", "POST", "/api/card/purchase", `{`, nil, 400, "schema_invalid", " json.syntax"},
		{"blank", "POST", "/api/card/purchase", ` `, nil, 400, "schema_invalid", " json.syntax"},
		{"unknown member", "POST", "/api/card/purchase", `{"idempotencyKey":"k","nope":1}`, nil, 400, "schema_invalid",
			"nope json.unknown"},
		{"snake case", "POST", "/api/card/purchase", `{"idempotency_key":"k"}`, nil, 400, "schema_invalid",
			"idempotency_key json.unknown"},
		{"duplicate", "POST", "/api/card/purchase", `{"idempotencyKey":"k","idempotency\u004bey":"k"}`, nil, 400,
			"schema_invalid", "idempotencyKey json.duplicate"},
		{"broken rule", "POST", "/api/card/purchase", `{"idempotencyKey":""}`, nil, 400, "schema_invalid",
			"idempotencyKey string.min_len"},
		{"empty object", "POST", "/api/card/purchase", `{}`, nil, 400, "schema_invalid",
			"idempotencyKey string.min_len"},
		{"query next to a body", "POST", "/api/card/purchase?idempotencyKey=k", key, nil, 400, "schema_invalid",
			"idempotencyKey query.unknown"},
		{"body for none", "POST", "/api/auth/logout", `{"a":1}`, nil, 400, "schema_invalid", " body.none"},
		{"array for none", "POST", "/api/auth/logout", `[]`, nil, 400, "schema_invalid", " body.none"},
		{"path value in the body", "POST", reveal, `{"id":"` + cardUUID + `"}`, nil, 400, "schema_invalid",
			"id json.unknown"},
		{"path value in the query", "GET", "/api/orders/o?orderId=o", "", nil, 400, "schema_invalid",
			"orderId query.unknown"},
		{"bad path value", "GET", "/api/cards/7/balance", "", nil, 400, "schema_invalid", "id string.uuid"},
		{"path value not UTF-8", "GET", "/api/orders/%ff", "", nil, 400, "schema_invalid", "orderId json.utf8"},
		{"NUL in a path value", "GET", "/api/orders/a%00", "", nil, 400, "schema_invalid", "orderId json.utf8"},
		{"unknown query", "GET", "/api/orders?nope=1", "", nil, 400, "schema_invalid", "nope query.unknown"},
		{"snake case query", "GET", "/api/orders?page_size=1", "", nil, 400, "schema_invalid",
			"page_size query.unknown"},
		{"query twice", "GET", "/api/orders?status=active&status=active", "", nil, 400, "schema_invalid",
			"status query.duplicate"},
		{"bad query value", "GET", "/api/orders?pageSize=ten", "", nil, 400, "schema_invalid", "pageSize json.integer"},
		{"empty query value", "GET", "/api/orders?pageSize=", "", nil, 400, "schema_invalid", "pageSize json.integer"},
		{"query value breaks a rule", "GET", "/api/orders?status=all", "", nil, 400, "schema_invalid",
			"status string.in"},
		{"unreadable query", "GET", "/api/orders?status=%zz", "", nil, 400, "schema_invalid", " query.syntax"},
		{"not implemented", "POST", "/api/auth/challenge", `{"address":"0xab"}`, nil, 404, "route_not_found", ""},
	} {
		d := &fakeServices{}
		w := ask(t, newRouter(t, d), c.method, c.target, c.body, c.headers...)
		p := readProblem(t, w.Body.Bytes())
		if w.Code != c.status || p.Status != c.status || p.Code != c.code || p.RequestID != "req-1" ||
			p.Type != "/problems/"+c.code {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			continue
		}
		if c.field != "" && (len(p.Fields) == 0 || p.Fields[0].Path+" "+p.Fields[0].Rule != c.field) {
			t.Errorf("%s: fields %v, want %s", c.name, p.Fields, c.field)
		}
		if d.asked != nil {
			t.Errorf("%s: reached the handler", c.name)
		}
		h := w.Header()
		if h.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(h.Get("Cache-Control"), "no-store") || h.Get("Location") != "" {
			t.Errorf("%s: headers %v", c.name, h)
		}
	}
}

func TestContentTypeAcceptsBothSpellingsOfUTF8(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8",
		"application/json;charset=UTF-8", "Application/JSON"} {
		w := ask(t, newRouter(t, &fakeServices{}), "POST", "/api/card/purchase", key, "Content-Type", contentType,
			"Content-Encoding", "identity")
		if w.Code != 200 {
			t.Errorf("%s: %d %s", contentType, w.Code, w.Body)
		}
	}
}

func TestAllowListsMethodsOfPath(t *testing.T) {
	router := newRouter(t, &fakeServices{})
	for _, pattern := range []string{"GET /doc", "POST /doc"} {
		if err := router.Handle(pattern, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ method, target, want string }{
		{"DELETE", "/api/cards", "GET, HEAD, POST"},
		{"OPTIONS", "/api/cards", "GET, HEAD, POST"},
		{"GET", "/api/card/purchase", "POST"},
		{"HEAD", "/api/card/purchase", "POST"},
		{"POST", "/api/orders/x", "GET, HEAD"},
		{"DELETE", "/doc", "GET, HEAD, POST"},
	} {
		w := ask(t, router, c.method, c.target, "")
		if w.Code != 405 || w.Header().Get("Allow") != c.want {
			t.Errorf("%s %s: %d, Allow %q, want %q", c.method, c.target, w.Code, w.Header().Get("Allow"), c.want)
		}
	}
	if w := ask(t, router, "HEAD", "/doc", ""); w.Code != 200 {
		t.Errorf("HEAD of a plain handler: %d", w.Code)
	}
}

func TestFaultsOfHandlersAreProblems(t *testing.T) {
	for _, kind := range fault.Catalogue() {
		f := fault.New(kind.Code, "why <b>").About("ord_1").After(1500 * time.Millisecond)
		w := ask(t, newRouter(t, &fakeServices{err: fmt.Errorf("wrapped: %w", f)}), "POST", "/api/card/purchase", key)
		want := fmt.Sprintf(`{"type":"/problems/%s","title":%q,"status":%d,"detail":"why \u003cb\u003e","code":"%s",`+
			`"retryable":%t,"safeToPayAgain":%t,"nextAction":"%s","requestId":"req-1","orderId":"ord_1"}`,
			kind.Code, kind.Title, kind.Status, kind.Code, kind.Retryable, kind.SafeToPayAgain, kind.NextAction)
		if w.Code != kind.Status || w.Body.String() != want {
			t.Errorf("%s: %d\n got %s\nwant %s", kind.Code, w.Code, w.Body, want)
		}
		h := w.Header()
		if h.Get("Retry-After") != "2" || h.Get("Cache-Control") != "private, no-store" ||
			(h.Get("Www-Authenticate") == "Bearer") != (kind.Status == 401) {
			t.Errorf("%s: headers %v", kind.Code, h)
		}
	}
}

func TestPaymentRequiredHasTerms(t *testing.T) {
	w := ask(t, newRouter(t, &fakeServices{err: challenge{fault.New(fault.PaymentRequired, "")}}), "POST",
		"/api/card/purchase",
		key)
	if w.Code != 402 || w.Header().Get("Payment-Required") != "terms" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if detail := readProblem(t, w.Body.Bytes()).Detail; detail != "Payment is required." {
		t.Errorf("without a detail of its own a problem says %q", detail)
	}
}

func TestInternalErrorsShowNoCause(t *testing.T) {
	for name, w := range map[string]struct{ target, body string }{
		"error":          {"/api/card/purchase", key},
		"missing member": {"/api/cards", ""},
	} {
		d := &fakeServices{}
		if name == "error" {
			d.err = errors.New("secret")
		}
		got := ask(t, newRouter(t, d), "POST", w.target, w.body)
		if got.Code != 500 || strings.Contains(got.Body.String(), "secret") ||
			readProblem(t, got.Body.Bytes()).Code != "internal" {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
}

func TestEmptyUnpaidPurchaseIsPreview(t *testing.T) {
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		preview    bool
	}{
		{"nothing", "", nil, 402, true},
		{"paid", "", []string{"Payment-Signature", "p"}, 400, false},
		{"empty object", "{}", nil, 400, false},
		{"complete", key, nil, 402, false},
	} {
		d := &fakeServices{err: fault.New(fault.PaymentRequired, "")}
		w := ask(t, newRouter(t, d), "POST", "/api/card/purchase", c.body, c.headers...)
		if w.Code != c.status || d.preview != c.preview {
			t.Errorf("%s: %d, preview %v: %s", c.name, w.Code, d.preview, w.Body)
		}
	}
	d := &fakeServices{}
	if ask(t, newRouter(t, d), "POST", "/api/auth/logout", ""); d.preview {
		t.Error("a method that is not paid has a preview")
	}
}

// TestMethodGetsTheHeaders of a request; those of Connect's protocol mean nothing here.
func TestMethodGetsTheHeaders(t *testing.T) {
	d := &fakeServices{}
	w := ask(t, newRouter(t, d), "POST", "/api/card/purchase", key, "Authorization", "Bearer t", "Payment-Signature", "p",
		"Connect-Timeout-Ms", "0", "Connect-Protocol-Version", "9", "Accept-Encoding", "gzip")
	if w.Code != 200 || d.header.Get("Authorization") != "Bearer t" || d.header.Get("Payment-Signature") != "p" {
		t.Errorf("%d with headers %v", w.Code, d.header)
	}
	if got := w.Header().Get("Content-Encoding"); got != "" {
		t.Errorf("the answer is packed by %s", got)
	}
}
