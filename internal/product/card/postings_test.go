package card

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// TestFulfilledCardIsPostedNoMore: what is on a card was posted when it became ACTIVE.
func TestFulfilledCardIsPostedNoMore(t *testing.T) {
	if got, err := (&Cards{}).Postings(order.Order{ID: "o", Price: Price}); got != nil || err != nil {
		t.Errorf("a card: %v, %v", got, err)
	}
}

func TestIssuersWordIsPostedOnceItDecides(t *testing.T) {
	a := FeeArgs{Card: uuid.UUID{1}, Order: "o", Amount: Fee}
	id := a.Card.String()
	owed := a
	owed.Owed = true
	for name, tt := range map[string]struct {
		args        FeeArgs
		was, status job.Status
		reason      string
		want        FeeConclusion
	}{
		"withdrawn": {a, job.Queued, job.Succeeded, "",
			FeeConclusion{Postings: []ledger.Posting{ledger.FeeWithdrawn("o", id, Fee)}}},
		"withdrawn in the end": {owed, job.Queued, job.Succeeded, "", FeeConclusion{
			Postings: []ledger.Posting{ledger.FeeOwed("o", id, Fee), ledger.FeeCollected("o", id, Fee, ledger.Receivable(id))}}},
		"too little on the card": {a, job.Queued, job.Failed, RefusedFunds,
			FeeConclusion{Owed: true, Postings: []ledger.Posting{ledger.FeeOwed("o", id, Fee)}}},
		"refused otherwise": {a, job.Queued, job.Failed, fulfilment.RefusedUnstated, FeeConclusion{}},
		"nothing new":       {a, job.Succeeded, job.Succeeded, "", FeeConclusion{}},
		"no news of a debt": {owed, job.Failed, job.Failed, RefusedFunds, FeeConclusion{}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.want.Status, tt.want.Reason = tt.status, tt.reason
			if diff := cmp.Diff(tt.want, tt.args.Conclusion(tt.was, tt.status, tt.reason)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyAFeeThatIsOwedIsGivenUp(t *testing.T) {
	a := FeeArgs{Card: uuid.UUID{1}, Order: "o", Amount: Fee, Owed: true}
	row := func(status job.Status, change func(*FeeArgs)) job.Row {
		a := a
		change(&a)
		payload, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return job.Row{Status: status, Payload: payload}
	}
	got, postings, err := WriteOffFee(row(job.Failed, func(*FeeArgs) {}))
	sums := ledger.Balances(postings)
	debt := sums[ledger.Receivable(a.Card.String())]
	if err != nil || !got.WrittenOff || sums[ledger.IssueFeeCost] != Fee.USDC() || debt != 0 {
		t.Errorf("%+v, %v, %v", got, postings, err)
	}
	for name, r := range map[string]job.Row{
		"withdrawn":       row(job.Succeeded, func(*FeeArgs) {}),
		"being retried":   row(job.Queued, func(*FeeArgs) {}),
		"not owed":        row(job.Failed, func(a *FeeArgs) { a.Owed = false }),
		"given up before": row(job.Failed, func(a *FeeArgs) { a.WrittenOff = true }),
	} {
		if _, _, err := WriteOffFee(r); !errors.Is(err, ErrNotFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
