package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
)

// watchEvery is how often the chain, the token and the settlers are looked at while nobody asks.
const watchEvery = 5 * time.Second

func (c Config) watchEvery() time.Duration { return cmp.Or(c.ChainWatch, watchEvery) }

// chainConfig is the chain as the configuration has it.
func (c Config) chainConfig() chain.Config {
	cfg := chain.Config{
		Domain: c.domain(), Finality: chain.Finality{Paid: c.PaidAt, Dead: c.DeadAt}, Delegates: c.Fairness.Delegates, WitnessFrom: c.WitnessFrom.USDC(),
		ReorgDepth: uint64(c.ReorgDepth), ReorgCalm: c.ReorgCalm, Now: time.Now,
	}
	for _, u := range c.RPCURLs {
		cfg.Endpoints = append(cfg.Endpoints, chain.Endpoint{URL: u})
	}
	return cfg
}

// accounts are ours, as far as the token may block them.
func (c Config) accounts() ([]chain.Account, error) {
	ours := []chain.Account{{Name: "payee", Address: c.PayTo}}
	if !c.TreasuryKey.IsZero() {
		key, err := chain.ParseKey(c.TreasuryKey.Reveal())
		if err != nil {
			return nil, fmt.Errorf("treasury.key: %w", err)
		}
		ours = append(ours, chain.Account{Name: "treasury", Address: curve.AddressOf(key)})
	}
	keys, err := c.relayerKeys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		ours = append(ours, chain.Account{Name: "relayer", Address: curve.AddressOf(key)})
	}
	return ours, nil
}

// settles reports what keeps a payment from settling, as of a moment ago.
func (a *App) settles(ctx context.Context) error {
	var errs error
	for _, w := range a.watched {
		errs = errors.Join(errs, w.ask(ctx))
	}
	return errs
}

// heldUp is what is known of the same, without asking anybody.
func (a *App) heldUp() error {
	var errs error
	for _, w := range a.watched {
		errs = errors.Join(errs, w.known())
	}
	return errs
}

// watch looks at what every payment depends on, so that it is known before anybody is asked to pay, until ctx ends.
func (a *App) watch(ctx context.Context) {
	every := time.NewTicker(a.config.watchEvery())
	defer every.Stop()
	for {
		_ = a.settles(ctx) // what fails is told to whoever asks
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}
