package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
)

// Operator is a person who runs the service, by a token in the configuration. A person may have several, so that one
// can be replaced without a gap.
type Operator struct {
	// Name is what the audit trail says.
	Name string
	// Hash is the SHA-256 of the token.
	Hash [32]byte
	// Role is RoleAdmin when empty.
	Role Role
}

// The sources from which operators are known.
const (
	SourceConfiguration = "configuration"
	SourceToken         = "token"
	SourceIssuer        = "issuer"
)

// OperatorToken is a token of an operator that was minted. The token itself is never stored.
type OperatorToken struct {
	ID uuid.UUID
	// Name is the operator's, as the audit trail has it.
	Name string
	Role Role
	Hash [32]byte
	// Minters are the operator who minted it, first, and those who minted that operator's token.
	Minters             []string
	MintedAt, ExpiresAt time.Time
	// LastUsedAt is nil while it was never used, to the minute; RevokedAt and RevokedBy are empty until it is revoked.
	LastUsedAt, RevokedAt *time.Time
	RevokedBy             string
}

// MintedTokens are the tokens of operators that were minted.
type MintedTokens interface {
	// UseToken finds a token by its hash, and records that it is used. ErrNotFound when there is none.
	UseToken(ctx context.Context, hash [32]byte, now time.Time) (OperatorToken, error)
}

// Issuers verify who signed in somewhere else.
type Issuers interface {
	// Identify verifies a token and gives its operator. ErrNotFound says that the token is not a valid one, ErrNoRole that
	// it is, of somebody who is no operator here; every other error says that nobody can tell now.
	Identify(ctx context.Context, token string) (Identity, error)
}

// ErrNoRole says that the issuer knows somebody to whom the configuration gives no role.
var ErrNoRole = errors.New("no role is given to them")

// Identity is an operator as an issuer knows them: the subject of the issuer, whatever they are called.
type Identity struct {
	Issuer, Subject string
	Name            string
	Role            Role
	ExpiresAt       time.Time
}

// NameMark stands in an operator's name before what tells the person, where an issuer knows them. No name has it
// otherwise.
const NameMark = "~"

// Operator is the operator's name everywhere: what the issuer calls them, which may change and be another's too, and a
// mark of the issuer and the subject, which stays and is nobody else's.
func (i Identity) Operator() string {
	sum := sha256.Sum256([]byte(i.Issuer + "\n" + i.Subject))
	return i.Name + NameMark + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// MintedPrefix begins every token that is minted, and mintedLength is how long it is.
const (
	MintedPrefix = "rco_"
	mintedLength = len(MintedPrefix) + 43
)

// Operator finds the operator behind an Authorization header: one of the configuration, one whose token was minted, or
// one who signed in with the issuer. Whatever is wrong with a token, the fault operator_token_invalid is the same. The
// caller audits every use.
func (a *Auth) Operator(ctx context.Context, authorizationHeader string) (Caller, error) {
	token, ok := Bearer(authorizationHeader)
	if !ok {
		return Caller{}, operatorTokenInvalid()
	}
	if found, ok := a.configured(token); ok {
		return found, nil
	}
	switch {
	case a.minted != nil && len(token) == mintedLength && strings.HasPrefix(token, MintedPrefix):
		return a.byMintedToken(ctx, token)
	case a.issuer != nil && strings.Count(token, ".") == 2:
		return a.byIssuer(ctx, token)
	}
	return Caller{}, operatorTokenInvalid()
}

func operatorTokenInvalid() error {
	return fault.New(fault.OperatorTokenInvalid, "The operator token is missing, expired or not one of ours.")
}

// configured compares a token with every one of the configuration, in the same time whichever matches or none does.
func (a *Auth) configured(token string) (Caller, bool) {
	hash := sha256.Sum256([]byte(token))
	found := -1
	for i := range a.operators {
		same := subtle.ConstantTimeCompare(hash[:], a.operators[i].Hash[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return Caller{}, false
	}
	o := a.operators[found]
	return Caller{
		Kind: KindOperator, Name: o.Name, Role: cmp.Or(o.Role, RoleAdmin), Source: SourceConfiguration,
	}, true
}

func (a *Auth) byMintedToken(ctx context.Context, token string) (Caller, error) {
	hash, now := sha256.Sum256([]byte(token)), a.now()
	t, err := a.minted.UseToken(ctx, hash, now)
	switch {
	case errors.Is(err, ErrNotFound):
		return Caller{}, operatorTokenInvalid()
	case err != nil:
		return Caller{}, fmt.Errorf("find the operator's token: %w", err)
	case subtle.ConstantTimeCompare(hash[:], t.Hash[:]) != 1, t.RevokedAt != nil, !now.Before(t.ExpiresAt):
		return Caller{}, operatorTokenInvalid()
	}
	return Caller{
		Kind: KindOperator, Name: t.Name, Role: t.Role, Source: SourceToken, Minters: slices.Clone(t.Minters),
		ExpiresAt: t.ExpiresAt,
	}, nil
}

func (a *Auth) byIssuer(ctx context.Context, token string) (Caller, error) {
	who, err := a.issuer.Identify(ctx, token)
	if errors.Is(err, ErrNotFound) {
		return Caller{}, operatorTokenInvalid()
	}
	if errors.Is(err, ErrNoRole) {
		return Caller{}, fault.New(fault.OperatorRoleMissing, "You have signed in, and no role here is given to you.")
	}
	if err != nil {
		return Caller{}, fmt.Errorf("ask the operators' issuer: %w", errors.Join(fault.New(fault.DependencyDown,
			"The issuer that operators sign in with does not answer, so that its tokens cannot be checked now."), err))
	}
	return Caller{
		Kind: KindOperator, Name: who.Operator(), Role: who.Role, Source: SourceIssuer, ExpiresAt: who.ExpiresAt,
	}, nil
}
