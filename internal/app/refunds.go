package app

import (
	"cmp"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/settlement"
)

const (
	// refundWindow is how long a refund's signature lives. A refund that cannot be made is handed to an
	// operator when it has ended, so it is no longer than the patience with one.
	refundWindow   = time.Hour
	refundDeadline = 24 * time.Hour
)

// refunds is what brings money back: the treasury's key, and the relayer that sends for it. A facilitator
// settles payments to us; whether it would settle one from us is not asked.
func (a *App) refunds() (settlement.Refunds, error) {
	r := settlement.Refunds{Deadline: cmp.Or(a.config.TreasuryDeadline, refundDeadline)}
	if a.config.TreasuryKey.IsZero() {
		return r, nil
	}
	key, err := chain.ParseKey(a.config.TreasuryKey.Reveal())
	if err != nil {
		return r, fmt.Errorf("treasury.key: %w", err)
	}
	r.Treasury = payment.NewTreasury(key, a.config.domain(), min(refundWindow, r.Deadline))
	if a.relayer != nil {
		r.Collect = payment.NewCollector(payment.CollectorConfig{
			Chain: a.chain, Settler: payment.Outward{Settler: a.relayer}, Timeout: lookTimeout, Log: a.log,
		})
	}
	return r, nil
}
