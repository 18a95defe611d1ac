package app

import (
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/curve"
)

// headFor is how long a block that was read counts as the latest: an eighth of the time between two blocks of Base.
const headFor = 250 * time.Millisecond

// chainConfig is the configuration of the chain.
func (c Config) chainConfig() chain.Config {
	cfg := chain.Config{
		Domain: c.domain(), Finality: chain.Finality{Paid: c.PaidAt, Dead: c.DeadAt}, Delegates: c.Fairness.Delegates,
		WitnessFrom: c.WitnessFrom.USDC(),
		ReorgDepth:  uint64(c.ReorgDepth), ReorgCalm: c.ReorgCalm, Now: time.Now,
		HeadFor: headFor,
	}
	for _, u := range c.RPCURLs {
		cfg.Endpoints = append(cfg.Endpoints, chain.Endpoint{URL: u})
	}
	return cfg
}

// relayerAccount is what the accounts that send transactions are called.
const relayerAccount = "relayer"

// Accounts are our accounts, which the token's issuer may block.
func (c Config) Accounts() ([]chain.Account, error) {
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
		ours = append(ours, chain.Account{Name: relayerAccount, Address: curve.AddressOf(key)})
	}
	return ours, nil
}
