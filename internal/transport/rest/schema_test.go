package rest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/roamcard/roamcard/gen"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// schema is a part of a JSON schema of the OpenAPI document, as far as members of requests use it.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        any               `json:"type"`
	Format      string            `json:"format"`
	Minimum     *json.Number      `json:"minimum"`
	Maximum     *json.Number      `json:"maximum"`
	MinLength   int               `json:"minLength"`
	MaxLength   int               `json:"maxLength"`
	Pattern     string            `json:"pattern"`
	Enum        []string          `json:"enum"`
	Items       *schema           `json:"items"`
	MaxItems    int               `json:"maxItems"`
	UniqueItems bool              `json:"uniqueItems"`
	Properties  map[string]schema `json:"properties"`
}

// values are texts of JSON near the edges of a schema, and whether it takes them.
func (s schema) values(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	switch s.Type {
	case "integer":
		all = s.edges(t)
	case "boolean":
		all["true"], all["false"] = true, true
	case "string":
		for _, text := range s.texts() {
			all[quoted(t, text)] = s.takes(text)
		}
	case "array":
		all["[]"] = true
		for text, taken := range s.Items.values(t) {
			all["["+text+"]"] = taken
			all["["+text+","+text+"]"] = taken && s.MaxItems >= 2 && !s.UniqueItems
		}
		var many []string
		for i := range s.MaxItems + 1 {
			if s.Items.Enum != nil {
				many = append(many, quoted(t, s.Items.Enum[i%len(s.Items.Enum)]))
				continue
			}
			many = append(many, fmt.Sprintf(`"%04d"`, i))
		}
		all["["+strings.Join(many[1:], ",")+"]"], all["["+strings.Join(many, ",")+"]"] = true, false
	}
	for kind, text := range map[string]string{
		"integer": "7", "boolean": "true", "string": `"7"`, "array": `["7"]`, "object": `{"a":"7"}`, "null": "null",
	} {
		if kind != s.Type {
			all[text] = false
		}
	}
	return all
}

// texts are some that may fit a string's schema, and some that must not.
func (s schema) texts() []string {
	texts := []string{
		"", "x", "7", " ", "\u00e9", "\x00", "a\x00", "\u20ac\U0001f600", "0191d7a0-0000-7000-8000-000000000001",
		"0191D7A0-0000-4000-8000-00000000000A", "0191d7a000007000800000000000000 1", "/", "/cards", "/cards/{id}?x=1",
		"0x" + strings.Repeat("aB", 32), "0x" + strings.Repeat("a", 63), "0X" + strings.Repeat("a", 64), "5411", "541",
		"54111", "٥٤١١", "ada", "-ada", "ada@example.com", strings.Repeat("A", 43), strings.Repeat("A", 42) + "B",
		strings.Repeat("A", 43) + "=", strings.Repeat("A", 43) + "\n",
	}
	for _, n := range []int{s.MinLength - 1, s.MinLength, s.MaxLength, s.MaxLength + 1, 100, 101} {
		if n > 0 {
			texts = append(texts, strings.Repeat("x", n), strings.Repeat("\u00e9", n), strings.Repeat("\U0001f600", n))
		}
	}
	for _, word := range s.Enum {
		texts = append(texts, word, word+"x", strings.ToUpper(word), " "+word)
	}
	return texts
}

// takes reports whether a string fits the schema. Lengths are those of code points, and a $ is the end.
func (s schema) takes(text string) bool {
	n := utf8.RuneCountInString(text)
	switch {
	case n < s.MinLength, s.MaxLength > 0 && n > s.MaxLength, s.Enum != nil && !slices.Contains(s.Enum, text):
		return false
	case s.Format == "uuid":
		return regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(text)
	}
	return s.Pattern == "" || regexp.MustCompile(s.Pattern).MatchString(text)
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// edges are numbers at the edges of a schema, and whether it takes them, and what is no integer. Each in all spellings.
func (s schema) edges(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	if s.Minimum == nil || s.Maximum == nil {
		t.Fatalf("%+v has no limits", s)
	}
	limit := func(n *json.Number) *big.Int {
		at, ok := new(big.Int).SetString(n.String(), 10)
		if !ok {
			t.Fatalf("the limit %s", n)
		}
		return at
	}
	least, most := limit(s.Minimum), limit(s.Maximum)
	one := big.NewInt(1)
	for _, n := range []*big.Int{
		least, most, new(big.Int).Sub(least, one), new(big.Int).Add(most, one), new(big.Int).Add(least, one),
		new(big.Int).Sub(most, one), new(big.Int).Lsh(one, 32), new(big.Int).Lsh(one, 53), new(big.Int).Lsh(one, 64),
	} {
		taken := n.Cmp(least) >= 0 && n.Cmp(most) <= 0
		for _, form := range []string{"%s", "%s.0", "%s.000", "%se0", "%sE+0", "%s00e-2", "%s0.0e-1"} {
			if n.Sign() != 0 || !strings.HasPrefix(form, "%s0") {
				all[fmt.Sprintf(form, n)] = taken
			}
		}
		for _, form := range []string{"%s.5", "%s.0000000000000000001", "%s.1e0"} {
			all[fmt.Sprintf(form, n)] = false
		}
	}
	for _, text := range []string{"1e-400", "1e400", "1e999999999", "true", "0.5"} {
		all[text] = false
	}
	return all
}

// parameter is one of an operation, in its path or its query.
type parameter struct {
	Ref    string `json:"$ref"`
	Name   string `json:"name"`
	In     string `json:"in"`
	Schema schema `json:"schema"`
}

// openAPI is the OpenAPI document.
type openAPI struct {
	Paths map[string]map[string]struct {
		OperationID string      `json:"operationId"`
		Parameters  []parameter `json:"parameters"`
		RequestBody struct {
			Content map[string]struct {
				Schema schema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas    map[string]schema    `json:"schemas"`
		Parameters map[string]parameter `json:"parameters"`
	} `json:"components"`
}

func (d openAPI) schema(s schema) schema {
	if name, shared := strings.CutPrefix(s.Ref, "#/components/schemas/"); shared {
		return d.Components.Schemas[name]
	}
	return s
}

func (d openAPI) parameter(p parameter) parameter {
	if name, shared := strings.CutPrefix(p.Ref, "#/components/parameters/"); shared {
		p = d.Components.Parameters[name]
	}
	p.Schema = d.schema(p.Schema)
	return p
}

// TestEverySchemaAgreesWithTheServer sends each member of each request of the API, with values near the edges of its
// schema and of other types, in every spelling of JSON, and each integer of a query.
func TestEverySchemaAgreesWithTheServer(t *testing.T) {
	var api openAPI
	if err := json.Unmarshal(gen.OpenAPI, &api); err != nil {
		t.Fatal(err)
	}
	router := newRouter(t, &fakeServices{})
	var rest struct { // passing the gate is enough
		roamcardv1connect.UnimplementedEsimServiceHandler
		roamcardv1connect.UnimplementedOperatorServiceHandler
		roamcardv1connect.UnimplementedActivityServiceHandler
	}
	server := newServer(t)
	roamcardv1connect.RegisterEsimServiceHandler(server, rest)
	roamcardv1connect.RegisterOperatorServiceHandler(server, rest)
	roamcardv1connect.RegisterActivityServiceHandler(server, rest)
	if err := router.Mount(server); err != nil {
		t.Fatal(err)
	}
	members, parameters := 0, 0
	for path, operations := range api.Paths {
		for verb, op := range operations {
			target := path
			for _, p := range op.Parameters {
				if p = api.parameter(p); p.In == "path" {
					value := cardUUID
					if p.Schema.Type == "integer" {
						value = "1"
					}
					target = strings.ReplaceAll(target, "{"+p.Name+"}", value)
				}
			}
			for _, p := range op.Parameters {
				if p = api.parameter(p); p.In != "query" || p.Schema.Type != "integer" {
					continue
				}
				parameters++
				for text, taken := range p.Schema.edges(t) {
					w := ask(t, router, strings.ToUpper(verb), target+"?"+url.Values{p.Name: {text}}.Encode(), "",
						rpcx.HeaderIdempotencyKey, "k")
					if wrong := complaint(t, w, p.Name); (wrong == "") != taken {
						t.Errorf("%s %s: %s=%s is taken: %v, %s", verb, path, p.Name, text, wrong == "", wrong)
					}
				}
			}
			for name, member := range api.schema(op.RequestBody.Content["application/json"].Schema).Properties {
				if member.Type == nil || member.Format == "uri" || path == "/mcp" {
					continue // of several types, or what a handler of its own reads
				}
				members++
				for text, taken := range member.values(t) {
					w := ask(t, router, strings.ToUpper(verb), target, `{"`+name+`":`+text+`}`,
						rpcx.HeaderIdempotencyKey, "k")
					if w.Code == http.StatusRequestEntityTooLarge && len(text) > 8<<10 {
						continue // lengths are in characters, and bodies are bounded in bytes
					}
					if wrong := complaint(t, w, name); (wrong == "") != taken {
						t.Errorf("%s %s: %s %.100s is taken: %v, %s", verb, path, name, text, wrong == "", wrong)
					}
				}
			}
		}
	}
	if members < 60 || parameters < 10 {
		t.Errorf("%d members and %d parameters", members, parameters)
	}
}

// complaint is what an answer says of a member; empty when it does not find fault with it.
func complaint(t *testing.T, w *httptest.ResponseRecorder, name string) string {
	t.Helper()
	if w.Code < 400 {
		return ""
	}
	p := readProblem(t, w.Body.Bytes())
	for _, f := range p.Fields {
		if f.Path == name || strings.HasPrefix(f.Path, name+"[") {
			return fmt.Sprintf("%d %+v", w.Code, f)
		}
	}
	if len(p.Fields) == 0 && w.Code == http.StatusBadRequest {
		t.Errorf("%s: %d %s", name, w.Code, w.Body)
	}
	return ""
}

// TestEncodedBodyIsToldItsEncoding: a packed body is of the right type.
func TestEncodedBodyIsToldItsEncoding(t *testing.T) {
	for _, encoding := range []string{"gzip", "br", "deflate, gzip", "GZIP"} {
		w := ask(t, newRouter(t, &fakeServices{}), "POST", "/api/card/purchase", key, "Content-Encoding", encoding)
		p := readProblem(t, w.Body.Bytes())
		if w.Code != http.StatusUnsupportedMediaType || w.Header().Get("Accept-Encoding") != "identity" ||
			!strings.Contains(p.Detail, "Content-Encoding") {
			t.Errorf("%s: %d %v %s", encoding, w.Code, w.Header(), w.Body)
		}
	}
	w := ask(t, newRouter(t, &fakeServices{}), "POST", "/api/card/purchase", key, "Content-Type", "text/plain")
	if w.Header().Get("Accept-Encoding") != "" || w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("another type: %d %v", w.Code, w.Header())
	}
}
