package stripe_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
)

// root is the repository.
func root(t *testing.T) string {
	t.Helper()
	at, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// mock runs stripe-mock, which Stripe makes of its own OpenAPI document, and returns its address.
func mock(t *testing.T) string {
	t.Helper()
	program := filepath.Join(root(t), "bin", "stripe-mock")
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		t.Skip("bin/stripe-mock is missing; make bin/stripe-mock builds it, as make test does")
	}
	// Without an address it would listen at a fixed port for HTTPS, too.
	cmd := exec.CommandContext(t.Context(), program, "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	said := new(bytes.Buffer) // read once it has ended
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start stripe-mock: %v", err)
	}
	t.Cleanup(func() { // it is killed when the test's context ends
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("stripe-mock: %v\n%s", cmd.ProcessState, said)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
			return "http://" + address
		}
	}
	t.Fatalf("stripe-mock does not listen: %v", lines.Err())
	return ""
}

// wiretap is a transport that shows each request and answer to others before the adapter has the answer.
type wiretap struct {
	next    http.RoundTripper
	request func(r *http.Request, body []byte)
	answer  func(r *http.Request, status int, body []byte)
	mu      sync.Mutex
	routes  map[string]int
}

func (w *wiretap) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := w.next.RoundTrip(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.routes == nil {
		w.routes = map[string]int{}
	}
	w.routes[r.Method+" "+route(r)]++
	if w.request != nil {
		w.request(r, body)
	}
	if err == nil && w.answer != nil {
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(answer))
		w.answer(r, resp.StatusCode, answer)
	}
	return resp, err
}

// route is a path without an ID in it.
func route(r *http.Request) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	if len(parts) == 3 {
		parts[2] = "{id}"
	}
	return strings.Join(parts, "/")
}

// routes are all requests that the adapter sends.
var routes = []string{
	"GET balance", "GET issuing/authorizations", "GET issuing/cardholders/{id}", "GET issuing/cards",
	"GET issuing/cards/{id}", "GET issuing/transactions", "POST ephemeral_keys", "POST issuing/cards",
	"POST issuing/cards/{id}",
}

func (w *wiretap) wantAllRoutes(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(routes, slices.Sorted(maps.Keys(w.routes))); diff != "" {
		t.Errorf("other requests were sent (-want +got):\n%s", diff)
	}
}

// story makes every request that the adapter can make, with every parameter.
func (b *bench) story() {
	all := b.seeded(130)
	a := b.opened()
	b.clock.pass(time.Minute)
	b.fake.Edit(a.ID, func(c *stripefake.Card) {
		c.Limits = append(c.Limits, stripefake.Limit{Amount: 100, Interval: "per_authorization"}, stripefake.Limit{
			Amount: 100, Interval: "weekly", Categories: []string{"airlines_air_carriers", "taxicabs_limousines"},
		})
	})
	if _, err := b.Move(b.Context(), onto(a, 2450, 3950)); err != nil {
		b.Errorf("load: %v", err)
	}
	for range 110 {
		id, _ := b.fake.Authorize(a.ID, 10)
		b.fake.Capture(id, 10)
		b.fake.Authorize(a.ID, 10)
		b.clock.pass(time.Second)
	}
	b.fake.Refund(a.ID, 5)
	for range 2 {
		b.wantBalance(a, 3950-2*1100)
		if _, err := b.Stock(b.Context()); err != nil {
			b.Errorf("stock: %v", err)
		}
	}
	if lines, _ := b.book(""); len(lines) != len(all)+2 {
		b.Errorf("the books have %d lines", len(lines))
	}
	if what, err := b.Probe(b.Context()); err != nil {
		b.Errorf("probe: %s, %v", what, err)
	}
	for _, frozen := range []bool{true, false} {
		b.setFrozen(a, frozen)
	}
	target := card.Price + 1450
	for _, l := range []card.Limits{
		{Transaction: 100, Month: 1_000_000}, {Allowed: []string{"5411", "0763", "4723"}}, {Blocked: []string{"7995"}}, {},
	} {
		if got, err := b.SetLimits(b.Context(), a.ID, l); err != nil || !got.Equal(l) {
			b.Errorf("set %+v: %+v, %v", l, got, err)
		}
		target += 100
		if _, err := b.Move(b.Context(), onto(a, 100, target)); err != nil {
			b.Errorf("load: %v", err)
		}
	}
	b.fake.Authorize(a.ID, 1_000_000)
	b.fake.Unasked(a.ID, 1)
	if listed := b.listed(a.ID, 90); len(listed) != 223 {
		b.Errorf("%d transactions", len(listed))
	}
	for _, phone := range []string{"", "+13025550142"} {
		b.fake.SetContact("cards@programme.example", phone)
		if d, err := b.Details(b.Context(), a.ID); err != nil || d.Billing == nil {
			b.Errorf("details: %+v, %v", d, err)
		}
	}
	if key, err := b.Unlock(b.Context(), a.ID, b.nonce(a.ID)); err != nil || key.IsZero() {
		b.Errorf("unlock: %v", err)
	}
	_, _ = b.Account(b.Context(), fulfilmenttest.NewRef())
	_, _ = b.Open(b.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 1, Limit: true})
}

// TestEveryRequestPassesTheOfficialMock: it checks paths, parameters and their types by Stripe's document.
func TestEveryRequestPassesTheOfficialMock(t *testing.T) {
	address, b := mock(t), start(t)
	w := &wiretap{next: b.web.Client().Transport}
	ask := func(method, url string, header http.Header, body []byte) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Errorf("ask stripe-mock: %v", err)
			return 0, ""
		}
		defer func() { _ = resp.Body.Close() }()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return resp.StatusCode, string(said)
	}
	w.request = func(r *http.Request, body []byte) {
		if status, said := ask(r.Method, address+r.URL.RequestURI(), r.Header.Clone(), body); status != http.StatusOK {
			t.Errorf("%s %s %s: %d %s", r.Method, r.URL.RequestURI(), body, status, said)
		}
	}
	b.Issuer = b.dial(w)
	b.story()
	w.wantAllRoutes(t)
	cardtest.Run(t, b.harness())

	// A mock that passes everything proves nothing.
	key := http.Header{
		"Authorization": {"Bearer " + stripefake.DevKey}, "Content-Type": {"application/x-www-form-urlencoded"},
	}
	for name, body := range map[string]string{
		"a missing type": "currency=usd", "an unknown parameter": "currency=usd&type=virtual&colour=red",
		"an amount that is none": "currency=usd&type=virtual&spending_controls[spending_limits][0][amount]=much" +
			"&spending_controls[spending_limits][0][interval]=all_time",
	} {
		if status, _ := ask(http.MethodPost, address+"/v1/issuing/cards", key.Clone(), []byte(body)); status != 400 {
			t.Errorf("stripe-mock answers %s with %d", name, status)
		}
	}
}

// TestFakesAnswersKeepToTheDocument of Stripe that comes with stripe-mock.
func TestFakesAnswersKeepToTheDocument(t *testing.T) {
	doc, b := newDocument(t), start(t)
	w := &wiretap{next: b.web.Client().Transport}
	kinds := map[string]string{
		"balance": "balance", "ephemeral_keys": "ephemeral_key", "issuing/authorizations": "issuing.authorization",
		"issuing/cardholders/{id}": "issuing.cardholder", "issuing/cards": "issuing.card",
		"issuing/cards/{id}": "issuing.card", "issuing/transactions": "issuing.transaction",
	}
	w.answer = func(r *http.Request, status int, body []byte) {
		said := map[string]any{}
		if err := json.Unmarshal(body, &said); err != nil {
			t.Fatalf("%s: %v", r.URL, err)
		}
		kind := kinds[route(r)]
		shown := []any{said}
		switch {
		case status != http.StatusOK:
			kind = "error"
		case said["object"] == "list":
			shown = said["data"].([]any)
			delete(said, "data")
			if diff := cmp.Diff(map[string]any{
				"object": "list", "url": r.URL.Path, "has_more": said["has_more"].(bool),
			}, said); diff != "" {
				t.Errorf("a list: %s", diff)
			}
		}
		for _, one := range shown {
			if err := doc.validate(kind, one); err != nil {
				t.Errorf("%s %s: %v", r.Method, r.URL, err)
			}
		}
	}
	b.Issuer = b.dial(w)
	b.story()
	b.fake.SetHolder("active", "under_review")
	_, err := b.Open(t.Context(), opening())
	wantRefused(t, err, card.RefusedHolder)
	_, err = b.Balance(t.Context(), "ic_unknown")
	b.handles().WantUnknown(t, err)
	w.wantAllRoutes(t)

	// Nor does a document prove anything that allows everything.
	if doc.validate("issuing.card", map[string]any{"id": "ic_1"}) == nil {
		t.Error("the document allows a card without anything")
	}
}

// document is Stripe's OpenAPI document, strict: what it does not name is not allowed.
type document struct {
	schemas  map[string]any
	resolved map[string]*jsonschema.Resolved
}

func newDocument(t *testing.T) *document {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/stripe/stripe-mock")
	cmd.Dir, cmd.Env = filepath.Join(root(t), "tools"), append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	at, err := cmd.Output()
	if dir := strings.TrimSpace(string(at)); err != nil || dir == "" {
		t.Skipf("the module of stripe-mock is not there (%v); make test downloads it", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(at)), "embedded", "openapi", "spec3.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return &document{schemas: all.Components.Schemas, resolved: map[string]*jsonschema.Resolved{}}
}

func (d *document) validate(name string, value any) error {
	if d.resolved[name] == nil {
		defs := map[string]any{}
		if err := d.define(name, defs); err != nil {
			return err
		}
		text, err := json.Marshal(map[string]any{"$ref": "#/$defs/" + name, "$defs": defs})
		if err != nil {
			return err
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
		if d.resolved[name], err = s.Resolve(nil); err != nil {
			return err
		}
	}
	return d.resolved[name].Validate(value)
}

const components = "#/components/schemas/"

// define adds a schema and all that it refers to.
func (d *document) define(name string, defs map[string]any) error {
	if _, known := defs[name]; known {
		return nil
	}
	schema, ok := d.schemas[name].(map[string]any)
	if !ok {
		return fmt.Errorf("the document has no %s", name)
	}
	defs[name] = true
	defs[name] = plainSchema(schema, func(ref string) { _ = d.define(ref, defs) })
	return nil
}

// plainSchema makes JSON schema of OpenAPI's dialect.
func plainSchema(from map[string]any, refer func(name string)) any {
	if ref, ok := from["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, components)
		refer(name)
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	to := map[string]any{}
	for _, name := range []string{"type", "enum", "required", "maxLength"} {
		if value, ok := from[name]; ok {
			to[name] = value
		}
	}
	if properties, ok := from["properties"].(map[string]any); ok {
		made := map[string]any{}
		for name, one := range properties {
			made[name] = plainSchema(one.(map[string]any), refer)
		}
		to["properties"], to["additionalProperties"] = made, false
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if one, ok := from[name].(map[string]any); ok {
			to[name] = plainSchema(one, refer)
		}
	}
	if of, ok := from["anyOf"].([]any); ok {
		to["anyOf"] = alternatives(of, refer)
	}
	if from["nullable"] == true {
		return map[string]any{"anyOf": []any{to, map[string]any{"type": "null"}}}
	}
	return to
}

// alternatives are those of a value. What may be an ID or the whole object is to be the ID.
func alternatives(of []any, refer func(name string)) (all []any) {
	for _, one := range of {
		if one := one.(map[string]any); one["type"] == "string" {
			return []any{plainSchema(one, refer)}
		}
	}
	for _, one := range of {
		all = append(all, plainSchema(one.(map[string]any), refer))
	}
	return all
}
