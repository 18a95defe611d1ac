package esim

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
)

// TokenVersion is the current version of an order's delivery token, and its expiry.
type TokenVersion struct {
	Version   int
	ExpiresAt time.Time
}

// Token gives access to one order until it expires or is rotated.
type Token struct {
	Text      secret.Text
	ExpiresAt time.Time
}

const (
	tokenPrefix = "edt_"
	// tokenLength bounds the compared text; a token has 47 characters.
	tokenLength = 64
)

// Token is the current delivery token of an order. It is derived from the server's key and not stored.
func (e *Esims) Token(ctx context.Context, o order.Order) (Token, error) {
	v, err := e.tokenVersion(ctx, o)
	if err != nil {
		return Token{}, err
	}
	return Token{Text: e.derive(o.ID, v.Version), ExpiresAt: v.ExpiresAt}, nil
}

// RotateToken revokes the delivery token of an order and returns the next one; an order_not_fulfilled before it is
// paid. Only the order's owner may call it.
func (e *Esims) RotateToken(ctx context.Context, o order.Order) (Token, error) {
	if !o.Status.Paid() {
		return Token{}, fault.New(fault.OrderNotFulfilled,
			"The order is not paid; it has no delivery token.").About(string(o.ID))
	}
	v, err := e.Store.Rotate(ctx, o.ID, e.Now().Add(TokenLifetime))
	if err != nil {
		return Token{}, fmt.Errorf("rotate the delivery token: %w", err)
	}
	return Token{Text: e.derive(o.ID, v.Version), ExpiresAt: v.ExpiresAt}, nil
}

// Open finds the order of a delivery token. Every failure is the same fault order_not_found, except that a text without
// the form of a token is session_invalid, as a missing one is.
func (e *Esims) Open(ctx context.Context, id order.ID, token secret.Text) (order.Order, error) {
	if !strings.HasPrefix(token.Reveal(), tokenPrefix) {
		return order.Order{}, fault.New(fault.SessionInvalid, "Send the delivery token of the order, or sign in.")
	}
	notFound := fault.New(fault.OrderNotFound, "There is no order with this id for this delivery token.")
	if len(token.Reveal()) > tokenLength {
		return order.Order{}, notFound
	}
	o, err := e.Store.Order(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return order.Order{}, notFound
	}
	if err != nil {
		return order.Order{}, fmt.Errorf("find the order: %w", err)
	}
	v, err := e.tokenVersion(ctx, o)
	if err != nil {
		return order.Order{}, err
	}
	if !o.Status.Paid() || !e.derivedBy(id, v.Version, token) || !e.Now().Before(v.ExpiresAt) {
		return order.Order{}, notFound
	}
	return o, nil
}

func (e *Esims) tokenVersion(ctx context.Context, o order.Order) (TokenVersion, error) {
	v, rotated, err := e.Store.Token(ctx, o.ID)
	if err != nil {
		return TokenVersion{}, fmt.Errorf("read the delivery token's version: %w", err)
	}
	if !rotated {
		v = TokenVersion{Version: 1, ExpiresAt: o.CreatedAt.Add(TokenLifetime)}
	}
	return v, nil
}

func (e *Esims) derive(id order.ID, version int) secret.Text {
	return deriveBy(e.TokenKey, id, version)
}

// derivedBy reports whether one of the keys makes the token.
func (e *Esims) derivedBy(id order.ID, version int, token secret.Text) bool {
	same := e.derive(id, version).Equal(token)
	for _, key := range e.FormerTokenKeys {
		same = same || deriveBy(key, id, version).Equal(token)
	}
	return same
}

func deriveBy(key []byte, id order.ID, version int) secret.Text {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "roamcard esim delivery v1\n%s\n%d", id, version)
	return secret.New(tokenPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}
