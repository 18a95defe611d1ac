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

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// maxGap bounds how many missing nonces one pass fills.
const maxGap = 64

// Maintain checks every open attempt once: it closes final attempts, resends transactions that the nodes have dropped
// or a reorganisation has removed, raises the fee of the oldest one that waits too long, and fills gaps in the nonces.
// A periodic job calls it; it may run several times at once.
func (r *Relayer) Maintain(ctx context.Context) error {
	var errs error
	for _, account := range r.accounts {
		if err := r.maintainAccount(ctx, account); err != nil {
			errs = errors.Join(errs, fmt.Errorf("maintain relayer %s: %w", account.address, err))
		}
	}
	return errs
}

// nonces are one account's nonce counts: at the latest block, and at the final one.
type nonces struct {
	account      account
	latest       uint64
	final        header
	usedForEver  uint64
	waitingFirst bool
}

func (r *Relayer) maintainAccount(ctx context.Context, by account) error {
	attempts, err := r.config.Attempts.Open(ctx, by.address)
	if err != nil || len(attempts) == 0 {
		return err
	}
	l := nonces{account: by, waitingFirst: true}
	next := attempts[len(attempts)-1].Nonce + 1
	// With a count that is too low, an included transaction is only sent once more.
	if l.latest, err = r.used(ctx, by.address, "latest", next, attempts[0].Nonce); err != nil {
		return err
	}
	if l.final, err = r.config.Chain.header(ctx, r.config.Chain.config.Finality.Dead); err != nil {
		return err
	}
	// With a count that is too low, no attempt is given up.
	if l.usedForEver, err = r.used(ctx, by.address, atHash(l.final.Hash), next, 0); err != nil {
		return err
	}
	if err := r.fillGaps(ctx, l, attempts); err != nil {
		return err
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

func (r *Relayer) maintainAttempt(ctx context.Context, l *nonces, a payment.Attempt) error {
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
		return r.close(ctx, a, payment.AttemptReverted, found.cost())
	case included:
		return r.closeIfFinal(ctx, l.final, a, found)
	case a.Nonce < l.usedForEver:
		// Another transaction of this key took the nonce; ours can never be included.
		return r.close(ctx, a, payment.AttemptReverted, 0)
	case a.Nonce < l.latest:
		return nil
	}
	first := l.waitingFirst
	l.waitingFirst = false
	if newest := a.Variants[len(a.Variants)-1]; first && r.config.Now().Sub(newest.SignedAt) >= r.config.BumpAfter {
		if a, err = r.bump(ctx, l.account, a); err != nil {
			return err
		}
	}
	return r.send(ctx, a)
}

// closeIfFinal keeps an included attempt open until its block is final: after a reorganisation the same bytes are sent
// again. A closed attempt would leave a nonce gap that blocks the key.
func (r *Relayer) closeIfFinal(ctx context.Context, final header, a payment.Attempt, found receipt) error {
	if uint64(found.BlockNumber) > final.Number {
		return nil
	}
	return r.close(ctx, a, payment.AttemptClosed, found.cost())
}

func (r *Relayer) close(ctx context.Context, a payment.Attempt, status payment.AttemptStatus, spent int64) error {
	if status == payment.AttemptReverted {
		r.config.Log.WarnContext(ctx, "settlement reverted", append(attemptAttrs(a), slog.Int64("spent_wei", spent))...)
		faultpoint.Reach("attempt.reverted")
	}
	if err := r.config.Attempts.Close(ctx, a.ID, status, spent); err != nil {
		return fmt.Errorf("close attempt: %w", err)
	}
	r.config.Metrics.Sent(ctx, string(status), spent)
	return nil
}

// bump signs for the same nonce with a higher fee and stores that before it is sent. The attempt comes back unchanged
// when the fee's bound leaves no room.
func (r *Relayer) bump(ctx context.Context, by account, a payment.Attempt) (payment.Attempt, error) {
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
	if err := r.config.Attempts.Replace(ctx, a.ID, variant); err != nil {
		return a, fmt.Errorf("bump fee: %w", err)
	}
	a.Variants = append(a.Variants, variant)
	faultpoint.Reach("bump.stored")
	return a, nil
}

// fillGaps sends an empty transaction for each nonce that is neither used nor held by an open attempt. A gap is left
// when a reorganisation drops a reverted transaction, or a restored chain is behind the store; without this the key
// would be blocked for ever. A node that lags behind refuses it.
func (r *Relayer) fillGaps(ctx context.Context, l nonces, attempts []payment.Attempt) error {
	held := map[uint64]bool{}
	for _, a := range attempts {
		held[a.Nonce] = true
	}
	filled := 0
	for nonce := l.latest; nonce < attempts[len(attempts)-1].Nonce && filled < maxGap; nonce++ {
		if held[nonce] {
			continue
		}
		filled++
		fee, err := r.suggestFee(ctx)
		if err != nil {
			return err
		}
		tx, err := r.signEmpty(l.account, nonce, fee)
		if err != nil {
			return err
		}
		r.config.Log.WarnContext(
			ctx, "filling a gap in a relayer's nonces", "relayer", l.account.address.String(), "nonce", nonce,
		)
		if err := r.config.Chain.pool.broadcast(ctx, tx.Raw); err != nil {
			return err
		}
	}
	return nil
}

// replacement is the same call with a higher fee. When the payer has got code since, which may make the call use up its
// gas and move nothing, it is an empty transaction: left as it is, it would keep all later nonces waiting.
func (r *Relayer) replacement(
	ctx context.Context, by account, a payment.Attempt, tx *types.Transaction, fee fee,
) (payment.Transaction, error) {
	if payer, pays := x402.PayerOf(tx.Data()); pays {
		err := r.config.Chain.checkPayer(ctx, payer)
		if no, refused := errors.AsType[*payment.Rejection](err); refused {
			r.config.Log.WarnContext(ctx, "settlement given up", append(attemptAttrs(a), slog.String("cause", no.Detail))...)
			return r.signEmpty(by, a.Nonce, fee)
		}
		if err != nil {
			return payment.Transaction{}, err
		}
	}
	return r.sign(by, a.Nonce, fee, *tx.To(), tx.Gas(), tx.Data())
}

// signEmpty makes a transaction that uses up a nonce, and does nothing.
func (r *Relayer) signEmpty(by account, nonce uint64, fee fee) (payment.Transaction, error) {
	const plainGas = 21_000
	return r.sign(by, nonce, fee, common.Address(by.address), plainGas, nil)
}

// sentLog caches when this process last sent a transaction. It only saves calls: without it a transaction is sent once
// more.
type sentLog struct {
	mu sync.Mutex
	at map[x402.Hash]time.Time
}

// due reports whether a transaction was not sent within pause, and records that it is sent now.
func (s *sentLog) due(hash x402.Hash, now time.Time, pause time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, known := s.at[hash]; known && now.Sub(last) < pause {
		return false
	}
	const enough = 10_000
	if s.at == nil || len(s.at) >= enough {
		s.at = map[x402.Hash]time.Time{}
	}
	s.at[hash] = now
	return true
}

// reset makes a transaction due again, after a broadcast that no node has accepted.
func (s *sentLog) reset(hash x402.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, hash)
}
