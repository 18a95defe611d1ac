package cardtest

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// Store keeps cards in memory. It is a card.Store that accepts every fence.
type Store struct {
	queue job.Queue

	mu       sync.Mutex
	cards    []card.Card
	reserved int64
	unpaid   int64
	owed     money.Cents
	turns    map[uuid.UUID]*turn // by card
	posted   []ledger.Posting
}

// turn is who has a card, and what loads have put on it.
type turn struct {
	card.Turn
	target, loaded money.Cents
	taken          bool
	// change is the owner's change that has the card until a time; uuid.Nil for none. open is until when a freezing may
	// still take effect.
	change      uuid.UUID
	until, open time.Time
}

var (
	_ card.Store      = (*Store)(nil)
	_ card.CloseStore = (*Store)(nil)
	_ card.CloseJobs  = (*Store)(nil)
)

// NewStore makes an empty store that puts fee jobs into a queue.
func NewStore(queue job.Queue) *Store { return &Store{queue: queue, turns: map[uuid.UUID]*turn{}} }

// Put keeps a card as it is.
func (s *Store) Put(c card.Card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards = append(s.cards, c)
}

// SetReserved is what live orders reserve from now on, of whatever resource.
func (s *Store) SetReserved(units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved = units
}

// SetUnpaid is how much of that is not paid.
func (s *Store) SetUnpaid(units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpaid = units
}

// Unpaid implements card.Store.
func (s *Store) Unpaid(context.Context, string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unpaid, nil
}

// Live implements card.Store.
func (s *Store) Live(_ context.Context, owner x402.Address) (card.Card, error) {
	return s.one(func(c card.Card) bool { return c.Owner == owner && c.Status.Live() })
}

// Cards implements card.Store.
func (s *Store) Cards(_ context.Context, owner x402.Address) ([]card.Card, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []card.Card
	for _, c := range slices.Backward(s.cards) {
		if c.Owner == owner {
			found = append(found, c)
		}
	}
	return found, nil
}

// Card implements card.Store.
func (s *Store) Card(_ context.Context, id uuid.UUID, owner x402.Address) (card.Card, error) {
	return s.one(func(c card.Card) bool { return c.ID == id && c.Owner == owner })
}

// Issued implements card.Store.
func (s *Store) Issued(_ context.Context, orders ...order.ID) (map[order.ID]card.Card, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[order.ID]card.Card{}
	for _, c := range s.cards {
		if slices.Contains(orders, c.Order) {
			found[c.Order] = c
		}
	}
	return found, nil
}

// ByNames implements card.Store.
func (s *Store) ByNames(
	_ context.Context, provider string, accounts []string, refs []fulfilment.Ref,
) ([]card.Card, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []card.Card
	for _, c := range s.cards {
		named := slices.Contains(refs, c.Ref) || (c.Account != "" && slices.Contains(accounts, c.Account))
		if named && c.Provider == provider {
			found = append(found, c)
		}
	}
	return found, nil
}

// Reserve implements card.Store.
func (s *Store) Reserve(_ context.Context, _ job.Fence, n card.Card) (card.Card, error) {
	if known, err := s.one(func(c card.Card) bool { return c.Order == n.Order && c.Ref == n.Ref }); err == nil {
		return known, nil
	}
	s.Put(n)
	return n, nil
}

// Activate implements card.Store.
func (s *Store) Activate(ctx context.Context, _ job.Fence, a card.Card, _ []ledger.Posting, fee job.New) error {
	if !s.leavesPending(a.ID, func(c *card.Card) { c.Status, c.Account, c.Last4 = card.Active, a.Account, a.Last4 }) {
		return nil
	}
	s.Loaded(a.ID, a.Load)
	_, err := s.queue.Enqueue(ctx, fee)
	return err
}

// SetOwnerFrozen implements card.Store.
func (s *Store) SetOwnerFrozen(_ context.Context, id uuid.UUID, _ x402.Address, frozen bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.cards {
		if s.cards[i].ID == id {
			s.cards[i].OwnerFrozen = frozen
		}
	}
	return nil
}

// Closing implements card.Store.
func (s *Store) Closing(ctx context.Context, id uuid.UUID) (bool, error) {
	_, closing, err := s.queue.Find(ctx, card.CloseJob, id.String())
	return closing, err
}

// FeeOpen implements card.Store.
func (s *Store) FeeOpen(ctx context.Context, id uuid.UUID) (bool, error) {
	row, found, err := s.queue.Find(ctx, card.FeeJob, id.String())
	return found && (row.Status == job.Queued || row.Status == job.Processing), err
}

// TakeTurn implements card.Store. An order keeps the card until Loaded.
func (s *Store) TakeTurn(ctx context.Context, _ job.Fence, t card.Turn) (money.Cents, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.turn(t.Card)
	if t.Order != "" && !t.Begun {
		if _, closing, err := s.queue.Find(ctx, card.CloseJob, t.Card.String()); err != nil || closing {
			return 0, errors.Join(err, card.ErrClosing)
		}
	}
	if err := s.settle(ctx, t.Card, on); err != nil {
		return 0, err
	}
	if on.change != uuid.Nil {
		return 0, card.ErrBusy
	}
	if on.taken && (on.Order != t.Order || on.FeeJob != t.FeeJob) {
		return 0, card.ErrBusy
	}
	if on.taken && on.Ref == t.Ref && !t.Closing {
		return on.target, nil
	}
	on.Turn, on.taken, on.target = t, true, 0
	switch {
	case t.Closing:
		on.target = on.loaded
	case t.Load > 0:
		on.target = on.loaded + t.Load
	}
	return on.target, nil
}

// settle frees a card that the job of its movement has left.
func (s *Store) settle(ctx context.Context, id uuid.UUID, on *turn) error {
	if !on.taken || on.FeeJob == uuid.Nil {
		return nil
	}
	kind := card.FeeJob
	if on.Closing {
		kind = card.CloseJob
	}
	row, found, err := s.queue.Find(ctx, kind, id.String())
	on.taken = err != nil || found && (row.Status == job.Queued || row.Status == job.Processing)
	return err
}

// BeginChange implements card.Store. The change keeps the card until EndChange, however long that takes.
func (s *Store) BeginChange(ctx context.Context, id, change uuid.UUID, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.turn(id)
	if err := s.settle(ctx, id, on); err != nil {
		return err
	}
	if on.taken || on.change != uuid.Nil {
		return card.ErrBusy
	}
	on.change = change
	return nil
}

// EndChange implements card.Store.
func (s *Store) EndChange(_ context.Context, id, change uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on := s.turn(id); on.change == change {
		on.change = uuid.Nil
	}
	return nil
}

// BeginFreezing implements card.Store. It keeps the card until EndFreezing, however long that takes.
func (s *Store) BeginFreezing(_ context.Context, id, change uuid.UUID, most time.Duration) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.turn(id)
	if on.change != uuid.Nil {
		return time.Time{}, card.ErrBusy
	}
	on.change, on.until = change, time.Now().Add(most)
	return on.open, nil
}

// EndFreezing implements card.Store.
func (s *Store) EndFreezing(_ context.Context, id, change uuid.UUID, end card.Freezing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.turn(id)
	if on.change != change {
		return nil
	}
	if on.change, on.open = uuid.Nil, end.Open; end.Unknown {
		on.open = on.until
	}
	for i := range s.cards {
		if s.cards[i].ID == id && end.Undone && !on.open.After(time.Now()) {
			s.cards[i].OwnerFrozen = false
		}
	}
	return nil
}

// Loaded notes what the end of an order has put on a card, which is free again.
func (s *Store) Loaded(id uuid.UUID, amount money.Cents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.turn(id)
	on.taken, on.loaded = false, on.loaded+amount
}

func (s *Store) turn(id uuid.UUID) *turn {
	if s.turns[id] == nil {
		s.turns[id] = &turn{}
	}
	return s.turns[id]
}

// FeeTaken implements card.Store.
func (s *Store) FeeTaken(ctx context.Context, f job.Fence, _ []ledger.Posting) error {
	s.mu.Lock()
	for _, on := range s.turns {
		if on.taken && on.FeeJob == f.ID {
			on.loaded -= card.Fee
		}
	}
	s.mu.Unlock()
	return s.queue.Finish(ctx, f, job.Done())
}

// FeeOwed implements card.Store.
func (s *Store) FeeOwed(ctx context.Context, f job.Fence, _ []ledger.Posting) error {
	s.mu.Lock()
	s.owed += card.Fee
	s.mu.Unlock()
	return s.queue.Finish(ctx, f, job.Fail(card.RefusedFunds))
}

// Owes implements card.Store, for one owner.
func (s *Store) Owes(context.Context, x402.Address) (money.Cents, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owed, nil
}

// Observe implements card.Store.
func (s *Store) Observe(_ context.Context, seen ...card.Seen) (changed []card.Card, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range seen {
		i := slices.IndexFunc(s.cards, func(c card.Card) bool {
			return c.Ref == one.Ref && c.Provider == one.Provider &&
				slices.Contains(card.Moves(), [2]card.Status{c.Status, one.Status})
		})
		if i >= 0 {
			s.cards[i].Status = one.Status
			on := s.turn(s.cards[i].ID)
			s.cards[i].OwnerFrozen = s.cards[i].OwnerFrozen &&
				(one.Status != card.Active || on.change != uuid.Nil || on.open.After(time.Now()))
			changed = append(changed, s.cards[i])
		}
	}
	return changed, nil
}

// Fail implements card.Store.
func (s *Store) Fail(_ context.Context, _ job.Fence, id uuid.UUID) error {
	s.leavesPending(id, func(c *card.Card) { c.Status = card.Failed })
	return nil
}

// Reserved implements card.Store.
func (s *Store) Reserved(context.Context, string, time.Time) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved, nil
}

func (s *Store) one(wanted func(card.Card) bool) (card.Card, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.cards, wanted); i >= 0 {
		return s.cards[i], nil
	}
	return card.Card{}, card.ErrNotFound
}

// leavesPending changes a card if it is pending, and says whether it was.
func (s *Store) leavesPending(id uuid.UUID, change func(*card.Card)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.cards, func(c card.Card) bool { return c.ID == id && c.Status == card.Pending })
	if i < 0 {
		return false
	}
	change(&s.cards[i])
	return true
}
