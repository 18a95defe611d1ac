package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	// Signature is 0x and the hex of 65 bytes, or of what a smart account signs with.
	Signature string
	// IntentID names the challenge; uuid.Nil means the one that Message names, or else the
	// wallet's open one that was signed.
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
	c := a.site.issue(Challenge{
		Purpose: PurposeSignIn, Wallet: wallet, Scheme: scheme, Source: a.limits.Source(limit.Address(ctx)),
	}, a.now(), a.signInTTL)
	if err := a.challenges.Create(ctx, c, a.limits.AddressHits(limit.Challenge, limit.Address(ctx))...); err != nil {
		return Challenge{}, nil, fmt.Errorf("store sign-in challenge: %w", err)
	}
	return c, a.site.document(c), nil
}

// Verify exchanges a signed challenge for a session and its bearer token, which is returned only here. Whatever is
// wrong, the fault signature_invalid is the same.
//
// A challenge that the request names is consumed, valid or not: only its requester knows the id. Of the others, found
// by the wallet alone, the one that was signed counts, and a wrong signature consumes none: anybody may ask for
// challenges of a wallet, and must not be able to keep its owner out. What a smart account signed is checked for a
// named challenge only: each check asks the chain.
func (a *Auth) Verify(ctx context.Context, r VerifyRequest) (Session, secret.Text, error) {
	now := a.now().UTC()
	open, named, err := a.signInChallenges(ctx, r, now)
	if err != nil {
		return Session{}, secret.Text{}, fmt.Errorf("find sign-in challenge: %w", err)
	}
	if len(open) == 0 {
		// Verifying a challenge that nobody can have signed takes as long as verifying a real one.
		c := a.site.issue(Challenge{Purpose: PurposeSignIn, Wallet: r.Wallet, Scheme: EIP191}, now, a.signInTTL)
		a.site.provenBy(c, r.Signature)
		return Session{}, secret.Text{}, signatureInvalid()
	}
	ttl := a.sessionTTL
	signed := slices.IndexFunc(open, func(c Challenge) bool {
		return c.answeredBy(r, now) && a.site.provenBy(c, r.Signature)
	})
	if signed < 0 && !named {
		return Session{}, secret.Text{}, signatureInvalid()
	}
	if signed < 0 && open[0].answeredBy(r, now) {
		bySmartAccount, err := a.provenBySmartAccount(ctx, open[0], r.Signature)
		if err != nil {
			return Session{}, secret.Text{}, err
		}
		if bySmartAccount {
			signed, ttl = 0, min(ttl, smartAccountTTL)
		}
	}
	c := open[max(signed, 0)]
	spent, err := a.challenges.Consume(ctx, c.ID, now)
	if err != nil {
		return Session{}, secret.Text{}, fmt.Errorf("consume sign-in challenge: %w", err)
	}
	if signed < 0 || !spent {
		return Session{}, secret.Text{}, signatureInvalid()
	}
	return a.startSession(ctx, c.Wallet, now, ttl)
}

// answeredBy reports whether a request answers the challenge, whoever signed it.
func (c Challenge) answeredBy(r VerifyRequest, now time.Time) bool {
	return c.live(now) && c.Purpose == PurposeSignIn && c.Wallet == r.Wallet &&
		(r.Scheme == "" || r.Scheme == c.Scheme) && (r.Message == nil || *r.Message == c.Message)
}

// signInChallenges finds the challenge that the request names, or those that it may be signed for. A message names its
// challenge by its Request ID.
func (a *Auth) signInChallenges(
	ctx context.Context, r VerifyRequest, now time.Time,
) (open []Challenge, named bool, err error) {
	id := r.IntentID
	if id == uuid.Nil && r.Message != nil {
		if m, err := handshake.ParseMessage(*r.Message); err == nil {
			id, _ = uuid.Parse(m.RequestID) // uuid.Nil when it is none
		}
	}
	if id == uuid.Nil {
		open, err = a.challenges.Open(ctx, r.Wallet, PurposeSignIn, a.limits.Source(limit.Address(ctx)), now)
		return open, false, err
	}
	c, err := a.challenges.Find(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil, true, nil
	}
	return []Challenge{c}, true, err
}

func signatureInvalid() error {
	return fault.New(fault.SignatureInvalid, "The signature does not prove the wallet for a challenge that is still open.")
}
