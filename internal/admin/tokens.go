package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
	"github.com/roamcard/roamcard/internal/secret"
)

// Tokens mints, shows and revokes the tokens of operators.
type Tokens struct {
	Records TokenRecords
	// Configured are the names of the operators in the configuration, which no minted token has.
	Configured []string
	Now        func() time.Time
}

// TokenRecords keeps the tokens of operators. Each call writes its audit record in the same transaction.
type TokenRecords interface {
	// Mint stores a token, once per key; a repeat is the token that was stored, and not fresh. order.KeyReused when the
	// operator used the key for another one.
	Mint(
		ctx context.Context, t auth.OperatorToken, act order.OperatorContext,
	) (made auth.OperatorToken, fresh bool, err error)
	// Tokens lists those that a query selects, newest first.
	Tokens(ctx context.Context, q TokenQuery, act order.OperatorContext) ([]auth.OperatorToken, error)
	// Revoke ends a token; one that is revoked stays as it is. ErrTokenNotFound when there is none,
	// order.KeyReused as above.
	Revoke(ctx context.Context, id uuid.UUID, act order.OperatorContext) (auth.OperatorToken, error)
}

// ErrTokenNotFound says that there is no such token.
var ErrTokenNotFound = errors.New("there is no such token")

// TokenStatus is what has become of a token.
type TokenStatus string

// The statuses.
const (
	TokenActive  TokenStatus = "active"
	TokenExpired TokenStatus = "expired"
	TokenRevoked TokenStatus = "revoked"
)

// TokenQuery selects a page of tokens. What is empty selects all.
type TokenQuery struct {
	Status TokenStatus
	// Before is the last token of the previous page.
	Before uuid.UUID
	Limit  int
}

// TokenView is a token with its status.
type TokenView struct {
	auth.OperatorToken
	Status TokenStatus
}

// Mint makes a token for an operator. It is shown this once: a repeat with the same key gives none.
func (t Tokens) Mint(
	ctx context.Context, name string, role auth.Role, valid time.Duration, act order.OperatorContext,
) (TokenView, secret.Text, error) {
	if slices.Contains(t.Configured, name) {
		return TokenView{}, secret.Text{}, fault.Newf(fault.SchemaInvalid,
			"The configuration has an operator %q, whose token is made there.", name)
	}
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return TokenView{}, secret.Text{}, fmt.Errorf("make a token: %w", err)
	}
	text := auth.MintedPrefix + base64.RawURLEncoding.EncodeToString(random)
	now := t.Now().UTC()
	made, fresh, err := t.Records.Mint(ctx, auth.OperatorToken{
		ID: uuid.Must(uuid.NewV7()), Name: name, Role: role, Hash: sha256.Sum256([]byte(text)),
		Minters: append([]string{act.Operator}, act.Minters...), MintedAt: now, ExpiresAt: now.Add(valid),
	}, act)
	if err != nil {
		return TokenView{}, secret.Text{}, toFault(err, "mint the token")
	}
	if !fresh {
		return t.view(made), secret.Text{}, nil
	}
	return t.view(made), secret.New(text), nil
}

// List lists a page of tokens, newest first. next is the cursor of the next page, or nil.
func (t Tokens) List(
	ctx context.Context, q TokenQuery, act order.OperatorContext,
) (page []TokenView, next uuid.UUID, err error) {
	limit := q.Limit
	q.Limit++
	rows, err := t.Records.Tokens(ctx, q, act)
	if err != nil {
		return nil, uuid.Nil, fmt.Errorf("list the tokens: %w", err)
	}
	rows, next = paging.Cut(rows, limit, func(row auth.OperatorToken) uuid.UUID { return row.ID })
	for _, row := range rows {
		page = append(page, t.view(row))
	}
	return page, next, nil
}

// Revoke ends a token at once.
func (t Tokens) Revoke(ctx context.Context, id uuid.UUID, act order.OperatorContext) (TokenView, error) {
	found, err := t.Records.Revoke(ctx, id, act)
	if err != nil {
		return TokenView{}, toFault(err, "revoke the token")
	}
	return t.view(found), nil
}

func (t Tokens) view(of auth.OperatorToken) TokenView {
	switch {
	case of.RevokedAt != nil:
		return TokenView{of, TokenRevoked}
	case !t.Now().Before(of.ExpiresAt):
		return TokenView{of, TokenExpired}
	}
	return TokenView{of, TokenActive}
}
