// Package availability answers one question: can this product be sold now?
//
// Each kind of order has one Product. Whoever names a price, takes a payment or reports on the service asks it, and
// gets as much of the answer as it needs:
//
//	asked by                       with         kill switch   product's needs   payments recorded   payments settle
//	/api/config, discovery         Paused       yes
//	any price that is named        Open         yes           one by one
//	a challenge, after the price   Invite                                       yes                 cached, asks nobody
//	an order to be paid later      Recorded                                     yes
//	a claim, before the price      RecordedOf                                   and the payer's
//	a claim, after verification    Settle                                                           yes
//	/ready, /api/esim/ready        Ready        if listed     all at once       yes                 yes
//	/ready, of several products    Serving      if listed     of any of them    yes                 yes
//	/api/status, /status           a Board      yes           all at once       yes                 yes
//
// No answer here is the last word, because most are cached for a moment: the claim itself reads the kill switch, and
// adds up what is reserved of a stock, in its own transaction.
package availability

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// Check is one thing that a sale depends on.
type Check struct {
	Name string
	// Run fails while it is missing, with a fault where a buyer may be told.
	Run func(ctx context.Context) error
}

// Result is how a check ended.
type Result struct {
	Name string
	Err  error
	// Passing says that a failure is shown and closes nothing: what is short may be there again in a moment, and a process
	// that is not ready gets no requests at all.
	Passing bool
}

// closes reports whether nothing can be sold because of it.
func (r Result) closes() bool { return r.Err != nil && !r.Passing }

// Product says whether one product can be sold now.
type Product struct {
	Kind order.Kind
	// Title names it for people; empty is Kind.
	Title string
	// Refusal and Detail are what a buyer is told while the sale is closed.
	Refusal fault.Code
	Detail  string
	// Closed says that the configuration closes the sale; no operator opens it.
	Closed bool
	// Switches are the operators'; nil when they cannot close a sale.
	Switches *Switches
	// Providers are the names of those that sell it. While operators have closed all of them, it is not sold. None says
	// that no provider decides about it.
	Providers []string
	// Payments is the same for all products.
	*Payments
	// Needs have to be there before a price is named: a buyer is told the first that is not.
	Needs []Check
	// Operated are shown by Ready before all others: what operators do about.
	Operated []Check
	// Shown are the product's own that Ready shows.
	Shown []Check
	// Least fail while even the smallest purchase would be refused, with the fault that it is refused with. An offer
	// checks its own amount.
	Least []Check
}

// Paused reports whether the sale is closed, by the configuration or by operators.
func (p Product) Paused(ctx context.Context) (bool, error) {
	if p.Closed {
		return true, nil
	}
	paused, err := p.Switches.Paused(ctx, p.Kind)
	if err != nil || paused || len(p.Providers) == 0 {
		return paused, err
	}
	for _, name := range p.Providers {
		if paused, err := p.Switches.Paused(ctx, OfProvider(name)); err != nil || !paused {
			return false, err
		}
	}
	return true, nil
}

// Fault is what a buyer is told while the sale is closed.
func (p Product) Fault() *fault.Fault { return fault.New(p.Refusal, p.Detail) }

// OnSale fails with a fault while the sale is closed.
func (p Product) OnSale(ctx context.Context) error {
	paused, err := p.Paused(ctx)
	if err == nil && paused {
		return p.Fault()
	}
	return err
}

// Open fails with a fault while no price can be named: the sale is closed, or one of the needs is missing.
func (p Product) Open(ctx context.Context) error {
	if err := p.OnSale(ctx); err != nil {
		return err
	}
	for _, need := range p.Needs {
		if err := need.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ready runs all that a ready route shows. Those of Least, and what only some payers need, are Passing.
func (p Product) Ready(ctx context.Context) []Result {
	closing := slices.Concat(p.Operated, p.checks(), p.Shown)
	results := run(ctx, slices.Concat(closing, p.Least, p.passing()))
	for i := len(closing); i < len(results); i++ {
		results[i].Passing = true
	}
	return results
}

// Serving is Ready for a service that sells others, too: while one of those can be sold, what is missing for this
// product alone is Passing. A process that is not ready gets no requests, and who has paid for anything could not ask
// for it. The others are asked for nothing else: what they see while a process starts is cached.
func (p Product) Serving(ctx context.Context, others ...Product) []Result {
	results := p.Ready(ctx)
	shared := results[len(p.Operated):][:len(p.checks())]
	if slices.ContainsFunc(shared, Result.closes) || !slices.ContainsFunc(results, Result.closes) ||
		!slices.ContainsFunc(others, func(o Product) bool {
			paused, err := o.Paused(ctx)
			return err == nil && !paused && !slices.ContainsFunc(o.Ready(ctx), Result.closes)
		}) {
		return results
	}
	for i := range results {
		results[i].Passing = true
	}
	return results
}

// Started is Ready without what operators do about: a start does not wait for it.
func (p Product) Started(ctx context.Context) []Result {
	return run(ctx, slices.Concat(p.checks(), p.Shown))
}

// AnyOf asks all at once, and is nil as soon as one of them is. Otherwise the error has all theirs.
func AnyOf(ctx context.Context, checks []Check) error {
	at, errs := FirstOf(ctx, len(checks), 0, func(ctx context.Context, i int) error { return checks[i].Run(ctx) })
	if at >= 0 {
		return nil
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", checks[i].Name, err)
	}
	return errors.Join(errs...)
}

// FirstOf asks n in order of preference, the next one when the one before it fails or has not answered after a hedge
// delay, and returns the first that works: one that is slow does not use up the deadline of all. Where none works, at
// is -1, and errs has the error of each.
func FirstOf(
	ctx context.Context, n int, hedgeDelay time.Duration, ask func(ctx context.Context, i int) error,
) (at int, errs []error) {
	if n == 1 { // nobody could be asked instead
		if err := ask(ctx, 0); err != nil {
			return -1, []error{err}
		}
		return 0, []error{nil}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		from int
		err  error
	}
	answers := make(chan answer, n)
	errs = make([]error, n)
	asked := 0
	askNext := func() {
		if from := asked; from < n {
			asked++
			go func() { answers <- answer{from, ask(ctx, from)} }()
		}
	}
	late := time.NewTimer(hedgeDelay)
	defer late.Stop()
	askNext()
	for answered := 0; answered < n; {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.from, errs
			}
			errs[a.from] = a.err
			answered++
		case <-late.C:
		}
		askNext()
		if asked < n {
			late.Reset(hedgeDelay)
		}
	}
	return -1, errs
}

// readyTimeout bounds all the checks of a ready route.
const readyTimeout = 3 * time.Second

// run runs checks at once.
func run(ctx context.Context, checks []Check) []Result {
	ctx, cancel := fault.Within(ctx, readyTimeout)
	defer cancel()
	results := make([]Result, len(checks))
	var running sync.WaitGroup
	for i, c := range checks {
		running.Go(func() { results[i] = Result{Name: c.Name, Err: c.Run(ctx)} })
	}
	running.Wait()
	return results
}
