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
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/telemetry"
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

// Create implements checkout.Store.
func (o Orders) Create(ctx context.Context, ord order.Order, b checkout.Bounds) (made order.Order, err error) {
	ord.Status, ord.Version = order.PaymentRequired, 1
	err = o.s.do(ctx, "orders.create", func(t *tx) error {
		made = ord
		unpaid := t.orders.all(func(o *order.Order) bool {
			return o.Owner == ord.Owner && o.Status == order.PaymentRequired && t.inTime(o)
		})
		slices.SortFunc(unpaid, func(a, b order.Order) int { return cmp.Compare(b.ID, a.ID) })
		if b.ReuseUnpaid {
			if i := slices.IndexFunc(unpaid, func(o order.Order) bool { return o.Kind == ord.Kind }); i >= 0 {
				made = unpaid[i]
				return nil
			}
		}
		if err := t.roomForAnother(ord, unpaid, b.MaxUnpaid); err != nil {
			return err
		}
		if err := t.selling(ord.Kind); err != nil {
			return err
		}
		if err := t.insertOrder(ord); err != nil {
			return err
		}
		return t.takeTurns(b.Turns)
	})
	if errors.Is(err, violation("orders_purchase")) {
		return o.FindByKey(ctx, ord.Kind, ord.Owner, ord.Key) // a copy of the request created it
	}
	if err != nil {
		return order.Order{}, err
	}
	return made, nil
}

// roomForAnother fails with a *limit.Refusal when an owner has the largest allowed number of unpaid orders. The order
// itself, created by a copy of the request, does not count.
func (t *tx) roomForAnother(ord order.Order, unpaid []order.Order, most int) error {
	unpaid = slices.DeleteFunc(slices.Clone(unpaid), func(o order.Order) bool { return o.ExpiresAt == nil })
	if most == 0 || len(unpaid) < most {
		return nil
	}
	if _, err := t.orderOf(ord.Kind, ord.Owner, ord.Key); err == nil {
		return nil // the insert finds it again
	}
	next := slices.MinFunc(unpaid, func(a, b order.Order) int { return a.ExpiresAt.Compare(*b.ExpiresAt) })
	return limit.Full(most, next.ExpiresAt.Sub(t.stamp), fmt.Sprintf(
		"%d orders of this wallet wait to be paid. Pay one of them, or wait until one expires.", len(unpaid)))
}

// Expire moves up to limit unpaid orders that are past their deadline to expired, and returns how many.
func (o Orders) Expire(ctx context.Context, limit int) (n int, err error) {
	err = o.s.do(ctx, "orders.expire", func(t *tx) error {
		due := t.orders.all(func(o *order.Order) bool { return o.Status == order.PaymentRequired && !t.inTime(o) })
		slices.SortStableFunc(due, func(a, b order.Order) int { return a.ExpiresAt.Compare(*b.ExpiresAt) })
		n = min(limit, len(due))
		for _, ord := range due[:n] {
			if _, err := t.moveOrder(order.Move{
				Order: ord.ID, Owner: ord.Owner, From: order.PaymentRequired, To: order.Expired, Actor: order.Worker,
				Reason: "not paid in time",
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// takeTurns counts requests by the database's clock.
func (t *tx) takeTurns(turns []limit.Turn) error {
	for _, turn := range turns {
		id := string(turn.Class) + "/" + turn.Name
		row, whole := t.rates.get(id), t.at
		if row != nil && row.After(whole) {
			whole = *row
		}
		next := whole.Add(turn.Each())
		if next.After(t.at.Add(turn.Each() * time.Duration(turn.Rate.Count))) {
			return turn.Refusal(whole.Sub(t.at))
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
		err = t.takeTurns(p.Turns)
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

// Settle implements settlement.Store.
func (o Orders) Settle(
	ctx context.Context, f job.Fence, p payment.Payment, m order.Move, watch job.New,
) (order.Order, error) {
	return o.move(ctx, "orders.settle", f, m, func(t *tx) error {
		if err := t.prove(p, payment.Claimed); err != nil {
			return err
		}
		for _, r := range t.reservations.rows {
			if r.order == p.Order && r.released == nil {
				edit(t, r).settled = &t.stamp
			}
		}
		_, _, err := t.insertJob(watch, p.Authorization.From.Lower())
		return err
	})
}

// Reprove implements settlement.Store.
func (o Orders) Reprove(ctx context.Context, f job.Fence, p payment.Payment) error {
	return o.s.fenced(ctx, "orders.reprove", f, func(t *tx) error { return t.prove(p, payment.Paid) })
}

// prove makes a payment in a status paid, with its receipt.
func (t *tx) prove(p payment.Payment, from payment.Status) error {
	row := t.payments.get(p.ID)
	if row == nil || row.Authorization.From != p.Authorization.From || row.Status != from {
		return fmt.Errorf("payment %s is no longer %s", p.ID, from)
	}
	if t.payments.first(func(o *payment.Payment) bool {
		return o.ID != p.ID && o.Authorization.From == p.Authorization.From && o.Receipt != nil &&
			o.Receipt.Transaction == p.Receipt.Transaction && o.Receipt.LogIndex == p.Receipt.LogIndex
	}) != nil {
		return violation("payments_transfer")
	}
	row = edit(t, row)
	row.Status, row.Receipt = payment.Paid, proofOf(*p.Receipt, row.Authorization)
	return nil
}

// proofOf is a receipt as it is stored: who pays whom how much is the authorization's.
func proofOf(r payment.Receipt, a x402.Authorization) *payment.Receipt {
	r.Payer, r.PayTo, r.Amount, r.SettledAt = a.From, a.To, a.Value, stored(r.SettledAt)
	return &r
}

// MarkDead implements settlement.Store.
func (o Orders) MarkDead(ctx context.Context, f job.Fence, p payment.Payment, m order.Move) (order.Order, error) {
	return o.move(ctx, "orders.mark_dead", f, m, func(t *tx) error {
		row := t.payments.get(p.ID)
		if row == nil || row.Authorization.From != p.Authorization.From || row.Status != payment.Claimed {
			return fmt.Errorf("payment %s is no longer claimed", p.ID)
		}
		row = edit(t, row)
		row.Status, row.DeadReason = payment.Dead, p.DeadReason
		return nil
	})
}

// Move implements settlement.Store.
func (o Orders) Move(ctx context.Context, f job.Fence, m order.Move) (order.Order, error) {
	return o.move(ctx, "orders.move", f, m, func(*tx) error { return nil })
}

// move moves an order together with the related changes, under the job's fence.
func (o Orders) move(
	ctx context.Context, op string, f job.Fence, m order.Move, also func(*tx) error,
) (moved order.Order, err error) {
	if err := m.Check(); err != nil {
		return order.Order{}, err
	}
	err = o.s.fenced(ctx, op, f, func(t *tx) error {
		if err := also(t); err != nil {
			return err
		}
		moved, err = t.moveOrder(m)
		return err
	})
	if err != nil {
		return order.Order{}, err
	}
	return moved, nil
}

// moveOrder moves an order, with its timeline row and its postings.
func (t *tx) moveOrder(m order.Move) (order.Order, error) {
	if m.From == order.Settled && m.To == order.Provisioning && len(t.suspended(m.Order)) > 0 {
		return order.Order{}, order.ErrSuspended
	}
	row := t.orders.get(m.Order)
	if row == nil || row.Owner != m.Owner || row.Status != m.From {
		return order.Order{}, fmt.Errorf("order %s is no longer %s", m.Order, m.From)
	}
	row = edit(t, row)
	row.Status, row.UpdatedAt = m.To, t.stamp
	row.Version++
	if m.Refused {
		row.Delivery++
	}
	if err := t.recordMove(m, row.Version); err != nil {
		return order.Order{}, err
	}
	if m.To.Final() || m.To == order.PaymentRequired {
		t.release(m.Order)
	}
	t.notify(topicOrder, string(m.Order))
	return *row, t.post(m.Owner.Lower(), m.Postings...)
}

// recordMove adds a move to the timeline of an order, whose version is that after the move.
func (t *tx) recordMove(m order.Move, version int) error {
	request := telemetry.RequestID(t.ctx)
	if m.ByWorker() {
		request = ""
	}
	m.Postings = nil
	_, err := add(t, &t.timeline, "timeline_move", move{m.Order, version},
		order.Event{Move: m, Request: request, Version: version, At: t.stamp})
	return err
}

// post adds postings, each once. The owner is that of their order, or empty for one without an order. A reversal of a
// posting that does not exist is not added.
func (t *tx) post(owner string, all ...ledger.Posting) error {
	for _, p := range all {
		of := owner
		if of == "" || p.Order == "" {
			of = ""
			if row := t.orders.get(order.ID(p.Order)); row != nil {
				of = row.Owner.Lower()
			}
		}
		undone := t.postings.first(func(o *posted) bool { return o.ID == p.Undoes })
		if t.postings.get(posting{p.ID, of}) != nil || (p.Undoes != "" && undone == nil) {
			continue
		}
		if err := p.Check(); err != nil {
			return err
		}
		p.At = t.stamp
		if _, err := add(t, &t.postings, "ledger_postings_pkey", posting{p.ID, of}, posted{p, of}); err != nil {
			return err
		}
	}
	return nil
}

// balance is what an owner's account has by the ledger, in millionths of a dollar.
func (t *tx) balance(owner string, account ledger.Account) (sum int64) {
	for _, p := range t.postings.rows {
		for _, e := range p.Entries {
			if p.owner == owner && e.Account == account {
				sum += int64(e.Amount)
			}
		}
	}
	return sum
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
		row.Key, row.Fingerprint, row.Reference = r.Key, r.Fingerprint, order.ReferenceOf(r.Kind, r.Owner, r.Key)
		bound = *row
		return nil
	})
	return bound, err
}

// Refunds implements settlement.RefundStore and checkout.Store.
func (o Orders) Refunds(ctx context.Context, ids ...order.ID) (map[order.ID]payment.Refund, error) {
	found := map[order.ID]payment.Refund{}
	return found, o.s.do(ctx, "orders.refunds", func(t *tx) error {
		for _, r := range t.refunds.all(func(r *payment.Refund) bool { return slices.Contains(ids, r.Order) }) {
			found[r.Order] = r
		}
		return nil
	})
}

// SignRefund implements settlement.RefundStore.
func (o Orders) SignRefund(ctx context.Context, f job.Fence, r payment.Refund, earlier *payment.Refund) error {
	return o.s.fenced(ctx, "refunds.sign", f, func(t *tx) error {
		r.SignedAt = stored(r.SignedAt)
		if earlier == nil {
			if t.refunds.first(func(o *payment.Refund) bool { return o.Order == r.Order }) != nil {
				return violation("refunds_order")
			}
			r.CreatedAt = stored(r.CreatedAt)
			_, err := add(t, &t.refunds, "refunds_pkey", r.ID, r)
			return err
		}
		row := t.refunds.get(r.ID)
		if row == nil || row.Status != earlier.Status ||
			row.Authorization.ValidBefore != earlier.Authorization.ValidBefore {
			return fmt.Errorf("refund %s has been signed again meanwhile", r.ID)
		}
		row = edit(t, row)
		row.Status, row.Signature, row.SignedAt = r.Status, r.Signature, r.SignedAt
		row.Authorization.From, row.Authorization.ValidBefore = r.Authorization.From, r.Authorization.ValidBefore
		return nil
	})
}

// Refunded implements settlement.RefundStore.
func (o Orders) Refunded(
	ctx context.Context, f job.Fence, r payment.Refund, m order.Move, watch job.New,
) (order.Order, error) {
	return o.move(ctx, "refunds.refunded", f, m, func(t *tx) error {
		if err := t.proveRefund(r, payment.RefundSigned); err != nil {
			return err
		}
		t.dropCard(r.Order)
		_, _, err := t.insertJob(watch, r.Authorization.To.Lower())
		return err
	})
}

// proveRefund makes a refund in a status paid, with its receipt.
func (t *tx) proveRefund(r payment.Refund, from payment.RefundStatus) error {
	row := t.refunds.get(r.ID)
	if row == nil || row.Authorization.To != r.Authorization.To || row.Status != from {
		return fmt.Errorf("refund %s is no longer %s", r.ID, from)
	}
	row = edit(t, row)
	row.Status, row.Receipt = payment.RefundPaid, proofOf(*r.Receipt, row.Authorization)
	return nil
}

// MarkRefundDead implements settlement.RefundStore.
func (o Orders) MarkRefundDead(ctx context.Context, f job.Fence, r payment.Refund, m order.Move) (order.Order, error) {
	return o.move(ctx, "refunds.mark_dead", f, m, func(t *tx) error { return t.endRefund(r) })
}

func (t *tx) endRefund(r payment.Refund) error {
	row := t.refunds.get(r.ID)
	if row == nil || row.Authorization.To != r.Authorization.To || row.Status != payment.RefundSigned ||
		row.Authorization.ValidBefore != r.Authorization.ValidBefore {
		return fmt.Errorf("refund %s has changed since it was read", r.ID)
	}
	edit(t, row).Status = payment.RefundDead
	return nil
}

// Returned implements settlement.RefundStore.
func (o Orders) Returned(
	ctx context.Context, f job.Fence, r payment.Refund, of payment.Return, watch job.New,
) error {
	return o.s.fenced(ctx, "refunds.returned", f, func(t *tx) error {
		if err := t.proveRefund(r, payment.RefundSigned); err != nil {
			return err
		}
		if err := t.saveJob(f.ID, of.Next); err != nil {
			return err
		}
		if err := t.post(r.Authorization.To.Lower(), of.Postings...); err != nil {
			return err
		}
		_, _, err := t.insertJob(watch, r.Authorization.To.Lower())
		return err
	})
}

// MarkReturnDead implements settlement.RefundStore.
func (o Orders) MarkReturnDead(ctx context.Context, f job.Fence, r payment.Refund) error {
	return o.s.fenced(ctx, "refunds.mark_return_dead", f, func(t *tx) error { return t.endRefund(r) })
}

// ReproveRefund implements settlement.RefundStore.
func (o Orders) ReproveRefund(ctx context.Context, f job.Fence, r payment.Refund) error {
	return o.s.fenced(ctx, "refunds.reprove", f, func(t *tx) error { return t.proveRefund(r, payment.RefundPaid) })
}
