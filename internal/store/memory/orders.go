package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// Orders keeps orders, their payments and reservations.
type Orders struct{ s *Store }

var (
	_ checkout.Store          = Orders{}
	_ checkout.RecoveredStore = Orders{}
	_ settlement.Store        = Orders{}
)

// Orders is the part of the store that checkout uses.
func (s *Store) Orders() Orders { return Orders{s} }

// move is the key of a row of the timeline.
type move struct {
	order   order.ID
	version int
}

// authorization is the key of a payment.
type authorization struct {
	network      string
	asset, payer x402.Address
	nonce        x402.Hash
}

func authorizationOf(network string, asset x402.Address, a x402.Authorization) authorization {
	return authorization{network, asset, a.From, a.Nonce}
}

// posting is the key of a posting.
type posting struct {
	id    ledger.ID
	owner string
}

type posted struct {
	ledger.Posting
	owner string
}

// errRepeated fails a claim whose purchase exists already.
var errRepeated = errors.New("the purchase exists")

// Find implements checkout.Store and settlement.Store.
func (o Orders) Find(ctx context.Context, id order.ID) (found order.Order, err error) {
	err = o.s.do(ctx, "orders.find", func(t *tx) error {
		row := t.orders.get(id)
		if row == nil {
			return order.ErrNotFound
		}
		found = *row
		return nil
	})
	return found, err
}

// FindByKey implements checkout.Store.
func (o Orders) FindByKey(
	ctx context.Context, kind order.Kind, owner x402.Address, key string,
) (found order.Order, err error) {
	err = o.s.do(ctx, "orders.find_by_key", func(t *tx) (err error) {
		found, err = t.orderOf(kind, owner, key)
		return err
	})
	return found, err
}

func (t *tx) orderOf(kind order.Kind, owner x402.Address, key string) (order.Order, error) {
	row := t.orders.first(func(o *order.Order) bool { return o.Kind == kind && o.Owner == owner && o.Key == key })
	if row == nil {
		return order.Order{}, order.ErrNotFound
	}
	return *row, nil
}

// Claimed implements checkout.Store.
func (o Orders) Claimed(
	ctx context.Context, network string, asset x402.Address, a x402.Authorization,
) (claimed bool, err error) {
	err = o.s.do(ctx, "orders.claimed", func(t *tx) error {
		claimed = t.paymentBy(authorizationOf(network, asset, a)) != nil
		return nil
	})
	return claimed, err
}

func (t *tx) paymentBy(a authorization) *payment.Payment {
	return t.payments.first(func(p *payment.Payment) bool {
		return authorizationOf(p.Network, p.Asset, p.Authorization) == a
	})
}

// Orders implements checkout.Store. Ids are time-ordered, so newest first is by id.
func (o Orders) Orders(
	ctx context.Context, owner x402.Address, q checkout.Query,
) (found []order.Order, err error) {
	err = o.s.do(ctx, "orders.list", func(t *tx) error {
		found = t.orders.all(func(o *order.Order) bool {
			return o.Owner == owner && (!q.Active || t.active(o)) && (q.Kind == "" || o.Kind == q.Kind) &&
				(!q.Ended || o.Status == order.Fulfilled || o.Status == order.Refunded) &&
				(q.IDs == nil || slices.Contains(q.IDs, o.ID)) && (q.Before == "" || o.ID < q.Before)
		})
		slices.SortFunc(found, func(a, b order.Order) int { return cmp.Compare(b.ID, a.ID) })
		found = append([]order.Order{}, found[:min(q.Limit, len(found))]...)
		return nil
	})
	return found, err
}

func (t *tx) active(o *order.Order) bool {
	return !o.Status.Final() && (o.Status != order.PaymentRequired || t.inTime(o))
}

// inTime reports whether an order has not expired.
func (t *tx) inTime(o *order.Order) bool { return o.ExpiresAt == nil || o.ExpiresAt.After(t.stamp) }

// Payments implements checkout.Store and settlement.Store. The one that is not dead decides: there is at most one, and
// it is the latest.
func (o Orders) Payments(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Payment, error) {
	found := map[order.ID]payment.Payment{}
	return found, o.s.do(ctx, "orders.payments", func(t *tx) error {
		all := t.payments.all(func(p *payment.Payment) bool { return slices.Contains(ids, p.Order) })
		slices.SortStableFunc(all, func(a, b payment.Payment) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, p := range all {
			found[p.Order] = p
		}
		return nil
	})
}

// Put keeps an order as it is, and wakes those who watch it.
func (o Orders) Put(ord order.Order) {
	_ = o.s.do(context.Background(), "orders.put", func(t *tx) error {
		t.notify(topicOrder, string(ord.ID))
		if row := t.orders.get(ord.ID); row != nil {
			*edit(t, row) = ord
			return nil
		}
		_, err := add(t, &t.orders, "orders_pkey", ord.ID, ord)
		return err
	})
}

// Watch implements checkout.Store.
func (o Orders) Watch(ids ...order.ID) (wake <-chan struct{}, stop func()) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = string(id)
	}
	return o.s.disk.subscribe(topicOrder, keys...)
}

// Timeline are the moves of an order, oldest first.
func (o Orders) Timeline(id order.ID) []order.Event {
	o.s.disk.mu.Lock()
	defer o.s.disk.mu.Unlock()
	return o.s.disk.timeline.all(func(e *order.Event) bool { return e.Order == id })
}

// Posted are the postings of an order, oldest first; of none, those that belong to none.
func (o Orders) Posted(id order.ID) (found []ledger.Posting) {
	o.s.disk.mu.Lock()
	defer o.s.disk.mu.Unlock()
	for _, p := range o.s.disk.postings.all(func(p *posted) bool { return p.Order == string(id) }) {
		found = append(found, p.Posting)
	}
	return found
}

// Post adds postings of an owner's orders.
func (o Orders) Post(owner x402.Address, all ...ledger.Posting) {
	_ = o.s.do(context.Background(), "ledger.post", func(t *tx) error { return t.post(owner.Lower(), all...) })
}

// selling fails with availability.ErrPaused while one of the switches is on.
func (t *tx) selling(switches ...order.Kind) error {
	for _, of := range switches {
		if row := t.switches.get(of); row != nil && row.Paused {
			return availability.ErrPaused
		}
	}
	return nil
}

// SetSwitch pauses or resumes the sale of a product or over a provider.
func (s *Store) SetSwitch(ctx context.Context, of order.Kind, paused bool) error {
	return s.do(ctx, "switches.set", func(t *tx) error {
		now := availability.Switch{Product: of, Paused: paused, ChangedAt: t.stamp}
		if row := t.switches.get(of); row != nil {
			*edit(t, row) = now
			return nil
		}
		_, err := add(t, &t.switches, "kill_switches_pkey", of, now)
		return err
	})
}

// insertOrder inserts an order whose purchase is not there.
func (t *tx) insertOrder(o order.Order) error {
	if _, err := t.orderOf(o.Kind, o.Owner, o.Key); err == nil {
		return violation("orders_purchase")
	}
	o.Delivery, o.CreatedAt, o.UpdatedAt = max(1, o.Delivery), stored(o.CreatedAt), stored(o.UpdatedAt)
	_, err := add(t, &t.orders, "orders_pkey", o.ID, o)
	return err
}

// stored is a time as a database keeps it.
func stored(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

// countHits counts requests by the database's clock.
func (t *tx) countHits(hits []limit.Hit) error {
	for _, hit := range hits {
		id := string(hit.Class) + "/" + hit.Name
		row, whole := t.rates.get(id), t.at
		if row != nil && row.After(whole) {
			whole = *row
		}
		next := whole.Add(hit.Each())
		if next.After(t.at.Add(hit.Each() * time.Duration(hit.Rate.Count))) {
			return hit.Refusal(whole.Sub(t.at))
		}
		if row != nil {
			*edit(t, row) = next
		} else if _, err := add(t, &t.rates, "rate_limits_pkey", id, next); err != nil {
			return err
		}
	}
	return nil
}

// Claim implements checkout.Store.
func (o Orders) Claim(ctx context.Context, p checkout.ClaimRequest) (result checkout.ClaimResult, err error) {
	if from := p.Payment.Authorization.From; from != p.Order.Owner {
		return result, fmt.Errorf("order %s of %s is paid by %s", p.Order.ID, p.Order.Owner, from)
	}
	err = o.s.do(ctx, "orders.claim", func(t *tx) (err error) {
		result, err = t.claim(p)
		return err
	})
	if err == nil {
		return result, nil
	}
	if short, ok := errors.AsType[*order.Shortage](err); ok {
		return checkout.ClaimResult{}, o.s.awaited(ctx, short)
	}
	reused := errors.Is(err, violation("payments_authorization"))
	if !reused && !errors.Is(err, errRepeated) && !errors.Is(err, violation("orders_purchase")) &&
		!errors.Is(err, violation("payments_live")) {
		return checkout.ClaimResult{}, err
	}
	known, err := o.FindByKey(ctx, p.Order.Kind, p.Order.Owner, p.Order.Key)
	if reused && (errors.Is(err, order.ErrNotFound) || err == nil && known.Status == order.PaymentRequired) {
		return checkout.ClaimResult{Claim: checkout.Reused}, nil
	}
	return checkout.ClaimResult{Claim: checkout.Repeated, Order: known}, err
}

func (t *tx) claim(p checkout.ClaimRequest) (result checkout.ClaimResult, err error) {
	switches := []order.Kind{p.Order.Kind}
	if p.Provider != "" {
		switches = append(switches, availability.OfProvider(p.Provider))
	}
	if err := t.selling(switches...); err != nil {
		return result, err
	}
	ord := p.Order
	ord.Status, ord.Version = order.Settling, 1
	if p.Existing {
		row := t.orders.get(ord.ID)
		if row == nil || row.Owner != ord.Owner || row.Status != order.PaymentRequired ||
			row.Version != p.Order.Version || !t.inTime(row) {
			return result, errRepeated
		}
		ord.Version, ord.ExpiresAt = p.Order.Version+1, nil
		row = edit(t, row)
		row.Status, row.ExpiresAt, row.RefundReason, row.UpdatedAt = order.Settling, nil, ord.RefundReason, t.stamp
		row.Version++
	} else if err := t.insertOrder(ord); err != nil {
		return result, err
	}
	if err := t.recordMove(order.Move{
		Order: ord.ID, Owner: ord.Owner, From: order.PaymentRequired, To: order.Settling, Actor: "buyer",
		Reason: "payment claimed",
	}, ord.Version); err != nil {
		return result, err
	}
	if err := t.insertPayment(p.Payment); err != nil {
		return result, err
	}
	row, added, err := t.insertJob(p.Job, ord.Owner.Lower())
	if err == nil && !added {
		err = violation("jobs_unique")
	}
	if err == nil {
		err = t.countHits(p.Hits)
	}
	if err == nil {
		err = t.takeReservations(p)
	}
	return checkout.ClaimResult{Claim: checkout.Fresh, Order: ord, Job: row}, err
}

func (t *tx) insertPayment(p payment.Payment) error {
	if t.payments.first(func(o *payment.Payment) bool { return o.Order == p.Order && o.Status != payment.Dead }) != nil {
		return violation("payments_live")
	}
	if t.paymentBy(authorizationOf(p.Network, p.Asset, p.Authorization)) != nil {
		return violation("payments_authorization")
	}
	p.CreatedAt = stored(p.CreatedAt)
	if p.ArrivedAt != nil {
		at := stored(*p.ArrivedAt)
		p.ArrivedAt = &at
	}
	_, err := add(t, &t.payments, "payments_pkey", p.ID, p)
	return err
}

// Arrive implements checkout.ArrivedStore.
func (o Orders) Arrive(ctx context.Context, a payment.Arrived) error {
	return o.s.do(ctx, "orders.arrive", func(t *tx) error {
		key := authorizationOf(a.Network, a.Asset, a.Authorization)
		a.Receipt = *proofOf(a.Receipt, a.Authorization)
		if row := t.reported.get(key); row != nil {
			place := a.Receipt
			place.PayTo, place.Amount = row.Receipt.PayTo, row.Receipt.Amount
			edit(t, row).Receipt = place
			return nil
		}
		_, err := add(t, &t.reported, "reported_transfers_pkey", key, a)
		return err
	})
}

// Unmatched implements checkout.ArrivedStore.
func (o Orders) Unmatched(ctx context.Context, q checkout.UnmatchedQuery) (payment.Arrived, error) {
	none := payment.Arrived{Network: q.Network, Asset: q.Asset,
		Authorization: x402.Authorization{From: q.Payer, To: q.PayTo, Value: q.Value}}
	found := none
	err := o.s.do(ctx, "orders.unmatched", func(t *tx) error {
		all := t.reported.all(func(a *payment.Arrived) bool {
			of := a.Authorization
			return a.Network == q.Network && a.Asset == q.Asset && of.To == q.PayTo && of.From == q.Payer &&
				of.Value == q.Value && !slices.Contains(q.Except, of.Nonce) && t.unclaimed(a)
		})
		if len(all) == 0 {
			return order.ErrNotFound
		}
		found = slices.MinFunc(all, func(a, b payment.Arrived) int {
			return cmp.Or(cmp.Compare(a.Receipt.Block, b.Receipt.Block),
				cmp.Compare(a.Receipt.LogIndex, b.Receipt.LogIndex), a.Receipt.SettledAt.Compare(b.Receipt.SettledAt))
		})
		return nil
	})
	return found, err
}

func (t *tx) unclaimed(a *payment.Arrived) bool {
	return t.payments.first(func(p *payment.Payment) bool {
		return authorizationOf(p.Network, p.Asset, p.Authorization) ==
			authorizationOf(a.Network, a.Asset, a.Authorization) ||
			p.Authorization.From == a.Authorization.From && p.Receipt != nil &&
				p.Receipt.Transaction == a.Receipt.Transaction && p.Receipt.LogIndex == a.Receipt.LogIndex
	}) == nil
}

// Rebind implements checkout.RecoveredStore.
func (o Orders) Rebind(ctx context.Context, r checkout.Rebinding) (bound order.Order, err error) {
	err = o.s.do(ctx, "orders.rebind", func(t *tx) (err error) {
		row := t.orders.first(func(o *order.Order) bool {
			return o.Kind == r.Kind && o.Owner == r.Owner && o.Reference == nil && o.RecoveredReference != nil &&
				*o.RecoveredReference == r.Reference
		})
		if row == nil {
			return order.ErrNotFound
		}
		if bound, err = t.orderOf(r.Kind, r.Owner, r.Key); err == nil {
			return nil // a copy of the request was first
		}
		row = edit(t, row)
		row.Key, row.Fingerprint, row.Resource = r.Key, r.Fingerprint, r.Resource
		row.Reference = order.ReferenceOf(r.Kind, r.Owner, r.Key)
		bound = *row
		return nil
	})
	return bound, err
}
