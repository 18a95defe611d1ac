package endtoend_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/reconcile"
)

const transfersPath = "/api/admin/transfers"

// unmatched is a transfer without an order, as operators see it.
type unmatched struct {
	Transaction, From, Amount, Status, Resolution, Reason, Operator, SeenAt, ResolvedAt string

	LogIndex, Block int
}

func (s unmatched) subject() string { return fmt.Sprintf("%s/%d", s.Transaction, s.LogIndex) }

func (w *world) unmatched(query string) (all []unmatched, next string) {
	w.t.Helper()
	var page struct {
		Transfers     []unmatched
		NextPageToken string
	}
	w.send(get(transfersPath+query).asOperator("")).into(w.t, 200, &page)
	return page.Transfers, page.NextPageToken
}

// resolution is the operator's request that resolves a transfer.
func (s unmatched) resolution(as, reason, key string) request {
	body := fmt.Sprintf(`{"resolution":%q,"reason":%q}`, as, reason)
	return post(transfersPath+"/"+s.subject()+"/resolve", body).asOperator(key)
}

// TestOperatorResolvesUnmatchedTransfers follows three transfers without an order from the report that finds them to
// the one that lists them as resolved.
func TestOperatorResolvesUnmatchedTransfers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: withOperator})
	b := w.buyer()
	b.buyCard("card")
	w.awaitSettled()
	open := w.findUnmatched(b, 7, 9, 11)
	before := w.digest()
	w.wantResolutionRefused(open[0], b)
	if w.digest() != before {
		t.Error("a refusal changed the books")
	}

	donation := w.wantIdempotentResolution(open[2])
	r := w.wantFindings("two are left", reconcile.TransferUnmatched)
	if len(r.Findings) != 2 || len(r.Resolved) != 1 || r.Resolved[0].Subject != donation.subject() ||
		!strings.Contains(r.Resolved[0].Detail, "ada says: nobody asked") {
		t.Errorf("the report %+v", r)
	}
	sentBack := open[1].resolution("refunded_by_hand", "sent back", "")
	w.wantOneResolution(sentBack, fault.TransferResolved)
	posted := w.count("SELECT count(*) FROM ledger_postings WHERE id = 'resolved/' || $1", open[1].subject())
	if posted != 1 {
		t.Errorf("%d postings of one resolution", posted)
	}
	w.send(open[0].resolution("known", "the owner's own", "four")).into(t, 200, nil)

	r = w.wantFindings("none is left")
	if len(r.Resolved) != 3 {
		t.Errorf("resolved %+v", r.Resolved)
	}
	if diff := cmp.Diff(r, w.lastReport()); diff != "" {
		t.Errorf("the last report differs (-ran +shown):\n%s", diff)
	}
	w.wantAllResolved(r)
	w.checkInvariants(27)
}

// findUnmatched sends amounts to the payee, which are listed once the books have been compared, newest first.
func (w *world) findUnmatched(b *buyer, amounts ...money.USDC) []unmatched {
	w.t.Helper()
	for _, units := range amounts {
		b.sendUnmatched(units)
	}
	if open, _ := w.unmatched(""); len(open) != 0 {
		w.t.Errorf("before a comparison: %+v", open)
	}
	found := w.wantFindings("unmatched transfers", reconcile.TransferUnmatched)
	first, next := w.unmatched("?pageSize=2")
	second, end := w.unmatched("?pageSize=2&pageToken=" + next)
	open := append(first, second...)
	if len(first) != 2 || len(open) != 3 || end != "" || open[0].Amount != "11" || open[2].From != b.address.String() ||
		open[0].Status != "open" {
		w.t.Fatalf("open %+v", open)
	}
	for _, s := range open {
		if !strings.Contains(fmt.Sprint(found.Findings), s.subject()) {
			w.t.Errorf("%s is no finding: %+v", s.subject(), found.Findings)
		}
	}
	return open
}

// wantAllResolved checks balances, lists and the audit trail after the last resolution.
func (w *world) wantAllResolved(r reconcile.Report) {
	w.t.Helper()
	units := map[string]money.USDC{}
	for _, balance := range r.Balances {
		units[balance.Account] = balance.Units
	}
	// 25.00 for the card, 7 as a donation, 9 sent back, 11 that the owner knows.
	if units["treasury:usdc"] != 25_000_018 || units["revenue:donation"] != -7 || units["unmatched"] != -11 {
		w.t.Errorf("balances %v", units)
	}
	if left, _ := w.unmatched(""); len(left) != 0 {
		w.t.Errorf("still open: %+v", left)
	}
	closed, _ := w.unmatched("?status=resolved")
	if len(closed) != 3 || closed[0].Resolution != "known" || closed[2].Operator != "ada" {
		w.t.Errorf("resolved: %+v", closed)
	}
	if n := w.count(`SELECT count(*) FROM audit
		WHERE actor = 'ada' AND action = 'transfer.resolve' AND reason <> '' AND after ? 'resolution'`); n != 3 {
		w.t.Errorf("%d resolutions are audited", n)
	}
}

// wantIdempotentResolution resolves a transfer as a donation. A repeat changes nothing; another resolution is refused.
func (w *world) wantIdempotentResolution(s unmatched) (donation unmatched) {
	w.t.Helper()
	first := s.resolution("donation", "nobody asked", "one")
	w.send(first).into(w.t, 200, &donation)
	if donation.Status != "resolved" || donation.Resolution != "donation" || donation.Operator != "ada" ||
		donation.Reason != "nobody asked" || donation.ResolvedAt == "" {
		w.t.Errorf("resolved %+v", donation)
	}
	var again unmatched
	w.send(first).into(w.t, 200, &again)
	if diff := cmp.Diff(donation, again); diff != "" {
		w.t.Errorf("a repeat (-first +again):\n%s", diff)
	}
	for name, r := range map[string]request{
		"another reason":     s.resolution("donation", "other", "one"),
		"another resolution": s.resolution("known", "nobody asked", "one"),
	} {
		wantProblem(w.t, "the key with "+name, w.send(r), http.StatusConflict, fault.IdempotencyKeyReused)
	}
	late := w.send(s.resolution("refunded_by_hand", "too late", "two"))
	wantProblem(w.t, "a second resolution", late, http.StatusConflict, fault.TransferResolved)
	return donation
}

// wantResolutionRefused tries to resolve what cannot be resolved, and malformed requests.
func (w *world) wantResolutionRefused(s unmatched, sender *buyer) {
	w.t.Helper()
	elsewhere, paid, malformed := s, s, s
	elsewhere.LogIndex += 1000
	paid.Transaction = queryOne[string](w, "SELECT transaction FROM payments WHERE status = 'paid'")
	paid.LogIndex = w.count("SELECT log_index FROM payments WHERE status = 'paid'")
	malformed.Transaction = "0x12"
	bySender := post(transfersPath+"/"+s.subject()+"/resolve", `{"resolution":"known","reason":"r"}`).as(sender)
	for name, tt := range map[string]struct {
		request request
		status  int
		code    fault.Code
	}{
		"without a key":       {s.resolution("known", "r", ""), 400, fault.IdempotencyKeyMissing},
		"without a reason":    {s.resolution("known", "", "k"), 400, fault.SchemaInvalid},
		"as something else":   {s.resolution("stolen", "r", "k"), 400, fault.SchemaInvalid},
		"no hash":             {malformed.resolution("known", "r", "k"), 400, fault.SchemaInvalid},
		"no such transfer":    {elsewhere.resolution("known", "r", "k"), 404, fault.TransferNotFound},
		"an order's payment":  {paid.resolution("donation", "r", "k"), 404, fault.TransferNotFound},
		"by the sender":       {bySender, 401, fault.OperatorTokenInvalid},
		"a page of nonsense":  {get(transfersPath + "?pageToken=x").asOperator(""), 400, fault.SchemaInvalid},
		"a status of nothing": {get(transfersPath + "?status=lost").asOperator(""), 400, fault.SchemaInvalid},
	} {
		wantProblem(w.t, name, w.send(tt.request), tt.status, tt.code)
	}
}

// wantOneResolution sends an operator's request eight times at once, each under a key of its own, at two instances. One
// of them succeeds; the others get the code.
func (w *world) wantOneResolution(r request, code fault.Code) {
	w.t.Helper()
	answers := make([]answer, 8)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = w.send(r.on(w.instances[i%2]).asOperator(fmt.Sprint("race ", i))) })
	}
	group.Wait()
	succeeded := 0
	for _, a := range answers {
		if a.status == http.StatusOK {
			succeeded++
			continue
		}
		wantProblem(w.t, "a concurrent resolution", a, http.StatusConflict, code)
	}
	if succeeded != 1 {
		w.t.Errorf("%d of %d resolved it", succeeded, len(answers))
	}
}
