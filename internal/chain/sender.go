package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// defaultWindow is how many transactions of one sender a node's pool takes: reth refuses the next one.
	defaultWindow = 16
	// flushTimeout bounds one flush, and flushPause is the time between two while payments wait for room.
	flushTimeout = 30 * time.Second
	flushPause   = 200 * time.Millisecond
)

// sender gives out one key's account nonces and sends its transactions in their order. Only as many as fit into a
// node's pool are made ahead of the chain; further payments wait for their turn, the oldest first. The room follows
// from the store and from the chain's count, so processes that share a key leave no gap and exceed no pool. What waits
// here is lost with the process: the payments are stored, and their jobs submit them again.
type sender struct {
	*Relayer
	by account
	// turn is held while nonces are given out and sent.
	turn chan struct{}

	mu       sync.Mutex
	waiting  []*waiter
	draining bool
	// counted is the window at the block countedAt.
	counted   payment.Window
	countedAt x402.Hash
}

// waiter is a payment that waits for its transaction.
type waiter struct {
	payment payment.Payment
	// alone says that it gets a transaction of its own: it failed in another one, or its payer has code.
	alone bool
	// taken says that its transaction is being made.
	taken bool
	done  chan struct{}
	err   error
}

func newSender(r *Relayer, by account) *sender {
	return &sender{Relayer: r, by: by, turn: make(chan struct{}, 1)}
}

// submit makes and sends a payment's transaction, or leaves the payment waiting when there is no room.
func (s *sender) submit(ctx context.Context, p payment.Payment, alone bool) error {
	w, behind := s.join(p, alone)
	if behind {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
	flushed := make(chan struct{})
	if !s.config.Chain.pool.later.run(func(open context.Context) {
		defer close(flushed)
		// The transactions of others are made, too: they do not end with this caller.
		flushing, cancel := fault.Outlive(ctx, flushTimeout)
		defer cancel()
		defer context.AfterFunc(open, cancel)()
		s.flush(flushing)
		<-s.turn
	}) {
		<-s.turn
		return errClosed
	}
	select {
	case <-flushed:
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-w.done:
		return w.err
	default:
		s.drain()
		return nil
	}
}

// join puts a payment behind those that were claimed before it. When some wait already, behind is true: there is no
// room.
func (s *sender) join(p payment.Payment, alone bool) (w *waiter, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.waiting)
	for i, w := range s.waiting {
		if w.payment.ID == p.ID {
			return w, s.draining
		}
		if at == len(s.waiting) && !w.taken && p.CreatedAt.Before(w.payment.CreatedAt) {
			at = i
		}
	}
	w = &waiter{payment: p, alone: alone, done: make(chan struct{})}
	s.waiting = slices.Insert(s.waiting, at, w)
	return w, s.draining
}

// take takes up to most payments that wait.
func (s *sender) take(most int) (taken []*waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiting {
		if len(taken) >= most {
			break
		}
		if !w.taken {
			w.taken = true
			taken = append(taken, w)
		}
	}
	return taken
}

// again lets a payment that was taken wait again.
func (s *sender) again(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.taken = false
}

// finish ends a payment's wait.
func (s *sender) finish(w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.err = err
	s.waiting = slices.DeleteFunc(s.waiting, func(other *waiter) bool { return other == w })
	close(w.done)
}

// fail ends the wait of all.
func (s *sender) fail(err error) {
	s.mu.Lock()
	all := slices.Clone(s.waiting)
	s.mu.Unlock()
	s.finishAll(all, err)
}

func (s *sender) finishAll(waiting []*waiter, err error) {
	for _, w := range waiting {
		s.finish(w, err)
	}
}

func (s *sender) hasWaiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

// backlog is 1 while payments wait for room, and else 0.
func (s *sender) backlog() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return 1
	}
	return 0
}

// drain flushes in the background until nothing waits.
func (s *sender) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || len(s.waiting) == 0 {
		return
	}
	s.draining = s.config.Chain.pool.later.run(func(ctx context.Context) {
		pause := time.NewTicker(flushPause)
		defer pause.Stop()
		for {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
			select {
			case s.turn <- struct{}{}:
			case <-ctx.Done():
				return
			}
			flushing, cancel := fault.Within(ctx, flushTimeout)
			s.flush(flushing)
			cancel()
			<-s.turn
			s.mu.Lock()
			s.draining = len(s.waiting) > 0
			draining := s.draining
			s.mu.Unlock()
			if !draining {
				return
			}
		}
	})
}

// flush makes and sends transactions while there are payments and room. When the chain or the store does not answer, it
// fails every payment that waits: their callers submit them again.
func (s *sender) flush(ctx context.Context) {
	defer func() {
		// A bug must not end the program, nor keep anybody waiting: what is stored is sent again.
		if caught := recover(); caught != nil {
			s.config.Log.ErrorContext(ctx, "sending transactions panicked", slog.Any("panic", caught),
				slog.String("stack", string(debug.Stack())))
			s.fail(fmt.Errorf("panic: %v", caught))
		}
	}()
	for s.hasWaiting() {
		window, err := s.window(ctx)
		if err != nil {
			s.fail(err)
			return
		}
		room, err := s.room(ctx, window)
		if err != nil {
			s.fail(err)
			return
		}
		if room == 0 || !s.sendSome(ctx, window, room) {
			return
		}
	}
}

// window are the nonces that may be given out and sent now. They are read once for each block.
func (s *sender) window(ctx context.Context) (payment.Window, error) {
	// The block first: a count that is newer than it only delays the next reading.
	head, err := s.config.Chain.head(ctx, "latest")
	if err != nil {
		return payment.Window{}, err
	}
	s.mu.Lock()
	counted, at := s.counted, s.countedAt
	s.mu.Unlock()
	if at == head.Hash && s.config.Chain.shares() {
		return counted, nil
	}
	floor, err := s.floor(ctx, s.by.address)
	if err != nil {
		return payment.Window{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted, s.countedAt = payment.Window{First: floor, Size: s.config.Window}, head.Hash
	return s.counted, nil
}

// waits reports whether a payment waits for its turn, while others are sent.
func (s *sender) waits(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining && slices.ContainsFunc(s.waiting, func(w *waiter) bool { return w.payment.ID == id })
}

// room is how many nonces of the window are not given out yet.
func (s *sender) room(ctx context.Context, window payment.Window) (uint64, error) {
	last, known, err := s.config.Transactions.Last(ctx, s.by.address)
	if err != nil {
		return 0, fmt.Errorf("read the last account nonce: %w", err)
	}
	switch {
	case !known || last < window.First:
		return window.Size, nil
	case !window.Has(last + 1):
		return 0, nil
	default:
		return window.First + window.Size - last - 1, nil
	}
}

// sendInOrder sends a transaction. When no node accepts it, it may have come before an earlier one, which another
// process has stored and not sent, or which the nodes have lost: those from the account's nonce on are sent first.
func (s *sender) sendInOrder(ctx context.Context, a payment.Transaction, floor uint64) error {
	err := s.send(ctx, a)
	if err == nil || a.Nonce == floor || a.Relayer != s.by.address {
		return err
	}
	earlier, readErr := s.config.Transactions.Open(ctx, s.by.address, floor)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	earlier = slices.DeleteFunc(earlier, func(other payment.Transaction) bool { return other.Nonce >= a.Nonce })
	if fillErr := s.sendThrough(ctx, s.by, earlier, floor, a.Nonce); fillErr != nil {
		return errors.Join(err, fillErr)
	}
	return s.config.Chain.pool.broadcast(ctx, a.Variants[len(a.Variants)-1].Raw)
}

// sendThrough sends the transactions of the nonces from the account's count up to end, whether or not they were sent
// before: the attempts given, and empty ones for nonces that none of them has.
func (r *Relayer) sendThrough(ctx context.Context, by account, held []payment.Transaction, floor, end uint64) error {
	byNonce := map[uint64]payment.Transaction{}
	for _, a := range held {
		byNonce[a.Nonce] = a
	}
	for nonce := floor; nonce < end; nonce++ {
		a, known := byNonce[nonce]
		if !known {
			if err := r.fillGap(ctx, by, nonce); err != nil {
				return err
			}
			continue
		}
		if err := r.config.Chain.pool.broadcast(ctx, a.Variants[len(a.Variants)-1].Raw); err != nil {
			return err
		}
	}
	return nil
}

// isWaiting reports whether a payment by an authorization waits for its turn.
func (r *Relayer) isWaiting(a x402.Authorization) bool {
	return slices.ContainsFunc(r.senders, func(s *sender) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.waiting, func(w *waiter) bool { return w.payment.Authorization == a })
	})
}

// afford chooses the account that pays for a payment's transaction.
func (r *Relayer) afford(ctx context.Context, p payment.Payment) (*sender, error) {
	fee, err := r.currentFee(ctx)
	if err != nil {
		return nil, err
	}
	gas := r.config.Chain.transfer(p.Authorization, p.Signature).gas
	by, err := r.choose(ctx, p.ID, p.Signature, new(big.Int).Mul(fee.cap, new(big.Int).SetUint64(gas)))
	if err != nil {
		return nil, err
	}
	return r.senderOf(by.address), nil
}

// senderOf is the sender of an account, or nil when its key is not ours.
func (r *Relayer) senderOf(address x402.Address) *sender {
	for _, s := range r.senders {
		if s.by.address == address {
			return s
		}
	}
	return nil
}
