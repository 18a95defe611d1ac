package goclient_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func isCode(err error, code string) bool { return errors.Is(err, &roamcard.APIError{Code: code}) }

func isNotFound(err error) bool { return errors.Is(err, roamcard.ErrNotFound) }

// refused checks that an error is a PaymentError of a kind.
func (s *stage) refused(what any, err, kind error) {
	s.t.Helper()
	told, ok := errors.AsType[*roamcard.PaymentError](err)
	if !errors.Is(err, kind) || !ok || told.Kind != kind {
		s.t.Errorf("%v: %v, want %v", what, err, kind)
	}
}

func caps(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	_, err := s.buyer(w, capped(2499, 100_000)).Cards.Purchase(ctx, roamcard.NewKey())
	s.refused("the cap of a payment", err, roamcard.ErrPolicyDenied)
	_, err = s.buyer(w, capped(2500, 2499)).Cards.Purchase(ctx, roamcard.NewKey())
	s.refused("the cap of a day", err, roamcard.ErrPolicyDenied)
	if all, _ := s.sent(); all != 0 {
		s.t.Errorf("sent %d payments", all)
	}
	s.paid(w, 0)

	// The cap of the day has room for one of these, and each is a program of its own.
	plans, err := roamcard.Collect(s.buyer(w).Plans.List(ctx, "", ""))
	if err != nil {
		s.t.Fatal(err)
	}
	price, journal := roamcard.Cents(plans[0].GetPriceUsdCents()), filepath.Join(s.t.TempDir(), "journal.json")
	var calls sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		c := s.buyer(w, capped(price, 2*price-1), s.storedIn(journal))
		calls.Go(func() { _, errs[i] = c.ESIM.Purchase(ctx, "", fmt.Sprint("race ", i)) })
	}
	calls.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		s.refused("a key that lost", err, roamcard.ErrPolicyDenied)
	}
	if won != 1 {
		s.t.Errorf("%v: %d were paid, want 1", errs, won)
	}
	s.paid(w, 1, price)
}

func wrongTerms(s *stage) {
	const stranger = "0x000000000000000000000000000000000000dEaD"
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	for _, terms := range []map[string]any{
		{"payTo": stranger}, {"amount": "25010000"}, {"amount": "10000"}, {"asset": stranger}, {"network": "eip155:1"},
		{"scheme": "upto"},
		{"resource": "https://elsewhere.example/"}, {"extra": map[string]any{"name": "USDC", "version": "2"}},
		{"maxTimeoutSeconds": 1 << 40},
	} {
		s.Inject(fault{"on": "unpaid", "terms": terms})
		_, err := c.Cards.Purchase(ctx, roamcard.NewKey())
		s.refused(terms, err, roamcard.ErrTermsMismatch)
	}
	plans, err := roamcard.Collect(c.Plans.List(ctx, "", ""))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Inject(fault{
		"on": "unpaid", "terms": map[string]any{"amount": fmt.Sprint((plans[0].GetPriceUsdCents() + 1) * 10_000)},
	})
	_, err = c.ESIM.Purchase(ctx, plans[0].GetPlanId(), roamcard.NewKey())
	s.refused("another price than the plan's", err, roamcard.ErrTermsMismatch)
	_, err = c.ESIM.Purchase(ctx, "pln_none", roamcard.NewKey())
	if err == nil {
		s.t.Error("a plan that is none was bought")
	}
	if all, _ := s.sent(); all != 0 {
		s.t.Errorf("sent %d payments", all)
	}
	s.paid(w, 0)
}

func approval(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	var asked []roamcard.Quote
	says := func(mode roamcard.Mode, above roamcard.Cents,
		approve func(context.Context, roamcard.Quote) (bool, error)) error {
		_, err := s.buyer(w, func(c *roamcard.Config) {
			c.Policy.Mode, c.Policy.ApproveAbove, c.Policy.Approve = mode, above, approve
		}).Cards.Purchase(ctx, roamcard.NewKey())
		return err
	}
	no := func(_ context.Context, q roamcard.Quote) (bool, error) {
		asked = append(asked, q)
		return false, nil
	}
	s.refused("said no", says(roamcard.HumanApproval, 0, no), roamcard.ErrApprovalDenied)
	s.refused("said no above the limit", says(roamcard.PolicyGated, 2499, no), roamcard.ErrApprovalDenied)
	s.refused("nobody to ask", says(roamcard.HumanApproval, 0, nil), roamcard.ErrPolicyDenied)
	s.refused("nobody to ask by default", says(roamcard.PolicyGated, 0, nil), roamcard.ErrPolicyDenied)
	if len(asked) != 2 || asked[0].Amount != 2500 || asked[0].PayTo != s.PayTo || asked[0].Operation != roamcard.OpCard {
		s.t.Errorf("asked for %+v", asked)
	}
	// A refusal leaves nothing behind: what may be paid without asking is paid, under any key.
	if verdict, err := s.buyer(w).Quote.Card(ctx); err != nil || verdict.Denied != nil || verdict.Asks {
		s.t.Errorf("%+v, %v", verdict, err)
	}
	if all, _ := s.sent(); all != 0 {
		s.t.Errorf("sent %d payments", all)
	}
	s.paid(w, 0)
}

func poor(s *stage) {
	w := s.walletWith(24_999_999)
	_, err := s.buyer(w).Cards.Purchase(s.t.Context(), roamcard.NewKey())
	s.refused("24.999999", err, roamcard.ErrInsufficientFunds)
	if told, ok := errors.AsType[*roamcard.APIError](err); !ok || told.Status != 402 || told.RequestID == "" {
		s.t.Errorf("the service's answer is not in it: %v", err)
	}
	s.paid(w, 1)
}
