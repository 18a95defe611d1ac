package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/roamcard/roamcard/gen"
)

// longest is how many bytes a whole answer may have; longestOperation is the limit for one operation of the OpenAPI
// document, which has no pages.
const longest, longestOperation = 25_000, 32_000

// catalogue is a fake API that answers every route of the table, with many plans, some of them long.
func catalogue(t *testing.T) (plans []json.RawMessage, shop *fakeAPI) {
	t.Helper()
	for n := range 700 {
		codes := slices.Repeat([]string{"FR"}, 1+n%150)
		plan, err := json.Marshal(map[string]any{
			"planId": fmt.Sprintf("pln_%04d", n), "name": "Europe <1 GB> & more", "type": "region",
			"countryCodes": codes, "dataMb": 1024,
			"validityDays": 7, "priceUsdCents": n + 1, "amount": "10000", "asset": "0x0", "network": "eip155:8453",
			"unlimited": false,
		})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	list, err := json.Marshal(map[string]any{"plans": plans})
	if err != nil {
		t.Fatal(err)
	}
	contract, err := os.ReadFile("../discovery/testdata/api_agent")
	if err != nil {
		t.Fatal(err)
	}
	return plans, &fakeAPI{answers: map[string]answer{
		"/api/agent": found(string(contract)), "/api/openapi.json": found(string(gen.OpenAPI)),
		"/api/esim/plans": found(string(list)),
	}}
}

// called is the answer of a tool; it is within its limit, and matches the output schema.
func called(
	t *testing.T, h http.Handler, forms map[string]*jsonschema.Resolved, name, arguments string,
) (structured map[string]any) {
	t.Helper()
	w := call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` +
		arguments + `}}`}.to(h)
	size := w.Body.Len()
	got := result(t, w)
	if got.IsError || json.Unmarshal(got.StructuredContent, &structured) != nil {
		t.Fatalf("%s %s: %.300s", name, arguments, got.Content[0].Text)
	}
	if size > longestOperation || size > longest && !strings.Contains(arguments, "operationId") {
		t.Errorf("%s %s: %d bytes", name, arguments, size)
	}
	if err := forms[name].Validate(structured); err != nil {
		t.Errorf("%s %s: %v", name, arguments, err)
	}
	return structured
}

// forms are the output schemas of all tools.
func forms(t *testing.T, h http.Handler) map[string]*jsonschema.Resolved {
	t.Helper()
	var list struct {
		Tools []struct {
			Name         string
			OutputSchema jsonschema.Schema
		}
	}
	if err := json.Unmarshal(read(t, call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`}.to(h)).Result,
		&list); err != nil {
		t.Fatal(err)
	}
	all := map[string]*jsonschema.Resolved{}
	for _, tool := range list.Tools {
		resolved, err := tool.OutputSchema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		all[tool.Name] = resolved
	}
	return all
}

// paged reads all pages of a list.
func paged(t *testing.T, h http.Handler, name, member string, arguments map[string]any) (items []any, pages int) {
	t.Helper()
	promised := forms(t, h)
	for pages = 1; ; pages++ {
		text, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		page := called(t, h, promised, name, string(text))
		items = append(items, page[member].([]any)...)
		next, more := page["nextCursor"]
		if !more || pages > 1000 {
			return items, pages
		}
		arguments["cursor"] = next
	}
}

func TestLongListsComeInPages(t *testing.T) {
	plans, shop := catalogue(t)
	h := endpoint(t, shop)
	items, pages := paged(t, h, "list_esim_plans", "plans", map[string]any{})
	if len(items) != len(plans) || pages < 28 {
		t.Errorf("%d plans on %d pages, want %d", len(items), pages, len(plans))
	}
	for i, item := range items {
		if id := item.(map[string]any)["planId"]; id != fmt.Sprintf("pln_%04d", i) {
			t.Fatalf("plan %d is %v", i, id)
		}
	}
	if items, _ := paged(t, h, "list_esim_plans", "plans", map[string]any{"limit": 100}); len(items) != len(plans) {
		t.Errorf("%d plans on large pages", len(items))
	}
	var contract map[string]any
	if err := json.Unmarshal([]byte(shop.answers["/api/agent"].body), &contract); err != nil {
		t.Fatal(err)
	}
	for section := range sections {
		items, _ := paged(t, h, "get_agent_contract", section, map[string]any{"section": section, "limit": 40})
		if diff := cmp.Diff(contract[section], any(items)); diff != "" {
			t.Errorf("%s differ:\n%s", section, diff)
		}
		delete(contract, section)
	}
	if diff := cmp.Diff(contract, called(t, h, forms(t, h), "get_agent_contract", `{}`)); diff != "" {
		t.Errorf("the rest of the contract differs:\n%s", diff)
	}
}

// TestOneOperationIsSelfContained asks for every operation of the list: each includes everything that it refers to.
func TestOneOperationIsSelfContained(t *testing.T) {
	_, shop := catalogue(t)
	h := endpoint(t, shop)
	promised := forms(t, h)
	purchase := called(t, h, promised, "get_openapi", `{"operationId":"PurchaseEsim"}`)
	post := purchase["paths"].(map[string]any)["/api/esim/purchase"].(map[string]any)["post"].(map[string]any)
	unpaid := post["responses"].(map[string]any)["402"]
	if unpaid.(map[string]any)["description"] != "payment_rejected, payment_required, payment_unclaimed" ||
		unpaid.(map[string]any)["headers"] == nil {
		t.Errorf("without a payment it answers %v", unpaid)
	}
	items, _ := paged(t, h, "get_openapi", "operations", map[string]any{})
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(gen.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	operations := 0
	for _, verbs := range document.Paths {
		operations += len(verbs)
	}
	if len(items) != operations || operations == 0 {
		t.Fatalf("%d operations are listed, want %d", len(items), operations)
	}
	for _, item := range items {
		op := item.(map[string]any)
		one := called(t, h, promised, "get_openapi", fmt.Sprintf(`{"operationId":%q}`, op["operationId"]))
		verbs := one["paths"].(map[string]any)[op["path"].(string)].(map[string]any)
		if len(verbs) != 1 || verbs[strings.ToLower(op["method"].(string))] == nil {
			t.Errorf("%v came as %v", op, one["paths"])
		}
		text, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range strings.Split(string(text), `"$ref":"#/components/`)[1:] {
			ref, _, _ := strings.Cut(after, `"`)
			kind, name, _ := strings.Cut(ref, "/")
			if of, _ := one["components"].(map[string]any)[kind].(map[string]any); of[name] == nil {
				t.Errorf("%s lacks %s", op["operationId"], ref)
			}
		}
	}
}

func TestPageRefusesUnknownCursorAndLimit(t *testing.T) {
	_, shop := catalogue(t)
	h := endpoint(t, shop)
	for arguments, tool := range map[string]string{
		`{"cursor":"pln_9999"}`: "list_esim_plans", `{"limit":0}`: "list_esim_plans",
		`{"limit":101}`: "list_esim_plans",
		`{"limit":"5"}`: "list_esim_plans", `{"limit":1.5}`: "list_esim_plans", `{"limit":null}`: "list_esim_plans",
		`{"cursor":"a"}`: "get_agent_contract", `{"limit":5}`: "get_agent_contract",
		`{"section":"wallet"}`:      "get_agent_contract",
		`{"operationId":"Nothing"}`: "get_openapi", `{"operationId":""}`: "get_openapi",
	} {
		w := call{body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` +
			arguments + `}}`}.to(h)
		if got := result(t, w); !got.IsError || len(got.Content[0].Text) > 200 {
			t.Errorf("%s %s: %.200s", tool, arguments, w.Body)
		}
	}
	shop.answers["/api/esim/plans"] = found(`{"plans":[]}`)
	if page := called(t, h, forms(t, h), "list_esim_plans", `{}`); len(page) != 1 || len(page["plans"].([]any)) != 0 {
		t.Errorf("an empty catalogue is %v", page)
	}
}
