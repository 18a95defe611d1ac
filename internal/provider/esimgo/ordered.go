package esimgo

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// clockSkew is how far the vendor's clock may be from ours.
const clockSkew = 2 * time.Minute

// Ordered implements esim.Supplier. The journal knows whether anything was sent; what it knows no name of is searched.
func (s *Supplier) Ordered(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	return s.ordered(ctx, ref, esim.Held{})
}

// ordered reads back an order for an eSIM that we have sold, or for a new one.
func (s *Supplier) ordered(ctx context.Context, ref fulfilment.Ref, onto esim.Held) (esim.Purchase, error) {
	sent, err := s.journal.Sent(ctx, ref)
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("look into the journal: %w", err)
	}
	if sent.Onto != onto.ID {
		return esim.Purchase{}, wire.Unclear("the reference is of an order for another eSIM")
	}
	found := sent.Account
	if found == "" {
		if found, err = s.search(ctx, sent); err != nil {
			return esim.Purchase{}, fmt.Errorf("search an order: %w", err)
		}
	}
	var got orderAnswer
	err = s.call(ctx, request{
		op: "ordered", method: http.MethodGet, path: []string{"orders", found}, route: "/orders/{orderReference}",
	}, &got)
	if err == nil && got.Reference != found {
		err = wire.Unclear("the answer is about another order")
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read an order: %w", err)
	}
	p, err := s.purchase(ctx, sent, onto, got)
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read an order: %w", err)
	}
	if sent.Account != "" {
		return p, nil
	}
	if err := s.adopt(ctx, sent, p, got); err != nil {
		return esim.Purchase{}, fmt.Errorf("search an order: %w", err)
	}
	return p, nil
}

// adopt gives an order that was found by search to the reference that it was searched for. Nobody has been told of a
// new eSIM yet, so one that is on a device already is somebody else's. A bundle that was added to an eSIM shows which.
func (s *Supplier) adopt(ctx context.Context, sent esim.Sent, p esim.Purchase, got orderAnswer) error {
	if sent.Onto != "" {
		if p.State != esim.PurchaseReady {
			return nil // it does not show its eSIM yet, and is searched again
		}
		return s.journal.Name(ctx, sent.Ref, p.ID)
	}
	profile, err := one(got.Order[0].ESIMs)
	if err == nil && p.State == esim.PurchaseReady && (profile == nil || profile.Installed == "") {
		profile, err = s.assigned(ctx, p.ID, profile)
	}
	switch {
	case err != nil:
		return err
	case profile != nil && profile.Installed != "":
		return wire.Unclear("the only order that fits has an eSIM that is installed already")
	}
	return s.journal.Name(ctx, sent.Ref, p.ID)
}

// entry is an order of the vendor's list, as far as a search needs it.
type entry struct {
	reference string
	created   time.Time
	// bundle is empty for an order of another kind than ours, and total is zero where it is no amount of US dollars.
	bundle string
	total  money.USDC
}

func references(all []entry) []string {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.reference
	}
	return names
}

// window is the time in which an order can have been made that was sent at a time.
func (s *Supplier) window(at time.Time) (from, to time.Time) {
	return at.Add(-clockSkew), at.Add(s.timeout + s.visibilityDelay + clockSkew)
}

// search finds the vendor's name of what was sent, by bundle, quantity, total and time. It is a name only when no other
// reference can have made that order, and no other order can have been made by this reference. ErrNoRef says that no
// order can have been.
func (s *Supplier) search(ctx context.Context, sent esim.Sent) (string, error) {
	from, to := s.window(sent.At)
	fitting, err := s.listed(ctx, from)
	if err != nil {
		return "", err
	}
	fitting = slices.DeleteFunc(fitting, func(e entry) bool {
		return e.bundle != sent.Code || e.created.Before(from) || e.created.After(to)
	})
	// Read after the list: whoever sent what is listed was in the journal before.
	named, err := s.journal.Named(ctx, references(fitting))
	if err != nil {
		return "", fmt.Errorf("look into the journal: %w", err)
	}
	around := to.Sub(from)
	rivals, err := s.journal.SentBetween(ctx, sent.Code, from.Add(-around), to.Add(around))
	if err != nil {
		return "", fmt.Errorf("look into the journal: %w", err)
	}
	fitting = slices.DeleteFunc(fitting, func(e entry) bool {
		_, taken := named[e.reference]
		return taken || slices.ContainsFunc(rivals, func(r esim.Sent) bool { return r.Account == e.reference })
	})
	switch {
	case len(fitting) == 0:
		return "", fulfilment.ErrNoRef
	case len(fitting) > 1:
		return "", wire.Unclear("several orders fit")
	case fitting[0].total != sent.Cost:
		return "", wire.Unclear("the only order that fits has another total")
	}
	for _, r := range rivals {
		if r.Ref != sent.Ref && r.Account == "" && s.canHaveMade(r, fitting[0]) {
			return "", wire.Unclear("another reference can have made the only order that fits")
		}
	}
	return fitting[0].reference, nil
}

// canHaveMade says whether an order of the same bundle can be what was sent. Its total says nothing against it: a price
// may change after the quote.
func (s *Supplier) canHaveMade(sent esim.Sent, e entry) bool {
	from, to := s.window(sent.At)
	return !e.created.Before(from) && !e.created.After(to)
}

// listed reads the vendor's list of orders, as far back as a time when it is sorted by time, and whole otherwise. An
// order since then that cannot be read fails it: it could be the one that is looked for.
func (s *Supplier) listed(ctx context.Context, from time.Time) ([]entry, error) {
	var all []entry
	seen := map[string]entry{}
	newestFirst := true
	for page, more := 1, true; more; page++ {
		var got ordersAnswer
		err := s.call(ctx, request{
			op: "ordered", method: http.MethodGet, path: []string{"orders"}, route: "/orders", query: paged(page),
		}, &got)
		if err == nil && got.Orders == nil {
			err = wire.Unclear("the list in the answer does not match the documentation")
		}
		if err != nil {
			return nil, err
		}
		for _, o := range *got.Orders {
			e, err := o.entry(from)
			if err != nil {
				return nil, err
			}
			known, again := seen[e.reference]
			switch {
			case again && known != e:
				return nil, wire.Unclear("the list has two different orders of one name")
			case again:
				continue
			}
			newestFirst = newestFirst && (len(all) == 0 || !e.created.After(all[len(all)-1].created))
			all, seen[e.reference] = append(all, e), e
		}
		if newestFirst && len(all) > 1 && all[len(all)-1].created.Before(from) {
			return all, nil
		}
		if more, err = got.after(page, len(*got.Orders)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

type ordersAnswer struct {
	pages
	Orders *[]orderAnswer `json:"orders"`
}

// entry reads an order of the list. What is older than is looked for may be of any kind.
func (a orderAnswer) entry(from time.Time) (entry, error) {
	created := a.Created.Time
	if created.IsZero() || !isReference(a.Reference) {
		return entry{}, wire.Unclear("an order in the list does not match the documentation")
	}
	e := entry{reference: a.Reference, created: created}
	if len(a.Order) == 1 && a.Order[0].Quantity == 1 {
		e.bundle = a.Order[0].Item
	}
	if total, ok := parseUSD(a.Total); ok && a.Currency == currencyUSD {
		e.total = total
	}
	if created.Before(from) {
		return e, nil
	}
	unread := func(l lineAnswer) bool { return l.Item == "" || l.Quantity <= 0 }
	if len(a.Order) == 0 || slices.ContainsFunc(a.Order, unread) {
		return entry{}, wire.Unclear("an order in the list does not match the documentation")
	}
	return e, nil
}
