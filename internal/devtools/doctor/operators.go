package doctor

import (
	"context"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/order"
)

// examineOperators sees whether operators can sign in with their issuer, and whether two can decide where two have to.
func examineOperators(ctx context.Context, cfg app.Config) []finding {
	const name = "operators' issuer"
	issuer := finding{Name: name, Status: statusSkip, Detail: "oidc.issuer is not set: operators have tokens of ours"}
	if at := cfg.Issuer.Issuer; at != "" {
		issuer = verdictOf(name, at+" answers, with keys", cfg.AskIssuer(ctx),
			"set oidc.issuer to the name that its /.well-known/openid-configuration has, and see whether this machine "+
				"reaches it")
	}
	return []finding{issuer, examineSecondApprover(ctx, cfg)}
}

// examineSecondApprover looks for two operators of whom one may approve what the other asks for.
func examineSecondApprover(ctx context.Context, cfg app.Config) finding {
	const name = "second approver"
	if cfg.SecondOperator.Above == 0 {
		return finding{
			Name: name, Status: statusSkip,
			Detail: "operators.second_approver_above is not set: one operator decides about any amount",
		}
	}
	all, byIssuer := cfg.Treasurers()
	switch {
	case byIssuer:
		return verdictOf(name, "whom the issuer gives the role of a treasurer", nil, "")
	case approval.Possible(all):
		return verdictOf(name, "two treasurers are named in operators", nil, "")
	}
	minted, err := mintedTreasurers(ctx, cfg)
	if err != nil {
		return finding{Name: name, Status: statusSkip, Detail: "the minted tokens cannot be read"}
	}
	if !approval.Possible(append(all, minted...)) {
		return finding{
			Name: name, Status: statusFail,
			Detail: "nobody can approve what another one asks for: one admin has minted all tokens of treasurers",
			Fix: "name a second treasurer or admin in operators, whose token another person made, or let operators sign in " +
				"by oidc.issuer",
		}
	}
	return verdictOf(name, "treasurers have tokens that nobody has minted for both", nil, "")
}

// mintedTreasurers are those whose tokens were minted and can be used.
func mintedTreasurers(ctx context.Context, cfg app.Config) (all []order.OperatorContext, err error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	tokens, err := s.OperatorTokens().Active(ctx)
	for _, t := range tokens {
		if t.Role.Covers(auth.RoleTreasurer) {
			all = append(all, order.OperatorContext{Operator: t.Name, Minters: t.Minters})
		}
	}
	return all, err
}
