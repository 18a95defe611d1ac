package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/gen"
	_ "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

var update = flag.Bool("update", false, "write testdata")

const base = "https://api.roamcard.test"

func config() Config {
	asset, _ := x402.ParseAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
	payee, _ := x402.ParseAddress("0x209693Bc6afc0C5328bA36FaF03C514EF312287C")
	return Config{
		OpenAPI: gen.OpenAPI, BaseURL: base, Environment: "production", Version: "v1.2.3", Contact: "ops@roamcard.test",
		Terms: payment.Terms{
			Network: x402.NetworkID, Asset: asset, PayTo: payee,
			Domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: asset},
		},
		Protocol: "2025-06-18", Protocols: []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"},
		Started: time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC),
		DID:     []byte(`{"id":"did:web:roamcard.test"}` + "\n"),
	}
}

// muxOf serves a site's documents.
func muxOf(s *Site) *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range s.Handlers() {
		mux.Handle(pattern, handler)
	}
	return mux
}

func site(t *testing.T, c Config) *Site {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDocumentsAreAsCommitted compares the documents with golden files. The OpenAPI document is committed
// where it is generated.
func TestDocumentsAreAsCommitted(t *testing.T) {
	s := site(t, config())
	for _, at := range s.Paths() {
		if strings.HasSuffix(at, "openapi.json") || strings.HasPrefix(at, "/favicon") {
			continue
		}
		file := filepath.Join("testdata", strings.ReplaceAll(strings.TrimLeft(at, "/."), "/", "_"))
		if *update {
			if err := os.WriteFile(file, s.Document(at), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(s.Document(at))); diff != "" {
			t.Errorf("%s changed; run the test with -update if that is meant (-committed +now):\n%s", at, diff)
		}
	}
}

func TestDocumentsAreEqualForEqualConfigs(t *testing.T) {
	first, again := site(t, config()), site(t, config())
	for _, at := range first.Paths() {
		if !bytes.Equal(first.Document(at), again.Document(at)) {
			t.Errorf("%s differs between two makings", at)
		}
	}
}

func TestKeysAreADocumentWhereThereAreAny(t *testing.T) {
	c := config()
	at := "/.well-known/did.json"
	if s := site(t, c); !bytes.Equal(s.Document(at), c.DID) || !bytes.Contains(s.Document("/llms.txt"), []byte(at)) {
		t.Errorf("%s", s.Document(at))
	}
	c.DID = nil
	if s := site(t, c); s.Document(at) != nil || bytes.Contains(s.Document("/llms.txt"), []byte(at)) {
		t.Errorf("%s", s.Document(at))
	}
}

// TestOpenAPIDescribesEveryMethodOfTheProtos compares the OpenAPI document with the descriptors that serve the
// routes: every binding is described, with the price of its policy, and nothing else is paid.
func TestOpenAPIDescribesEveryMethodOfTheProtos(t *testing.T) {
	s := site(t, config())
	described := map[string]operation{}
	for _, op := range s.api.operations() {
		if !slices.Contains(op.Tags, "Discovery") {
			described[op.method+" "+op.path] = op
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("roamcard.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				m := f.Services().Get(i).Methods().Get(j)
				for _, at := range bindings(m) {
					op, ok := described[at]
					if !ok {
						t.Errorf("%s is not described", at)
						continue
					}
					delete(described, at)
					policy, err := rpcx.PolicyOf(m)
					if err != nil {
						t.Fatal(err)
					}
					if policy.GetPaid() != (op.Payment != nil) {
						t.Errorf("%s: paid is %v, described %v", at, policy.GetPaid(), op.Payment != nil)
						continue
					}
					if p := policy.GetPrice(); p != nil {
						least, most := dollars(p.GetMinUsdCents()), dollars(p.GetMaxUsdCents())
						if got := op.Payment.Price; got.most() != most || got.Mode == "dynamic" && got.Min != least {
							t.Errorf("%s costs %s, the policy says %s to %s", at, got, least, most)
						}
					}
				}
			}
		}
		return true
	})
	for at := range described {
		t.Errorf("%s is described and no rpc serves it", at)
	}
}

func dollars(cents uint32) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

var protoVariable = regexp.MustCompile(`\{[a-z0-9_]+\}`)

// bindings are the REST forms of an rpc as the document writes them.
func bindings(m protoreflect.MethodDescriptor) []string {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil
	}
	var all []string
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		method, at := "GET", r.GetGet()
		switch {
		case r.GetPost() != "":
			method, at = "POST", r.GetPost()
		case r.GetPut() != "":
			method, at = "PUT", r.GetPut()
		}
		all = append(all, method+" "+protoVariable.ReplaceAllStringFunc(at, func(v string) string {
			return "{" + m.Input().Fields().ByName(protoreflect.Name(strings.Trim(v, "{}"))).JSONName() + "}"
		}))
	}
	return all
}

// TestOpenAPIListsEveryDocument compares the documents that have no proto with the OpenAPI document.
func TestOpenAPIListsEveryDocument(t *testing.T) {
	s := site(t, config())
	handlers := s.Handlers()
	// The URL of an explanation is the problem's type, which is described.
	delete(handlers, problemPattern)
	served := slices.Sorted(maps.Keys(handlers))
	var described []string
	for _, op := range s.api.operations() {
		if slices.Contains(op.Tags, "Discovery") && op.path != "/mcp" {
			described = append(described, op.method+" "+op.path)
		}
	}
	slices.Sort(described)
	if diff := cmp.Diff(described, served); diff != "" {
		t.Errorf("(-described +served):\n%s", diff)
	}
}

func TestContractMatchesItsSchema(t *testing.T) {
	s := site(t, config())
	var whole map[string]any
	decode(t, s.OpenAPI(), &whole)
	schemas := whole["components"].(object)["schemas"].(object)
	text, err := json.Marshal(object{"$ref": "#/components/schemas/AgentContract", "$defs": closed(schemas)})
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	decode(t, bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/")), &schema)
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var contract any
	decode(t, s.Document("/api/agent"), &contract)
	if err := resolved.Validate(contract); err != nil {
		t.Errorf("the contract is not in its documented form: %v", err)
	}
	delete(contract.(object)["wallet"].(object), "accountTypes")
	if resolved.Validate(contract) == nil {
		t.Error("a contract without account types is valid too: the schema checks nothing")
	}
}

// closed makes the schemas of the contract refuse members that they do not name.
func closed(schemas object) object {
	for name, s := range schemas {
		if schema, ok := s.(object); ok && (strings.HasPrefix(name, "Agent") || name == "WalletRequirements" ||
			name == "InstallCommand") {
			schema["additionalProperties"] = false
		}
	}
	return schemas
}

func TestContractNamesTermsAndProducts(t *testing.T) {
	s := site(t, config())
	var c contract
	decode(t, s.Document("/api/agent"), &c)
	if diff := cmp.Diff([]string{"autonomous", "policy_gated", "human_approval"},
		c.Wallet.InteractionModes); diff != "" {
		t.Error(diff)
	}
	if c.ContractVersion != 1 || c.Wallet.ContractVersion != 1 || c.Treasury.RebalanceMode != "manual" ||
		c.Wallet.SmartAccounts != "experimental" || !slices.Equal(c.Wallet.AccountTypes, []string{"eoa"}) ||
		c.DocsVersion != "0.3.1" {
		t.Errorf("the contract says %+v", c)
	}
	access := map[string]string{}
	for _, op := range c.Operations {
		access[op.Method+" "+op.Path] = op.Access
	}
	for at, want := range map[string]string{
		"POST /api/card/purchase": "payer", "GET /api/config": "public", "GET /api/cards": "session",
		"POST /api/admin/card-issue-fee/jobs/{id}/retry": "operator", "POST /mcp": "public",
	} {
		if access[at] != want {
			t.Errorf("%s is for %q, want %q", at, access[at], want)
		}
	}
	for _, p := range c.Products {
		if p.Contract == "" {
			t.Errorf("%s has no contract", p.Path)
		}
	}
}

// TestDocumentsLoadFromOwnOriginOnly allows foreign URLs only as names of standards, and the clients' repository.
func TestDocumentsLoadFromOwnOriginOnly(t *testing.T) {
	s := site(t, config())
	standards := []string{
		base, "https://static.modelcontextprotocol.io/schemas/", "https://schemas.agentskills.io/",
		"https://github.com/google-agentic-commerce/a2a-x402/",
		"http://www.w3.org/2000/svg", "https://api.example.com/", "https://github.com/roamcard/roamcard",
	}
	link := regexp.MustCompile(`https?://[^\s"'<>)` + "`" + `]+`)
	for _, at := range s.Paths() {
		for _, found := range link.FindAllString(string(s.Document(at)), -1) {
			if !slices.ContainsFunc(standards, func(p string) bool { return strings.HasPrefix(found, p) }) {
				t.Errorf("%s names %s", at, found)
			}
		}
	}
	if found := link.FindAllString(string(docsPage)+string(docsInit), -1); len(found) > 0 {
		t.Errorf("the page for people names %v", found)
	}
}

func TestOpenAPIIsEqualOnEveryPath(t *testing.T) {
	handlers := site(t, config()).Handlers()
	var tags []string
	var bodies []string
	for _, at := range []string{"/openapi.json", "/api/openapi.json", "/.well-known/openapi.json"} {
		w := httptest.NewRecorder()
		handlers["GET "+at].ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
		tags, bodies = append(tags, w.Header().Get("ETag")), append(bodies, w.Body.String())
	}
	if len(slices.Compact(tags)) != 1 || len(slices.Compact(bodies)) != 1 || tags[0] == "" {
		t.Errorf("ETags %v", tags)
	}
	var api struct {
		OpenAPI string
		Info    struct {
			Version string
			Contact struct{ Email string }
		}
		Servers []struct{ URL string }
	}
	decode(t, []byte(bodies[0]), &api)
	if api.OpenAPI != "3.1.0" || api.Info.Version != "0.3.1" || api.Info.Contact.Email != "ops@roamcard.test" ||
		api.Servers[0].URL != base {
		t.Errorf("the document says %+v", api)
	}
}

func TestDocumentWithKnownETagAnswers304(t *testing.T) {
	mux := muxOf(site(t, config()))
	for pattern := range site(t, config()).Handlers() {
		get := func(tag string) *httptest.ResponseRecorder {
			path := strings.ReplaceAll(strings.TrimPrefix(pattern, "GET "), "{code}", "internal")
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("If-None-Match", tag)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			return w
		}
		first := get("")
		tag := first.Header().Get("ETag")
		if first.Code != http.StatusOK || tag == "" || first.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v", pattern, first.Code, first.Header())
		}
		for _, known := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			if w := get(known); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
				t.Errorf("%s with %s: %d", pattern, known, w.Code)
			}
		}
		if w := get(`"other"`); w.Code != http.StatusOK {
			t.Errorf("%s with another tag: %d", pattern, w.Code)
		}
	}
}

// TestBigDocumentsAreKeptCompressed, which package static sends to those who take them so.
func TestBigDocumentsAreKeptCompressed(t *testing.T) {
	mux := muxOf(site(t, config()))
	for _, at := range []string{"/docs/scalar.js", "/openapi.json", "/api/agent", "/llms.txt"} {
		r, w := httptest.NewRequest(http.MethodGet, at, nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", "gzip")
		mux.ServeHTTP(w, r)
		if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v", at, w.Code, w.Header())
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/scalar.js", nil))
	if !strings.Contains(w.Body.String(), "createApiReference") {
		t.Errorf("%d bytes of another script", w.Body.Len())
	}
}

// TestPausedContractIsMadeOnce asks for the contract while some sales are closed.
func TestPausedContractIsMadeOnce(t *testing.T) {
	c := config()
	paused := map[string]bool{"/api/card/purchase": true}
	c.Paused = func(context.Context) map[string]bool { return paused }
	s := site(t, c)
	mux := muxOf(s)
	get := func() string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/agent", nil))
		return w.Body.String()
	}
	first := get()
	if strings.Count(first, `"paused": true`) != 1 || get() != first {
		t.Errorf("paused: %.500s", first)
	}
	if a, b := s.pausedContract(paused), s.pausedContract(paused); a != b {
		t.Error("the same contract is made again")
	}
	paused = nil
	if strings.Contains(get(), `"paused"`) {
		t.Error("it is still paused")
	}
}

func TestSecurityTextExpiresWithinAYear(t *testing.T) {
	for day := range 400 {
		c := config()
		c.Started = c.Started.AddDate(0, 0, day)
		text := string((&Site{Config: c}).securityText())
		_, after, _ := strings.Cut(text, "Expires: ")
		line, _, _ := strings.Cut(after, "\n")
		expires, err := time.Parse(time.RFC3339, line)
		if left := expires.Sub(c.Started); err != nil || left > 365*24*time.Hour || left < 300*24*time.Hour {
			t.Fatalf("%v: %v left of %s", err, left, line)
		}
	}
}

func TestBazaarIsForPaidRoutesOnly(t *testing.T) {
	s := site(t, config())
	for _, op := range s.api.products() {
		extensions := s.Extensions(op.path, true)
		identifier, err := json.Marshal(extensions[x402.PaymentIdentifier])
		if err != nil || len(identifier) > 300 || !bytes.Contains(identifier, []byte(`"info":{"required":false}`)) {
			t.Errorf("%s: %v, %d bytes: %s", op.path, err, len(identifier), identifier)
		}
		delete(extensions, x402.PaymentIdentifier)
		text, err := json.Marshal(extensions)
		if err != nil || len(text) > 1200 || !bytes.Contains(text, []byte(`"method":"POST"`)) ||
			bytes.Contains(text, []byte("$ref")) {
			t.Errorf("%s: %v, %d bytes: %s", op.path, err, len(text), text)
		}
	}
	for _, at := range []string{"/api/esim/orders/ord_1/topup", "/roamcard.v1.CardService/PurchaseCard"} {
		for _, preview := range []bool{true, false} {
			if got := s.Extensions(at, preview); len(got) != 1 || got[x402.PaymentIdentifier] == nil {
				t.Errorf("%q, a preview: %t, has %v", at, preview, got)
			}
		}
	}
}

// TestOpenAPIIsReadableByClientGenerators looks for what oapi-codegen fails on or misreads: a list of types, a text
// that is declared a file, and a schema named like an operation's response.
func TestOpenAPIIsReadableByClientGenerators(t *testing.T) {
	s := site(t, config())
	var document object
	decode(t, s.OpenAPI(), &document)
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case object:
			if _, list := v["type"].([]any); list {
				t.Errorf("%s has a list of types", at)
			}
			for _, file := range []string{"contentMediaType", "contentEncoding", "contentSchema"} {
				if v[file] != nil {
					t.Errorf("%s has %s", at, file)
				}
			}
			for name, member := range v {
				walk(at+"/"+name, member)
			}
		case []any:
			for i, member := range v {
				walk(fmt.Sprintf("%s/%d", at, i), member)
			}
		}
	}
	walk("", document)
	for _, op := range s.api.operations() {
		if _, taken := s.api.Components.Schemas[op.ID+"Response"]; taken {
			t.Errorf("a schema has the name that generators give to the answer of %s", op.ID)
		}
	}
}

func TestReverseNameIsHostReversedAndTitle(t *testing.T) {
	for url, want := range map[string]string{
		"https://api.example.com": "com.example.api/roamcard",
		"http://127.0.0.1:8402":   "localhost/roamcard", "http://[::1]:1": "localhost/roamcard",
	} {
		c := config()
		c.BaseURL = url
		if got := site(t, c).reverseName(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %s", err, path.Base(string(text[:min(len(text), 80)])))
	}
}
