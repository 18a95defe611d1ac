package endtoend_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

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
	w.send(get(transfersPath+query).with(operatorHeader())).into(w.t, 200, &page)
	return page.Transfers, page.NextPageToken
}

func (w *world) resolve(s unmatched, as, reason, key string) answer {
	w.t.Helper()
	header := operatorHeader()
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return w.send(post(transfersPath+"/"+s.subject()+"/resolve", fmt.Sprintf(`{"resolution":%q,"reason":%q}`, as, reason)).with(header))
}

// TestOperatorResolvesUnmatchedTransfers follows three strangers' transfers from the report that finds them
// to the one that lists them as resolved.
func TestOperatorResolvesUnmatchedTransfers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: withOperator})
	b := w.buyer()
	b.buyCard("card")
	w.awaitSettled(30 * time.Second)
	for _, units := range []int{7, 9, 11} {
		b.sendUnmatched(money.USDC(units))
	}
	if open, _ := w.unmatched(""); len(open) != 0 {
		t.Errorf("before a comparison: %+v", open)
	}
	found := w.wantFindings("three stray transfers", reconcile.TransferUnmatched)
	first, next := w.unmatched("?pageSize=2")
	second, end := w.unmatched("?pageSize=2&pageToken=" + next)
	open := append(first, second...)
	if len(first) != 2 || len(open) != 3 || end != "" || open[0].Amount != "11" || open[2].From != b.address.String() ||
		open[0].Status != "open" {
		t.Fatalf("open %+v", open)
	}
	for _, s := range open {
		if !strings.Contains(fmt.Sprint(found.Findings), s.subject()) {
			t.Errorf("%s is no finding: %+v", s.subject(), found.Findings)
		}
	}
	before := w.digest()
	w.wantResolutionRefused(open[0], b)
	if w.digest() != before {
		t.Error("a refusal changed the books")
	}

	given := w.wantIdempotentResolution(open[2])
	r := w.wantFindings("two are left", reconcile.TransferUnmatched)
	if len(r.Findings) != 2 || len(r.Resolved) != 1 || r.Resolved[0].Subject != given.subject() ||
		!strings.Contains(r.Resolved[0].Detail, "ada says: nobody asked") {
		t.Errorf("the report %+v", r)
	}

	w.wantOneResolution(open[1])
	w.resolve(open[0], "known", "the owner's own", "four").into(t, 200, nil)
	r = w.wantFindings("none is left")
	if len(r.Resolved) != 3 {
		t.Errorf("resolved %+v", r.Resolved)
	}
	var last reconcile.Report
	w.send(get(reconcilePath).with(operatorHeader())).into(t, 200, &last)
	if diff := cmp.Diff(r, last); diff != "" {
		t.Errorf("the last report differs (-ran +shown):\n%s", diff)
	}
	units := map[string]money.USDC{}
	for _, balance := range r.Balances {
		units[balance.Account] = balance.Units
	}
	// 25.00 for the card, 7 given, 9 sent back, 11 that are somebody's.
	if units["treasury:usdc"] != 25_000_018 || units["revenue:donation"] != -7 || units["unmatched"] != -11 {
		t.Errorf("balances %v", units)
	}
	if left, _ := w.unmatched(""); len(left) != 0 {
		t.Errorf("still open: %+v", left)
	}
	if closed, _ := w.unmatched("?status=resolved"); len(closed) != 3 || closed[0].Resolution != "known" ||
		closed[2].Operator != "ada" {
		t.Errorf("resolved: %+v", closed)
	}
	if n := w.count(
		"SELECT count(*) FROM audit WHERE actor = 'ada' AND action = 'transfer.resolve' AND reason <> '' AND " +
			"after ? 'resolution'"); n != 3 {
		t.Errorf("%d resolutions are audited", n)
	}
	w.checkInvariants(27)
}

// wantIdempotentResolution resolves a transfer as given, however often it is asked for.
func (w *world) wantIdempotentResolution(s unmatched) (given unmatched) {
	w.t.Helper()
	w.resolve(s, "donation", "nobody asked", "one").into(w.t, 200, &given)
	if given.Status != "resolved" || given.Resolution != "donation" || given.Operator != "ada" ||
		given.Reason != "nobody asked" || given.ResolvedAt == "" {
		w.t.Errorf("resolved %+v", given)
	}
	var again unmatched
	w.resolve(s, "donation", "nobody asked", "one").into(w.t, 200, &again)
	if diff := cmp.Diff(given, again); diff != "" {
		w.t.Errorf("a repeat (-first +again):\n%s", diff)
	}
	for name, a := range map[string]answer{
		"another reason": w.resolve(s, "donation", "other", "one"),
		"another word":   w.resolve(s, "known", "nobody asked", "one"),
	} {
		if a.status != http.StatusConflict || !a.is(fault.IdempotencyKeyReused) {
			w.t.Errorf("the key with %s: %d %s", name, a.status, a.body)
		}
	}
	if a := w.resolve(s, "refunded_by_hand", "too late", "two"); a.status != http.StatusConflict ||
		!a.is(fault.TransferResolved) {
		w.t.Errorf("a second word: %d %s", a.status, a.body)
	}
	return given
}

// wantResolutionRefused tries what cannot be resolved, or not so.
func (w *world) wantResolutionRefused(s unmatched, b *buyer) {
	w.t.Helper()
	elsewhere, paid := s, s
	elsewhere.LogIndex += 1000
	var index int
	if err := w.db.QueryRow(w.t.Context(),
		"SELECT transaction, log_index FROM payments WHERE status = 'paid'").Scan(&paid.Transaction, &index); err != nil {
		w.t.Fatal(err)
	}
	paid.LogIndex = index
	malformed := s
	malformed.Transaction = "0x12"
	for name, tt := range map[string]struct {
		answer answer
		status int
		code   fault.Code
	}{
		"without a key":      {w.resolve(s, "known", "r", ""), 400, fault.IdempotencyKeyMissing},
		"without a reason":   {w.resolve(s, "known", "", "k"), 400, fault.SchemaInvalid},
		"as something else":  {w.resolve(s, "stolen", "r", "k"), 400, fault.SchemaInvalid},
		"no hash":            {w.resolve(malformed, "known", "r", "k"), 400, fault.SchemaInvalid},
		"no such transfer":   {w.resolve(elsewhere, "known", "r", "k"), 404, fault.TransferNotFound},
		"an order's payment": {w.resolve(paid, "donation", "r", "k"), 404, fault.TransferNotFound},
		"by the sender":      {w.send(post(transfersPath+"/"+s.subject()+"/resolve", `{"resolution":"known","reason":"r"}`).as(b)), 401, fault.OperatorTokenInvalid},
		"a page of nonsense": {w.send(get(transfersPath + "?pageToken=x").with(operatorHeader())), 400,
			fault.SchemaInvalid},
		"a status of nothing": {w.send(get(transfersPath + "?status=lost").with(operatorHeader())), 400,
			fault.SchemaInvalid},
	} {
		if tt.answer.status != tt.status || !tt.answer.is(tt.code) {
			w.t.Errorf("%s: %d %s", name, tt.answer.status, tt.answer.body)
		}
	}
}

// wantOneResolution has many acts at once, at two instances: one of them counts.
func (w *world) wantOneResolution(s unmatched) {
	w.t.Helper()
	answers := make([]answer, 8)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			header := operatorHeader()
			header["Idempotency-Key"] = fmt.Sprint("race ", i)
			answers[i] = w.send(post(transfersPath+"/"+s.subject()+"/resolve", `{"resolution":"refunded_by_hand","reason":"sent back"}`).on(w.instances[i%2]).with(header))
		})
	}
	group.Wait()
	well := 0
	for _, a := range answers {
		if a.status == http.StatusOK {
			well++
		} else if a.status != http.StatusConflict || !a.is(fault.TransferResolved) {
			w.t.Errorf("%d %s", a.status, a.body)
		}
	}
	if n := w.count("SELECT count(*) FROM ledger_postings WHERE id = 'resolved/' || $1", s.subject()); well != 1 ||
		n != 1 {
		w.t.Errorf("%d of %d resolved it, %d postings", well, len(answers), n)
	}
}
