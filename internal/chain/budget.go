package chain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Transactions keeps a relayer's transactions, and what they have cost.
type Transactions interface {
	payment.Transactions
	// Spent is what the ended transactions of some relayers that were made since a time have cost, in wei.
	Spent(ctx context.Context, relayers []x402.Address, since time.Time) (wei int64, err error)
}

// Budget bounds the gas spent on transactions that move nothing. Zero fields take the defaults named.
type Budget struct {
	// Reverts is how many transactions of one authorization may revert before no more are sent for it and the
	// chain is only watched: 2.
	Reverts int
	// Payer and Hour bound the gas lost within an hour, in wei. Beyond Payer, 0.001 ether, nothing is sent for that
	// payer, and no payment of theirs is taken. Beyond Hour, 0.01 ether, each authorization gets one transaction only, so
	// that a payer who wastes gas does not keep others from paying.
	Payer, Hour int64
	// SmartAccounts bounds what the keys for payers with code spend within a day, in wei, whether it moves anything or
	// not: 0.01 ether. Beyond it nothing is sent for such a payer, and none is taken, until older spending is a day old.
	SmartAccounts int64
}

func (b Budget) withDefaults() Budget {
	return Budget{
		Reverts: orDefault(b.Reverts, 2), Payer: orDefault(b.Payer, 1e15), Hour: orDefault(b.Hour, 1e16),
		SmartAccounts: orDefault(b.SmartAccounts, 1e16),
	}
}

// ErrWatched is in the error of a payment for which nothing more is sent. It settles by somebody else's transaction, or
// it expires.
var ErrWatched = fmt.Errorf("nothing more is sent for this payment: %w", payment.ErrMissed)

// errUnmoved is the error of a payment that shared a transaction, which a block has and which did not move it.
var errUnmoved = fmt.Errorf("a batch did not move the payment: %w", payment.ErrMissed)

// budgetPeriod is how far back losses count.
const budgetPeriod = time.Hour

// affordable refuses another transaction for a payment whose budget is used up.
func (r *Relayer) affordable(ctx context.Context, p payment.Payment) (payment.Losses, error) {
	lost, err := r.config.Transactions.Lost(ctx, p, r.config.Now().Add(-budgetPeriod))
	if err != nil {
		return lost, fmt.Errorf("sum what was lost: %w", err)
	}
	reason := ""
	switch budget := r.config.Budget; {
	case lost.Reverts >= budget.Reverts:
		reason = "reverts"
	case lost.Payer >= budget.Payer:
		reason = "payer"
	case lost.Reverts > 0 && lost.All >= budget.Hour:
		reason = "hour"
	}
	if reason == "" && !p.Signature.IsOfKey() {
		err := r.countedPause(ctx, r.withinDay(ctx))
		if errors.Is(err, errDayOver) {
			err = fmt.Errorf("%w: %w", ErrWatched, err)
		}
		if err != nil {
			return lost, err
		}
	}
	if reason == "" {
		return lost, nil
	}
	r.config.Metrics.Unaffordable(ctx, reason)
	return lost, fmt.Errorf("%w: budget %q, %d reverted, %d wei of the payer's and %d in all within %s",
		ErrWatched, reason, lost.Reverts, lost.Payer, lost.All, budgetPeriod)
}

// payerWithin fails once a payer has lost what it may: nothing would be sent for another payment of theirs.
func (r *Relayer) payerWithin(ctx context.Context, payer x402.Address) error {
	lost, err := r.config.Transactions.Lost(ctx, payment.Payment{
		Network: x402.NetworkID, Asset: r.config.Chain.config.Domain.Contract,
		Authorization: x402.Authorization{From: payer},
	}, r.config.Now().Add(-budgetPeriod))
	switch {
	case err != nil:
		return fmt.Errorf("sum what was lost: %w", err)
	case lost.Payer < r.config.Budget.Payer:
		return nil
	}
	r.config.Metrics.Unaffordable(ctx, "payer")
	return fault.New(fault.DependencyDown, "This wallet's payments pause: those that moved nothing have used up the gas "+
		"of an hour. Nothing was claimed; pay from another wallet, or repeat the same request later.").
		Then(fault.RetrySameRequest).After(10 * time.Minute)
}

// apartPeriod is how far back Budget.SmartAccounts counts.
const apartPeriod = 24 * time.Hour

// errDayOver says that the keys for payers with code have spent what they may within a day.
var errDayOver = errors.New("the gas of a day is used up")

// countedPause counts what is refused because of errDayOver. Whoever only looks is not counted.
func (r *Relayer) countedPause(ctx context.Context, err error) error {
	if errors.Is(err, errDayOver) {
		r.config.Metrics.Unaffordable(ctx, "smart_accounts")
	}
	return err
}

// SmartAccountsReady reports what would keep the payment of a smart account from being sent now: no key of theirs with
// enough ether whose signer works, or the budget of a day.
func (r *Relayer) SmartAccountsReady(ctx context.Context) error {
	if err := r.ready(ctx, r.apart); err != nil {
		return err
	}
	return r.withinDay(ctx)
}

// withinDay fails with errDayOver once the keys for payers with code have spent what they may within a day.
func (r *Relayer) withinDay(ctx context.Context) error {
	var keys []x402.Address
	for _, a := range r.apart {
		keys = append(keys, a.address)
	}
	spent, err := r.config.Transactions.Spent(ctx, keys, r.config.Now().Add(-apartPeriod))
	if err != nil {
		return fmt.Errorf("sum what was spent for smart accounts: %w", err)
	}
	if spent < r.config.Budget.SmartAccounts {
		return nil
	}
	return fmt.Errorf("%w: %d wei within %s: %w", errDayOver, spent, apartPeriod, fault.New(fault.DependencyDown,
		"Payments of smart accounts pause: they have used up the gas of a day. Nothing was claimed; pay from an account "+
			"without code, or repeat the same request later.").Then(fault.RetrySameRequest).After(10*time.Minute))
}

// feeLog caches the last fee for feeFor, which saves two calls for each simulated purchase.
type feeLog struct {
	mu sync.Mutex
	of fee
	// read is when, and block at which block.
	read  time.Time
	block x402.Hash
}

// at is the fee that was read at a block.
func (l *feeLog) at(block x402.Hash) (fee, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of, l.of.cap != nil && l.block == block
}

// feeFor is how long a fee is cached. The fee survives a doubling of the base fee, which takes longer than that.
const feeFor = 5 * time.Second

// currentFee is the fee that a transaction would offer, cached for feeFor.
func (r *Relayer) currentFee(ctx context.Context) (fee, error) {
	now := r.config.Now()
	r.fees.mu.Lock()
	known, at := r.fees.of, r.fees.read
	r.fees.mu.Unlock()
	if known.cap != nil && now.Sub(at) < feeFor && !now.Before(at) {
		return known, nil
	}
	return r.suggestFee(ctx)
}

func (r *Relayer) keepFee(f fee, block x402.Hash) {
	r.fees.mu.Lock()
	defer r.fees.mu.Unlock()
	r.fees.of, r.fees.read, r.fees.block = f, r.config.Now(), block
}
