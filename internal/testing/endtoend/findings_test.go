package endtoend_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/secret"
)

const findingsPath = "/api/admin/findings"

// finding is a difference between the books, as operators see it.
type finding struct {
	ID, Code, OrderID, Subject, Detail, Owner, Product, Status, Resolution, Reason, Operator, FirstSeenAt, LastSeenAt,
	ResolvedAt string

	Blocks bool
}

func (w *world) findings(query string) []finding {
	w.t.Helper()
	var page struct {
		Findings []finding
	}
	w.send(get(findingsPath+query).with(operatorHeader())).into(w.t, 200, &page)
	return page.Findings
}

func (w *world) explain(f finding, reason, key string) answer {
	w.t.Helper()
	header := operatorHeader()
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return w.send(post(findingsPath+"/"+f.ID+"/resolve", fmt.Sprintf(`{"reason":%q}`, reason)).with(header))
}

// TestOperatorResolvesFindings follows a merchant's credit and a card that the issuer's staff opened from the
// report that finds them to the one that lists them as resolved, and back when there is more.
func TestOperatorResolvesFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: withOperator})
	b := w.buyer()
	o := b.buyCard("card")
	w.awaitSettled(30 * time.Second)
	account := w.issuer.books().Cards[0].ID
	w.issuer.call("POST", "cards/"+account, map[string]any{"refundCents": 500})
	other, err := sandbox.Dial(sandbox.ClientConfig{URL: w.issuer.url, APIKey: secret.New(sandbox.DevKey)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(t.Context(), card.Opening{Ref: fulfilment.Ref(uuid.New()), Load: 1}); err != nil {
		t.Fatal(err)
	}
	w.wantFindings("a credit, and a card of nobody's", reconcile.CardBalanceHigh, reconcile.ProviderUnknown)
	credit := w.findings("?code=card_balance_high")
	if len(credit) != 1 || credit[0].OrderID != o.OrderID || credit[0].Owner != b.address.String() ||
		credit[0].Product != "card_issue" ||
		credit[0].Status != "open" || credit[0].Blocks || credit[0].FirstSeenAt == "" {
		t.Fatalf("findings %+v", credit)
	}
	for name, tt := range map[string]struct {
		answer answer
		status int
		code   fault.Code
	}{
		"without a key":    {w.explain(credit[0], "r", ""), 400, fault.IdempotencyKeyMissing},
		"without a reason": {w.explain(credit[0], "", "k"), 400, fault.SchemaInvalid},
		"no number":        {w.explain(finding{ID: "x"}, "r", "k"), 400, fault.SchemaInvalid},
		"no such finding":  {w.explain(finding{ID: "4711"}, "r", "k"), 404, fault.FindingNotFound},
		"by the owner": {w.send(post(findingsPath+"/"+credit[0].ID+"/resolve", `{"reason":"r"}`).as(b)),
			401, fault.OperatorTokenInvalid},
	} {
		if tt.answer.status != tt.status || !tt.answer.is(tt.code) {
			t.Errorf("%s: %d %s", name, tt.answer.status, tt.answer.body)
		}
	}
	w.wantOneExplanation(credit[0])
	w.explain(w.findings("?code=provider_unknown")[0], "opened by hand for a trade fair", "unknown").into(t, 200, nil)
	r := w.wantFindings("both are resolved")
	if len(r.Resolved) != 2 || r.Resolved[0].Resolution != reconcile.Explained {
		t.Errorf("resolved %+v", r.Resolved)
	}
	if all := w.findings("?status=resolved"); len(all) != 2 || all[1].Operator != "ada" ||
		all[1].Resolution != "explained" {
		t.Errorf("resolved %+v", all)
	}
	w.issuer.call("POST", "cards/"+account, map[string]any{"refundCents": 1})
	w.wantFindings("one more cent", reconcile.CardBalanceHigh)
	if n := w.count("SELECT count(*) FROM audit WHERE actor = 'ada' AND action = 'finding.resolve' AND reason <> '' AND " +
		"before ? 'code'"); n != 2 {
		t.Errorf("%d resolutions are audited", n)
	}
}

// wantOneExplanation has many acts at once, at two instances: one of them counts.
func (w *world) wantOneExplanation(f finding) {
	w.t.Helper()
	answers := make([]answer, 8)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			header := operatorHeader()
			header["Idempotency-Key"] = fmt.Sprint("race ", i)
			answers[i] = w.send(post(findingsPath+"/"+f.ID+"/resolve", `{"reason":"a refund by the merchant"}`).on(w.instances[i%2]).with(header))
		})
	}
	group.Wait()
	well := 0
	for _, a := range answers {
		if a.status == http.StatusOK {
			well++
		} else if a.status != http.StatusConflict || !a.is(fault.FindingResolved) {
			w.t.Errorf("%d %s", a.status, a.body)
		}
	}
	if well != 1 {
		w.t.Errorf("%d of %d resolved it", well, len(answers))
	}
}
