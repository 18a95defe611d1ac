package cardtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Billing is the address of all cards of an Issuer.
var Billing = card.Billing{
	Name: "Programme Inc", Line1: "1 Programme Street", City: "Dover", Region: "DE", PostalCode: "19901", Country: "US",
}

// Details implements card.Controls.
func (i *Issuer) Details(ctx context.Context, id string) (card.Details, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Details); err != nil {
		return card.Details{}, err
	}
	if _, ok := i.byID[id]; !ok {
		return card.Details{}, noCard(fulfilment.RefusedRequest)
	}
	billing := Billing
	return card.Details{
		Billing: &billing, Challenge: card.Challenge{
			Method: card.ChallengeSMS, Destination: card.MaskPhone("+1 302 555 0142"), Instructions: "Ask\nthe operator.",
		},
	}, nil
}

func (h Harness) detailsAreThoseDeclared(t *testing.T) {
	account := h.active(t)
	got, err := h.Controls.Details(fulfilmenttest.Context(t), account.ID)
	if err != nil {
		t.Fatal(err)
	}
	kinds := h.Capabilities.Details
	if (got.Billing != nil) != kinds.Billing {
		t.Errorf("the billing address is %+v; declared: %t", got.Billing, kinds.Billing)
	}
	if got.Billing != nil {
		if err := got.Billing.Check(); err != nil {
			t.Errorf("the billing address %+v %v", got.Billing, err)
		}
	}
	if method := got.Challenge.Method; method != "" || len(kinds.Challenges) > 0 {
		if !slices.Contains(kinds.Challenges, method) {
			t.Errorf("challenges are answered by %q; declared: %v", method, kinds.Challenges)
		}
	}
	if to := got.Challenge.Destination; to != "" && !strings.Contains(to, "***") {
		t.Errorf("the destination %q is not masked", to)
	}
	again, err := h.Controls.Details(fulfilmenttest.Context(t), account.ID)
	if err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("read twice, they differ: %s %v", cmp.Diff(got, again), err)
	}
}

func (h Harness) readingDetailsFails(t *testing.T) {
	account := h.active(t)
	for _, mode := range lies {
		h.Inject(t, Details, mode)
		if got, err := h.Controls.Details(fulfilmenttest.Context(t), account.ID); err == nil {
			t.Errorf("%s: the details are read as %+v", mode, got)
		}
	}
}
