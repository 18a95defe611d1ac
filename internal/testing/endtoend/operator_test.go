package endtoend_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
)

// reviewView is what an operator needs to decide about an order.
type reviewView struct {
	Order struct {
		OrderID, Status string
		Version         int
	}
	AllowedActions []struct {
		Action, Reason string
		Allowed        bool
	}
	Postings []struct {
		Kind    string
		Entries []struct{ Account, Units string }
	}
	Audit []struct{ Actor, Action, Reason, After string }
}

func (w *world) review(id string) (r reviewView) {
	w.t.Helper()
	w.operatorCall("GET", "/api/admin/orders/"+id+"/review", "", "").into(w.t, http.StatusOK, &r)
	return r
}

// queue are the ids of the orders that a query selects.
func (w *world) queue(query string) (ids []string) {
	w.t.Helper()
	var page struct{ Orders []struct{ OrderID string } }
	w.operatorCall("GET", "/api/admin/orders?"+query, "", "").into(w.t, http.StatusOK, &page)
	for _, o := range page.Orders {
		ids = append(ids, o.OrderID)
	}
	return ids
}

// TestOperatorFindsReviewsAndDecidesAnOrder by its version, while another operator decides it, too.
func TestOperatorFindsReviewsAndDecidesAnOrder(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	var orders []orderView
	buyers := w.buyers(2)
	for i, b := range buyers {
		b.signIn()
		w.issuer.fault("open", "refused", 1, 0)
		var o orderView
		b.buy(fmt.Sprint("k", i)).into(t, 200, &o)
		b.awaitStatus(o.OrderID, "operator_review")
		orders = append(orders, o)
	}
	one, two := orders[0].OrderID, orders[1].OrderID
	history, _ := w.history(two)
	for query, want := range map[string][]string{
		"":                            {two, one},
		"sort=oldest":                 {one, two},
		"sort=oldest&kind=card_issue": {one, two},
		"kind=card_topup":             nil,
		"status=fulfilled":            nil,
		"owner=" + strings.ToLower(buyers[0].address.String()):                {one},
		"transaction=" + history.Payments[0].Transaction:                      {two},
		"transaction=" + history.Payments[0].Transaction + "&status=settling": nil,
	} {
		if got := w.queue(query); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	var counts struct {
		Counts []struct {
			Kind, Status string
			Count        int
		}
	}
	w.operatorCall("GET", "/api/admin/order-counts", "", "").into(t, http.StatusOK, &counts)
	if len(counts.Counts) != 1 || counts.Counts[0].Status != "operator_review" || counts.Counts[0].Count != 2 {
		t.Errorf("%+v", counts)
	}
	w.checkSummary(one)

	r := w.review(one)
	allowed := ""
	for _, a := range r.AllowedActions {
		allowed += fmt.Sprint(a.Action, " ", a.Allowed, " ")
	}
	if allowed != "refund false retry true fulfilled true prove_payment false " || r.Order.Version == 0 ||
		len(r.Postings) != 1 || r.Postings[0].Kind != "settled" {
		t.Errorf("%+v", r)
	}
	decide := func(version int, key string) answer {
		body := fmt.Sprintf(`{"action":"fulfilled","reason":"over the counter","version":%d}`, version)
		return w.operatorCall("POST", "/api/admin/orders/"+one+"/decide", body, key)
	}
	wantProblem(t, "an older version", decide(r.Order.Version-1, "1"), http.StatusConflict, fault.VersionChanged)
	decide(r.Order.Version, "2").into(t, http.StatusOK, nil)
	decide(r.Order.Version, "2").into(t, http.StatusOK, nil) // repeated, it is the same decision
	wantProblem(t, "after the decision", decide(r.Order.Version, "3"), http.StatusConflict, fault.VersionChanged)
	after := w.review(one)
	if after.Order.Status != "fulfilled" || after.Order.Version != r.Order.Version+1 || len(after.Audit) < 2 {
		t.Errorf("%+v", after)
	}
	if first := after.Audit[len(after.Audit)-1]; first.Actor == "" {
		t.Errorf("%+v", after.Audit)
	}
}

// TestOperatorReadsAuditTrail page by page and by filters, and finds the reading in it.
func TestOperatorReadsAuditTrail(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	var me struct{ Operator string }
	w.operatorCall("GET", "/api/admin/whoami", "", "").into(t, http.StatusOK, &me)
	if me.Operator == "" {
		t.Error("the operator has no name")
	}
	for i := range 3 {
		w.setSwitch("esim", i%2 == 0, fmt.Sprint(i))
	}
	type page struct {
		Records       []struct{ ID, At, Actor, Action, Subject, Reason, Before, After string }
		NextPageToken string
	}
	read := func(query string) (p page) {
		t.Helper()
		w.operatorCall("GET", "/api/admin/audit?"+query, "", "").into(t, http.StatusOK, &p)
		return p
	}
	const sets = "action=switch.set&subject=esim&pageSize=2"
	first := read(sets)
	if len(first.Records) != 2 || first.NextPageToken == "" {
		t.Fatalf("%+v", first)
	}
	rest := read(sets + "&pageToken=" + first.NextPageToken)
	if len(rest.Records) != 1 || rest.NextPageToken != "" {
		t.Errorf("%+v", rest)
	}
	newest, oldest := first.Records[0], rest.Records[0]
	if newest.Actor != me.Operator || newest.Reason != "drill" || newest.After != `{"paused": true}` ||
		newest.Before != `{"paused": false}` || oldest.At >= newest.At {
		t.Errorf("%+v %+v", newest, oldest)
	}
	if got := read("since=" + newest.At + "&action=switch.set"); len(got.Records) != 1 || got.Records[0].ID != newest.ID {
		t.Errorf("since the newest: %+v", got)
	}
	if got := read("until=" + newest.At + "&action=switch.set"); len(got.Records) != 2 {
		t.Errorf("until the newest: %+v", got)
	}
	if got := read("actor=nobody"); len(got.Records) != 0 {
		t.Errorf("%+v", got)
	}
	if got := read("action=audit.list"); len(got.Records) < 5 || got.Records[0].Actor != me.Operator {
		t.Errorf("the reading is not recorded: %+v", got)
	}
	wantProblem(t, "a time that is none", w.operatorCall("GET", "/api/admin/audit?since=yesterday", "", ""),
		http.StatusBadRequest, fault.SchemaInvalid)
}

// TestOperatorReadsGaugesAndSwitches, and polling the gauges leaves nothing in the audit trail.
func TestOperatorReadsGaugesAndSwitches(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{change: func(c *app.Config) { c.TopupPaused = true }})
	before := w.count("SELECT count(*) FROM audit")
	var g struct {
		Floats   []struct{ Provider, Units string }
		Accounts []struct{ Name, Address, Units, Wei string }
		Nodes    []struct {
			Node  string
			Block int
		}
	}
	w.operatorCall("GET", "/api/admin/gauges", "", "").into(t, http.StatusOK, &g)
	w.operatorCall("GET", "/api/admin/order-counts", "", "").into(t, http.StatusOK, nil)
	if n := w.count("SELECT count(*) FROM audit"); n != before {
		t.Errorf("polling left %d audit records", n-before)
	}
	names := map[string]bool{}
	for _, a := range g.Accounts {
		names[a.Name] = true
		if relayer := a.Name == "relayer"; relayer != (a.Wei != "") || relayer == (a.Units != "") {
			t.Errorf("%+v", a)
		}
	}
	if len(g.Floats) != 1 || g.Floats[0].Units == "" || !names["payee"] || !names["relayer"] || len(g.Nodes) == 0 ||
		g.Nodes[0].Node != "1" {
		t.Errorf("%+v", g)
	}
	var all struct {
		Switches []struct {
			Product                string
			Paused, PausedByConfig bool
		}
	}
	w.operatorCall("GET", "/api/admin/switches", "", "").into(t, http.StatusOK, &all)
	for _, s := range all.Switches {
		if s.Paused || s.PausedByConfig != (s.Product == "card_topup") {
			t.Errorf("%+v", s)
		}
	}
}

// TestOperatorPutsBackAndDropsStoppedJobs, but not those that wait for a decision.
func TestOperatorPutsBackAndDropsStoppedJobs(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.signIn()
	w.issuer.fault("open", "refused", 1, 0)
	var o orderView
	b.buy("k").into(t, 200, &o)
	b.awaitStatus(o.OrderID, "operator_review")
	w.exec(`UPDATE jobs SET status = 'operator_review', last_error = 'look', finished_at = now(), lease_owner = NULL,
		lease_until = NULL WHERE kind = 'payment_confirm'`)
	type jobView struct {
		ID, Kind, Status, LastError, UniqueKey string
		Version                                int
		AllowedActions                         []struct {
			Action, Reason string
			Allowed        bool
		}
	}
	var all struct{ Jobs []jobView }
	w.operatorCall("GET", "/api/admin/jobs", "", "").into(t, http.StatusOK, &all)
	byKind := map[string]jobView{}
	for _, j := range all.Jobs {
		byKind[j.Kind] = j
	}
	watch, deliver := byKind["payment_confirm"], byKind["order_fulfill"]
	if watch.LastError != "look" || len(watch.AllowedActions) != 2 || !watch.AllowedActions[0].Allowed ||
		deliver.ID != "" && deliver.AllowedActions[0].Allowed {
		t.Errorf("%+v", all)
	}
	act := func(id, action string, version int, key string) answer {
		body := fmt.Sprintf(`{"reason":"the cause is gone","version":%d}`, version)
		return w.operatorCall("POST", "/api/admin/jobs/"+id+"/"+action, body, key)
	}
	order := queryOne[string](w, "SELECT id::text FROM jobs WHERE kind = 'order_fulfill'")
	for _, action := range []string{"retry", "drop"} {
		refused := w.operatorCall("POST", "/api/admin/jobs/"+order+"/"+action, `{"reason":"to see"}`, action)
		wantProblem(t, action+" of an order's job", refused, http.StatusConflict, fault.JobNotStopped)
		if !strings.Contains(string(refused.body), "admin orders") {
			t.Errorf("%s", refused.body)
		}
	}
	wantProblem(t, "another version", act(watch.ID, "drop", watch.Version+1, "1"), http.StatusConflict,
		fault.VersionChanged)
	var queued jobView
	act(watch.ID, "retry", watch.Version, "2").into(t, http.StatusOK, &queued)
	if queued.Status != "queued" || queued.Version != watch.Version+1 {
		t.Errorf("%+v", queued)
	}
	act(watch.ID, "retry", watch.Version, "2").into(t, http.StatusOK, nil) // repeated, it is the same action
	w.exec(`UPDATE jobs SET status = 'failed', finished_at = now(), lease_owner = NULL, lease_until = NULL
		WHERE kind = 'payment_confirm'`)
	for range 2 {
		w.operatorCall("POST", "/api/admin/jobs/"+watch.ID+"/drop", `{"reason":"nobody needs it"}`, "3").
			into(t, http.StatusOK, nil)
	}
	wantProblem(t, "a job that is no more", w.operatorCall("GET", "/api/admin/jobs/"+watch.ID, "", ""),
		http.StatusNotFound, fault.JobNotFound)
	if n := w.count("SELECT count(*) FROM audit WHERE action IN ('job.retry', 'job.drop')"); n != 2 {
		t.Errorf("%d actions are recorded", n)
	}
}

// checkSummary checks that a summary tells of two orders in review and the version of one, and leaves no record.
func (w *world) checkSummary(id string) {
	w.t.Helper()
	recorded := func() int { return queryOne[int](w, "SELECT count(*) FROM audit") }
	version, before := w.review(id).Order.Version, recorded()
	var sum struct {
		Orders []struct {
			Status, Since, Latest string
			Count                 int
		}
		StoppedJobs  []struct{ Kind string }
		OrderVersion int
	}
	w.operatorCall("GET", "/api/admin/summary?orderId="+id, "", "").into(w.t, http.StatusOK, &sum)
	if len(sum.Orders) != 1 || sum.Orders[0].Status != "operator_review" || sum.Orders[0].Count != 2 ||
		sum.Orders[0].Latest <= sum.Orders[0].Since || sum.OrderVersion != version {
		w.t.Errorf("summary %+v of version %d", sum, version)
	}
	if none := w.operatorCall("GET", "/api/admin/summary?orderId=ord_none", "", ""); !none.is(fault.OrderNotFound) {
		w.t.Errorf("of no order: %d", none.status)
	}
	if after := recorded(); after != before {
		w.t.Errorf("a summary left %d records", after-before)
	}
}
