package endtoend_test

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpcreflect/v2"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
)

// mint mints a token as the operator of the configuration.
func (w *world) mint(name, role string) string {
	w.t.Helper()
	var made struct {
		Secret string
		Token  struct{ ID, MintedBy, Status string }
	}
	body := fmt.Sprintf(`{"name":%q,"role":%q,"expiresInSeconds":3600,"reason":"the shift"}`, name, role)
	w.operatorCall("POST", "/api/admin/tokens", body, "mint "+name).into(w.t, http.StatusOK, &made)
	if !strings.HasPrefix(made.Secret, auth.MintedPrefix) || made.Token.MintedBy != "ann" ||
		made.Token.Status != "active" {
		w.t.Fatalf("minted %+v", made)
	}
	return made.Secret
}

// as makes a call with a token.
func (w *world) as(token, method, path, body, key string) answer {
	r := request{method: method, path: path, body: body}.withHeader("Authorization", "Bearer "+token)
	if key != "" {
		r = r.withHeader("Idempotency-Key", key)
	}
	return w.send(r)
}

func TestEveryRoleMayDoWhatItMay(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	var roles []string
	for _, r := range auth.Roles() {
		roles = append(roles, string(r))
	}
	calls := []struct {
		least             auth.Role
		method, path      string
		body, key, refuse string
	}{
		{auth.RoleViewer, "GET", "/api/admin/orders", "", "", ""},
		{auth.RoleViewer, "GET", "/api/admin/audit", "", "", ""},
		{auth.RoleSupport, "POST", "/api/admin/reconcile", "", "", "Reconcile"},
		{auth.RoleSupport, "POST", "/api/admin/switches/esim", `{"paused":true,"reason":"drill"}`, "1", "SetSwitch"},
		{auth.RoleAdmin, "POST", "/api/admin/switches/esim", `{"paused":false,"reason":"drill"}`, "2", "SetSwitch"},
		{auth.RoleTreasurer, "POST", "/api/admin/orders/ord_none/decide", `{"action":"refund","reason":"r"}`, "3",
			"DecideOrder"},
		{auth.RoleAdmin, "GET", "/api/admin/tokens", "", "", "ListTokens"},
		{auth.RoleAdmin, "POST", "/api/admin/tokens",
			`{"name":"eve","role":"admin","expiresInSeconds":60,"reason":"r"}`, "4", "MintToken"},
	}
	for have, role := range roles {
		token := w.mint(role+"-ann", role)
		var me struct{ Operator, Role, Source, ExpiresAt string }
		w.as(token, "GET", "/api/admin/whoami", "", "").into(t, http.StatusOK, &me)
		if me.Operator != role+"-ann" || me.Role != role || me.Source != "token" || me.ExpiresAt == "" {
			t.Errorf("%s is %+v", role, me)
		}
		for _, c := range calls {
			got := w.as(token, c.method, c.path, c.body, c.key)
			allowed := auth.Roles()[have].Covers(c.least)
			if allowed == got.is(fault.OperatorRoleMissing) || allowed == (got.status == http.StatusForbidden) {
				t.Errorf("%s at %s %s: %d %s", role, c.method, c.path, got.status, got.body)
			}
		}
	}
	var trail struct {
		Records []struct{ Subject, After string }
	}
	w.operatorCall("GET", "/api/admin/audit?actor=viewer-ann&action=operator.refused", "", "").into(t, http.StatusOK,
		&trail)
	var refused []string
	for _, r := range trail.Records {
		refused = append([]string{r.Subject}, refused...)
	}
	if got := strings.Join(refused, " "); got != "Reconcile SetSwitch SetSwitch DecideOrder ListTokens MintToken" {
		t.Errorf("refused to a viewer: %s", got)
	}
}

func TestRevokedTokenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	token := w.mint("bob", "viewer")
	var page struct {
		Tokens []struct{ ID, Name, LastUsedAt string }
	}
	w.as(token, "GET", "/api/admin/whoami", "", "").into(t, http.StatusOK, nil)
	w.operatorCall("GET", "/api/admin/tokens?status=active", "", "").into(t, http.StatusOK, &page)
	if len(page.Tokens) != 1 || page.Tokens[0].Name != "bob" || page.Tokens[0].LastUsedAt == "" {
		t.Fatalf("%+v", page)
	}
	revoke := "/api/admin/tokens/" + page.Tokens[0].ID + "/revoke"
	w.operatorCall("POST", revoke, `{"reason":"lost"}`, "1").into(t, http.StatusOK, nil)
	got := w.as(token, "GET", "/api/admin/whoami", "", "")
	if got.status != http.StatusUnauthorized || !got.is(fault.OperatorTokenInvalid) {
		t.Errorf("a revoked token: %d %s", got.status, got.body)
	}
	for name, body := range map[string]string{
		"the name of one of the configuration": `{"name":"ann","role":"viewer","expiresInSeconds":60,"reason":"r"}`,
		"no such role":                         `{"name":"eve","role":"root","expiresInSeconds":60,"reason":"r"}`,
		"no end":                               `{"name":"eve","role":"viewer","reason":"r"}`,
		"no name":                              `{"role":"viewer","expiresInSeconds":60,"reason":"r"}`,
		"a name of two lines":                  `{"name":"e\nve","role":"viewer","expiresInSeconds":60,"reason":"r"}`,
	} {
		if got := w.operatorCall("POST", "/api/admin/tokens", body, "2"); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}

// TestRefundOfTwoOperatorsEndsOnChain: the order waits until a second one approves, and then is paid back.
func TestRefundOfTwoOperatorsEndsOnChain(t *testing.T) {
	t.Parallel()
	onlyTorture(t, "store TestRefundAboveTheAmountWaitsForASecondOperator, and refunds in "+
		"testing/simulation TestSeeds")
	const second = "the token of dave, whom the configuration names"
	w := newAdminWorld(t, 0, plan{chain: ownChain(t), change: func(c *app.Config) {
		c.TreasuryDeadline = 15 * time.Second
		c.SecondOperator.Above = 2000
		c.Operators = append(c.Operators, auth.Operator{
			Name: "dave", Hash: sha256.Sum256([]byte(second)), Role: auth.RoleTreasurer,
		})
	}})
	b := w.buyer()
	b.signIn()
	before := w.balance(b.address)
	var o orderView
	b.buySettled("never~002").into(t, 200, &o)
	b.awaitStatus(o.OrderID, "refund_pending") // the treasury has no money
	w.mine(128)
	b.awaitStatus(o.OrderID, "operator_review")
	w.fund(w.treasury, price())
	one := w.mint("carol", "treasurer")
	var asked struct {
		Status          string
		PendingApproval struct{ ID, Status, RequestedBy string }
	}
	w.as(one, "POST", "/api/admin/orders/"+o.OrderID+"/decide", `{"action":"refund","reason":"never delivered"}`,
		"1").into(t, http.StatusOK, &asked)
	if asked.Status != "operator_review" || asked.PendingApproval.Status != "pending" ||
		asked.PendingApproval.RequestedBy != "carol" {
		t.Fatalf("%+v", asked)
	}
	approve := "/api/admin/approvals/" + asked.PendingApproval.ID + "/approve"
	for name, token := range map[string]string{
		"who asked": one, "who minted the token of who asked": operatorToken,
		"another token that the same one minted": w.mint("erik", "treasurer"),
	} {
		got := w.as(token, "POST", approve, `{"reason":"yes"}`, "2")
		if got.status != http.StatusForbidden || !got.is(fault.SecondOperatorRequired) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := w.as(w.mint("erin", "support"), "POST", approve, `{"reason":"yes"}`,
		"3"); !got.is(fault.OperatorRoleMissing) {
		t.Errorf("support: %d %s", got.status, got.body)
	}
	for range 2 { // repeated, it is the same approval
		w.as(second, "POST", approve, `{"reason":"checked"}`, "4").into(t, http.StatusOK, nil)
	}
	b.awaitStatus(o.OrderID, "refunded")
	if got := w.balance(b.address); got != before || len(w.payouts(b.address)) != 1 {
		t.Errorf("the buyer has %s, had %s", got, before)
	}
	w.checkBooks()
	if history, text := w.history(o.OrderID); !strings.Contains(text, `"approved_by"`) || history.Refund == nil {
		t.Errorf("%s", text)
	}
}

// TestDeliveredByHandTakesTwoOperators: it ends an order without a provider's word, and its money stays.
func TestDeliveredByHandTakesTwoOperators(t *testing.T) {
	onlyTorture(t, "store TestDeliveredByHandAboveTheAmountWaitsToo")
	t.Parallel()
	const second = "the token of dave, whom the configuration names"
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) {
		c.SecondOperator.Above = 1
		c.Operators = append(c.Operators, newOperator("dave", second))
	}})
	w.awaitEsimReady(nil)
	b := w.buyer()
	b.signIn()
	w.issuer.esimFault("order", "refused", 1)
	o := b.buyEsim("by-hand")
	b.awaitStatus(o.OrderID, "operator_review")
	var asked struct {
		Status          string
		PendingApproval struct{ ID, Action string }
	}
	w.operatorCall("POST", "/api/admin/orders/"+o.OrderID+"/decide", `{"action":"fulfilled","reason":"over the counter"}`,
		"1").into(t, http.StatusOK, &asked)
	if asked.Status != "operator_review" || asked.PendingApproval.Action != "order.fulfill" {
		t.Fatalf("%+v", asked)
	}
	for _, a := range w.review(o.OrderID).AllowedActions {
		if a.Allowed != (a.Action == "retry") {
			t.Errorf("while it waits: %+v", a)
		}
	}
	w.as(second, "POST", "/api/admin/approvals/"+asked.PendingApproval.ID+"/approve", `{"reason":"I was there"}`,
		"2").into(t, http.StatusOK, nil)
	after := w.review(o.OrderID)
	if after.Order.Status != "fulfilled" || len(after.Postings) != 2 || after.Postings[1].Kind != "sold" {
		t.Errorf("%+v", after)
	}
}

// TestOperatorsHaveAListenerOfTheirOwn: then nobody else finds their routes, or reads of them.
func TestOperatorsHaveAListenerOfTheirOwn(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, plan{change: func(c *app.Config) {
		c.AdminAddr = addr
		c.Operators = []auth.Operator{{Name: "ann", Hash: sha256.Sum256([]byte(operatorToken))}}
	}})
	for _, r := range []request{
		{method: "GET", path: "/api/admin/whoami"}, {method: "GET", path: "/api/admin/orders"},
		{method: "POST", path: "/roamcard.v1.OperatorService/WhoAmI", body: "{}"},
	} {
		if got := w.send(r.asOperator("")); got.status != http.StatusNotFound {
			t.Errorf("the public listener at %s: %d %s", r.path, got.status, got.body)
		}
	}
	for _, path := range []string{
		"/openapi.json", "/api/agent", "/llms.txt", "/SKILL.md", "/.well-known/mcp.json", "/.well-known/agent-card.json",
	} {
		got := w.send(get(path))
		if text := string(got.body); strings.Contains(text, "/api/admin/orders") || strings.Contains(text, "DecideOrder") ||
			strings.Contains(text, "operatorKey") {
			t.Errorf("%s names the operators' routes", path)
		}
	}
	own := func(path string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+operatorToken)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for path, want := range map[string]int{
		"/api/admin/whoami": http.StatusOK, "/api/config": http.StatusNotFound, "/openapi.json": http.StatusNotFound,
		"/health": http.StatusNotFound, "/api/admin/activity": http.StatusNotFound,
	} {
		if got := own(path); got != want {
			t.Errorf("their listener at %s: %d, want %d", path, got, want)
		}
	}
	for at, described := range map[string]map[protoreflect.FullName]bool{
		w.instances[0].url: {"roamcard.v1.CardService": true, "roamcard.v1.OperatorService": false},
		"http://" + addr:   {"roamcard.v1.CardService": false, "roamcard.v1.OperatorService": true},
	} {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: &protocols}
		defer transport.CloseIdleConnections()
		stream := grpcreflect.NewClient(connect.NewClient(connecthttp.NewTransport(
			&http.Client{Transport: transport}, at, connecthttp.WithGRPC()))).NewStream(t.Context())
		defer func() { _ = stream.Close() }()
		for service, want := range described {
			if _, err := stream.FileContainingSymbol(service); (err == nil) != want {
				t.Errorf("reflection at %s of %s: %v", at, service, err)
			}
		}
	}
}
