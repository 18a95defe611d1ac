package endtoend_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
)

// openAPI is the service's description of itself, as a stranger reads it.
type openAPI struct {
	Info struct {
		Title, Version string
	}
	Paths map[string]map[string]struct {
		OperationID string   `json:"operationId"`
		Tags        []string `json:"tags"`
		Payment     *struct {
			Price struct{ Mode, Amount, Min, Max string }
		} `json:"x-payment-info"`
	}
}

// statedTerms is the content of PAYMENT-REQUIRED as far as it is about what is sold.
type statedTerms struct {
	Resource struct{ URL string }
	Accepts  []struct{ Network, Asset, Amount, PayTo string }
	// Extensions are what crawlers read.
	Extensions map[string]json.RawMessage
}

// TestDiscoveryDocumentsMatchServer reads every document of a running service and tries what it says:
// what is named answers, what is paid challenges with the stated price, and nothing else does.
func TestDiscoveryDocumentsMatchServer(t *testing.T) {
	w := newWorld(t, plan{})
	w.awaitEsimReady(nil)
	var api openAPI
	w.send(get("/openapi.json")).into(t, http.StatusOK, &api)
	t.Run("operations", func(t *testing.T) { w.operationsAnswer(t, api) })
	t.Run("prices", func(t *testing.T) { w.pricesAreAsked(t, api) })
	t.Run("documents", func(t *testing.T) { w.documentsAgree(t, api) })
	t.Run("tools", func(t *testing.T) { w.toolsAgree(t) })
	t.Run("problems", func(t *testing.T) { w.problemsAreExplained(t) })
}

// problemsAreExplained follows the type of each problem, and of one that there is not.
func (w *world) problemsAreExplained(t *testing.T) {
	for _, k := range fault.Catalogue() {
		var explained struct{ Type, Code, Advice string }
		w.send(get(k.Code.Path())).into(t, http.StatusOK, &explained)
		if explained.Type != k.Code.Path() || explained.Code != string(k.Code) || explained.Advice == "" {
			t.Errorf("%s is explained as %+v", k.Code, explained)
		}
		page := w.send(get(k.Code.Path()).withHeader("Accept", "text/html,*/*;q=0.8"))
		if page.status != http.StatusOK || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") ||
			page.header.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" {
			t.Errorf("%s for people: %d %v", k.Code, page.status, page.header)
		}
	}
	for _, path := range []string{"/problems", "/problems/", "/problems/nothing", "/problems/INTERNAL",
		"/problems/internal/x"} {
		a := w.send(get(path))
		if a.status != http.StatusNotFound || a.problem.Type != fault.RouteNotFound.Path() {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		w.send(get(a.problem.Type)).into(t, http.StatusOK, nil)
	}
}

var pathVariable = regexp.MustCompile(`\{[A-Za-z]+\}`)

// operationsAnswer calls every documented operation with nothing: whatever it answers, there is one.
func (w *world) operationsAnswer(t *testing.T, api openAPI) {
	if len(api.Paths) < 20 {
		t.Fatalf("%d paths are documented", len(api.Paths))
	}
	for path, verbs := range api.Paths {
		for verb, operation := range verbs {
			r := request{method: strings.ToUpper(verb),
				path: pathVariable.ReplaceAllString(path, "0191d7a0-0000-7000-8000-000000000001")}
			a := w.send(r)
			if a.err != nil || a.problem.Code == "route_not_found" || a.status == http.StatusMethodNotAllowed ||
				a.status == http.StatusInternalServerError {
				t.Errorf("%s %s: %d %s (%v)", r.method, path, a.status, a.problem.Code, a.err)
			}
			if operation.Payment == nil && a.status == http.StatusPaymentRequired {
				t.Errorf("%s %s wants money and its price is not documented", r.method, path)
			}
			if r.method != http.MethodGet {
				continue
			}
			r.method = http.MethodHead
			head := w.send(r)
			if head.err != nil || head.status != a.status || len(head.body) != 0 ||
				head.header.Get("Content-Type") != a.header.Get("Content-Type") {
				t.Errorf("HEAD %s: %d %s, %d bytes (%v); GET %d %s", path, head.status, head.header.Get("Content-Type"),
					len(head.body), head.err, a.status, a.header.Get("Content-Type"))
			}
		}
	}
}

// pricesAreAsked probes what is paid as a crawler does, without a body.
func (w *world) pricesAreAsked(t *testing.T, api openAPI) {
	var paid int
	for path, verbs := range api.Paths {
		for verb, operation := range verbs {
			if operation.Payment == nil || strings.Contains(path, "{") {
				continue
			}
			paid++
			a := w.send(request{method: strings.ToUpper(verb), path: path})
			header := a.header.Get("Payment-Required")
			if a.status != http.StatusPaymentRequired || header == "" || len(header) > 4096 {
				t.Errorf("%s: %d %s, a challenge of %d bytes", path, a.status, a.problem.Code, len(header))
				continue
			}
			// Proxies bound a header by 4 KiB, also with all that a purchase is offered.
			keyed := w.send(post(path, purchaseBody("discovery-"+strings.ReplaceAll(path, "/", "-"))))
			if n := len(keyed.header.Get("Payment-Required")); keyed.status != http.StatusPaymentRequired || n > 4000 {
				t.Errorf("%s, with a key: %d %s, a challenge of %d bytes", path, keyed.status, keyed.problem.Code, n)
			}
			text, err := base64.StdEncoding.DecodeString(header)
			var c statedTerms
			if err != nil || json.Unmarshal(text, &c) != nil || len(c.Accepts) != 1 {
				t.Errorf("%s: the challenge cannot be read: %s", path, text)
				continue
			}
			price := operation.Payment.Price
			least, most := price.Min, price.Max
			if price.Mode == "fixed" {
				least, most = price.Amount, price.Amount
			}
			if amount := units(t, c.Accepts[0].Amount); amount < dollarUnits(t, least) || amount > dollarUnits(t, most) {
				t.Errorf("%s asks for %d units, documented are %s to %s", path, amount, least, most)
			}
			if c.Resource.URL != origin+path || c.Accepts[0].PayTo != w.payTo.String() {
				t.Errorf("%s: it is to be paid at %s to %s", path, c.Resource.URL, c.Accepts[0].PayTo)
			}
			if !bytes.Contains(c.Extensions["bazaar"], []byte(`"bodyType":"json"`)) {
				t.Errorf("%s: the bazaar extension is %s", path, c.Extensions["bazaar"])
			}
		}
	}
	if paid < 2 {
		t.Errorf("%d operations are paid", paid)
	}
}

func units(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dollarUnits is "25.00" in units of 6 decimals.
func dollarUnits(t *testing.T, text string) int64 {
	t.Helper()
	whole, cents, ok := strings.Cut(text, ".")
	if !ok || len(cents) != 2 {
		t.Fatalf("%q is no price", text)
	}
	return units(t, whole+cents) * 10_000
}

// documentsAgree reads every document, follows every link in it that leads here, and compares what they
// say of the same things.
func (w *world) documentsAgree(t *testing.T, api openAPI) {
	link := regexp.MustCompile(regexp.QuoteMeta(origin) + `(/[A-Za-z0-9_./{}-]*)?`)
	route := regexp.MustCompile(`\b(GET|POST) (/[A-Za-z0-9_./{}-]+)`)
	tags := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		operation, ok := api.Paths[path]["get"]
		if !ok || !slices.Contains(operation.Tags, "Discovery") {
			continue
		}
		a := w.send(get(path))
		if a.status != http.StatusOK || a.header.Get("Access-Control-Allow-Origin") != "*" ||
			a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
			continue
		}
		head := w.send(request{method: "HEAD", path: path})
		if head.status != http.StatusOK || len(head.body) != 0 ||
			head.header.Get("Content-Type") != a.header.Get("Content-Type") {
			t.Errorf("HEAD %s: %d, %d bytes", path, head.status, len(head.body))
		}
		tags[path] = a.header.Get("ETag")
		if strings.HasPrefix(path, "/docs/") {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(string(a.body), -1) {
			if to := strings.TrimRight(found[1], "."); to != "" {
				w.checkLink(t, path, api, to)
			}
		}
		for _, found := range route.FindAllStringSubmatch(string(a.body), -1) {
			if _, ok := api.Paths[found[2]][strings.ToLower(found[1])]; !ok {
				t.Errorf("%s names %s, which is not documented", path, found[0])
			}
		}
		if bytes.Contains(a.body, []byte("127.0.0.1")) {
			t.Errorf("%s names where the instance listens", path)
		}
	}
	if tags["/openapi.json"] == "" || tags["/openapi.json"] != tags["/api/openapi.json"] ||
		tags["/openapi.json"] != tags["/.well-known/openapi.json"] {
		t.Errorf("the OpenAPI document differs from itself: %v", tags)
	}
	w.namesAgree(t, api)
}

// checkLink checks that a link leads to something documented that answers.
func (w *world) checkLink(t *testing.T, from string, api openAPI, to string) {
	t.Helper()
	verbs, ok := api.Paths[to]
	if !ok {
		t.Errorf("%s leads to %s, which is not documented", from, to)
		return
	}
	for verb := range verbs {
		if a := w.send(request{method: strings.ToUpper(verb), path: to}); a.err != nil || a.status >= 404 &&
			a.status != http.StatusConflict {
			t.Errorf("%s leads to %s %s, which answers %d", from, verb, to, a.status)
		}
	}
}

// namesAgree compares the documents that say the same in other words.
func (w *world) namesAgree(t *testing.T, api openAPI) {
	var contract struct {
		ContractVersion int
		DocsVersion     string
		Service         struct{ Name, Version, Environment, BaseURL string }
		Payment         struct{ Network, Asset, PayTo string }
		Products        []struct {
			Path     string
			Contract string
		}
		Operations []struct{ Method, Path string }
		MCP        struct{ URL, ProtocolVersion string }
	}
	var card struct {
		Version, ProtocolVersion string
		ServerInfo               struct{ Name, Version string }
		Remotes                  []struct{ URL string }
	}
	var agent struct{ Name, Version string }
	var settings struct {
		BaseURL string
		Network struct{ Network, Asset, PayTo string }
	}
	for path, into := range map[string]any{
		"/api/agent":                   &contract,
		"/.well-known/mcp.json":        &card,
		"/.well-known/agent-card.json": &agent,
		"/api/config":                  &settings,
	} {
		w.send(get(path)).into(t, http.StatusOK, into)
	}
	if contract.ContractVersion != 1 || contract.DocsVersion != api.Info.Version || card.Version != api.Info.Version ||
		card.ServerInfo.Version != api.Info.Version || agent.Version != api.Info.Version {
		t.Errorf("versions: %q, %q, %q, %q, %q", api.Info.Version, contract.DocsVersion, card.Version,
			card.ServerInfo.Version, agent.Version)
	}
	if contract.Service.Name != api.Info.Title || card.ServerInfo.Name != api.Info.Title || agent.Name != api.Info.Title {
		t.Errorf("names: %q, %q, %q, %q", api.Info.Title, contract.Service.Name, card.ServerInfo.Name, agent.Name)
	}
	if contract.Payment.Network != settings.Network.Network || contract.Payment.Asset != settings.Network.Asset ||
		contract.Payment.PayTo != settings.Network.PayTo || contract.Service.BaseURL != settings.BaseURL ||
		settings.BaseURL != origin {
		t.Errorf("terms: %+v, %+v", contract.Payment, settings)
	}
	if card.Remotes[0].URL != contract.MCP.URL || contract.MCP.URL != origin+"/mcp" ||
		card.ProtocolVersion != contract.MCP.ProtocolVersion {
		t.Errorf("MCP: %+v, %+v", card, contract.MCP)
	}
	var documented int
	for _, verbs := range api.Paths {
		documented += len(verbs)
	}
	if len(contract.Operations) != documented {
		t.Errorf("%d operations are in the contract, %d in the OpenAPI document", len(contract.Operations), documented)
	}
	for _, p := range contract.Products {
		var terms struct {
			Payment struct{ Resource, PayTo, Network string }
		}
		w.send(get(strings.TrimPrefix(p.Contract, origin))).into(t, http.StatusOK, &terms)
		if terms.Payment.Resource != origin+p.Path || terms.Payment.PayTo != contract.Payment.PayTo ||
			terms.Payment.Network != contract.Payment.Network {
			t.Errorf("%s: its contract says %+v", p.Path, terms.Payment)
		}
	}
}

// toolsAgree compares what tools answer with what their routes answer.
func (w *world) toolsAgree(t *testing.T) {
	for tool, path := range map[string]string{
		"get_config":         "/api/config",
		"get_card_contract":  "/api/card/discovery",
		"get_topup_contract": "/api/card/topup/discovery",
		"get_esim_contract":  "/api/esim/discovery",
		"get_readiness":      "/ready",
	} {
		var want, got any
		w.send(get(path)).into(t, http.StatusOK, &want)
		if err := json.Unmarshal(w.callTool(t, tool, `{}`).StructuredContent, &got); err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s answers otherwise than %s:\n%s", tool, path, diff)
		}
	}
	for _, tool := range []string{"get_agent_contract", "get_wallet_requirements", "list_esim_plans", "get_esim_readiness",
		"get_install_command", "get_openapi"} {
		if got := w.callTool(t, tool, `{}`); got.IsError {
			t.Errorf("%s: %s", tool, got.Content[0].Text)
		}
	}
	foreign := w.send(post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`).withHeader("Host", "evil.example"))
	if foreign.status != http.StatusForbidden {
		t.Errorf("a foreign host got %d", foreign.status)
	}
}

// toolAnswer is what a tool says.
type toolAnswer struct {
	IsError           bool
	Content           []struct{ Text string }
	StructuredContent json.RawMessage
}

func (w *world) callTool(t *testing.T, name, arguments string) toolAnswer {
	t.Helper()
	var answer struct{ Result toolAnswer }
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
	a := w.send(post("/mcp", body))
	a.into(t, http.StatusOK, &answer)
	if len(a.body) > 25_000 {
		t.Errorf("%s %s answers %d bytes", name, arguments, len(a.body))
	}
	return answer.Result
}

// TestToolsRevealOnlyTheURLOfAnOrder asks about an order before it is paid and after, also
// with its owner's own headers.
func TestToolsRevealOnlyTheURLOfAnOrder(t *testing.T) {
	w := borrowWorld(t, 1)
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	arguments := `{"orderId":"` + o.OrderID + `"}`
	want := `{"orderId":"` + o.OrderID + `","payable_url":"` + o.PayableURL + `"}`
	if got := w.callTool(t, "get_payable_url", arguments); got.IsError || string(got.StructuredContent) != want ||
		got.Content[0].Text != want {
		t.Errorf("of an open order: %+v", got)
	}
	b.payAndRepeat("POST", o.path(), o.OrderID, 25_000_000)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_payable_url","arguments":` + arguments +
		`}}`
	paid := w.send(post("/mcp", call).as(b))
	for _, private := range []string{b.address.String(), strings.ToLower(b.address.String()), "card_issue", "0x",
		"operationId", "amount"} {
		if bytes.Contains(paid.body, []byte(private)) {
			t.Errorf("of a paid order, %q is told: %s", private, paid.body)
		}
	}
	if !bytes.Contains(paid.body, []byte("order_not_payable")) {
		t.Errorf("of a paid order: %s", paid.body)
	}
	unknown := w.callTool(t, "get_payable_url", `{"orderId":"ord_00"}`)
	if !unknown.IsError || !strings.Contains(unknown.Content[0].Text, "order_not_found") {
		t.Errorf("of no order: %+v", unknown)
	}
}
