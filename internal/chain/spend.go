package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/roamcard/roamcard/internal/payment"
)

// errShortOfGas says that a key cannot pay for one more transaction.
var errShortOfGas = errors.New("the relayer is short of gas")

// withinBalance shortens batches to what the key can pay for. A node takes a transaction only while the account could
// pay for all of its own that wait, each with all the gas that it may use. Payments that are left out wait. It is
// errShortOfGas when not even one can be paid for, and nothing is on its way that will use less than it may.
func (s *sender) withinBalance(
	ctx context.Context, batches [][]*waiter, fee fee, window payment.Window,
) ([][]*waiter, error) {
	cost := func(gas uint64) *big.Int { return new(big.Int).Mul(fee.cap, new(big.Int).SetUint64(gas)) }
	balance, err := s.gasOf(ctx, s.by)
	if err != nil {
		return nil, err
	}
	full := new(big.Int).Mul(cost(s.mostGas()), new(big.Int).SetUint64(window.Size))
	if balance.Cmp(full) >= 0 {
		return batches, nil // whatever is on its way
	}
	left, open, err := s.spendable(ctx, window)
	if err != nil {
		return nil, err
	}
	var within [][]*waiter
	for _, members := range batches {
		for len(members) > 0 && cost(s.gasLimit(members)).Cmp(left) > 0 {
			members = members[:len(members)-1]
		}
		if len(members) == 0 {
			break
		}
		left.Sub(left, cost(s.gasLimit(members)))
		within = append(within, members)
	}
	if len(within) == 0 && open == 0 {
		return nil, errShortOfGas
	}
	return within, nil
}

// spendable is what the key has, in wei, less the most that its open transactions of the window may cost.
func (s *sender) spendable(ctx context.Context, window payment.Window) (left *big.Int, open int, err error) {
	balance, err := s.readGas(ctx, s.by)
	if err != nil {
		return nil, 0, err
	}
	waiting, err := s.config.Transactions.Open(ctx, s.by.address, window.First)
	if err != nil {
		return nil, 0, fmt.Errorf("read the open transactions: %w", err)
	}
	left = new(big.Int).Set(balance)
	for _, t := range waiting {
		tx, err := decode(t.Variants[len(t.Variants)-1])
		if err != nil {
			return nil, 0, fmt.Errorf("read an open transaction: %w", err)
		}
		left.Sub(left, tx.Cost())
	}
	return left, len(waiting), nil
}

// gasLimit is the gas that a transaction of some payments may use.
func (s *sender) gasLimit(members []*waiter) uint64 {
	if len(members) > 1 {
		return s.batchesBy().Gas(len(members))
	}
	p := members[0].payment
	return s.config.Chain.transfer(p.Authorization, p.Signature).gas
}

// mostGas is the gas that any transaction may use.
func (s *sender) mostGas() uint64 {
	on := s.config.Chain.config
	most := on.CallGas
	if len(on.SmartAccounts) > 0 {
		most = max(most, creationGas)
	}
	if by := s.batchesBy(); !by.IsZero() {
		most = max(most, by.Gas(s.config.MaxBatch))
	}
	return most
}
