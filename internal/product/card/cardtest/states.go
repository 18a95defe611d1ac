package cardtest

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
)

func (h Harness) everyCardIsListed(t *testing.T) {
	if h.Roll == nil {
		t.Skip("the issuer lists no cards")
	}
	want := map[fulfilment.Ref]card.Account{}
	for range 5 {
		a := h.active(t)
		want[a.Ref] = a
	}
	seen, pages := map[fulfilment.Ref]int{}, 0
	for after := ""; ; pages++ {
		page, next, err := h.Roll.Accounts(fulfilmenttest.Context(t), after)
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

// RunLimits checks an issuer that is capable of spending limits.
func RunLimits(t *testing.T, h Harness) {
	ctx := fulfilmenttest.Context(t)
	o := card.Opening{Ref: fulfilmenttest.NewRef(), Load: 1500, Limit: true}
	for range 2 { // the second time changes nothing
		if _, err := h.Issuer.Open(ctx, o); err != nil {
			t.Fatalf("open: %v", err)
		}
	}
	h.Settle()
	a, err := h.Issuer.Account(ctx, o.Ref)
	if err != nil || a.State != card.AccountActive || a.Loaded != o.Load {
		t.Fatalf("the card reads back as %+v, %v", a, err)
	}
	h.wantBalance(t, a.ID, 1500)
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Load, Amount: 2450}
	if _, err := h.Issuer.Move(ctx, m); err != nil {
		t.Fatalf("raise the limit: %v", err)
	}
	h.Settle()
	h.wantBalance(t, a.ID, 3950)
	m = card.Movement{Ref: fulfilmenttest.NewRef(), Account: a.ID, Direction: card.Withdrawal, Amount: 1000}
	_, err = h.Issuer.Move(ctx, m)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); !refused {
		t.Errorf("a withdrawal from a card with a limit: %v, %v", no, err)
	}
	h.wantBalance(t, a.ID, 3950)
}
