package payment_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

const turn = 6 * time.Second

// settler is a named settler with a behaviour; it counts how often it is asked.
type settler struct {
	name   string
	submit func(context.Context, payment.Payment) error
	asked  atomic.Int64
}

func (s *settler) Submit(ctx context.Context, p payment.Payment) error {
	s.asked.Add(1)
	return s.submit(ctx, p)
}

func (s *settler) named() payment.NamedSettler {
	return payment.NamedSettler{Name: s.name, Settler: s}
}

var errDead = errors.New("connection refused")

func dead(context.Context, payment.Payment) error { return errDead }

// pending takes every payment and moves nothing.
func pending(context.Context, payment.Payment) error { return nil }

// silent answers nothing for as long as it is let.
func silent(ctx context.Context, _ payment.Payment) error { <-ctx.Done(); return ctx.Err() }

func failover(settlers ...*settler) *payment.Failover {
	c := payment.FailoverConfig{Turn: turn, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for _, s := range settlers {
		c.Settlers = append(c.Settlers, s.named())
	}
	return payment.NewFailover(c)
}

func TestFailoverSettlesOnceWhateverFirstSettlerDoes(t *testing.T) {
	// within is how long a payment may take: a failure takes no time, silence or a pending answer one turn.
	tests := map[string]struct {
		first  func(c *paymenttest.Chain) func(context.Context, payment.Payment) error
		within time.Duration
	}{
		"loses the reply after the broadcast": {func(c *paymenttest.Chain) func(context.Context, payment.Payment) error {
			c.Next(paymenttest.Lose)
			return c.Submit
		}, time.Second},
		"is dead": {func(*paymenttest.Chain) func(context.Context, payment.Payment) error { return dead },
			time.Second},
		"is pending for ever": {func(*paymenttest.Chain) func(context.Context, payment.Payment) error { return pending },
			turn + time.Second},
		"never answers": {func(*paymenttest.Chain) func(context.Context, payment.Payment) error { return silent },
			turn + time.Second},
		"broadcasts late": {func(c *paymenttest.Chain) func(context.Context, payment.Payment) error {
			c.Next(paymenttest.Stall)
			return c.Submit
		}, turn + time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chain := paymenttest.NewChain(terms.Domain, time.Now)
				p := claimed(t)
				chain.Fund(p.Authorization.From, 10*price)
				first := &settler{name: "first", submit: tt.first(chain)}
				second := &settler{name: "second", submit: chain.Submit}
				c := payment.NewCollector(payment.CollectorConfig{Chain: chain, Settler: failover(first, second),
					Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
				start := time.Now()
				if v := decide(t, c, p); v.State != payment.Settled {
					t.Fatalf("verdict %+v, want settled", v)
				}
				if took := time.Since(start); took > tt.within {
					t.Errorf("moved after %v, want at most %v", took, tt.within)
				}
				// What the first one left behind comes too late.
				chain.Release()
				if n := chain.Calls().Transfers; n != 1 || chain.Balance(payee) != price {
					t.Errorf("%d transfers, the payee has %s; want 1 of %s", n, chain.Balance(payee), price)
				}
			})
		})
	}
}

func TestFailoverUsesOneWorkingSettler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := claimed(t)
		first, second := &settler{name: "first", submit: pending}, &settler{name: "second", submit: pending}
		f := failover(first, second)
		time.Sleep(turn - 1) // virtual
		if err := f.Submit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if first.asked.Load() != 1 || second.asked.Load() != 0 {
			t.Errorf("asked %d and %d times, want 1 and 0", first.asked.Load(), second.asked.Load())
		}
	})
}

func TestFailoverTurnSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := claimed(t)
		first, second := &settler{name: "first", submit: pending}, &settler{name: "second", submit: pending}
		time.Sleep(turn) // virtual; another process waited
		if err := failover(first, second).Submit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		// The first one keeps acting: it may hold the transaction that is about to be included.
		if first.asked.Load() != 1 || second.asked.Load() != 1 {
			t.Errorf("asked %d and %d times, want each once", first.asked.Load(), second.asked.Load())
		}
	})
}

func TestFailoverReportsEveryCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backingOff := func(context.Context, payment.Payment) error { return fmt.Errorf("%w: 503", payment.ErrBackingOff) }
		err := failover(&settler{name: "first", submit: dead}, &settler{name: "second", submit: backingOff}).Submit(
			t.Context(), claimed(t),
		)
		if !errors.Is(err, errDead) || !errors.Is(err, payment.ErrBackingOff) {
			t.Errorf("%v, want both causes", err)
		}
	})
}

func TestFailoverStopsAtRejectedPayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poor := func(context.Context, payment.Payment) error {
			return fmt.Errorf("submit payment: %w", &payment.Rejection{Reason: x402.ReasonBalance})
		}
		second := &settler{name: "second", submit: pending}
		err := failover(&settler{name: "first", submit: poor}, second).Submit(t.Context(), claimed(t))
		if reasonOf(t, err) != x402.ReasonBalance || second.asked.Load() != 0 {
			t.Errorf("%v, and the second was asked %d times", err, second.asked.Load())
		}
	})
}
