package paymenttest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Attempts keeps attempts in memory. It is payment.Attempts.
type Attempts struct {
	now func() time.Time

	mu   sync.Mutex
	rows []*payment.Attempt
	// spent is what closed attempts cost; payers are those of the payments that losses were asked for.
	spent  map[uuid.UUID]int64
	payers map[uuid.UUID]x402.Address
}

// NewAttempts makes an empty store.
func NewAttempts(now func() time.Time) *Attempts {
	return &Attempts{now: now, spent: map[uuid.UUID]int64{}, payers: map[uuid.UUID]x402.Address{}}
}

// All lists every attempt of a payment, oldest first.
func (s *Attempts) All(payment uuid.UUID) []payment.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(func(a *attempt) bool { return a.Payment == payment })
}

type attempt = payment.Attempt

// Prepare implements payment.Attempts.
func (s *Attempts) Prepare(ctx context.Context, payment uuid.UUID, relayer x402.Address, floor uint64,
	sign func(nonce uint64) (transaction, error)) (attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return attempt{}, err
	}
	nonce := floor
	for _, a := range s.rows {
		if a.Payment == payment && a.Status == open {
			return clone(a), nil
		}
		if a.Relayer == relayer {
			nonce = max(nonce, a.Nonce+1)
		}
	}
	tx, err := sign(nonce)
	if err != nil {
		return attempt{}, err
	}
	a := &attempt{ID: uuid.New(), Payment: payment, Relayer: relayer, Nonce: nonce,
		Variants: []transaction{tx}, Status: open, CreatedAt: s.now().UTC()}
	s.rows = append(s.rows, a)
	return clone(a), nil
}

type transaction = payment.Transaction

const open = payment.AttemptOpen

// Replace implements payment.Attempts.
func (s *Attempts) Replace(_ context.Context, id uuid.UUID, tx transaction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(id)
	if err != nil {
		return err
	}
	if a.Status != open {
		return payment.ErrAttemptClosed
	}
	a.Variants = append(a.Variants, tx)
	return nil
}

// Open implements payment.Attempts.
func (s *Attempts) Open(_ context.Context, relayer x402.Address) ([]attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(func(a *attempt) bool { return a.Relayer == relayer && a.Status == open }), nil
}

// ByPayment implements payment.Attempts.
func (s *Attempts) ByPayment(_ context.Context, payment uuid.UUID) (attempt, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.rows {
		if a.Payment == payment && a.Status == open {
			return clone(a), true, nil
		}
	}
	return attempt{}, false, nil
}

// Last implements payment.Attempts.
func (s *Attempts) Last(_ context.Context, relayer x402.Address) (nonce uint64, ok bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.rows {
		if a.Relayer == relayer {
			nonce, ok = max(nonce, a.Nonce), true
		}
	}
	return nonce, ok, nil
}

// Relayers implements payment.Attempts.
func (s *Attempts) Relayers(context.Context) ([]x402.Address, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []x402.Address
	for _, a := range s.rows {
		if a.Status == open {
			found = append(found, a.Relayer)
		}
	}
	slices.SortFunc(found, func(a, b x402.Address) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(found), nil
}

// Close implements payment.Attempts.
func (s *Attempts) Close(_ context.Context, id uuid.UUID, status payment.AttemptStatus, spent int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(id)
	if err != nil {
		return err
	}
	if a.Status == open {
		a.Status, s.spent[id] = status, spent
	}
	return nil
}

// Lost implements payment.Attempts. Payments are known by their payer once their losses were asked for.
func (s *Attempts) Lost(_ context.Context, p payment.Payment, since time.Time) (payment.Losses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payers[p.ID] = p.Authorization.From
	var lost payment.Losses
	for _, a := range s.rows {
		spent := s.spent[a.ID]
		if a.Status != payment.AttemptReverted || spent == 0 {
			continue
		}
		if a.Payment == p.ID && !a.CreatedAt.Before(p.CreatedAt.Add(-payment.ClockSkew)) {
			lost.Reverts++
		}
		if a.CreatedAt.Before(since) {
			continue
		}
		lost.All = sum(lost.All, spent)
		if s.payers[a.Payment] == p.Authorization.From {
			lost.Payer = sum(lost.Payer, spent)
		}
	}
	return lost, nil
}

// sum is the largest number where there is none for it.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (s *Attempts) find(id uuid.UUID) (*attempt, error) {
	for _, a := range s.rows {
		if a.ID == id {
			return a, nil
		}
	}
	return nil, errors.New("paymenttest: no such attempt")
}

func (s *Attempts) list(wanted func(*attempt) bool) []attempt {
	var found []attempt
	for _, a := range s.rows {
		if wanted(a) {
			found = append(found, clone(a))
		}
	}
	slices.SortStableFunc(found, func(a, b attempt) int { return int(a.Nonce) - int(b.Nonce) })
	return found
}

func clone(a *attempt) attempt {
	c := *a
	c.Variants = slices.Clone(a.Variants)
	return c
}
