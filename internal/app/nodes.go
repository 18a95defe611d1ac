package app

import (
	"context"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/x402"
)

// headFor is how long a block that was read counts as the latest: an eighth of the time between two blocks of Base.
const headFor = 250 * time.Millisecond

// chainConfig is the configuration of the chain.
func (c Config) chainConfig() chain.Config {
	cfg := chain.Config{
		Domain: c.domain(), Finality: chain.Finality{Paid: c.PaidAt, Dead: c.DeadAt}, Delegates: c.Fairness.Delegates,
		SmartAccounts: c.Fairness.SmartAccounts,
		WitnessFrom:   c.WitnessFrom.USDC(),
		ReorgDepth:    uint64(c.ReorgDepth), ReorgCalm: c.ReorgCalm, Now: c.now,
		HeadFor: headFor, Rule: c.rule(), Through: c.Outside.HTTP,
	}
	for _, u := range c.RPCURLs {
		cfg.Endpoints = append(cfg.Endpoints, chain.Endpoint{URL: u, PerSecond: c.NodePerSecond})
	}
	return cfg
}

// relayerAccount is what the accounts that send transactions are called.
const relayerAccount = roleRelayer

// Accounts are our accounts, which the token's issuer may block. Those that only finish what they began are not among
// them: nothing is sold for them.
func (c Config) Accounts(ctx context.Context) ([]chain.Account, error) {
	keys, err := c.Keys(ctx)
	return keys.accounts(c.PayTo), err
}

func (k Keys) accounts(payTo x402.Address) []chain.Account {
	ours := []chain.Account{{Name: "payee", Address: payTo}}
	if k.Treasury != nil {
		ours = append(ours, chain.Account{Name: roleTreasury, Address: k.Treasury.Address()})
	}
	for _, key := range k.Relayers {
		ours = append(ours, chain.Account{Name: relayerAccount, Address: key.Address()})
	}
	return ours
}
