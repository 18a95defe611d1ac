package app

import (
	"context"
	"log/slog"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/facilitator"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// DialChain connects to the chain that the service uses. Close it.
func (c Config) DialChain(ctx context.Context) (*chain.Chain, error) {
	return chain.New(ctx, c.chainConfig())
}

// NewRelayer makes a relayer with the service's keys that can be asked whether it is ready. It has no store, so it
// settles nothing.
func (c Config) NewRelayer(on *chain.Chain) (*chain.Relayer, error) {
	keys, err := c.relayerKeys()
	if err != nil {
		return nil, err
	}
	return c.newRelayer(on, nil, keys, slog.New(slog.DiscardHandler), nil)
}

// NewFacilitator makes a client of the service's facilitator that can be asked what it supports.
func (c Config) NewFacilitator() (*facilitator.Facilitator, error) {
	return c.newFacilitator(slog.New(slog.DiscardHandler), nil)
}

// dialIssuer makes a client of the card issuer. Nothing is asked yet.
func (c Config) dialIssuer(metrics *telemetry.Metrics) (*sandbox.Issuer, error) {
	return sandbox.Dial(sandbox.ClientConfig{
		URL: c.IssuerURL, APIKey: c.IssuerKey, Timeout: c.IssuerCallTimeout, VisibilityDelay: c.IssuerVisibilityDelay,
		SpendLimits: c.IssuerLimits, Metrics: metrics,
	})
}
