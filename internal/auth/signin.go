package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// VerifyRequest is a signed sign-in challenge.
type VerifyRequest struct {
	Wallet x402.Address
	// Signature is 0x and the hex of 65 bytes.
	Signature string
	// IntentID names the challenge; uuid.Nil means the one that Message names, or else the
	// wallet's latest.
	IntentID uuid.UUID
	// Scheme, when not empty, must be the challenge's.
	Scheme Scheme
	// Message, when present, must be the challenge's text byte for byte. What is verified is
	// always the stored text.
	Message *string
}

// Challenge makes a sign-in message for any wallet. The typed
// data is nil unless the chosen scheme is EIP712.
func (a *Auth) Challenge(ctx context.Context, wallet x402.Address, schemes []Scheme) (Challenge, TypedData, error) {
	scheme, err := chooseScheme(schemes)
	if err != nil {
		return Challenge{}, nil, err
	}
	c := a.site.issue(Challenge{Purpose: PurposeSignIn, Wallet: wallet, Scheme: scheme}, a.now(), a.signInTTL)
	if err := a.challenges.Create(ctx, c, a.limits.AddressTurn(limit.Challenge, limit.Address(ctx))...); err != nil {
		return Challenge{}, nil, fmt.Errorf("store sign-in challenge: %w", err)
	}
	return c, a.site.document(c), nil
}

// Verify exchanges a signed challenge for a session and its bearer token, which is returned only here. Whatever is
// wrong, the fault signature_invalid is the same.
//
// A challenge that the request names is consumed, valid or not: only its requester knows the id. The latest challenge
// of a wallet, found by address alone, survives a wrong signature, so that a stranger who knows the address cannot lock
// out its owner.
func (a *Auth) Verify(ctx context.Context, r VerifyRequest) (Session, secret.Text, error) {
	now := a.now().UTC()
	c, named, err := a.signInChallenge(ctx, r)
	known := err == nil
	if errors.Is(err, ErrNotFound) {
		// Verifying a challenge that nobody can have signed takes as long as verifying a real one.
		c = a.site.issue(Challenge{Purpose: PurposeSignIn, Wallet: r.Wallet, Scheme: EIP191}, now, a.signInTTL)
	} else if err != nil {
		return Session{}, secret.Text{}, fmt.Errorf("find sign-in challenge: %w", err)
	}
	proven := a.site.provenBy(c, r.Signature) && c.live(now) && c.Purpose == PurposeSignIn && c.Wallet == r.Wallet &&
		(r.Scheme == "" || r.Scheme == c.Scheme) && (r.Message == nil || *r.Message == c.Message)

	if !known || !proven && !named {
		return Session{}, secret.Text{}, signatureInvalid()
	}
	spent, err := a.challenges.Consume(ctx, c.ID, now)
	if err != nil {
		return Session{}, secret.Text{}, fmt.Errorf("consume sign-in challenge: %w", err)
	}
	if !proven || !spent {
		return Session{}, secret.Text{}, signatureInvalid()
	}
	return a.startSession(ctx, c.Wallet, now)
}

// signInChallenge finds the challenge, and reports whether the request named it. A message names it by its Request ID,
// so that clients without an intent id do not race with whoever asks for a newer challenge.
func (a *Auth) signInChallenge(ctx context.Context, r VerifyRequest) (c Challenge, named bool, err error) {
	id := r.IntentID
	if id == uuid.Nil && r.Message != nil {
		if m, err := handshake.ParseMessage(*r.Message); err == nil {
			id, _ = uuid.Parse(m.RequestID) // uuid.Nil when it is none
		}
	}
	if id == uuid.Nil {
		c, err = a.challenges.Latest(ctx, r.Wallet, PurposeSignIn)
		return c, false, err
	}
	c, err = a.challenges.Find(ctx, id)
	return c, true, err
}

func signatureInvalid() error {
	return fault.New(fault.SignatureInvalid, "The signature does not prove the wallet for a challenge that is still open.")
}
