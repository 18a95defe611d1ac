package app

import (
	"cmp"
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// refundWindow is the validity of a refund's authorization. A refund that cannot be made goes to an operator after
	// it has expired, so it is not longer than the deadline.
	refundWindow   = time.Hour
	refundDeadline = 24 * time.Hour
)

// treasuries are all accounts that refunds are or were paid from. A nil Keys has none.
func (k *Keys) treasuries() (all []x402.Address) {
	if k == nil {
		return nil
	}
	if k.Treasury != nil {
		all = append(all, k.Treasury.Address())
	}
	for _, s := range k.FormerTreasuries {
		all = append(all, s.Address())
	}
	return append(all, k.Former...)
}

// refunds configures refunds: the treasury's key, and the relayer. A facilitator is not used for refunds.
func (a *App) refunds(screened *screening.Screening) (settlement.Refunds, error) {
	r := settlement.Refunds{Deadline: cmp.Or(a.config.TreasuryDeadline, refundDeadline), Screen: screened.Screen}
	keys, err := a.signers(context.Background())
	if err != nil || keys.Treasury == nil {
		return r, err
	}
	r.Treasury = payment.NewTreasury(payment.TreasuryConfig{
		Signer: keys.Treasury, Retired: keys.FormerTreasuries, Former: keys.Former, Domain: a.config.domain(),
		Window: min(refundWindow, r.Deadline), Now: a.config.now,
	})
	if a.relayer != nil {
		r.Collect = payment.NewCollector(payment.CollectorConfig{
			Chain: a.chain.Following(), Settler: payment.RefundSettler{Settler: a.relayer}, Timeout: collectTimeout, Log: a.log,
		})
	} else {
		a.log.Warn("relayer.keys is not set: the treasury signs refunds that nothing sends, since a facilitator is not " +
			"asked to, and each ends with an operator")
	}
	return r, nil
}
