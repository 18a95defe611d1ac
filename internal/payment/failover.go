package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrResting is in the error of a settler that was not asked again, because it failed a moment ago.
var ErrResting = errors.New("not asked again yet")

// NamedSettler is a settler and what logs call it.
type NamedSettler struct {
	Name string
	Settler
}

// FailoverConfig is what a Failover needs.
type FailoverConfig struct {
	// Settlers in the order in which they are tried; at least one.
	Settlers []NamedSettler
	// Turn is how long a payment's settlers wait for the one before: the second comes in when a payment
	// is one turn old, the third at two. It also bounds one submission while another settler is left.
	Turn time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// Failover is one Settler made of several. It remembers nothing: whose turn it is follows from the
// stored payment's age, so a restart forgets nothing.
//
// Several may act on one payment, and none is asked whether it did: all of them carry the same
// authorization, and the token takes that once. The second transaction costs its sender gas and moves
// nothing.
type Failover struct{ config FailoverConfig }

// NewFailover makes a failover.
func NewFailover(config FailoverConfig) *Failover { return &Failover{config: config} }

// Submit implements Settler. The first settler acts at once. The next one does too when the one before
// fails, or when its turn is over and the payment is still submitted, which says that the money has not
// moved. The error is nil when any of them has taken the payment.
func (f *Failover) Submit(ctx context.Context, p Payment) error {
	age := f.config.Now().Sub(p.CreatedAt)
	taken := false
	var errs error
	for i, s := range f.config.Settlers {
		err := f.submitTo(ctx, s, p, i == len(f.config.Settlers)-1)
		if _, rejected := errors.AsType[*Rejection](err); rejected && !taken {
			// The money would not move now, whoever sends for it.
			return err
		}
		if err != nil {
			errs = errors.Join(errs, err)
			f.warn(ctx, p, s, err)
			continue
		}
		taken = true
		if age < f.config.Turn*time.Duration(i+1) {
			return nil
		}
	}
	if taken {
		return nil
	}
	return errs
}

// submitTo gives a settler no more than its turn while another one could act meanwhile.
func (f *Failover) submitTo(ctx context.Context, s NamedSettler, p Payment, last bool) error {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.config.Turn)
		defer cancel()
	}
	if err := s.Submit(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// warn tells of a failure once, not of every step that a resting settler sits out.
func (f *Failover) warn(ctx context.Context, p Payment, s NamedSettler, err error) {
	if !errors.Is(err, ErrResting) {
		f.config.Log.WarnContext(ctx, "settler failed",
			slog.String("payment", p.ID.String()), slog.String("settler", s.Name), slog.Any("cause", err))
	}
}
