package endtoend_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
)

const queuePath = "/api/admin/orders"

// asked are the orders that operators find by the id of a request.
func (w *world) asked(request string) (ids []string) {
	w.t.Helper()
	var page struct{ Orders []struct{ OrderID string } }
	w.send(get(queuePath+"?requestId="+request).asOperator("")).into(w.t, 200, &page)
	for _, o := range page.Orders {
		ids = append(ids, o.OrderID)
	}
	return ids
}

// moves are the requests that an order's timeline names, and the one that created it.
func (w *world) moves(orderID string) (created string, timeline []string) {
	w.t.Helper()
	var history struct {
		RequestID string
		Timeline  []struct{ Actor, RequestID string }
	}
	w.send(get(queuePath+"/"+orderID).asOperator("")).into(w.t, 200, &history)
	for _, m := range history.Timeline {
		timeline = append(timeline, m.Actor+" "+m.RequestID)
	}
	return history.RequestID, timeline
}

// TestOperatorFindsOrderByTheRequestThatABuyerQuotes: the id in the answer of a bought card finds that order and no
// other, whether the service made it or the buyer did. A repeat and a request for the terms store nothing.
func TestOperatorFindsOrderByTheRequestThatABuyerQuotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{change: withOperator})
	one, other := w.buyer(), w.buyer()
	terms := w.send(purchase("k", "").withHeader("X-Request-Id", "terms-only"))
	pay := header(t, one.payment())
	bought := w.send(purchase("k", pay))
	var first, second paidOrder
	bought.settled().into(t, 200, &first)
	named := w.send(purchase("k", header(t, other.payment())).withHeader("X-Request-Id", "Trip_4.2-b"))
	named.settled().into(t, 200, &second)
	w.awaitSettled()
	repeat := w.send(purchase("k", pay).withHeader("X-Request-Id", "once-more"))
	if id := named.header.Get("X-Request-Id"); id != "Trip_4.2-b" || terms.status != 402 || repeat.status != 200 {
		t.Errorf("id %q, terms %d, repeat %d", id, terms.status, repeat.status)
	}
	quoted := bought.header.Get("X-Request-Id")
	for request, want := range map[string][]string{
		quoted: {first.OrderID}, "Trip_4.2-b": {second.OrderID}, "terms-only": nil, "once-more": nil, "trip_4.2-b": nil,
	} {
		if diff := cmp.Diff(want, w.asked(request)); diff != "" {
			t.Errorf("by %q (-want +got):\n%s", request, diff)
		}
	}
	created, timeline := w.moves(first.OrderID)
	if created != "" || len(timeline) != 4 || timeline[0] != "buyer "+quoted || timeline[1] != "worker " {
		t.Errorf("created by %q, moved by %q", created, timeline)
	}
	w.wantBadRequestIDsRefused(quoted)
	w.wantForgedRequestIDsReplaced()
}

// wantBadRequestIDsRefused looks for what no answer can have named.
func (w *world) wantBadRequestIDsRefused(quoted string) {
	w.t.Helper()
	for name, id := range map[string]string{
		"empty": "", "too long": strings.Repeat("a", 65), "a blank": "a%20b", "a quote": "a%27b", "a letter": "%C3%A4",
		"a pattern": "%25", "a line": "a%0Ab",
	} {
		wantProblem(w.t, name, w.send(get(queuePath+"?requestId="+id).asOperator("")), 400, fault.SchemaInvalid)
	}
	wantProblem(w.t, "by nobody", w.send(get(queuePath+"?requestId="+quoted)), 401, fault.OperatorTokenInvalid)
}

// wantForgedRequestIDsReplaced buys with ids that the service does not take: it makes its own, and stores that.
func (w *world) wantForgedRequestIDsReplaced() {
	w.t.Helper()
	for key, forged := range map[string]string{
		"long": strings.Repeat("x", 65), "script": "<script>alert(1)</script>", "sql": "' OR ''='",
	} {
		answer := w.send(purchase(key, header(w.t, w.buyer().payment())).withHeader("X-Request-Id", forged))
		var o paidOrder
		answer.settled().into(w.t, 200, &o)
		own := answer.header.Get("X-Request-Id")
		if diff := cmp.Diff([]string{o.OrderID}, w.asked(own)); diff != "" || own == forged {
			w.t.Errorf("%q became %q (-want +got):\n%s", forged, own, diff)
		}
		if n := w.count("SELECT count(*) FROM timeline WHERE request_id = $1", forged); n != 0 {
			w.t.Errorf("%q is stored", forged)
		}
	}
	w.awaitSettled()
}

// TestRequestsThatCreatePayAndDecideAnOrderFindIt by the ids of all of them.
func TestRequestsThatCreatePayAndDecideAnOrderFindIt(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, -1, plan{})
	b := w.buyer()
	b.signIn()
	var o unpaidOrder
	create := post(cardOrdersPath, "").as(b).with(map[string]string{"Idempotency-Key": "k~002", "X-Request-Id": "makes"})
	w.send(create).into(t, 200, &o)
	if created, timeline := w.moves(o.OrderID); created != "makes" || timeline != nil {
		t.Errorf("created by %q, moved by %q", created, timeline)
	}
	pay := payRequest("GET", o.path(), header(t, b.payment()))
	w.send(pay.withHeader("X-Request-Id", "pays")).settled().into(t, 200, nil)
	b.awaitStatus(o.OrderID, "operator_review")
	w.send(post(queuePath+"/"+o.OrderID+"/decide", `{"action":"fulfilled","reason":"by hand"}`).asOperator("k").
		withHeader("X-Request-Id", "decides")).into(t, 200, nil)
	for _, request := range []string{"makes", "pays", "decides"} {
		if diff := cmp.Diff([]string{o.OrderID}, w.asked(request)); diff != "" {
			t.Errorf("by %q (-want +got):\n%s", request, diff)
		}
	}
	_, timeline := w.moves(o.OrderID)
	if n := len(timeline); n == 0 || timeline[0] != "buyer pays" || timeline[n-1] != "operator:ann decides" {
		t.Errorf("moved by %q", timeline)
	}
}
