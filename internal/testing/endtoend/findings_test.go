package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/reconcile"
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
	w.send(get(findingsPath+query).asOperator("")).into(w.t, 200, &page)
	return page.Findings
}

// explanation is the operator's request that resolves a finding.
func (f finding) explanation(reason, key string) request {
	return post(findingsPath+"/"+f.ID+"/resolve", fmt.Sprintf(`{"reason":%q}`, reason)).asOperator(key)
}

// TestOperatorResolvesFindings follows a merchant's credit and a card that the issuer's staff opened from the report
// that finds them to the one that lists them as resolved. A further credit is a new finding.
func TestOperatorResolvesFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2, change: withOperator})
	b := w.buyer()
	o := b.buyCard("card")
	w.awaitSettled()
	account := w.newestCard()
	w.issuer.call("POST", "cards/"+account, map[string]any{"refundCents": 500})
	w.openUnknownCard()
	w.wantFindings("a credit, and an unknown card", reconcile.CardBalanceHigh, reconcile.ProviderUnknown)
	found := w.findings("?code=card_balance_high")
	if len(found) != 1 {
		t.Fatalf("findings %+v", found)
	}
	credit := found[0]
	if credit.OrderID != o.OrderID || credit.Owner != b.address.String() || credit.Product != "card_issue" ||
		credit.Status != "open" || credit.Blocks || credit.FirstSeenAt == "" {
		t.Fatalf("finding %+v", credit)
	}
	w.wantExplanationRefused(credit, b)

	w.wantOneResolution(credit.explanation("a refund by the merchant", ""), fault.FindingResolved)
	unknown := w.findings("?code=provider_unknown")[0]
	w.send(unknown.explanation("opened by hand for a trade fair", "unknown")).into(t, 200, nil)
	r := w.wantFindings("both are resolved")
	if len(r.Resolved) != 2 || r.Resolved[0].Resolution != reconcile.Explained {
		t.Errorf("resolved %+v", r.Resolved)
	}
	all := w.findings("?status=resolved")
	if len(all) != 2 || all[1].Operator != "ada" || all[1].Resolution != "explained" {
		t.Errorf("resolved %+v", all)
	}
	w.issuer.call("POST", "cards/"+account, map[string]any{"refundCents": 1})
	w.wantFindings("one more cent", reconcile.CardBalanceHigh)
	if n := w.count(`SELECT count(*) FROM audit
		WHERE actor = 'ada' AND action = 'finding.resolve' AND reason <> '' AND before ? 'code'`); n != 2 {
		t.Errorf("%d resolutions are audited", n)
	}
}

// wantExplanationRefused sends malformed explanations, and one by the owner of the card.
func (w *world) wantExplanationRefused(f finding, owner *buyer) {
	w.t.Helper()
	byOwner := post(findingsPath+"/"+f.ID+"/resolve", `{"reason":"r"}`).as(owner)
	for name, tt := range map[string]struct {
		request request
		status  int
		code    fault.Code
	}{
		"without a key":    {f.explanation("r", ""), 400, fault.IdempotencyKeyMissing},
		"without a reason": {f.explanation("", "k"), 400, fault.SchemaInvalid},
		"no number":        {finding{ID: "x"}.explanation("r", "k"), 400, fault.SchemaInvalid},
		"no such finding":  {finding{ID: "4711"}.explanation("r", "k"), 404, fault.FindingNotFound},
		"by the owner":     {byOwner, 401, fault.OperatorTokenInvalid},
	} {
		wantProblem(w.t, name, w.send(tt.request), tt.status, tt.code)
	}
}
