package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// Maintain checks every open attempt once: it closes final attempts, resends transactions that the nodes have dropped
// or a reorganisation has removed, raises the fee of the oldest one that waits too long, and fills gaps in the nonces.
// A periodic job calls it; it may run several times at once. Of transactions whose key is not here it only records the
// end.
func (r *Relayer) Maintain(ctx context.Context) error {
	accounts := r.all()
	open, errs := r.config.Transactions.Relayers(ctx)
	for _, relayer := range open {
		if !r.has(relayer) {
			accounts = append(accounts, account{address: relayer})
		}
	}
	for _, account := range accounts {
		if err := r.maintainAccount(ctx, account); err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain relayer %s: %w", account.address, err))
		}
	}
	return errs
}

// nonces are one account's nonce counts: at the latest block, and at the final one, which two nodes have, where there
// are several; zero where they have not.
type nonces struct {
	account      account
	latest       uint64
	final        header
	usedForEver  uint64
	waitingFirst bool
}

// window are the nonces that may be sent.
func (l nonces) window(r *Relayer) payment.Window {
	return payment.Window{First: l.latest, Size: r.config.Window}
}

func (r *Relayer) maintainAccount(ctx context.Context, by account) error {
	// In this order: an attempt that ends in between is then counted by the chain.
	last, known, err := r.config.Transactions.Last(ctx, by.address)
	if err != nil || !known {
		return err
	}
	attempts, err := r.config.Transactions.Open(ctx, by.address, 0)
	if err != nil {
		return err
	}
	l := nonces{account: by, waitingFirst: true}
	first := last + 1
	if len(attempts) > 0 {
		first = attempts[0].Nonce
		last = max(last, attempts[len(attempts)-1].Nonce)
	}
	// With a count that is too low, an included transaction is only sent once more.
	if l.latest, err = r.used(ctx, by.address, "latest", last+1, first); err != nil {
		return err
	}
	if len(attempts) == 0 && l.latest > last {
		return nil
	}
	l.final, err = r.config.Chain.witnessedHead(ctx, r.config.Chain.config.Finality.Dead)
	switch {
	case errors.Is(err, reconcile.ErrUnwitnessed): // nothing is final, and what waits is sent
	case err != nil:
		return err
	default:
		// With a count that is too low, no attempt is given up.
		if l.usedForEver, err = r.used(ctx, by.address, atHash(l.final.Hash), last+1, 0); err != nil {
			return err
		}
	}
	if by.key != nil {
		if err := r.fillGaps(ctx, l, attempts, last); err != nil {
			return err
		}
	}
	// In the order of their nonces: a later one cannot be included before an earlier one.
	var errs error
	for _, a := range attempts {
		if err := r.maintainAttempt(ctx, &l, a); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

func (r *Relayer) maintainAttempt(ctx context.Context, l *nonces, a payment.Transaction) error {
	if block, known := r.seenIncluded(ctx, a); known && a.Nonce < l.latest && block > l.final.Number {
		return nil // it is closed once its block is final
	}
	if a.Nonce >= l.latest && r.config.Chain.shares() {
		return r.maintainPending(ctx, l, a)
	}
	found, included, err := r.inclusion(ctx, r.config.Chain, a)
	if (errors.Is(err, errIncomplete) || errors.Is(err, errUnconfirmed)) && a.Nonce >= l.latest {
		err = nil // no block has its nonce, so a missing or an unconfirmed answer does not matter
	}
	switch {
	case errors.Is(err, errUnconfirmed):
		return nil // it stays open until a second node shows the same
	case err != nil:
		return err
	case included && found.Status == 0:
		return r.close(ctx, a, payment.TransactionReverted, found.cost(), nil)
	case included:
		return r.closeIfFinal(ctx, l.final, a, found)
	case a.Nonce < l.usedForEver:
		if !r.included.miss(a.ID) {
			return nil // it is looked for again
		}
		// Another transaction of this key took the nonce; ours can never be included.
		r.included.drop(a.ID)
		return r.close(ctx, a, payment.TransactionReverted, 0, nil)
	case a.Nonce < l.latest:
		return nil
	}
	return r.maintainPending(ctx, l, a)
}

// maintainPending sends an attempt that no block has, and raises its fee when it is the first in line and waits for
// long.
func (r *Relayer) maintainPending(ctx context.Context, l *nonces, a payment.Transaction) (err error) {
	first := l.waitingFirst
	l.waitingFirst = false
	newest := a.Variants[len(a.Variants)-1]
	if first && l.account.key != nil && r.config.Now().Sub(newest.SignedAt) >= r.config.BumpAfter {
		if a, err = r.bump(ctx, l.account, a); err != nil {
			return err
		}
	}
	if !l.window(r).Has(a.Nonce) {
		return nil // its turn comes
	}
	return r.send(ctx, a)
}

// closeIfFinal keeps an included attempt open until its block is final: after a reorganisation the same bytes are sent
// again. A closed attempt would leave a nonce gap that blocks the key.
func (r *Relayer) closeIfFinal(ctx context.Context, final header, a payment.Transaction, found receipt) error {
	if number := uint64(found.BlockNumber); number > final.Number {
		r.included.keep(a.ID, number)
		return nil
	}
	r.included.drop(a.ID)
	unmoved := r.unmoved(a, found)
	if len(unmoved) > 0 {
		r.config.Log.WarnContext(ctx, "a batch did not move all its members",
			append(attemptAttrs(a), slog.Any("unmoved", unmoved))...)
	}
	return r.close(ctx, a, payment.TransactionClosed, found.cost(), unmoved)
}

func (r *Relayer) close(
	ctx context.Context, a payment.Transaction, status payment.TransactionStatus, spent int64, unmoved []uuid.UUID,
) error {
	switch batch := len(a.Payments) > 1; {
	case batch && status == payment.TransactionReverted && spent > 0:
		r.sizes.below(len(a.Payments))
	case status == payment.TransactionClosed:
		r.sizes.grow(r.config.MaxBatch)
	}
	if status == payment.TransactionReverted {
		r.config.Log.WarnContext(ctx, "settlement reverted", append(attemptAttrs(a), slog.Int64("spent_wei", spent))...)
		faultpoint.Reach("transaction.reverted")
	}
	if err := r.config.Transactions.Close(ctx, a.ID, status, spent, unmoved); err != nil {
		return fmt.Errorf("close attempt: %w", err)
	}
	r.config.Metrics.Sent(ctx, string(status), spent)
	if paid := len(a.Payments) - len(unmoved); status == payment.TransactionClosed && spent > 0 {
		for range paid {
			r.config.Metrics.Cost(ctx, float64(spent)/float64(paid))
		}
	}
	return nil
}

// bump signs for the same nonce with a higher fee and stores that before it is sent. The attempt comes back unchanged
// when the fee's bound leaves no room.
func (r *Relayer) bump(ctx context.Context, by account, a payment.Transaction) (payment.Transaction, error) {
	tx, err := decode(a.Variants[len(a.Variants)-1])
	if err != nil {
		return a, fmt.Errorf("bump fee: %w", err)
	}
	usual, err := r.suggestFee(ctx)
	if err != nil {
		return a, fmt.Errorf("bump fee: %w", err)
	}
	fee, ok := r.raised(feeOf(tx), usual)
	if !ok {
		r.config.Log.WarnContext(ctx, "settlement waits, its fee is at the bound", attemptAttrs(a)...)
		return a, nil
	}
	variant, err := r.replacement(ctx, by, a, tx, fee)
	if err != nil {
		return a, fmt.Errorf("bump fee: %w", err)
	}
	if err := r.config.Transactions.Replace(ctx, a.ID, variant); err != nil {
		return a, fmt.Errorf("bump fee: %w", err)
	}
	a.Variants = append(a.Variants, variant)
	faultpoint.Reach("bump.stored")
	return a, nil
}

// fillGaps sends an empty transaction for each nonce of the window that is neither used nor held by an open attempt, up
// to the last one given out. A gap is left when a reorganisation drops a reverted transaction, or a restored chain is
// behind the store; without this the key would be blocked for ever. A node that lags behind refuses it.
func (r *Relayer) fillGaps(ctx context.Context, l nonces, attempts []payment.Transaction, last uint64) error {
	held := map[uint64]bool{}
	for _, a := range attempts {
		held[a.Nonce] = true
	}
	for nonce := l.latest; nonce <= last && l.window(r).Has(nonce); nonce++ {
		if held[nonce] {
			continue
		}
		if err := r.fillGap(ctx, l.account, nonce); err != nil {
			return err
		}
	}
	return nil
}

// fillGap sends an empty transaction for a nonce.
func (r *Relayer) fillGap(ctx context.Context, by account, nonce uint64) error {
	fee, err := r.suggestFee(ctx)
	if err != nil {
		return err
	}
	tx, err := r.signEmpty(ctx, by, nonce, fee)
	if err != nil {
		return err
	}
	r.config.Log.WarnContext(
		ctx, "filling a gap in a relayer's nonces", "relayer", by.address.String(), "nonce", nonce,
	)
	return r.config.Chain.pool.broadcast(ctx, tx.Raw)
}

// replacement is the same call with a higher fee. When the payer has got code since, or its smart account another
// owner, which may make the call use up its gas and move nothing, it is an empty transaction: left as it is, it would
// keep all later nonces waiting.
func (r *Relayer) replacement(
	ctx context.Context, by account, a payment.Transaction, tx *types.Transaction, fee fee,
) (payment.Variant, error) {
	if authorization, signature, pays := r.config.Chain.paymentOf(x402.Address(*tx.To()), tx.Data()); pays {
		err := r.config.Chain.checkPayer(ctx, authorization, signature)
		if no, refused := errors.AsType[*payment.Rejection](err); refused {
			r.config.Log.WarnContext(ctx, "settlement given up", append(attemptAttrs(a), slog.String("cause", no.Detail))...)
			return r.signEmpty(ctx, by, a.Nonce, fee)
		}
		if err != nil {
			return payment.Variant{}, err
		}
	}
	return r.sign(ctx, by, a.Nonce, fee, *tx.To(), tx.Gas(), tx.Data())
}

// signEmpty makes a transaction that uses up a nonce, and does nothing.
func (r *Relayer) signEmpty(
	ctx context.Context, by account, nonce uint64, fee fee,
) (payment.Variant, error) {
	const plainGas = 21_000
	return r.sign(ctx, by, nonce, fee, common.Address(by.address), plainGas, nil)
}

// recentLog caches when this process last did something. It only saves calls: without it a transaction is sent, or a
// payment's transaction read, once more.
type recentLog[K comparable] struct {
	mu sync.Mutex
	at map[K]time.Time
}

// isDue reports whether it was not done within pause.
func (s *recentLog[K]) isDue(of K, now time.Time, pause time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.at[of]
	return !known || now.Sub(last) >= pause
}

// due reports whether it was not done within pause, and records that it is done now.
func (s *recentLog[K]) due(of K, now time.Time, pause time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, known := s.at[of]; known && now.Sub(last) < pause {
		return false
	}
	const enough = 10_000
	if s.at == nil || len(s.at) >= enough {
		s.at = map[K]time.Time{}
	}
	s.at[of] = now
	return true
}

// reset makes it due again, because it has failed.
func (s *recentLog[K]) reset(of K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, of)
}
