package app

import (
	"context"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
)

// switches remembers for a moment which products operators have closed, so that unpaid requests do not ask
// the database each. Every process reads for itself; a claim reads the switch in its own transaction.
type switches struct {
	kept checkout.Switches
	now  func() time.Time

	mu     sync.Mutex
	at     time.Time
	paused map[order.Kind]bool
}

// paused reports whether the sale of a product is closed, by the configuration or by an operator.
func (p *parts) paused(ctx context.Context, product order.Kind) (bool, error) {
	switch product {
	case order.CardTopup:
		return p.topups.TopupsPaused(ctx)
	case order.ESIM:
		return p.esims.PurchasePaused(ctx)
	case order.CardIssue:
	}
	return p.cards.IssuePaused(ctx)
}

const switchesTTL = time.Second

func (s *switches) stopped(ctx context.Context, product order.Kind) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.at.IsZero() || now.Sub(s.at) >= switchesTTL || now.Before(s.at) {
		all, err := s.kept.Switches(ctx)
		if err != nil {
			return false, err
		}
		paused := map[order.Kind]bool{}
		for _, one := range all {
			paused[one.Product] = one.Paused
		}
		s.at, s.paused = now, paused
	}
	return s.paused[product], nil
}
