package availability

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// History says whether our record of what was paid is whole.
type History interface {
	// Ready is nil once the transfers to the payee have been read up to the chain's head, as far as is known. A
	// *fault.Fault in its error, and in that of Read, says whose fault it is that they cannot be read.
	Ready(ctx context.Context) error
	// Read reads what a payer has sent since then, as long as there may be anything that our record has lost.
	Read(ctx context.Context, payer x402.Address) error
	// Lost says that a claim has found another history than the one that was read.
	Lost()
}

// PaymentsConfig is what Payments is made of.
type PaymentsConfig struct {
	// Database fails while nothing can be stored.
	Database func(ctx context.Context) error
	// History may be nil; then the record counts as whole.
	History History
	// Chain, Token and Settler fail while a payment cannot be looked at, moved, or settled; see SettleLater for
	// whose fault that is. A nil one is not asked.
	Chain, Token, Settler func(ctx context.Context) error
	// Treasury fails while refunds cannot be signed: what is not delivered could not be given back. Nil is not asked.
	Treasury func(ctx context.Context) error
	// Screening fails while payers cannot be screened; nil screens none.
	Screening func(ctx context.Context) error
	// SmartAccounts fails while smart accounts cannot pay, which closes nothing for others; it is asked for each of
	// SmartAccountKinds.
	SmartAccounts     func(ctx context.Context) error
	SmartAccountKinds []string
	// SettlerName is what the ready routes call the settler.
	SettlerName string
	// WatchEvery is how often the three are asked while no payment does. A token that can be moved is not asked more
	// often; a failure is as short-lived as the others'. Zero is DefaultWatch.
	WatchEvery time.Duration
	Now        func() time.Time
}

// Payments says whether a payment can be taken now, whatever it buys. A nil one always takes them.
type Payments struct {
	config PaymentsConfig
	// chain, token, settler and screening cache what the checks of these names say.
	chain, token, settler, treasury, screening, smartAccounts *Memo[struct{}]
}

const (
	// DefaultWatch is PaymentsConfig.WatchEvery where nothing else is said.
	DefaultWatch = 5 * time.Second
	// settleTTL is how old an answer may be that a claim goes by, and settleTimeout bounds a question.
	settleTTL     = time.Second
	settleTimeout = 3 * time.Second
	// failureTTL is how long a failure that nobody has looked at again turns unpaid requests away. It is more than the
	// time between two looks of Watch.
	failureTTL = 15 * time.Second
)

// NewPayments makes Payments.
func NewPayments(c PaymentsConfig) *Payments {
	c.WatchEvery = cmp.Or(c.WatchEvery, DefaultWatch)
	memo := func(ask func(context.Context) error, ttl time.Duration) *Memo[struct{}] {
		read := func(ctx context.Context) (none struct{}, err error) {
			if ask != nil {
				err = ask(ctx)
			}
			return none, err
		}
		return NewMemo(MemoConfig[struct{}]{Read: read, TTL: ttl, ErrorTTL: settleTTL, Timeout: settleTimeout, Now: c.Now})
	}
	return &Payments{
		config: c, chain: memo(c.Chain, settleTTL), token: memo(c.Token, c.WatchEvery), settler: memo(c.Settler, settleTTL),
		treasury: memo(c.Treasury, settleTTL), screening: memo(c.Screening, settleTTL),
		smartAccounts: memo(c.SmartAccounts, c.WatchEvery),
	}
}

// Watch keeps what Invite goes by up to date, until ctx ends.
func (p *Payments) Watch(ctx context.Context) {
	every := time.NewTicker(p.config.WatchEvery)
	defer every.Stop()
	for {
		_ = p.settle(ctx) // what fails is told to whoever asks
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// Invite fails with a fault while a payment would be refused, as far as is known. It is asked before a challenge, and
// asks nobody itself: an unpaid request causes no call to chain, token or settler.
func (p *Payments) Invite(ctx context.Context) error {
	if p == nil {
		return nil
	}
	err := p.Recorded(ctx)
	var down error
	for _, m := range p.settling() {
		_, _, failed := m.Cached(failureTTL)
		down = errors.Join(down, failed)
	}
	if down != nil {
		err = errors.Join(err, fmt.Errorf("know whether payments settle: %w", errors.Join(payLater(down), down)))
	}
	return err
}

// Recorded fails with a fault while a payer could be asked for a payment that was made already.
func (p *Payments) Recorded(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.transfers(ctx); err != nil {
		detail := unread(err) + " Pay nothing yet; repeat the request in a moment."
		told := fault.New(fault.DependencyDown, detail).After(2 * time.Second)
		return fmt.Errorf("see whether the record of payments is whole: %w", errors.Join(told, err))
	}
	return nil
}

// transfers fails while the transfers to the payee have not been read.
func (p *Payments) transfers(ctx context.Context) error {
	if p.config.History == nil {
		return nil
	}
	return p.config.History.Ready(ctx)
}

// RecordedOf fails with a fault while the payer of a payment that is about to be claimed may have paid already, in a
// history that was lost.
func (p *Payments) RecordedOf(ctx context.Context, payer x402.Address) error {
	if p == nil || p.config.History == nil {
		return nil
	}
	told := catchingUp
	err := p.config.History.Ready(ctx)
	if err == nil {
		err = p.config.History.Read(ctx, payer)
		if _, known := fault.As(err); known {
			told = SettleLater
		}
	}
	if err != nil {
		return fmt.Errorf("see whether the record of payments is whole: %w", errors.Join(told(err), err))
	}
	return nil
}

// Lost is the answer to a claim that found another history, which err says.
func (p *Payments) Lost(err error) error {
	if p != nil && p.config.History != nil {
		p.config.History.Lost()
	}
	return errors.Join(catchingUp(err), err)
}

func catchingUp(err error) *fault.Fault {
	detail := unread(err) + " Nothing was claimed; repeat the same request with the same payment."
	return fault.New(fault.SettlementUnknown, detail).After(2 * time.Second)
}

// unread says why the record of payments is not whole yet.
func unread(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Detail
	}
	return "The service reads what has been paid."
}

// Settle fails with a fault while a payment that is about to be claimed would have to wait for what is down, as of a
// moment ago.
func (p *Payments) Settle(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.settle(ctx); err != nil {
		return fmt.Errorf("see whether payments settle: %w", errors.Join(SettleLater(err), err))
	}
	return nil
}

func (p *Payments) settle(ctx context.Context) error {
	settling := p.settling()
	errs := make([]error, len(settling))
	var asked sync.WaitGroup // at once: they share a caller's deadline
	for i, m := range settling {
		asked.Go(func() { _, errs[i] = m.Get(ctx) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// settling are what every payment that is to be settled depends on.
func (p *Payments) settling() []*Memo[struct{}] {
	return []*Memo[struct{}]{p.chain, p.token, p.settler, p.treasury, p.screening}
}

// checks are what a ready route shows of payments.
func (p *Payments) checks() []Check {
	if p == nil {
		return nil
	}
	all := []Check{
		{"database", p.config.Database},
		{"chain", cached(p.chain)},
		{"transfers", p.transfers},
		{"token", cached(p.token)},
		{p.config.SettlerName, cached(p.settler)},
	}
	if p.config.Treasury != nil {
		all = append(all, Check{"treasury", cached(p.treasury)})
	}
	if p.config.Screening != nil {
		all = append(all, Check{"screening", cached(p.screening)})
	}
	return all
}

// passing are the checks that close nothing.
func (p *Payments) passing() (all []Check) {
	if p == nil {
		return nil
	}
	for _, kind := range p.config.SmartAccountKinds {
		all = append(all, Check{kind, cached(p.smartAccounts)})
	}
	return all
}

func cached(m *Memo[struct{}]) func(context.Context) error {
	return func(ctx context.Context) error { _, err := m.Get(ctx); return err }
}

// SettleLater is the answer to a payment that cannot be settled now. The error knows whose fault it is, or nobody does.
// Nothing was claimed or sent, so the same signature will do later.
func SettleLater(err error) *fault.Fault {
	return toldOf(err, " Nothing was claimed; repeat the same request with the same payment.", fault.RetrySameRequest)
}

// payLater is the answer instead of the terms of a payment that would be refused.
func payLater(err error) *fault.Fault {
	return toldOf(err, " Pay nothing yet; repeat the request later.", fault.WaitAndRetry)
}

func toldOf(err error, advice string, next fault.NextAction) *fault.Fault {
	told := *fault.New(fault.DependencyDown, "Payments cannot be settled now.")
	if f, ok := fault.As(err); ok {
		told = *f
	}
	told.Detail += advice
	return told.Then(next)
}
