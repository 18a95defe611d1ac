package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/money"
)

// operatorSettings are the settings of who operates the service, and how.
func operatorSettings() []setting {
	return []setting{
		{key: "operators.second_approver_above", help: "the amount in US cents above which a refund, the resolution of a " +
			"transfer or the closing of a card waits for a second operator; 0 is never", byDefault: "0",
			set: cents(func(c *Config) *money.Cents { return &c.SecondOperator.Above })},
		{key: "operators.approve_within", help: "how long such a decision waits, at least 1m",
			byDefault: approval.DefaultWithin.String(),
			set:       atLeast(time.Minute, func(c *Config) *time.Duration { return &c.SecondOperator.Within })},
	}
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
