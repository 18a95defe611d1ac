package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
)

// ErrBackingOff is wrapped by the error of a settler that backs off after a failure and was not called.
var ErrBackingOff = errors.New("backing off after a failure")

// ErrNotForThis is wrapped by the error of a settler that never takes a payment of this kind, and was not called.
var ErrNotForThis = errors.New("not for payments of this kind")

// NamedSettler is a settler and what logs call it.
type NamedSettler struct {
	Name string
	Settler
}

// FailoverConfig is what a Failover needs.
type FailoverConfig struct {
	// Settlers in the order in which they are tried; at least one.
	Settlers []NamedSettler
	// Turn is how long each settler waits for the one before it: the second is called when a payment is one turn old,
	// the third at two turns. It also bounds one submission while another settler is left.
	Turn time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// Failover is one Settler made of several. It has no state: whose turn it is follows from the stored payment's age, so
// a restart changes nothing.
//
// Several settlers may act on one payment. All of them send the same authorization, which the token executes once. A
// second transaction costs its sender gas and moves nothing.
type Failover struct{ config FailoverConfig }

// NewFailover makes a failover.
func NewFailover(config FailoverConfig) *Failover { return &Failover{config: config} }

// Submit implements Settler. The first settler is called at once. The next one is called when the one before fails, or
// when its turn is over and the payment is submitted again, because the money has not moved. The error is nil when any
// settler accepts the payment.
func (f *Failover) Submit(ctx context.Context, p Payment) error {
	age := f.config.Now().Sub(p.CreatedAt)
	accepted := false
	var errs error
	for i, s := range f.config.Settlers {
		err := f.submitTo(ctx, s, p, i == len(f.config.Settlers)-1)
		if _, rejected := errors.AsType[*Rejection](err); rejected && !accepted {
			// The transfer would revert now, whichever settler sends it.
			return err
		}
		if err != nil {
			errs = errors.Join(errs, err)
			f.warn(ctx, p, s, err)
			continue
		}
		accepted = true
		if age < f.config.Turn*time.Duration(i+1) {
			return nil
		}
	}
	if accepted {
		return nil
	}
	return errs
}

// Moved implements Witness for those of its settlers that are one.
func (f *Failover) Moved(p Payment, r Receipt) {
	for _, s := range f.config.Settlers {
		if w, ok := s.Settler.(Witness); ok {
			w.Moved(p, r)
		}
	}
}

// submitTo bounds a submission by one turn while another settler is left.
func (f *Failover) submitTo(ctx context.Context, s NamedSettler, p Payment, last bool) error {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = fault.Within(ctx, f.config.Turn)
		defer cancel()
	}
	if err := s.Submit(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// warn logs a failure, and nothing for a settler that was not called.
func (f *Failover) warn(ctx context.Context, p Payment, s NamedSettler, err error) {
	if !errors.Is(err, ErrBackingOff) && !errors.Is(err, ErrNotForThis) {
		f.config.Log.WarnContext(ctx, "settler failed",
			slog.String("payment", p.ID.String()), slog.String("settler", s.Name), slog.Any("cause", err))
	}
}
