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
	// refundWindow is the validity of a refund's authorization. A refund that cannot be made goes to an operator after
	// it has expired, so it is not longer than the deadline.
	refundWindow   = time.Hour
	refundDeadline = 24 * time.Hour
)

// refunds configures refunds: the treasury's key, and the relayer. A facilitator is not used for refunds.
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
			Chain: a.chain.Following(), Settler: payment.RefundSettler{Settler: a.relayer}, Timeout: collectTimeout, Log: a.log,
		})
	}
	return r, nil
}
