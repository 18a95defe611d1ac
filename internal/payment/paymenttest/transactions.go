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

// Transactions keeps transactions in memory. It is payment.Transactions.
type Transactions struct {
	now func() time.Time

	mu   sync.Mutex
	rows []*payment.Transaction
	// lost is what the members that were not moved have cost; payers are those of the payments that losses were asked
	// for.
	lost   []loss
	spent  []spending
	payers map[uuid.UUID]x402.Address
}

type loss struct {
	payment uuid.UUID
	wei     int64
	at      time.Time
}

// spending is what an ended transaction has cost its relayer.
type spending struct {
	relayer x402.Address
	wei     int64
	at      time.Time
}

// NewTransactions makes an empty store.
func NewTransactions(now func() time.Time) *Transactions {
	return &Transactions{now: now, payers: map[uuid.UUID]x402.Address{}}
}

// All lists every transaction of a payment, oldest first.
func (s *Transactions) All(payment uuid.UUID) []payment.Transaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(func(t *transaction) bool { return slices.Contains(t.Payments, payment) })
}

type (
	transaction = payment.Transaction
	variant     = payment.Variant
)

const open = payment.TransactionOpen

// Prepare implements payment.Transactions.
func (s *Transactions) Prepare(ctx context.Context, payments []uuid.UUID, relayer x402.Address, w payment.Window,
	sign payment.SignBatch) ([]transaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	prepared := s.list(func(t *transaction) bool { return t.Status == open && holdsAny(t, payments) })
	rest := slices.DeleteFunc(slices.Clone(payments), func(id uuid.UUID) bool {
		return slices.ContainsFunc(prepared, func(t transaction) bool { return slices.Contains(t.Payments, id) })
	})
	if len(rest) == 0 {
		return prepared, nil
	}
	nonce := w.First
	for _, t := range s.rows {
		if t.Relayer == relayer {
			nonce = max(nonce, t.Nonce+1)
		}
	}
	if !w.Has(nonce) {
		return nil, payment.ErrNoRoom
	}
	v, err := sign(nonce, rest)
	if err != nil {
		return nil, err
	}
	t := &transaction{ID: uuid.New(), Payments: rest, Relayer: relayer, Nonce: nonce,
		Variants: []variant{v}, Status: open, CreatedAt: s.now().UTC()}
	s.rows = append(s.rows, t)
	return append(prepared, clone(t)), nil
}

func holdsAny(t *transaction, payments []uuid.UUID) bool {
	return slices.ContainsFunc(payments, func(id uuid.UUID) bool { return slices.Contains(t.Payments, id) })
}

// Replace implements payment.Transactions.
func (s *Transactions) Replace(_ context.Context, id uuid.UUID, v variant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(id)
	if err != nil {
		return err
	}
	if t.Status != open {
		return payment.ErrTransactionClosed
	}
	t.Variants = append(t.Variants, v)
	return nil
}

// Open implements payment.Transactions.
func (s *Transactions) Open(_ context.Context, relayer x402.Address, from uint64) ([]transaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(func(t *transaction) bool { return t.Relayer == relayer && t.Status == open && t.Nonce >= from }), nil
}

// ByPayment implements payment.Transactions.
func (s *Transactions) ByPayment(_ context.Context, payment uuid.UUID) (transaction, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.rows {
		if slices.Contains(t.Payments, payment) && t.Status == open {
			return clone(t), true, nil
		}
	}
	return transaction{}, false, nil
}

// Last implements payment.Transactions.
func (s *Transactions) Last(_ context.Context, relayer x402.Address) (nonce uint64, ok bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.rows {
		if t.Relayer == relayer {
			nonce, ok = max(nonce, t.Nonce), true
		}
	}
	return nonce, ok, nil
}

// Relayers implements payment.Transactions.
func (s *Transactions) Relayers(context.Context) ([]x402.Address, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []x402.Address
	for _, t := range s.rows {
		if t.Status == open {
			found = append(found, t.Relayer)
		}
	}
	slices.SortFunc(found, func(a, b x402.Address) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(found), nil
}

// Close implements payment.Transactions.
func (s *Transactions) Close(
	_ context.Context, id uuid.UUID, status payment.TransactionStatus, spent int64, unmoved []uuid.UUID,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(id)
	if err != nil || t.Status != open {
		return err
	}
	t.Status = status
	s.spent = append(s.spent, spending{relayer: t.Relayer, wei: spent, at: t.CreatedAt})
	if status == payment.TransactionReverted {
		unmoved = t.Payments
	}
	for _, id := range unmoved {
		s.lost = append(s.lost, loss{payment: id, wei: spent / int64(len(t.Payments)), at: t.CreatedAt})
	}
	return nil
}

// Spent implements chain.Transactions.
func (s *Transactions) Spent(_ context.Context, relayers []x402.Address, since time.Time) (wei int64, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.spent {
		if slices.Contains(relayers, one.relayer) && !one.at.Before(since) {
			wei = sum(wei, one.wei)
		}
	}
	return wei, nil
}

// Lost implements payment.Transactions. Payments are known by their payer once their losses were asked for.
func (s *Transactions) Lost(_ context.Context, p payment.Payment, since time.Time) (payment.Losses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payers[p.ID] = p.Authorization.From
	var lost payment.Losses
	for _, l := range s.lost {
		if l.wei == 0 {
			continue
		}
		if l.payment == p.ID && !l.at.Before(p.CreatedAt.Add(-payment.ClockSkew)) {
			lost.Reverts++
		}
		if l.at.Before(since) {
			continue
		}
		lost.All = sum(lost.All, l.wei)
		if s.payers[l.payment] == p.Authorization.From {
			lost.Payer = sum(lost.Payer, l.wei)
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

func (s *Transactions) find(id uuid.UUID) (*transaction, error) {
	for _, t := range s.rows {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, errors.New("paymenttest: no such transaction")
}

func (s *Transactions) list(wanted func(*transaction) bool) []transaction {
	var found []transaction
	for _, t := range s.rows {
		if wanted(t) {
			found = append(found, clone(t))
		}
	}
	slices.SortStableFunc(found, func(a, b transaction) int { return int(a.Nonce) - int(b.Nonce) })
	return found
}

func clone(t *transaction) transaction {
	c := *t
	c.Payments, c.Variants = slices.Clone(t.Payments), slices.Clone(t.Variants)
	return c
}
