package endtoend_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// operation is one of the OpenAPI document's.
type operation struct {
	OperationID   string `json:"operationId"`
	Tags          []string
	Security      []map[string]any
	RequiredScope string `json:"x-required-scope"`
	Parameters    []struct {
		Ref  string `json:"$ref"`
		Name string
		In   string
	}
	RequestBody *struct{ Required bool }
	Responses   map[string]any

	method, path string
}

// access is who the document lets in: anyone, session, delivery (that or the order's token) or operator.
func (o operation) access(t *testing.T) string {
	t.Helper()
	var schemes []string
	for _, s := range o.Security {
		schemes = slices.AppendSeq(schemes, maps.Keys(s))
	}
	switch strings.Join(slices.Sorted(slices.Values(schemes)), " ") {
	case "":
		return "anyone"
	case "walletSession", "signInWithX walletSession":
		return "session"
	case "deliveryToken walletSession", "deliveryToken signInWithX walletSession":
		return "delivery"
	case "operatorKey":
		return "operator"
	}
	t.Fatalf("%s asks for %v, which the matrix does not know", o.OperationID, schemes)
	return ""
}

func operations(t *testing.T) (all []operation) {
	t.Helper()
	raw, err := os.ReadFile("../../../gen/openapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			o := doc.Paths[path][method]
			o.method, o.path = strings.ToUpper(method), path
			all = append(all, o)
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d operations", len(all))
	}
	return all
}

// row says how an operation is called well, and what callers with access get. Callers without access get what the
// document's security says, whatever the row is.
type row struct {
	// ids are the variables of the path: those of something of the owner's.
	ids map[string]string
	// body is a good body; made makes one for a caller who is let in.
	body string
	made func(*buyer) string
	// good is what the owner, the analyst or the operator gets; other is what another wallet gets.
	good, other int
	// ends is set when the call ends the session it is made with.
	ends bool
	// undone undoes a good call of the owner's, which others would notice.
	undone func()
}

// rows are the operations' rows, by id. A new operation needs one.
func (m *matrix) rows() map[string]row {
	card, order := map[string]string{"id": m.sold.Issuance.CardID}, map[string]string{"orderId": m.sold.OrderID}
	travels := map[string]string{"orderId": m.travels.OrderID}
	job, unpaid := map[string]string{"id": m.job}, map[string]string{"orderId": m.unpaid}
	nothing := map[string]string{"id": "00000000-0000-7000-8000-000000000000"}
	anyone := row{good: 200}
	m.owner.awaitFee(m.sold.Issuance.CardID) // a card is not frozen before
	active := func() {
		m.owner.post("/api/cards/"+m.sold.Issuance.CardID+"/unfreeze", "").into(m.t, 200, nil)
	}
	return map[string]row{
		"GetConfig":             anyone,
		"GetHealth":             anyone,
		"GetReadiness":          anyone,
		"GetLiveness":           anyone,
		"GetStatus":             anyone,
		"GetCardDiscovery":      anyone,
		"GetTopupDiscovery":     anyone,
		"GetEsimDiscovery":      anyone,
		"GetEsimReadiness":      anyone,
		"ListEsimPlans":         anyone,
		"PurchaseEsim":          {body: purchaseBody("matrix"), good: 402},
		"CreateEsimOrder":       {body: "{}", good: 200, other: 200},
		"GetEsimOrder":          {ids: travels, good: 200, other: 404},
		"GetEsimCredentials":    {ids: travels, good: 200, other: 404},
		"GetEsimProfile":        {ids: travels, good: 200, other: 404},
		"CancelEsim":            {ids: travels, good: 409, other: 404}, // a device has it
		"ListEsimTopups":        {ids: travels, good: 200, other: 404},
		"TopUpEsim":             {ids: travels, body: purchaseBody("matrix"), good: 402},
		"RotateEsimToken":       {ids: map[string]string{"orderId": m.rotates.OrderID}, good: 200, other: 404},
		"PurchaseCard":          {body: purchaseBody("matrix"), good: 402},
		"TopUpCard":             {body: purchaseBody("matrix"), good: 402},
		"CreateChallenge":       {body: `{"address":` + jsonText(m.owner.address.String()) + `}`, good: 200},
		"VerifyChallenge":       {body: `{"address":` + jsonText(m.owner.address.String()) + `,"signature":"0x"}`, good: 401},
		"RecordEvent":           {made: func(*buyer) string { return eventBody(nil) }, body: eventBody(nil), good: 202},
		"GetSession":            {good: 200, other: 200},
		"Logout":                {good: 200, other: 200, ends: true},
		"ListOrders":            {good: 200, other: 200},
		"ListReceipts":          {good: 200, other: 200},
		"GetOrder":              {ids: order, good: 200, other: 404},
		"ListCards":             {good: 200, other: 200},
		"EnsureCard":            {good: 200, other: 409},
		"GetCardBalance":        {ids: card, good: 200, other: 404},
		"FreezeCard":            {ids: card, good: 200, other: 404, undone: active},
		"UnfreezeCard":          {ids: card, good: 200, other: 404},
		"ListCardTransactions":  {ids: card, good: 200, other: 404},
		"GetCardDetails":        {ids: card, good: 200, other: 404},
		"GetCardLimits":         {ids: card, good: 200, other: 404},
		"SetCardLimits":         {ids: card, body: "{}", good: 200, other: 404},
		"CreateRevealChallenge": {ids: card, body: "{}", good: 200, other: 404},
		"RevealCard": {ids: card, body: revealBody(uuid.NewString(), m.owner.sign("x")), made: m.ownerRevealBody,
			good: 200, other: 401},
		"ListFeeJobs":      {good: 200},
		"ReconcileFeeJob":  {ids: job, good: 200},
		"RetryFeeJob":      {ids: job, body: `{"reason":"the matrix"}`, good: 409},
		"WriteOffFeeJob":   {ids: job, body: `{"reason":"the matrix"}`, good: 409},
		"ListCardClosings": {good: 200},
		"InspectCard":      {ids: card, good: 200},
		"CloseCard": {ids: map[string]string{"id": uuid.NewString()}, body: `{"reason":"the matrix"}`,
			good: 404},
		"RetryEsimCancellation": {ids: map[string]string{"orderId": "ord_none"}, body: `{"reason":"the matrix"}`,
			good: 404},
		"ConcludeEsimCancellation": {ids: map[string]string{"orderId": "ord_none"},
			body: `{"transaction":"0x` + strings.Repeat("1", 64) + `","reason":"the matrix"}`, good: 404},
		"RetryCardClosing": {ids: map[string]string{"id": uuid.NewString()}, body: `{"reason":"the matrix"}`,
			good: 404},
		"ConcludeCardClosing": {ids: map[string]string{"id": uuid.NewString()},
			body: `{"transaction":"0x` + strings.Repeat("1", 64) + `","reason":"the matrix"}`, good: 404},
		"GetChallengeRetention": {good: 200},
		"PruneChallenges":       {good: 200},
		"CallMCP":               {body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, good: 200},
		"Reconcile":             {good: 200},
		"ListOrderQueue":        {good: 200},
		"WhoAmI":                {good: 200},
		"CountOrders":           {good: 200},
		"ReviewOrder":           {ids: map[string]string{"orderId": m.sold.OrderID}, good: 200},
		"ListAudit":             {good: 200},
		"GetGauges":             {good: 200},
		"ListJobs":              {good: 200},
		"GetJob":                {ids: job, good: 200},
		"RetryJob":              {ids: job, body: `{"reason":"the matrix"}`, good: 409},
		"DropJob":               {ids: job, body: `{"reason":"the matrix"}`, good: 409},
		"InspectOrder":          {ids: map[string]string{"orderId": m.sold.OrderID}, good: 200},
		"ProvePayment": {ids: map[string]string{"orderId": m.sold.OrderID}, body: `{"transaction":"0x` +
			strings.Repeat("ab", 32) + `","reason":"the matrix"}`, good: 409},
		"DecideOrder": {ids: map[string]string{"orderId": m.sold.OrderID},
			body: `{"action":"refund","reason":"the matrix"}`, good: 409},
		"ListSwitches": {good: 200},
		"SetSwitch": {ids: map[string]string{"product": "esim"}, body: `{"paused":false,"reason":"the matrix"}`,
			good: 200},
		"GetReconciliation":   {good: 200},
		"ListReconciliations": {good: 200},
		"ListFindings":        {good: 200},
		"ResolveFinding":      {ids: map[string]string{"id": "4711"}, body: `{"reason":"the matrix"}`, good: 404},
		"ListTransfers":       {good: 200},
		"ResolveTransfer": {ids: map[string]string{"transaction": "0x" + strings.Repeat("1", 64), "logIndex": "5"},
			body: `{"resolution":"known","reason":"the matrix"}`, good: 404},
		"CreateOrder":     {body: `{"amount":"25.00"}`, good: 200, other: 409},
		"CreateCardOrder": {good: 409, other: 200},
		"SubmitPayment":   {ids: unpaid, body: `{"paymentSignature":"x"}`, good: 400, other: 404},
		"PayOrder":        {ids: unpaid, good: 402},
		"PayOrder2":       {ids: unpaid, good: 402},
		"PayOrder3":       {ids: unpaid, good: 402},
		"PayOrder4":       {ids: unpaid, good: 402},
		"GetPayableOrder": {ids: unpaid, good: 200},
		"GetSummary":      {good: 200},
		"ListApprovals":   {good: 200},
		"GetApproval":     {ids: nothing, good: 404},
		"ApproveDecision": {ids: nothing, body: `{"reason":"the matrix"}`, good: 404},
		"RejectDecision":  {ids: nothing, body: `{"reason":"the matrix"}`, good: 404},
		"ListTokens":      {good: 200},
		"MintToken": {
			body: `{"name":"matrix","role":"viewer","expiresInSeconds":60,"reason":"the matrix"}`, good: 200,
		},
		"RevokeToken":           {ids: nothing, body: `{"reason":"the matrix"}`, good: 404},
		"ListEsimCancellations": {good: 200},
		"GetActivity":           {good: 200, other: 401},
		"PruneActivity":         {good: 200, other: 401},
	}
}

// ownerRevealBody makes the body that reveals the owner's card; for anyone else it is the owner's own proof.
func (m *matrix) ownerRevealBody(*buyer) string {
	var ch struct{ IntentID, Message string }
	m.owner.post("/api/cards/"+m.sold.Issuance.CardID+"/reveal-challenge", "{}").into(m.t, 200, &ch)
	return revealBody(ch.IntentID, m.owner.sign(ch.Message))
}

// matrix is a world with one caller of every kind.
type matrix struct {
	*world
	owner, other, expired, revoked, analyst *buyer
	operator                                string
	sold                                    paidOrder
	// travels and rotates are the owner's eSIMs, the second one to lose its token; foreign is another wallet's.
	travels, rotates, foreign esimOrder
	// job is the owner's fee job, unpaid an order of the owner's that waits for its payment.
	job, unpaid string
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	key, token := newKey(t), "rco_of_the_matrix"
	w := newWorld(t, plan{change: func(c *app.Config) {
		c.Operators, c.Activity = []auth.Operator{newOperator("ada", token)}, []x402.Address{addressOf(key)}
	}})
	m := &matrix{world: w, operator: token, owner: w.buyer(), other: w.buyer(), expired: w.unfundedBuyer(),
		revoked: w.unfundedBuyer(),
		analyst: &buyer{w: w, key: key, address: addressOf(key)}}
	m.sold = m.owner.buyCard("matrix")
	w.awaitEsimReady(nil)
	m.rotates = m.owner.buyEsim("matrix-esim-rotated")
	m.travels = m.owner.buyEsim("matrix-esim")
	w.issuer.call(http.MethodPost, "esim/profiles/"+w.newestEsim(), map[string]any{"status": "enabled", "usedBytes": 7})
	m.foreign = m.other.buyEsim("matrix-esim")
	for _, b := range []*buyer{m.other, m.expired, m.revoked, m.analyst} {
		b.signIn()
	}
	hash := sha256.Sum256([]byte(m.expired.token))
	w.exec(`UPDATE sessions SET expires_at = now() - interval '1 second' WHERE token_hash = $1`, hash[:])
	m.revoked.post("/api/auth/logout", "").into(t, 200, nil)
	var jobs struct{ Jobs []struct{ ID string } }
	w.send(get("/api/admin/card-issue-fee/jobs").with(bearerOf(token))).into(t, 200, &jobs)
	m.job = jobs.Jobs[0].ID
	w.send(post("/api/admin/reconcile", "").with(bearerOf(token))).into(t, 200, nil)
	var order paidOrder
	m.owner.post("/api/orders", "").into(t, 200, &order)
	m.unpaid = order.OrderID
	return m
}

func bearerOf(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

func tokenOf(text string) map[string]string {
	return map[string]string{"X-Esim-Delivery-Token": text}
}

// callerKind is one kind of caller: its header, and the wallet behind it, if any.
type callerKind struct {
	name   string
	header map[string]string
	who    *buyer
}

func (m *matrix) callers() []callerKind {
	return []callerKind{
		{"nobody", map[string]string{}, nil}, {"owner", m.owner.bearer(), m.owner},
		{"another wallet", m.other.bearer(), m.other},
		{"analyst", m.analyst.bearer(), m.analyst},
		{"expired", m.expired.bearer(), nil}, {"revoked", m.revoked.bearer(), nil},
		{"operator", bearerOf(m.operator), nil}, {"wrong operator", bearerOf("rco_" + strings.Repeat("0", 64)), nil},
		{"delivery token", tokenOf(m.travels.Delivery.Token), nil},
		{"foreign delivery token", tokenOf(m.foreign.Delivery.Token), nil},
		{"wrong delivery token", tokenOf("edt_" + strings.Repeat("0", 43)), nil},
		{"no delivery token", tokenOf("rcd_" + strings.Repeat("0", 43)), nil},
	}
}

// want is what a caller gets: the status, and whether it was let in.
func (m *matrix) want(o operation, r row, c callerKind) (status int, code fault.Code, in bool) {
	switch access := o.access(m.t); {
	case access == "anyone":
		return r.good, "", true
	case access == "operator" && c.name == "operator":
		return r.good, "", true
	case access == "operator":
		return 401, fault.OperatorTokenInvalid, false
	case access == "delivery" && c.name == "delivery token":
		return r.good, "", true
	case access == "delivery" && c.name != "no delivery token" && strings.HasSuffix(c.name, "delivery token"):
		return 404, fault.OrderNotFound, false
	case c.who == nil, o.RequiredScope == string(auth.ScopeActivity) && c.who != m.analyst:
		return 401, fault.SessionInvalid, false
	case c.who == m.owner, o.RequiredScope == string(auth.ScopeActivity):
		return r.good, "", true
	}
	return r.other, "", true
}

// TestEveryOperationChecksEveryCaller calls each documented operation as each kind of caller, by its path
// and by its procedure.
func TestEveryOperationChecksEveryCaller(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	rows, calls := m.rows(), 0
	for _, o := range operations(t) {
		r, ok := rows[o.OperationID]
		transports := []func(operation, row, string) request{m.byPath, m.byProcedure}
		if !slices.Contains([]string{"Activity", "Auth", "Card", "Esim", "Operator", "Order", "Runtime"}, o.Tags[0]) {
			// A document, or the tools: no procedure, and the same for everybody.
			transports = transports[:1]
			if o.method == "GET" && o.access(t) == "anyone" {
				r, ok = row{good: 200}, true
			}
		}
		if !ok {
			t.Errorf("%s %s (%s) has no row in the matrix", o.method, o.path, o.OperationID)
			continue
		}
		for _, transport := range transports {
			for _, c := range m.callers() {
				m.check(o, r, c, transport)
				calls++
			}
		}
	}
	if calls < 300 {
		t.Errorf("%d calls", calls)
	}
}

func (m *matrix) check(o operation, r row, c callerKind, transport func(operation, row, string) request) {
	status, code, in := m.want(o, r, c)
	body := r.body
	if in && r.made != nil {
		body = r.made(c.who)
	}
	call := transport(o, r, body)
	call.header = maps.Clone(c.header)
	call.header["Accept"] = "application/json, text/event-stream"
	if o.method == "GET" {
		delete(call.header, "Accept")
	}
	if o.takesKey() {
		call.header["Idempotency-Key"] = "the matrix"
	}
	if !strings.HasPrefix(call.path, "/api") && status == 202 {
		status = 200 // a procedure that succeeds has no other status
	}
	a := m.send(call)
	if a.status != status || !in && !strings.Contains(string(a.body), `"`+string(code)+`"`) {
		m.t.Errorf("%s %s as %s: %d %.200s, want %d %s", call.method, call.path, c.name, a.status, a.body, status, code)
	}
	if documented := o.Responses[fmt.Sprint(a.status)]; documented == nil && strings.HasPrefix(call.path, "/api") {
		m.t.Errorf("%s %s as %s: %d is not documented", call.method, call.path, c.name, a.status)
	}
	if a.status == 401 && a.header.Get("WWW-Authenticate") != "Bearer" {
		m.t.Errorf("%s %s as %s: WWW-Authenticate %q", call.method, call.path, c.name, a.header.Get("WWW-Authenticate"))
	}
	if in && r.undone != nil && c.who == m.owner {
		r.undone()
	}
	if in && r.ends && c.who != nil {
		c.who.signIn()
		maps.Copy(c.header, c.who.bearer())
	}
}

func (o operation) takesKey() bool {
	for _, p := range o.Parameters {
		if strings.HasSuffix(p.Ref, "/IdempotencyKey") {
			return true
		}
	}
	return false
}

// variable is a path's.
var variable = regexp.MustCompile(`\{(\w+)\}`)

func (m *matrix) byPath(o operation, r row, body string) request {
	path := variable.ReplaceAllStringFunc(o.path, func(v string) string {
		id, ok := r.ids[strings.Trim(v, "{}")]
		if !ok {
			m.t.Fatalf("%s has no %s", o.OperationID, v)
		}
		return id
	})
	if o.method == "GET" {
		body = ""
	}
	return request{method: o.method, path: path, body: body}
}

// byProcedure is the same call on the Connect protocol, where the ids are members like any other.
func (m *matrix) byProcedure(o operation, r row, body string) request {
	members := map[string]any{}
	if body != "" {
		if err := json.Unmarshal([]byte(body), &members); err != nil {
			m.t.Fatalf("%s: %v", o.OperationID, err)
		}
	}
	for name, id := range r.ids {
		members[name] = id
		if n, err := strconv.Atoi(id); err == nil && name != "id" { // an id is a text, also one of digits
			members[name] = n
		}
	}
	raw, _ := json.Marshal(members) // it was JSON before
	return post("/roamcard.v1."+o.Tags[0]+"Service/"+strings.TrimRight(o.OperationID, "0123456789"), string(raw))
}

// TestAccessMatrixExpectsDocumentedStatuses keeps the test above from passing because it looks at nothing.
func TestAccessMatrixExpectsDocumentedStatuses(t *testing.T) {
	m := &matrix{world: &world{t: t}, owner: &buyer{}, other: &buyer{}, analyst: &buyer{}, expired: &buyer{},
		revoked: &buyer{}}
	session := operation{OperationID: "X", Security: []map[string]any{{"walletSession": nil}}}
	scoped := operation{OperationID: "Y", RequiredScope: "activity", Security: session.Security}
	delivery := operation{OperationID: "D", Security: []map[string]any{{"deliveryToken": nil}, {"walletSession": nil}}}
	operator := operation{OperationID: "Z", Security: []map[string]any{{"operatorKey": nil}}}
	r := row{good: 200, other: 404}
	got := map[string]int{}
	for _, c := range m.callers() {
		for _, o := range []operation{session, scoped, delivery, operator} {
			got[c.name+" "+o.OperationID], _, _ = m.want(o, r, c)
		}
	}
	for name, want := range map[string]int{
		"nobody X":                 401,
		"owner X":                  200,
		"another wallet X":         404,
		"expired X":                401,
		"revoked X":                401,
		"operator X":               401,
		"delivery token X":         401,
		"nobody D":                 401,
		"owner D":                  200,
		"another wallet D":         404,
		"expired D":                401,
		"operator D":               401,
		"delivery token D":         200,
		"foreign delivery token D": 404,
		"wrong delivery token D":   404,
		"no delivery token D":      401,
		"delivery token Z":         401,
		"owner Y":                  401,
		"analyst Y":                200,
		"operator Y":               401,
		"owner Z":                  401,
		"analyst Z":                401,
		"operator Z":               200,
		"wrong operator Z":         401,
		"nobody Z":                 401,
	} {
		if got[name] != want {
			t.Errorf("%s: the matrix expects %d, want %d", name, got[name], want)
		}
	}
}
