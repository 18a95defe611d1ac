package chain

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// witnesses is how many nodes must say the same where there are several.
const witnesses = 2

// verdict decides by one node where there is one, or where the amount asks for no second; else by two.
func (c *Chain) verdict(ctx context.Context, a x402.Authorization, since time.Time) (payment.Verdict, error) {
	if len(c.pool.endpoints) == 1 {
		return c.authorizationStatus(ctx, a, since)
	}
	ask := func(ctx context.Context, one *Chain) (payment.Verdict, error) {
		return one.authorizationStatus(ctx, a, since)
	}
	if a.Value < c.config.WitnessFrom {
		verdict, err := c.authorizationStatus(ctx, a, since)
		if err == nil && verdict.State != payment.Void {
			return verdict, nil
		}
		return c.hear(ctx, ask)
	}
	// Most looks are at payments that nobody has included yet. Two nodes are asked: one alone would hide for long what
	// the others show.
	if c.stillFree(ctx, a) {
		return payment.Verdict{State: payment.Unused}, nil
	}
	return c.hear(ctx, ask)
}

// stillFree reports that the two nodes that are asked first show the authorization unused, and in time. It waits no
// longer than they should need.
func (c *Chain) stillFree(ctx context.Context, a x402.Authorization) bool {
	const calls = 2
	ctx, cancel := context.WithTimeout(ctx, calls*c.pool.hedgeDelay(nil))
	defer cancel()
	looks, ctx := errgroup.WithContext(ctx)
	for _, e := range c.pool.ordered()[:witnesses] {
		looks.Go(func() error {
			one := c.alone(e)
			head, err := one.header(ctx, c.config.Finality.Paid)
			if err != nil {
				return err
			}
			used, err := one.stateAt(ctx, a, head)
			if err == nil && (used || !c.inTime(a, head)) {
				err = errNotFree
			}
			return err
		})
	}
	return looks.Wait() == nil
}

var errNotFree = errors.New("the authorization is used, or too late")

// testimony is what one node says when it is asked alone.
type testimony struct {
	node    *endpoint
	verdict payment.Verdict
	err     error
}

// hear asks each node alone, all at once, until two of them prove the transfer or all have spoken. Where two show that
// the nonce is free, and none that it is dead, the slow ones are not waited for: no money is taken for lost by that.
func (c *Chain) hear(ctx context.Context, ask func(context.Context, *Chain) (payment.Verdict, error)) (payment.Verdict, error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan testimony, len(c.pool.endpoints))
	for _, e := range c.pool.endpoints {
		asking.Go(func() {
			verdict, err := ask(one, c.alone(e))
			answers <- testimony{e, verdict, err}
		})
	}
	var heard []testimony
	var enough <-chan time.Time
	for patient := true; patient && len(heard) < len(c.pool.endpoints); {
		select {
		case h := <-answers:
			heard = append(heard, h)
		case <-enough:
			patient = false
			continue
		}
		if verdict, ok := proven(heard, min(witnesses, len(c.pool.endpoints))); ok {
			c.contradict(ctx, heard, verdict)
			return verdict, nil
		}
		// A dissent that comes in time still counts.
		if v, err := weigh(heard, c.config.Now()); err == nil && v.State == payment.Unused && enough == nil {
			enough = time.After(c.pool.hedgeDelayBut(heard))
		}
	}
	if err := ctx.Err(); err != nil {
		return payment.Verdict{}, err // the others could not be asked
	}
	verdict, err := weigh(heard, c.config.Now())
	c.contradict(ctx, heard, verdict)
	return verdict, err
}

// proven is the transfer that so many nodes show, if there is one.
func proven(heard []testimony, enough int) (payment.Verdict, bool) {
	for _, h := range heard {
		same := 0
		for _, other := range heard {
			if sameTransfer(h.verdict.Receipt, other.verdict.Receipt) {
				same++
			}
		}
		if same >= enough {
			return h.verdict, true
		}
	}
	return payment.Verdict{}, false
}

// sameTransfer compares where two receipts say that the transfer stands. What it moved, each was held against
// the authorization for.
func sameTransfer(a, b *payment.Receipt) bool {
	return a != nil && b != nil && a.Transaction == b.Transaction && a.BlockHash == b.BlockHash && a.Block == b.Block && a.LogIndex == b.LogIndex
}

// weigh decides what no two nodes have proven as paid. A transfer that one node shows is neither believed nor
// forgotten: it keeps the payment from being given up. While two others show that the nonce is free, sending is safe and
// goes on. A payment is void only when all that can tell say so, for the same reason, and two at least. A node that
// does not answer, or lags, or follows another chain, is ignored, unless it shows the transfer.
func weigh(heard []testimony, now time.Time) (payment.Verdict, error) {
	var errs error
	count := map[payment.State]int{}
	var gone []string
	told := 0
	for _, h := range heard {
		if h.err != nil {
			errs = errors.Join(errs, h.err)
			continue
		}
		told++
		if h.node.circuit.isAside(now) && h.verdict.State != payment.Settled {
			continue
		}
		count[h.verdict.State]++
		if h.verdict.State == payment.Void {
			gone = append(gone, h.verdict.Reason)
		}
	}
	slices.Sort(gone)
	switch {
	case told == 0:
		return payment.Verdict{}, errs
	case len(gone) >= witnesses && len(slices.Compact(gone)) == 1 && len(count) == 1:
		return payment.Verdict{State: payment.Void, Reason: gone[0]}, nil
	case count[payment.Unused] >= witnesses && len(gone) == 0:
		return payment.Verdict{State: payment.Unused}, nil
	}
	return payment.Verdict{}, nil
}

// contradict counts the nodes that show another transfer than the one proven, or one that nobody else shows.
func (c *Chain) contradict(ctx context.Context, heard []testimony, decided payment.Verdict) {
	for _, h := range heard {
		if h.verdict.Receipt != nil && !sameTransfer(h.verdict.Receipt, decided.Receipt) {
			c.pool.metrics.NodeAnswered(ctx, h.node.name, nodeContradicted)
		}
	}
}
