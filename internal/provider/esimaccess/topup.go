package esimaccess

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// Topups implements esim.Topper: the packages that the vendor lists for the number of the profile. Those without a
// limit are left out: their price is that of a day, and the call does not say how many.
func (s *Supplier) Topups(ctx context.Context, h esim.Held) ([]esim.Listing, error) {
	all, err := s.topups(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("read what a profile takes: %w", err)
	}
	return all, nil
}

// finished are the states of a profile that nothing is added to any more.
var finished = []wire.Upper{usedExpired, unusedExpired, cancelled}

func (s *Supplier) topups(ctx context.Context, h esim.Held) ([]esim.Listing, error) {
	if _, ok := esim.ParseICCID(h.ICCID.Reveal()); !ok || !isName(h.ID) {
		return nil, wire.Unclear("that is no profile")
	}
	at, err := s.one(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	if slices.Contains(finished, at.ESIMStatus) {
		return nil, nil
	}
	packages, err := s.packages(ctx, request{
		op: "topups", most: maxCatalogue, confidential: true,
		body: map[string]string{"type": "TOPUP", "iccid": h.ICCID.Reveal()},
	})
	if err != nil {
		return nil, err
	}
	all, known := make([]esim.Listing, 0, len(packages)), map[string]int{}
	for _, p := range packages {
		l, err := p.stated()
		if err != nil || l.Unlimited || !p.addsData() {
			continue
		}
		if n, twice := known[l.Code]; twice {
			if !sameTerms(all[n], l) {
				return nil, wire.Unclear("a package is listed at two terms")
			}
			continue
		}
		known[l.Code], all = len(all), append(all, l)
	}
	return all, nil
}

// topup reads one package that a profile takes now. esim.ErrNoPlan when it does not.
func (s *Supplier) topup(ctx context.Context, h esim.Held, code string) (esim.Listing, error) {
	all, err := s.topups(ctx, h)
	if err != nil {
		return esim.Listing{}, err
	}
	i := slices.IndexFunc(all, func(l esim.Listing) bool { return l.Code == code })
	if i < 0 {
		return esim.Listing{}, esim.ErrNoPlan
	}
	return all[i], nil
}

// CheckTopup implements esim.Topper.
func (s *Supplier) CheckTopup(ctx context.Context, h esim.Held, code string) (esim.Stock, error) {
	plan, err := s.topup(ctx, h, code)
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan for a profile: %w", err)
	}
	return s.stock(ctx, plan)
}

// TopUp implements esim.Topper. As Order, it asks at the price that the package has now, and the vendor refuses when it
// has changed by then.
func (s *Supplier) TopUp(ctx context.Context, r esim.TopUpRequest) (esim.Purchase, error) {
	plan, err := s.topup(ctx, r.Held, r.Code)
	for try := 1; err != nil && !errors.Is(err, esim.ErrNoPlan) && try < planTries && pause(ctx, planPause); try++ {
		plan, err = s.topup(ctx, r.Held, r.Code)
	}
	switch {
	case errors.Is(err, esim.ErrNoPlan):
		err = &fulfilment.Refusal{Code: esim.RefusedPlan, Message: "the package is not listed for the profile"}
	case err == nil && plan.Cost > r.MaxCost:
		err = &fulfilment.Refusal{Code: esim.RefusedPrice, Message: "the package is listed at a higher price"}
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("add data to a profile: %w", err)
	}
	named := transaction{ref: r.Ref, cost: plan.Cost}
	var got struct {
		Transaction string `json:"transactionId"`
	}
	err = s.send(ctx, request{
		op: "topup", path: "esim/topup", known: refusalOfTopup, confidential: true,
		body: map[string]any{
			"esimTranNo": r.Held.ID, "packageCode": r.Code, "transactionId": named.String(),
			"amount": int64(plan.Cost) / microsPerUnit,
		},
	}, &got)
	if err == nil && got.Transaction != "" && got.Transaction != named.String() {
		err = wire.Unclear("the answer is about another order")
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("add data to a profile: %w", err)
	}
	return named.added(r.Held.ID, r.Code), nil
}

// refusalOfTopup is the definite refusal of more data.
func refusalOfTopup(code, message string) error {
	if code == codeStatus {
		return &fulfilment.Refusal{Code: esim.RefusedProfile, Message: code + ": " + quote(message)}
	}
	if code == codeAllocating {
		return nil // said of orders only
	}
	return refusalOfOrder(code, message)
}

// added is a package on a profile. The vendor has no name of its own for it.
func (t transaction) added(onto, code string) esim.Purchase {
	return esim.Purchase{
		ID: t.String(), Ref: t.ref, Code: code, State: esim.PurchaseReady, Cost: t.cost, Onto: onto,
	}
}

// added are the packages that were added to a profile by us.
func (a profileAnswer) added() (all []esim.Purchase, err error) {
	for _, one := range a.Packages {
		named, ours := parseTransaction(one.Transaction)
		if !ours || one.Transaction == a.Transaction {
			continue
		}
		if !isName(one.Code) || !isName(string(a.ID)) {
			return nil, wire.Unclear("a package of the profile does not match the documentation")
		}
		all = append(all, named.added(string(a.ID), one.Code))
	}
	return all, nil
}

// ToppedUp implements esim.Topper: the profile lists its packages, each with the name that it was ordered by.
func (s *Supplier) ToppedUp(ctx context.Context, h esim.Held, ref fulfilment.Ref) (esim.Purchase, error) {
	if !isName(h.ID) {
		return esim.Purchase{}, fmt.Errorf("read a profile: %w", wire.Unclear("that is no name of a profile"))
	}
	at, err := s.one(ctx, h.ID)
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read a profile: %w", err)
	}
	all, err := at.added()
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read a profile: %w", err)
	}
	all = slices.DeleteFunc(all, func(p esim.Purchase) bool { return p.Ref != ref })
	switch {
	case len(all) == 0:
		return esim.Purchase{}, fulfilment.ErrNoRef
	case slices.ContainsFunc(all, func(p esim.Purchase) bool { return p.ID != all[0].ID || p.Code != all[0].Code }):
		return esim.Purchase{}, fmt.Errorf("read a profile: %w", wire.Unclear("a reference names two packages"))
	case at.state().Status == esim.ProfileUnknown:
		all[0].State = esim.PurchasePending
	}
	return all[0], nil
}
