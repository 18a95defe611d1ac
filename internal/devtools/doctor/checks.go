package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/chain"
)

const (
	// Authorizations are backdated by minutes and last for minutes: a smaller skew does no harm.
	clockAhead, clockBehind = 30 * time.Second, 2 * time.Minute
)

// examineClock compares this machine's clock with the chain's, which decides when authorizations are valid.
func examineClock(ctx context.Context, on *chain.Chain) finding {
	at, err := on.Clock(ctx)
	skew := time.Since(at).Round(time.Second)
	if err == nil && (skew < -clockAhead || skew > clockBehind) {
		err = fmt.Errorf("the latest block is %s old", skew)
	}
	return verdictOf("clock", fmt.Sprintf("%s after the latest block", skew), err,
		"set this machine's clock by NTP, or see whether the node is behind")
}

// examineNodes says how many nodes must show a payment.
func examineNodes(ctx context.Context, cfg app.Config, on *chain.Chain) finding {
	said := "two of " + strconv.Itoa(len(cfg.RPCURLs)) + " must show a payment"
	switch {
	case len(cfg.RPCURLs) == 1:
		said = "one, which is trusted: a lying node can have goods delivered for nothing; name three"
	case cfg.WitnessFrom > 0:
		said += " from " + cfg.WitnessFrom.String() + " USD up"
	}
	return verdictOf("nodes", said, on.Ready(ctx, app.MaxHeadAge), "check each URL of chain.rpc_url")
}

// examineToken checks that the token's issuer lets it move to our accounts.
func examineToken(ctx context.Context, cfg app.Config, on *chain.Chain) finding {
	ours, err := cfg.Accounts(ctx)
	if err == nil {
		err = on.Usable(ctx, ours)
	}
	return verdictOf("token", "not paused, and blocks none of our accounts", err, "ask the token's issuer")
}

// examinePayee shows the payee, and refuses an address that cannot be one.
func examinePayee(ctx context.Context, cfg app.Config, on *chain.Chain) finding {
	holds, err := on.Balance(ctx, cfg.PayTo)
	if err == nil && cfg.PayTo == cfg.Asset {
		err = errors.New("payment.pay_to is the token itself")
	}
	return verdictOf("payee", fmt.Sprintf("%s holds %s USDC", cfg.PayTo, holds.Dollars()), err,
		"set payment.pay_to to an address of yours")
}
