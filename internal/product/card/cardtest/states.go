package cardtest

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

func (h Harness) everyCardIsListed(t *testing.T) {
	if h.Lister == nil {
		t.Skip("the issuer lists no cards")
	}
	want := map[fulfilment.Ref]card.Account{}
	for range 5 {
		a := h.active(t)
		want[a.Ref] = a
	}
	seen, pages := map[fulfilment.Ref]int{}, 0
	for after := ""; ; pages++ {
		page, next, err := h.Lister.Accounts(fulfilmenttest.Context(t), after)
		if err != nil || pages > 10_000 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, a := range page {
			seen[a.Ref]++
			if known, ours := want[a.Ref]; ours && known != a {
				t.Errorf("listed as %+v, read as %+v", a, known)
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	for ref := range want {
		if seen[ref] != 1 {
			t.Errorf("%s is listed %d times", ref, seen[ref])
		}
	}
}

// limitIsSetToTheTarget, whatever the limit was before and whatever amount is said to be added.
func (h Harness) limitIsSetToTheTarget(t *testing.T) {
	account := h.active(t)
	for _, target := range []money.Cents{cardLoad + 2450, cardLoad + 7000} {
		m := card.Movement{
			Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Load, Amount: 2450, Target: target,
		}
		for range 2 { // the second time changes nothing
			if _, err := h.Issuer.Move(fulfilmenttest.Context(t), m); err != nil {
				t.Fatalf("set the limit: %v", err)
			}
			h.Settle()
			h.wantBalance(t, account.ID, target)
		}
		got, err := h.Issuer.Moved(fulfilmenttest.Context(t), account.ID, m.Ref)
		if err != nil || got != h.moved(m) {
			t.Errorf("the load reads back as %+v, %v; want %+v", got, err, h.moved(m))
		}
	}
}

func (h Harness) nothingIsWithdrawnFromALimit(t *testing.T) {
	account := h.active(t)
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: 1000}
	_, err := h.Issuer.Move(fulfilmenttest.Context(t), m)
	if _, refused := errors.AsType[*fulfilment.Refusal](err); !refused {
		t.Errorf("a withdrawal from a card with a limit: %v", err)
	}
	h.wantBalance(t, account.ID, cardLoad)
}
