package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/oidc"
	"github.com/roamcard/roamcard/internal/order"
)

// operatorSettings are the settings of who operates the service, and how.
func operatorSettings() []setting {
	return []setting{
		{key: "operators.second_approver_above", help: "the amount in US cents above which a refund, a delivery by hand, " +
			"the resolution of a transfer or the closing of a card waits for a second operator; 0 is never", byDefault: "0",
			set: cents(func(c *Config) *money.Cents { return &c.SecondOperator.Above })},
		{key: "operators.approve_within", help: "how long such a decision waits, at least 1m",
			byDefault: approval.DefaultWithin.String(),
			set:       atLeast(time.Minute, func(c *Config) *time.Duration { return &c.SecondOperator.Within })},
		{key: "admin.addr", help: "host and port to serve the operators' routes on, and nowhere else; empty serves them " +
			"with all others", byDefault: none, set: text(func(c *Config) *string { return &c.AdminAddr })},
		{key: "oidc.issuer", help: "the issuer of OpenID Connect that operators may sign in with, as its tokens name it",
			byDefault: none, set: func(c *Config, s string) error {
				c.Issuer.Issuer = s
				_, err := apiURL(s)
				return err
			}},
		{key: "oidc.audience", help: "what the issuer's tokens are for: the client's id", byDefault: none,
			set: text(func(c *Config) *string { return &c.Issuer.Audience })},
		{key: "oidc.name_claim", help: "the claim that names an operator in the audit trail; email counts only when it is " +
			"verified", byDefault: oidc.DefaultNameClaim, set: text(func(c *Config) *string { return &c.Issuer.NameClaim })},
		{key: "oidc.role_claim", help: "the claim whose values have roles, with dots into inner objects",
			byDefault: oidc.DefaultRoleClaim, set: text(func(c *Config) *string { return &c.Issuer.RoleClaim })},
		{key: "oidc.roles", help: "which values have which role, such as ops=support,finance=treasurer", byDefault: none,
			set: func(c *Config, s string) (err error) { c.Issuer.Roles, err = issuerRoles(s); return err }},
	}
}

// issuerRoles reads which values of a claim have which role.
func issuerRoles(s string) (map[string]auth.Role, error) {
	all := map[string]auth.Role{}
	for part := range strings.SplitSeq(s, ",") {
		cut := strings.LastIndex(part, "=")
		if cut < 1 {
			return nil, errors.New("must be value=role pairs")
		}
		value, role := strings.TrimSpace(part[:cut]), auth.Role(strings.TrimSpace(part[cut+1:]))
		if !role.Known() {
			return nil, errors.New("a role is viewer, support, treasurer or admin")
		}
		all[value] = role
	}
	return all, nil
}

// operatorMistakes are the mistakes in how operators sign in.
func (c Config) operatorMistakes() (wrong []error) {
	for _, err := range auth.CheckOperators(c.Operators) {
		wrong = append(wrong, fmt.Errorf("operators: %w", err))
	}
	if c.Issuer.Issuer == "" {
		if c.Issuer.Audience != "" || len(c.Issuer.Roles) > 0 ||
			cmp.Or(c.Issuer.NameClaim, oidc.DefaultNameClaim) != oidc.DefaultNameClaim ||
			cmp.Or(c.Issuer.RoleClaim, oidc.DefaultRoleClaim) != oidc.DefaultRoleClaim {
			wrong = append(wrong, errors.New("oidc.issuer: must be set with the other settings of oidc, or nobody signs in"))
		}
		return wrong
	}
	if c.Issuer.Audience == "" {
		wrong = append(wrong, errors.New("oidc.audience: must be set with oidc.issuer, or tokens for other services count"))
	}
	if len(c.Issuer.Roles) == 0 {
		wrong = append(wrong, errors.New("oidc.roles: must be set with oidc.issuer, or nobody has a role"))
	}
	return wrong
}

// AskIssuer asks the issuer of the operators for its description and keys.
func (c Config) AskIssuer(ctx context.Context) error { return c.openIssuer(nil).Check(ctx) }

func (c Config) openIssuer(log *slog.Logger) *oidc.Issuer {
	of := c.Issuer
	of.Rule, of.Log = c.rule(), log
	return oidc.New(of)
}

// Treasurers are the operators of the configuration who may decide about money, and whether the issuer gives that role.
func (c Config) Treasurers() (all []order.OperatorContext, byIssuer bool) {
	for _, o := range c.Operators {
		if cmp.Or(o.Role, auth.RoleAdmin).Covers(auth.RoleTreasurer) {
			all = append(all, order.OperatorContext{Operator: o.Name})
		}
	}
	for _, role := range c.Issuer.Roles {
		byIssuer = byIssuer || c.Issuer.Issuer != "" && role.Covers(auth.RoleTreasurer)
	}
	return all, byIssuer
}

// issuer verifies the operators who sign in with an issuer; nil when none does.
func (c Config) issuer(log *slog.Logger) auth.Issuers {
	if c.Issuer.Issuer == "" {
		return nil
	}
	return c.openIssuer(log)
}

// operators reads the operators of the configuration: name, hash of the token and, where it is not admin, the role.
func operators(s string) ([]auth.Operator, error) {
	var all []auth.Operator
	for part := range strings.SplitSeq(s, ",") {
		name, rest, ok := strings.Cut(strings.TrimSpace(part), ":")
		sum, role, named := strings.Cut(rest, ":")
		b, err := hex.DecodeString(sum)
		if !ok || err != nil || len(b) != sha256.Size || name == "" {
			return nil, errors.New("must be name:sha256 pairs, the hash of 64 hex digits")
		}
		if strings.Contains(name, auth.NameMark) {
			return nil, fmt.Errorf("a name has no %s: what follows it tells those apart whom an issuer knows", auth.NameMark)
		}
		if named && !auth.Role(role).Known() {
			return nil, errors.New("a role is viewer, support, treasurer or admin")
		}
		all = append(all, auth.Operator{Name: name, Hash: [32]byte(b), Role: auth.Role(role)})
	}
	return all, nil
}

// tokens are the operators' tokens that are minted.
func (a *App) tokens(p *Parts) admin.Tokens {
	t := admin.Tokens{Records: a.store.OperatorTokens(), Now: p.Now}
	for _, o := range a.config.Operators {
		t.Configured = append(t.Configured, o.Name)
	}
	return t
}
