package chain

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Account is an account of ours, and what it is for.
type Account struct {
	Name    string
	Address x402.Address
}

// Usable reports whether the token can be transferred to and from the accounts: its issuer has not paused it, and
// blocks none of them. The error contains a *fault.Fault for the payer. With several nodes, no single one stops sales.
func (c *Chain) Usable(ctx context.Context, accounts []Account) error {
	paused, err := c.flagOfMost(ctx, x402.PausedCall())
	if err != nil {
		return fmt.Errorf("ask whether the token is paused: %w", err)
	}
	if paused {
		return fault.New(fault.TokenPaused, "The token's issuer has paused it.")
	}
	for _, a := range accounts {
		blocked, err := c.flagOfMost(ctx, x402.BlacklistedCall(a.Address))
		if err != nil {
			return fmt.Errorf("ask whether the token blocks the %s: %w", a.Name, err)
		}
		if blocked {
			return fmt.Errorf("the token blocks the %s %s: %w", a.Name, a.Address,
				fault.New(fault.AccountBlocked, "The token's issuer blocks an account of this service."))
		}
	}
	return nil
}

// blockedParty finds out whether the token blocks the payer's account or one of ours.
func (c *Chain) blockedParty(ctx context.Context, a x402.Authorization, head header, r *payment.Rejection) error {
	if r.Reason != payment.ReasonAccountBlocked {
		return r
	}
	payers, err := c.flag(ctx, x402.BlacklistedCall(a.From), atHash(head.Hash))
	if err != nil {
		return fmt.Errorf("ask whether the token blocks the payer: %w", err)
	}
	if payers {
		return &payment.Rejection{Reason: payment.ReasonPayerBlocked, Detail: "the token's issuer blocks the payer's account"}
	}
	return r
}

// flagOfMost reads a boolean of the token at the latest block. With several nodes, true needs two of them and a
// majority of those that answer. The first false is accepted: the simulation of each payment would show that it is
// wrong.
func (c *Chain) flagOfMost(ctx context.Context, call []byte) (bool, error) {
	yes, err := c.flag(ctx, call, "latest")
	if len(c.pool.endpoints) == 1 || err == nil && !yes {
		return yes, err
	}
	ask := func(ctx context.Context, one *Chain) (bool, error) { return one.flag(ctx, call, "latest") }
	got := map[bool]int{}
	for _, w := range consult(ctx, c, 1, ask, equal) {
		if w.err == nil {
			got[w.value]++
		}
	}
	if len(got) == 0 && err != nil {
		return false, err
	}
	return got[true] >= witnesses && got[true] > got[false], ctx.Err()
}

// flag reads a boolean of the token.
func (c *Chain) flag(ctx context.Context, call []byte, block any) (bool, error) {
	answer, err := c.ethCall(ctx, call, block)
	if err != nil {
		return false, err
	}
	if len(answer) != 32 {
		return false, fmt.Errorf("the token answered %d bytes, want a word", len(answer))
	}
	return x402.Hash(answer) != x402.Hash{}, nil
}
