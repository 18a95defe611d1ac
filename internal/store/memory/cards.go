package memory

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// Cards keeps the cards sold.
type Cards struct{ *Store }

var (
	_ card.Store      = Cards{}
	_ card.CloseStore = Cards{}
)

// Cards is the part of the store that the card product uses.
func (s *Store) Cards() Cards { return Cards{s} }

// cardRow is a card, and who moves or changes it.
type cardRow struct {
	card.Card
	turn          card.MovementLock
	target        money.Cents
	changing      uuid.UUID
	changingUntil time.Time
}

func (r *cardRow) changed(now time.Time) bool { return r.changingUntil.After(now) }

// one finds the first card of which a condition holds.
func (c Cards) one(ctx context.Context, op string, wanted func(*cardRow) bool) (found card.Card, err error) {
	err = c.do(ctx, op, func(t *tx) error {
		row := t.cards.first(wanted)
		if row == nil {
			return card.ErrNotFound
		}
		found = row.Card
		return nil
	})
	return found, err
}

// some finds all cards of which a condition holds, oldest first.
func (c Cards) some(ctx context.Context, op string, wanted func(*cardRow) bool) (found []card.Card, err error) {
	found = []card.Card{}
	err = c.do(ctx, op, func(t *tx) error {
		for _, row := range t.cards.all(wanted) {
			found = append(found, row.Card)
		}
		slices.SortStableFunc(found, func(a, b card.Card) int { return a.CreatedAt.Compare(b.CreatedAt) })
		return nil
	})
	return found, err
}

// Live implements card.Store.
func (c Cards) Live(ctx context.Context, owner x402.Address) (card.Card, error) {
	return c.one(ctx, "cards.live", func(r *cardRow) bool { return r.Owner == owner && r.Status.Live() })
}

// Cards implements card.Store.
func (c Cards) Cards(ctx context.Context, owner x402.Address) ([]card.Card, error) {
	found, err := c.some(ctx, "cards.list", func(r *cardRow) bool { return r.Owner == owner })
	slices.Reverse(found)
	return found, err
}

// Card implements card.Store.
func (c Cards) Card(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Card, error) {
	return c.one(ctx, "cards.find", func(r *cardRow) bool { return r.ID == id && r.Owner == owner })
}

// Issued implements card.Store.
func (c Cards) Issued(ctx context.Context, orders ...order.ID) (map[order.ID]card.Card, error) {
	found := map[order.ID]card.Card{}
	all, err := c.some(ctx, "cards.issued", func(r *cardRow) bool { return slices.Contains(orders, r.Order) })
	for _, one := range all {
		found[one.Order] = one
	}
	return found, err
}

// ByNames implements card.Store.
func (c Cards) ByNames(
	ctx context.Context, provider string, accounts []string, refs []fulfilment.Ref,
) ([]card.Card, error) {
	return c.some(ctx, "cards.by_names", func(r *cardRow) bool {
		return r.Provider == provider && (r.Account != "" && slices.Contains(accounts, r.Account) ||
			slices.Contains(refs, r.Ref))
	})
}

// Reserve implements card.Store.
func (c Cards) Reserve(ctx context.Context, f job.Fence, n card.Card) (got card.Card, err error) {
	err = c.fenced(ctx, "cards.reserve", f, func(t *tx) error {
		if row := t.cards.first(func(r *cardRow) bool {
			return r.Order == n.Order && r.Owner == n.Owner && r.Ref == n.Ref
		}); row != nil {
			got = row.Card
			return nil
		}
		if err := t.cardFits(n); err != nil {
			return err
		}
		n.Account, n.Last4, n.OwnerFrozen = "", "", false
		n.CreatedAt, n.UpdatedAt = stored(n.CreatedAt), stored(n.UpdatedAt)
		row, err := add(t, &t.cards, "cards_pkey", n.ID, cardRow{Card: n})
		if err == nil {
			got = row.Card
		}
		return err
	})
	return got, err
}

// cardFits checks the unique keys of a new card.
func (t *tx) cardFits(n card.Card) error {
	for _, r := range t.cards.rows {
		switch {
		case r.Order == n.Order && r.Status != card.Failed:
			return violation("cards_order")
		case r.Ref == n.Ref && r.Owner == n.Owner:
			return violation("cards_reference")
		case r.Owner == n.Owner && r.Status.Live():
			return violation("cards_live")
		}
	}
	return nil
}

// Put keeps a card as it is.
func (c Cards) Put(n card.Card) {
	_ = c.do(context.Background(), "cards.put", func(t *tx) error {
		_, err := add(t, &t.cards, "cards_pkey", n.ID, cardRow{Card: n})
		return err
	})
}

// Activate implements card.Store.
func (c Cards) Activate(ctx context.Context, f job.Fence, a card.Card, postings []ledger.Posting, fee job.New) error {
	return c.fenced(ctx, "cards.activate", f, func(t *tx) error {
		row := t.cards.get(a.ID)
		if row == nil || row.Owner != a.Owner || row.Status != card.Pending {
			return nil // it was made ACTIVE before
		}
		row = edit(t, row)
		row.Status, row.Account, row.Last4, row.UpdatedAt = card.Active, a.Account, a.Last4, t.stamp
		if err := t.post(a.Owner.Lower(), postings...); err != nil {
			return err
		}
		_, _, err := t.insertJob(fee, a.Owner.Lower())
		return err
	})
}

// moved reports whether an order or a job that has a card may still move it.
func (t *tx) moved(r *cardRow, held bool) bool {
	o, j := t.orders.get(r.turn.Order), t.jobs.get(r.turn.FeeJob)
	return o != nil && (o.Status == order.Provisioning || o.Status == order.OperatorReview && held) ||
		j != nil && (j.Status == job.Queued || j.Status == job.Processing)
}

// TakeTurn implements card.Store.
func (c Cards) TakeTurn(ctx context.Context, f job.Fence, turn card.MovementLock) (target money.Cents, err error) {
	err = c.fenced(ctx, "cards.take_turn", f, func(t *tx) error {
		row := t.cardOf(f, turn.Card)
		if row != nil && turn.Order != "" && !turn.Begun && t.closing(turn.Card) {
			return card.ErrClosing
		}
		if row == nil || row.changed(t.stamp) {
			return card.ErrBusy
		}
		same := row.turn.Order == turn.Order && row.turn.FeeJob == turn.FeeJob
		if !same && t.moved(row, turn.Held) || turn.Closing && t.toppedUp(row) {
			return card.ErrBusy
		}
		on := money.Cents(t.balance(row.Owner.Lower(), ledger.Card(turn.Card.String())) / 10_000)
		switch {
		case turn.Closing:
			target = on
		case turn.Load == 0:
		case row.turn.Ref == turn.Ref:
			target = row.target
		default:
			target = on + turn.Load
		}
		row = edit(t, row)
		row.turn, row.target = turn, target
		return nil
	})
	return target, err
}

// toppedUp reports whether a top-up of a card is not decided.
func (t *tx) toppedUp(r *cardRow) bool {
	return t.orders.first(func(o *order.Order) bool {
		if o.Owner != r.Owner || o.Status != order.Provisioning && o.Status != order.OperatorReview {
			return false
		}
		var item struct {
			Card string `json:"card"`
		}
		return json.Unmarshal(o.Item, &item) == nil && item.Card == r.ID.String()
	}) != nil
}

// BeginChange implements card.Store.
func (c Cards) BeginChange(ctx context.Context, id, change uuid.UUID, most time.Duration) error {
	return c.do(ctx, "cards.begin_change", func(t *tx) error {
		row := t.cards.get(id)
		switch {
		case row == nil:
			return card.ErrNotFound
		case row.changed(t.stamp), t.moved(row, true):
			return card.ErrBusy
		}
		row = edit(t, row)
		row.changing, row.changingUntil = change, t.stamp.Add(most)
		return nil
	})
}

// EndChange implements card.Store.
func (c Cards) EndChange(ctx context.Context, id, change uuid.UUID) error {
	return c.do(ctx, "cards.end_change", func(t *tx) error {
		if row := t.cards.get(id); row != nil && row.changing == change {
			row = edit(t, row)
			row.changing, row.changingUntil = uuid.Nil, time.Time{}
		}
		return nil
	})
}

// BeginFreezing implements card.Store.
func (c Cards) BeginFreezing(
	ctx context.Context, id, change uuid.UUID, most time.Duration,
) (open time.Time, err error) {
	err = c.do(ctx, "cards.begin_freezing", func(t *tx) error {
		row := t.cards.get(id)
		switch {
		case row == nil:
			return card.ErrNotFound
		case row.changing != uuid.Nil && row.changed(t.stamp):
			return card.ErrBusy
		}
		row = edit(t, row)
		until := t.stamp.Add(most)
		if row.changed(t.stamp) {
			if open = row.changingUntil; open.After(until) {
				until = open
			}
		}
		row.changing, row.changingUntil = change, until
		return nil
	})
	return open, err
}

// EndFreezing implements card.Store.
func (c Cards) EndFreezing(ctx context.Context, id, change uuid.UUID, end card.Freezing) error {
	return c.do(ctx, "cards.end_freezing", func(t *tx) error {
		row := t.cards.get(id)
		if row == nil || row.changing != change {
			return nil
		}
		row = edit(t, row)
		open := end.Open.After(t.stamp)
		switch {
		case end.Unknown:
		case open:
			row.changingUntil = end.Open
		case row.OwnerFrozen && row.Status == card.Active:
			row.changingUntil = t.stamp
		default:
			row.changingUntil = time.Time{}
		}
		row.changing, row.UpdatedAt = uuid.Nil, t.stamp
		row.OwnerFrozen = row.OwnerFrozen && (end.Unknown || !end.Undone || open)
		return nil
	})
}

// FeeTaken implements card.Store.
func (c Cards) FeeTaken(ctx context.Context, f job.Fence, postings []ledger.Posting) error {
	return c.fenced(ctx, "cards.fee_taken", f, func(t *tx) error {
		return errors.Join(t.post(f.Of, postings...), t.finishJob(f, job.Done()))
	})
}

// FeeOwed implements card.Store.
func (c Cards) FeeOwed(ctx context.Context, f job.Fence, postings []ledger.Posting) error {
	return c.fenced(ctx, "cards.fee_owed", f, func(t *tx) error {
		row := t.jobs.get(f.ID)
		a, err := job.Decode[card.FeeArgs](*row)
		if err != nil {
			return err
		}
		a.Owed = true
		edit(t, row).Payload, err = json.Marshal(a)
		return errors.Join(err, t.post(f.Of, postings...), t.finishJob(f, job.Fail(card.RefusedFunds)))
	})
}

// Owes implements card.Store.
func (c Cards) Owes(ctx context.Context, owner x402.Address) (owed money.Cents, err error) {
	err = c.do(ctx, "cards.owes", func(t *tx) error {
		for _, r := range t.jobs.all(func(r *job.Row) bool {
			return r.Kind == card.FeeJob && r.Status != job.Succeeded && r.Of == owner.Lower()
		}) {
			a, err := job.Decode[card.FeeArgs](r)
			if err != nil {
				return err
			}
			if a.Owed && !a.WrittenOff && t.cards.get(a.Card) != nil {
				owed += a.Amount
			}
		}
		return nil
	})
	return owed, err
}

// aheadOfClocks is ahead of the clock of any process: what an issuer answers to a change is newer than all that is
// stored.
const aheadOfClocks = time.Hour

// Observe implements card.Store.
func (c Cards) Observe(ctx context.Context, seen ...card.Seen) (changed []card.Card, err error) {
	err = c.do(ctx, "cards.observe", func(t *tx) error {
		for _, one := range seen {
			if one.AsOf.IsZero() {
				one.AsOf = t.stamp.Add(aheadOfClocks)
			}
			row := t.cards.first(func(r *cardRow) bool { return r.Ref == one.Ref && r.Provider == one.Provider })
			if row == nil || row.UpdatedAt.After(one.AsOf) || !t.observed(row, one) {
				continue
			}
			row = edit(t, row)
			row.Status, row.UpdatedAt = one.Status, t.stamp
			row.OwnerFrozen = row.OwnerFrozen && (one.Status != card.Active || row.changed(t.stamp))
			changed = append(changed, card.Card{ID: row.ID, Order: row.Order, Status: row.Status})
		}
		return nil
	})
	return changed, err
}

// observed reports whether what an issuer reports changes a card: by a legal move, or because its owner's freezing did
// not take effect in its time.
func (t *tx) observed(r *cardRow, one card.Seen) bool {
	ended := !r.changingUntil.IsZero() && !r.changingUntil.After(one.AsOf) && !r.changed(t.stamp)
	return slices.Contains(card.Moves(), [2]card.Status{r.Status, one.Status}) ||
		r.OwnerFrozen && r.Status == card.Active && one.Status == card.Active && ended
}

// SetOwnerFrozen implements card.Store.
func (c Cards) SetOwnerFrozen(ctx context.Context, id uuid.UUID, owner x402.Address, frozen bool) error {
	return c.do(ctx, "cards.set_owner_frozen", func(t *tx) error {
		if row := t.cards.get(id); row != nil && row.Owner == owner {
			row = edit(t, row)
			row.OwnerFrozen, row.UpdatedAt = frozen, t.stamp
		}
		return nil
	})
}

// FeeOpen implements card.Store.
func (c Cards) FeeOpen(ctx context.Context, id uuid.UUID) (open bool, err error) {
	err = c.do(ctx, "cards.fee_open", func(t *tx) error {
		open = t.jobs.first(func(r *job.Row) bool {
			return r.Kind == card.FeeJob && r.UniqueKey == id.String() &&
				(r.Status == job.Queued || r.Status == job.Processing)
		}) != nil
		return nil
	})
	return open, err
}

// Fail implements card.Store.
func (c Cards) Fail(ctx context.Context, f job.Fence, id uuid.UUID) error {
	return c.fenced(ctx, "cards.fail", f, func(t *tx) error {
		if row := t.cardOf(f, id); row != nil {
			t.failCard(row)
		}
		return nil
	})
}

// cardOf is a card of the owner that a job is of, or nil.
func (t *tx) cardOf(f job.Fence, id uuid.UUID) *cardRow {
	row := t.cards.get(id)
	if row != nil && f.Of != "" && row.Owner.Lower() != f.Of {
		return nil
	}
	return row
}

func (t *tx) failCard(r *cardRow) {
	if r.Status == card.Pending {
		r = edit(t, r)
		r.Status, r.UpdatedAt = card.Failed, t.stamp
	}
}

// dropCard fails a card that never became active with its order, so that its owner can buy another.
func (t *tx) dropCard(id order.ID) {
	for _, r := range t.cards.rows {
		if r.Order == id {
			t.failCard(r)
		}
	}
}

// Closing implements card.Store.
func (c Cards) Closing(ctx context.Context, id uuid.UUID) (closing bool, err error) {
	err = c.do(ctx, "cards.closing", func(t *tx) error {
		closing = t.closing(id)
		return nil
	})
	return closing, err
}

func (t *tx) closing(id uuid.UUID) bool {
	return t.jobs.first(func(r *job.Row) bool { return r.Kind == card.CloseJob && r.UniqueKey == id.String() }) != nil
}

// SaveClosing implements card.CloseStore.
func (c Cards) SaveClosing(ctx context.Context, f job.Fence, a card.CloseArgs, postings ...ledger.Posting) error {
	return c.fenced(ctx, "cards.save_closing", f, func(t *tx) error {
		return errors.Join(t.saveJob(f.ID, a), t.post(f.Of, postings...))
	})
}

// Explains reports whether all cards of some references belong to orders of ours.
func (s *Store) Explains(ctx context.Context, _ order.Kind, references []uuid.UUID) (explained bool, err error) {
	err = s.do(ctx, "cards.explains", func(t *tx) error {
		explained = !slices.ContainsFunc(references, func(ref uuid.UUID) bool {
			return t.cards.first(func(r *cardRow) bool { return r.Ref == fulfilment.Ref(ref) }) == nil
		})
		return nil
	})
	return explained, err
}
