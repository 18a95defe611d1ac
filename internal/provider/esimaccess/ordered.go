package esimaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// Ordered implements esim.Supplier. The vendor finds an order by its number, which this process knows of what it
// ordered itself. Anything else is looked for among all that was ordered within the lookback. An order whose profile is
// still being allocated may be missing there: that is what the visibility delay is for.
func (s *Supplier) Ordered(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	var (
		p   esim.Purchase
		err error
	)
	if placed, ok := s.placed.Get(ref); ok {
		p, err = s.byNumber(ctx, placed)
	} else {
		p, err = s.byTime(ctx, ref)
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read an order: %w", err)
	}
	return p, nil
}

func (s *Supplier) byNumber(ctx context.Context, placed placement) (esim.Purchase, error) {
	rq := query("ordered")
	rq.known = func(code, _ string) error {
		if code == codeAllocating {
			return errAllocating
		}
		return nil
	}
	page, err := s.profiles(ctx, rq, map[string]any{"orderNo": placed.orderNo}, 1)
	if errors.Is(err, errAllocating) {
		return placed.pending, nil
	}
	if err != nil {
		return esim.Purchase{}, err
	}
	var found *esim.Purchase
	for _, one := range page.items {
		if !isOf(one.Transaction, placed.pending.Ref) {
			return esim.Purchase{}, wire.Unclear("the answer is about another order")
		}
		if found, err = s.another(found, one); err != nil {
			return esim.Purchase{}, err
		}
	}
	if found == nil {
		return esim.Purchase{}, wire.Unclear("the answer leaves the order out")
	}
	return *found, nil
}

func (s *Supplier) byTime(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	var found *esim.Purchase
	err := s.history(ctx, "ordered", s.lookback, func(one profileAnswer) (err error) {
		if isOf(one.Transaction, ref) {
			found, err = s.another(found, one)
		}
		return err
	})
	if err != nil {
		return esim.Purchase{}, err
	}
	if found == nil {
		return esim.Purchase{}, fulfilment.ErrNoRef
	}
	return *found, nil
}

// another is one more report about an order. Two different ones settle nothing.
func (s *Supplier) another(found *esim.Purchase, one profileAnswer) (*esim.Purchase, error) {
	p, err := one.purchase()
	if err != nil {
		return nil, err
	}
	if found != nil && !samePurchase(*found, p) {
		return nil, wire.Unclear("the answer holds two different reports")
	}
	if isName(string(one.OrderNo)) {
		pending := p
		pending.State, pending.ActivationData, pending.Refusal = esim.PurchasePending, nil, nil
		s.placed.Put(pending.Ref, placement{orderNo: string(one.OrderNo), pending: pending})
	}
	return &p, nil
}

func samePurchase(a, b esim.Purchase) bool {
	same := a.ID == b.ID && a.Code == b.Code && a.State == b.State && a.Cost == b.Cost &&
		(a.ActivationData == nil) == (b.ActivationData == nil)
	return same && (a.ActivationData == nil || a.ActivationData.Equal(*b.ActivationData))
}

// statement is how far Purchases looks back: longer than any backup that a database is restored from should be old.
const statement = 31 * 24 * time.Hour

// Purchases implements esim.Book.
func (s *Supplier) Purchases(ctx context.Context) ([]esim.Purchase, error) {
	var all []esim.Purchase
	seen := map[fulfilment.Ref]string{}
	err := s.history(ctx, "statement", statement, func(one profileAnswer) error {
		if _, ours := parseTransaction(one.Transaction); !ours {
			return nil
		}
		p, err := one.order()
		if err != nil {
			return err
		}
		more, err := one.added()
		if err != nil {
			return err
		}
		for _, t := range more {
			if _, twice := seen[t.Ref]; !twice {
				seen[t.Ref], all = t.ID, append(all, t)
			}
		}
		if id, twice := seen[p.Ref]; twice && id == p.ID {
			return nil
		}
		seen[p.Ref], all = p.ID, append(all, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what was ordered: %w", err)
	}
	return all, nil
}

const (
	pageSize = 500
	// maxPages bounds a search, at more orders than a day is believed to have.
	maxPages = 200
	// ahead is how far the vendor's clock may be ahead of ours.
	ahead = 5 * time.Minute
	// minute is the vendor's form of a time, in UTC.
	minute = "2006-01-02T15:04+00:00"
)

// history reads all profiles that were ordered since a time, those of other programs of the account among them.
func (s *Supplier) history(
	ctx context.Context, op string, since time.Duration, each func(profileAnswer) error,
) error {
	now := s.wire.Now().UTC()
	period := map[string]any{
		"startTime": now.Add(-since).Format(minute), "endTime": now.Add(ahead + time.Minute).Format(minute),
	}
	for n := 1; n <= maxPages; n++ {
		page, err := s.profiles(ctx, query(op), period, n)
		if err != nil {
			return err
		}
		for _, one := range page.items {
			if err := each(one); err != nil {
				return err
			}
		}
		if int64(n)*pageSize >= page.total {
			return nil
		}
		if len(page.items) == 0 {
			return wire.Unclear("a page of the answer is empty")
		}
	}
	return wire.Unclear("too much was ordered to be searched")
}

// query is a call whose answer holds activation data.
func query(op string) request {
	return request{op: op, path: "esim/query", most: maxProfiles, confidential: true}
}

// page is a part of a list.
type page struct {
	items []profileAnswer
	total int64
}

// profiles reads the n-th page of the profiles that are selected.
func (s *Supplier) profiles(ctx context.Context, rq request, selected map[string]any, n int) (page, error) {
	body := map[string]any{"pager": map[string]any{"pageNum": n, "pageSize": pageSize}}
	for name, value := range selected {
		body[name] = value
	}
	rq.body = body
	var got struct {
		List  *[]json.RawMessage `json:"esimList"`
		Pager struct {
			Total wire.Text `json:"total"`
		} `json:"pager"`
	}
	if err := s.send(ctx, rq, &got); err != nil {
		return page{}, err
	}
	total, ok := got.Pager.Total.Units(maxUnits)
	if !ok || (got.List == nil && total > 0) {
		return page{}, wire.Undocumented
	}
	p := page{total: total}
	if got.List == nil {
		return p, nil
	}
	for _, raw := range *got.List {
		var one profileAnswer
		if wire.Decode(raw, &one) != nil {
			// It could be the one that is looked for.
			return page{}, wire.Undocumented
		}
		p.items = append(p.items, one)
	}
	return p, nil
}

type profileAnswer struct {
	ID      wire.Text `json:"esimTranNo"`
	OrderNo wire.Text `json:"orderNo"`
	// Transaction is empty for what was ordered by hand.
	Transaction string    `json:"transactionId"`
	ICCID       wire.Text `json:"iccid"`
	// AC is the activation code.
	AC         string     `json:"ac"`
	ESIMStatus wire.Upper `json:"esimStatus"`
	SMDPStatus wire.Upper `json:"smdpStatus"`
	// ExpiresAt is the end of the plan, or before its installation the end of the time to install it.
	ExpiresAt wire.Time `json:"expiredTime"`
	DataType  wire.Text `json:"dataType"`
	// Packages are the one that was ordered, and those that the profile was topped up with.
	Packages []struct {
		Code        string `json:"packageCode"`
		Transaction string `json:"transactionId"`
	} `json:"packageList"`
}

// The states of a profile that mean something to us. Every other one is pending: unknown, and not failed. A profile
// that was revoked is paid for and cannot be used, which a person has to look at.
const (
	gotResource   = "GOT_RESOURCE"
	inUse         = "IN_USE"
	usedUp        = "USED_UP"
	usedExpired   = "USED_EXPIRED"
	unusedExpired = "UNUSED_EXPIRED"
	suspended     = "SUSPENDED"
	cancelled     = "CANCEL"
	// released is the state at the SM-DP+ server of a profile that no device has fetched.
	released = "RELEASED"
)

// order is what the vendor reports, without the activation data.
func (a profileAnswer) order() (esim.Purchase, error) {
	named, ok := parseTransaction(a.Transaction)
	if !ok || (a.ID != "" && !isName(string(a.ID))) || a.ESIMStatus == "" {
		return esim.Purchase{}, wire.Unclear("the order in the answer does not match the documentation")
	}
	p := esim.Purchase{
		ID: string(a.ID), Ref: named.ref, Code: a.packageCode(), State: esim.PurchasePending, Cost: named.cost,
	}
	if !isName(p.Code) {
		return esim.Purchase{}, wire.Unclear("the order in the answer has no package")
	}
	switch a.ESIMStatus {
	case gotResource, inUse, usedUp, usedExpired, unusedExpired, suspended:
		p.State = esim.PurchaseReady
	case cancelled:
		p.State = esim.PurchaseRejected
		p.Refusal = &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: "the order is cancelled"}
	}
	return p, nil
}

// purchase is what the vendor reports, with the activation data of a profile that is ready.
func (a profileAnswer) purchase() (esim.Purchase, error) {
	p, err := a.order()
	if err != nil || p.State != esim.PurchaseReady {
		return p, err
	}
	m, err := esim.ParseActivation(string(a.ICCID), a.AC)
	switch {
	case err != nil:
		return esim.Purchase{}, wire.Unclear(err.Error())
	case p.ID == "":
		return esim.Purchase{}, wire.Unclear("the profile in the answer does not match the documentation")
	}
	p.ActivationData = &m
	return p, nil
}

// packageCode is the package that the order was for.
func (a profileAnswer) packageCode() string {
	for _, p := range a.Packages {
		if p.Transaction == a.Transaction {
			return p.Code
		}
	}
	if len(a.Packages) == 1 && a.Packages[0].Transaction == "" {
		return a.Packages[0].Code
	}
	return ""
}
