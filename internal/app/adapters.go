package app

import (
	"context"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/facilitator"
)

// DialChain connects to the chain that the service uses. Close it.
func (c Config) DialChain(ctx context.Context) (*chain.Chain, error) {
	return chain.New(ctx, c.chainConfig())
}

// NewRelayer makes a relayer with the service's keys that can be asked whether it is ready. It has no store, so it
// settles nothing.
func (c Config) NewRelayer(ctx context.Context, on *chain.Chain) (*chain.Relayer, error) {
	keys, err := c.Keys(ctx)
	if err != nil {
		return nil, err
	}
	return c.newRelayer(on, settler.Contract{}, nil, keys, discard(), nil)
}

// NewFacilitator makes a client of the service's facilitator that can be asked what it supports.
func (c Config) NewFacilitator() (*facilitator.Facilitator, error) {
	return c.newFacilitator(discard(), nil, nil, nil)
}
