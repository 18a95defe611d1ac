package payment_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

const deadline = 20 * time.Second

// claimed is a stored payment, good for two minutes of the test's virtual clock.
func claimed(t *testing.T) payment.Payment {
	t.Helper()
	key, payer := testKey(t)
	a := x402.Authorization{
		From: payer, To: payee, Value: price, ValidBefore: uint64(time.Now().Unix()) + 120, Nonce: x402.Hash{31: 1},
	}
	s, err := curve.Sign(terms.Domain, a, key)
	if err != nil {
		t.Fatal(err)
	}
	return payment.Payment{ID: uuid.New(), Status: payment.Claimed, Network: terms.Network, Asset: usdc,
		Authorization: a, Signature: s, CreatedAt: time.Now()}
}

func collectorOn(chain *paymenttest.Chain) *payment.Collector {
	return payment.NewCollector(
		payment.CollectorConfig{Chain: chain, Settler: chain, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)},
	)
}

// decide looks every half second until the chain has decided.
func decide(t *testing.T, c *payment.Collector, p payment.Payment) payment.Verdict {
	t.Helper()
	return paymenttest.Decide(t.Context(), c, p, 500*time.Millisecond, deadline)
}

// collecting runs a story on a virtual clock: a funded payer, a claimed payment, a collector.
func collecting(
	t *testing.T, story func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		chain := paymenttest.NewChain(terms.Domain, time.Now)
		p := claimed(t)
		chain.Fund(p.Authorization.From, 10*price)
		story(t, chain, collectorOn(chain), p)
	})
}

func TestCollectSettlesOnceWhateverSubmitDoes(t *testing.T) {
	faults := map[string][]paymenttest.Fault{
		"nothing":            nil,
		"answer lost":        {paymenttest.Lose},
		"refused twice":      {paymenttest.Refuse, paymenttest.Refuse},
		"dropped":            {paymenttest.Drop},
		"reverted":           {paymenttest.Revert},
		"preempted":          {paymenttest.Preempt},
		"dropped, then lost": {paymenttest.Drop, paymenttest.Lose},
	}
	for name, queue := range faults {
		t.Run(name, func(t *testing.T) {
			collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
				chain.Next(queue...)
				verdict := decide(t, c, p)
				if verdict.State != payment.Settled || verdict.Receipt == nil || verdict.Receipt.Amount != price {
					t.Errorf("verdict %+v, want moved with a receipt", verdict)
				}
				if got := chain.Balance(payee); got != price {
					t.Errorf("the payee has %s, want %s", got, price)
				}
			})
		})
	}
}

func TestCollectReportsVoid(t *testing.T) {
	tests := map[string]struct {
		prepare func(*paymenttest.Chain, payment.Payment)
		reason  string
	}{
		"cancelled before": {func(c *paymenttest.Chain,
			p payment.Payment) {
			c.Cancel(p.Authorization.From, p.Authorization.Nonce)
		}, payment.ReasonCancelled},
		"cancelled at the submission": {func(c *paymenttest.Chain, _ payment.Payment) { c.Next(paymenttest.Cancel) },
			payment.ReasonCancelled},
		"used for another payee": {func(c *paymenttest.Chain, p payment.Payment) {
			other := p.Authorization
			other.To = usdc
			c.Settle(other)
		}, payment.ReasonUsedElsewhere},
		"used for another value": {func(c *paymenttest.Chain, p payment.Payment) {
			other := p.Authorization
			other.Value--
			c.Settle(other)
		}, payment.ReasonUsedElsewhere},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
				tt.prepare(chain, p)
				if verdict := decide(t, c, p); verdict.State != payment.Void || verdict.Reason != tt.reason {
					t.Errorf("verdict %+v, want void, %s", verdict, tt.reason)
				}
			})
		})
	}
}

func TestCollectKeepsUnknownOutcomeUndecided(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Down(true)
		if verdict := decide(t, c, p); verdict != (payment.Verdict{}) {
			t.Errorf("silent chain: verdict %+v, want unknown", verdict)
		}
		chain.Down(false)
		chain.Next(paymenttest.Stall)
		// The stalled one is in flight; the fake takes each further submission as the same transaction.
		for range 100 {
			chain.Next(paymenttest.Drop)
		}
		if verdict := decide(t, c, p); verdict.State != payment.Unused {
			t.Errorf("stalled: verdict %+v, want unused", verdict)
		}
		chain.Release()
		if verdict := decide(t, c, p); verdict.State != payment.Settled {
			t.Errorf("released: verdict %+v, want settled", verdict)
		}
		if got := chain.Calls().Transfers; got != 1 {
			t.Errorf("%d transfers, want 1", got)
		}
	})
}

// TestCollectLooksOnce reads the chain once and does not wait, whatever the verdict is.
func TestCollectLooksOnce(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		start := time.Now()
		chain.Next(paymenttest.Stall)
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Unused {
			t.Errorf("stalled: verdict %+v, want unused", verdict)
		}
		chain.Down(true)
		if verdict := c.Collect(t.Context(), p); verdict != (payment.Verdict{}) {
			t.Errorf("silent chain: verdict %+v, want unknown", verdict)
		}
		if calls, took := chain.Calls(), time.Since(start); calls.Verdict != 2 || calls.Submit != 1 || took != 0 {
			t.Errorf("%+v in %v, want two looks and one submission at once", calls, took)
		}
	})
}

func TestCollectIsBoundedByTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := paymenttest.NewChain(terms.Domain, time.Now)
		p := claimed(t)
		c := payment.NewCollector(payment.CollectorConfig{Chain: chain, Settler: silentSettler{}, Timeout: 3 * time.Second,
			Log: slog.New(slog.DiscardHandler)})
		start := time.Now()
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Unused || time.Since(start) != 3*time.Second {
			t.Errorf("verdict %+v after %v, want unused after 3s", verdict, time.Since(start))
		}
	})
}

// silentSettler never answers.
type silentSettler struct{}

func (silentSettler) Submit(ctx context.Context, _ payment.Payment) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestLookAgainGrowsWithinWait(t *testing.T) {
	last := time.Duration(0)
	for age, want := range map[time.Duration]time.Duration{
		0: 150 * time.Millisecond, 900 * time.Millisecond: 150 * time.Millisecond, 3 * time.Second: 500 * time.Millisecond,
		30 * time.Second: 5 * time.Second, time.Hour: 12 * time.Second,
	} {
		if got := payment.PollPause(age); got != want {
			t.Errorf("at %v: %v, want %v", age, got, want)
		}
	}
	for age := time.Duration(0); age < time.Hour; age += time.Second {
		pause := payment.PollPause(age)
		if pause < last || pause >= 20*time.Second {
			t.Fatalf("at %v: %v after %v", age, pause, last)
		}
		last = pause
	}
}

func TestCollectDoesNotSubmitSettledPayment(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Settle(p.Authorization)
		if verdict := decide(t, c, p); verdict.State != payment.Settled {
			t.Errorf("verdict %+v, want settled", verdict)
		}
		if got := chain.Calls().Submit; got != 0 {
			t.Errorf("%d submissions, want 0", got)
		}
	})
}

func TestCollectTellsWhatTheSettlerMissed(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Next(paymenttest.Refuse, paymenttest.Miss)
		for i, want := range []bool{false, true} {
			verdict := c.Collect(t.Context(), p)
			if verdict.State != payment.Unused || verdict.Missed != want || verdict.Held == "" {
				t.Errorf("submission %d: verdict %+v", i, verdict)
			}
		}
	})
}

func TestCollectOfADrainedPayerEndsWithExpiry(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Next(paymenttest.Drain)
		if verdict := decide(t, c, p); verdict.State != payment.Unused {
			t.Errorf("drained: verdict %+v, want unused", verdict)
		}
		time.Sleep(2 * time.Minute) // virtual
		if verdict := decide(t, c, p); verdict.State != payment.Void || verdict.Reason != payment.ReasonExpired {
			t.Errorf("expired: verdict %+v, want void, expired", verdict)
		}
	})
}

func TestConcurrentCollectorsAgree(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if verdict := decide(t, c, p); verdict.State != payment.Settled {
					t.Errorf("verdict %+v, want settled", verdict)
				}
			})
		}
		group.Wait()
		if got := chain.Calls().Transfers; got != 1 {
			t.Errorf("%d transfers, want 1", got)
		}
	})
}
