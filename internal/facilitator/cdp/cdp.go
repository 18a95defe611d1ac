// Package cdp makes the tokens that the Coinbase Developer Platform (CDP) asks for: a JWT for each request, signed by
// an API key and bound to the method, host and path. They have the headers and claims of those of CDP's own SDK.
package cdp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/roamcard/roamcard/internal/secret"
)

const (
	issuer = "cdp"
	// validFor is how long a token lives: as long as those of CDP's SDK.
	validFor = 120 * time.Second
	// nonceBytes is the length of a nonce before it is in hex.
	nonceBytes = 16
)

// Source makes tokens by one API key. It is safe for concurrent use.
type Source struct {
	id     string
	signer jose.Signer
	now    func() time.Time
}

// New makes a Source of a key: its id, such as 01234567-89ab-cdef-0123-456789abcdef or
// organizations/…/apiKeys/…, and its secret in one of CDP's two forms. An error does not quote the secret.
func New(id string, key secret.Text, now func() time.Time) (*Source, error) {
	if id == "" {
		return nil, errors.New("the key has no id")
	}
	algorithm, private, err := parse(key)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: private, KeyID: id}},
		(&jose.SignerOptions{NonceSource: nonces{}}).WithType("JWT"),
	)
	if err != nil {
		return nil, fmt.Errorf("sign with %s: %w", algorithm, err)
	}
	return &Source{id: id, signer: signer, now: now}, nil
}

// claims are the payload of a token.
type claims struct {
	jwt.Claims
	// URIs has the one request that the token is for: "POST api.cdp.coinbase.com/platform/v2/x402/settle".
	URIs []string `json:"uris"`
}

// Token makes a token for one request; it is facilitator.Config.TokenSource. The same request made again needs another
// token, which has a nonce of its own.
func (s *Source) Token(_ context.Context, method, host, path string) (secret.Text, error) {
	now := s.now()
	token, err := jwt.Signed(s.signer).Claims(claims{
		Claims: jwt.Claims{
			Issuer: issuer, Subject: s.id, IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
			Expiry: jwt.NewNumericDate(now.Add(validFor)),
		},
		URIs: []string{method + " " + host + path},
	}).Serialize()
	if err != nil {
		return secret.Text{}, fmt.Errorf("sign: %w", err)
	}
	return secret.New(token), nil
}

// nonces are random.
type nonces struct{}

// Nonce implements jose.NonceSource.
func (nonces) Nonce() (string, error) {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return hex.EncodeToString(nonce), nil
}
