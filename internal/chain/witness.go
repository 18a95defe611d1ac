package chain

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// witnesses is how many nodes must agree where there are several.
const witnesses = 2

// verdict decides by one node where there is only one, or where the amount is below WitnessFrom; else by two.
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
		return c.collectVerdicts(ctx, ask)
	}
	// Most payments are not included yet when they are looked at. Two nodes are asked, because one alone could hide the
	// transfer that the others show.
	if c.stillFree(ctx, a) {
		return payment.Verdict{State: payment.Unused}, nil
	}
	return c.collectVerdicts(ctx, ask)
}

// stillFree reports that two nodes show the authorization unused, and in time. The two that are asked first should do;
// when one of them fails or takes long, the next one is asked, too. One that shows it used ends that.
func (c *Chain) stillFree(ctx context.Context, a x402.Authorization) bool {
	const calls = 2
	delay := c.pool.hedgeDelay(nil)
	ctx, cancel := fault.Within(ctx, calls*delay)
	var looks sync.WaitGroup
	defer looks.Wait()
	defer cancel()
	order := c.pool.ordered()
	answers := make(chan reply, len(order))
	next, free := 0, 0
	out := map[*endpoint]bool{}
	begin := func() {
		if next == len(order) {
			return
		}
		e := order[next]
		next, out[e] = next+1, true
		looks.Go(func() { answers <- reply{e, c.alone(e).checkFree(ctx, a)} })
	}
	for range witnesses {
		begin()
	}
	late := time.NewTimer(delay)
	defer late.Stop()
	for len(out) > 0 {
		select {
		case <-late.C:
			for e := range out {
				e.pace.waited(delay)
			}
			for range len(out) {
				begin()
			}
		case look := <-answers:
			delete(out, look.from)
			switch {
			case errors.Is(look.err, errNotFree):
				return false
			case look.err != nil:
				begin()
			default:
				free++
			}
		}
		if free == witnesses {
			return true
		}
	}
	return false
}

// checkFree is errNotFree when the chain shows an authorization used, or too late.
func (c *Chain) checkFree(ctx context.Context, a x402.Authorization) error {
	head, err := c.head(ctx, c.config.Finality.Paid)
	if err != nil {
		return err
	}
	if verdict, known := c.follower().status(ctx, c, a, head); known {
		if verdict.State == payment.Unused && c.inTime(a, head) {
			return nil
		}
		return errNotFree
	}
	used, err := c.stateAt(ctx, a, head)
	if err == nil && (used || !c.inTime(a, head)) {
		return errNotFree
	}
	if err == nil {
		c.follower().watch(ctx, c, a, head)
	}
	return err
}

var errNotFree = errors.New("the authorization is used, or too late")

// askAgain is how long nodes that differ are given before they are asked again, while another has not answered. It
// doubles each time.
const askAgain = 100 * time.Millisecond

// nodeVerdict is the verdict of one node that is asked alone.
type nodeVerdict struct {
	node    *endpoint
	verdict payment.Verdict
	err     error
}

// collectVerdicts asks each node alone, all at once, until two of them prove the transfer or all have answered. When
// two show the authorization unused, and none shows it void, slow nodes are not waited for: that gives no payment up.
// When two nodes decide nothing, they are asked again until the others have answered.
func (c *Chain) collectVerdicts(
	ctx context.Context, ask func(context.Context, *Chain) (payment.Verdict, error),
) (payment.Verdict, error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan nodeVerdict)
	begin := func(e *endpoint) {
		asking.Go(func() {
			verdict, err := ask(one, c.alone(e))
			select {
			case answers <- nodeVerdict{e, verdict, err}:
			case <-one.Done():
			}
		})
	}
	for _, e := range c.pool.endpoints {
		begin(e)
	}
	var verdicts []nodeVerdict
	var enough, again <-chan time.Time
	pause := askAgain
	for asked := len(c.pool.endpoints); asked > 0 && ctx.Err() == nil; {
		select {
		case h := <-answers:
			asked--
			at := slices.IndexFunc(verdicts, func(old nodeVerdict) bool { return old.node == h.node })
			switch {
			case at < 0:
				verdicts = append(verdicts, h)
			case h.err == nil:
				verdicts[at] = h
			}
		case <-again:
			again = nil
			for _, h := range verdicts {
				if h.err == nil {
					begin(h.node)
					asked++
				}
			}
			continue
		case <-enough:
			asked = 0
			continue
		case <-ctx.Done():
			continue
		}
		if verdict, ok := proven(verdicts, min(witnesses, len(c.pool.endpoints))); ok {
			c.contradict(ctx, verdicts, verdict)
			return verdict, nil
		}
		v, err := tally(verdicts, c.config.Now())
		missing := len(c.pool.endpoints) - len(verdicts)
		switch {
		case err == nil && v.State == payment.Unused && enough == nil:
			// An answer that differs still counts if it comes in time.
			enough = time.After(c.pool.hedgeDelayBut(verdicts))
		case err == nil && v.State == payment.Unknown && len(verdicts) >= witnesses && asked == missing && again == nil:
			// Most often they differ by a block, and agree before the missing node answers.
			again = time.After(pause)
			pause *= 2
		}
	}
	if err := ctx.Err(); err != nil {
		return payment.Verdict{}, err // the others could not be asked
	}
	verdict, err := tally(verdicts, c.config.Now())
	c.contradict(ctx, verdicts, verdict)
	return verdict, err
}

// proven is the transfer that enough nodes show, if there is one.
func proven(verdicts []nodeVerdict, enough int) (payment.Verdict, bool) {
	for _, h := range verdicts {
		same := 0
		for _, other := range verdicts {
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

// sameTransfer compares the places of two transfers in the chain. That each moved what its authorization says was
// checked before.
func sameTransfer(a, b *payment.Receipt) bool {
	return a != nil && b != nil && a.Transaction == b.Transaction && a.BlockHash == b.BlockHash &&
		a.Block == b.Block && a.LogIndex == b.LogIndex
}

// tally decides when no two nodes prove the transfer. A transfer that only one node shows does not settle the payment,
// but keeps it from becoming void. When two nodes show the nonce free, the payment is unused, and sending is safe. A
// payment is void only when at least two nodes, and all that decide, say so for the same reason. A node that does not
// answer, lags, or follows another chain is ignored, unless it shows the transfer.
func tally(verdicts []nodeVerdict, now time.Time) (payment.Verdict, error) {
	var errs error
	count := map[payment.State]int{}
	var voids []string
	answered := 0
	for _, h := range verdicts {
		if h.err != nil {
			errs = errors.Join(errs, h.err)
			continue
		}
		answered++
		if h.node.circuit.isDemoted(now) && h.verdict.State != payment.Settled {
			continue
		}
		count[h.verdict.State]++
		if h.verdict.State == payment.Void {
			voids = append(voids, h.verdict.Reason)
		}
	}
	slices.Sort(voids)
	switch {
	case answered == 0:
		return payment.Verdict{}, errs
	case len(voids) >= witnesses && len(slices.Compact(voids)) == 1 && len(count) == 1:
		return payment.Verdict{State: payment.Void, Reason: voids[0]}, nil
	case count[payment.Unused] >= witnesses && len(voids) == 0:
		return payment.Verdict{State: payment.Unused}, nil
	}
	return payment.Verdict{}, nil
}

// contradict counts the nodes that show another transfer than the one proven. While none is proven, it counts those
// that show one which another node should show, too.
func (c *Chain) contradict(ctx context.Context, verdicts []nodeVerdict, decided payment.Verdict) {
	for _, h := range verdicts {
		r := h.verdict.Receipt
		if r == nil || sameTransfer(r, decided.Receipt) {
			continue
		}
		if decided.Receipt != nil || slices.ContainsFunc(verdicts, func(o nodeVerdict) bool { return o.denies(r) }) {
			c.pool.metrics.NodeAnswered(ctx, h.node.name, nodeContradicted)
		}
	}
}

// denies reports whether a node does not show a transfer although its latest block is as high as the transfer's, or
// later. What a node does not know yet it does not deny: a stuck one would have the others look wrong.
func (h nodeVerdict) denies(r *payment.Receipt) bool {
	if h.err != nil || sameTransfer(h.verdict.Receipt, r) {
		return false
	}
	latest := h.node.shown.Load()
	return latest == nil || latest.head.Number >= r.Block || latest.head.time().After(r.SettledAt)
}
