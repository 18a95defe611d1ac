package payment_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

const patience = 20 * time.Second

// claimed is a stored payment, good for two minutes of the test's virtual clock.
func claimed(t *testing.T) payment.Payment {
	t.Helper()
	key, payer := testKey(t)
	a := x402.Authorization{From: payer, To: payee, Value: price, ValidBefore: uint64(time.Now().Unix()) + 120, Nonce: x402.Hash{31: 1}}
	s, err := terms.Domain.Sign(a, key)
	if err != nil {
		t.Fatal(err)
	}
	return payment.Payment{ID: uuid.New(), Status: payment.Claimed, Network: terms.Network, Asset: usdc,
		Authorization: a, Signature: s, CreatedAt: time.Now()}
}

func collectorOn(chain *paymenttest.Chain) *payment.Collector {
	return payment.NewCollector(payment.CollectorConfig{Chain: chain, Settler: chain, Poll: 500 * time.Millisecond,
		Patience: patience, Log: slog.New(slog.DiscardHandler)})
}

// collecting runs a story on a virtual clock: a funded payer, a claimed payment, a collector.
func collecting(t *testing.T, story func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		chain := paymenttest.NewChain(terms.Domain, time.Now)
		p := claimed(t)
		chain.Fund(p.Authorization.From, 10*price)
		story(t, chain, collectorOn(chain), p)
	})
}

func TestCollectMovesTheMoneyOnceWhateverHappensToTheSubmission(t *testing.T) {
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
				verdict := c.Collect(t.Context(), p)
				if verdict.State != payment.Moved || verdict.Receipt == nil || verdict.Receipt.Amount != price {
					t.Errorf("verdict %+v, want moved with a receipt", verdict)
				}
				if got := chain.Balance(payee); got != price {
					t.Errorf("the payee has %s, want %s", got, price)
				}
			})
		})
	}
}

func TestCollectReportsWhatCanNeverMove(t *testing.T) {
	tests := map[string]struct {
		prepare func(*paymenttest.Chain, payment.Payment)
		reason  string
	}{
		"cancelled before":            {func(c *paymenttest.Chain, p payment.Payment) { c.Cancel(p.Authorization.From, p.Authorization.Nonce) }, payment.ReasonCancelled},
		"cancelled at the submission": {func(c *paymenttest.Chain, _ payment.Payment) { c.Next(paymenttest.Cancel) }, payment.ReasonCancelled},
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
				if verdict := c.Collect(t.Context(), p); verdict.State != payment.Gone || verdict.Reason != tt.reason {
					t.Errorf("verdict %+v, want gone, %s", verdict, tt.reason)
				}
			})
		})
	}
}

func TestCollectNeverCallsAnUnknownOutcomeAFailure(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Down(true)
		start := time.Now()
		if verdict := c.Collect(t.Context(), p); verdict != (payment.Verdict{}) {
			t.Errorf("silent chain: verdict %+v, want unknown", verdict)
		}
		if waited := time.Since(start); waited != patience {
			t.Errorf("gave up after %v, want %v", waited, patience)
		}
		chain.Down(false)
		chain.Next(paymenttest.Stall)
		// The stalled one is in flight; the fake takes each further submission as the same transaction.
		for range 100 {
			chain.Next(paymenttest.Drop)
		}
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Unknown {
			t.Errorf("stalled: verdict %+v, want unknown", verdict)
		}
		chain.Release()
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Moved {
			t.Errorf("released: verdict %+v, want moved", verdict)
		}
		if got := chain.Calls().Transfers; got != 1 {
			t.Errorf("%d transfers, want 1", got)
		}
	})
}

func TestCollectSubmitsNothingThatHasAlreadyMoved(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Settle(p.Authorization)
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Moved {
			t.Errorf("verdict %+v, want moved", verdict)
		}
		if got := chain.Calls().Submit; got != 0 {
			t.Errorf("%d submissions, want 0", got)
		}
	})
}

func TestCollectOfADrainedPayerEndsWithExpiry(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Next(paymenttest.Drain)
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Unknown {
			t.Errorf("drained: verdict %+v, want unknown", verdict)
		}
		time.Sleep(2 * time.Minute) // virtual
		if verdict := c.Collect(t.Context(), p); verdict.State != payment.Gone || verdict.Reason != payment.ReasonExpired {
			t.Errorf("expired: verdict %+v, want gone, expired", verdict)
		}
	})
}

func TestCollectEndsWithItsContext(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		chain.Down(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if verdict := c.Collect(ctx, p); verdict.State != payment.Unknown || time.Since(start) != time.Second {
			t.Errorf("verdict %+v after %v, want unknown after 1s", verdict, time.Since(start))
		}
	})
}

func TestManyCollectorsOfOnePaymentAgree(t *testing.T) {
	collecting(t, func(t *testing.T, chain *paymenttest.Chain, c *payment.Collector, p payment.Payment) {
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if verdict := c.Collect(t.Context(), p); verdict.State != payment.Moved {
					t.Errorf("verdict %+v, want moved", verdict)
				}
			})
		}
		group.Wait()
		if got := chain.Calls().Transfers; got != 1 {
			t.Errorf("%d transfers, want 1", got)
		}
	})
}
