package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// examineKeys asks every key for a signature that is of no use to anybody, and names its account. Of a key that only
// finishes what it began, it says whether something is left.
func examineKeys(ctx context.Context, cfg app.Config) (all []finding) {
	opened, err := cfg.OpenedKeys(ctx)
	if err != nil {
		all = append(all, verdictOf("keys", "", err, "set what is named; docs/configuration.md has the forms of a reference"))
	}
	left := unfinished(ctx, cfg)
	for _, o := range opened {
		account := o.Signer.Address()
		err := payment.NewAccount(o.Signer, x402.ChainID, time.Now).Ready(ctx)
		all = append(all, verdictOf(o.Role+" key", fmt.Sprintf("%s, %s, signs%s", account, o.Kind, left(o)), err,
			"see whether what has the key answers, has the key of "+account.String()+" and lets this service sign"))
	}
	return all
}

// unfinished says what is left for a key that is retired.
func unfinished(ctx context.Context, cfg app.Config) func(app.Opened) string {
	open, known := map[x402.Address]bool{}, false
	s, err := openStore(ctx, cfg)
	if err == nil {
		defer s.Close()
		relayers, err := s.Transactions().Relayers(ctx)
		known = err == nil
		for _, r := range relayers {
			open[r] = true
		}
	}
	return func(o app.Opened) string {
		switch {
		case o.Role != app.RoleRetiredRelayer || !known:
			return ""
		case open[o.Signer.Address()]:
			return "; transactions of it are open: keep it"
		}
		return "; nothing of it is open: it may be taken out of relayer.retired, unless it comes into use next"
	}
}
