package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// RevealRequest is a signed reveal challenge.
type RevealRequest struct {
	CardID   uuid.UUID
	IntentID uuid.UUID
	// Signature is 0x and the hex of 65 bytes, or of what a smart account signs with.
	Signature string
	// Scheme, when not empty, must be the challenge's.
	Scheme Scheme
	// RecipientKey, when not nil, must be the one the challenge names.
	RecipientKey []byte
}

// RevealChallenge makes the message whose signature reveals a card once, to the caller's session
// and, when recipientKey is not nil, sealed to that X25519 key. A service whose issuer shows cards on a page only has
// sealing_missing for a key, before anything is used. The caller of this method has checked that the card is
// the session's. The typed data is nil unless the chosen scheme is EIP712.
func (a *Auth) RevealChallenge(
	ctx context.Context, caller Caller, cardID uuid.UUID, schemes []Scheme, recipientKey []byte,
) (Challenge, TypedData, error) {
	if caller.Kind != KindWallet || !caller.Has(ScopeReveal) {
		return Challenge{}, nil, sessionInvalid()
	}
	scheme, err := chooseScheme(schemes)
	if err != nil {
		return Challenge{}, nil, err
	}
	if recipientKey != nil && a.site.onPage {
		return Challenge{}, nil, sealingMissing()
	}
	if recipientKey != nil && checkRecipientKey(recipientKey) != nil {
		return Challenge{}, nil, recipientKeyFault()
	}
	c := a.site.issue(Challenge{
		Purpose: PurposeReveal, Wallet: caller.Wallet, Scheme: scheme,
		CardID: cardID, SessionID: caller.SessionID, RecipientKey: bytes.Clone(recipientKey),
	}, a.now(), a.revealTTL)
	if err := a.challenges.Create(ctx, c); err != nil {
		return Challenge{}, nil, fmt.Errorf("store reveal challenge: %w", err)
	}
	return c, a.site.document(c), nil
}

// Reveal verifies a challenge and consumes it: valid or not, it cannot be used again. On success it returns the
// key that the card must be sealed to, or nil when the owner signed for an unsealed answer. The request cannot change
// that: the key is the one that was signed. Whatever is wrong, the fault challenge_invalid is the same.
//
// What the owner signed counts against the owner's rate, once for each signature, and everything else against the
// session's: who has a session without the wallet's key cannot use up what its owner may reveal.
func (a *Auth) Reveal(ctx context.Context, caller Caller, r RevealRequest) (recipientKey []byte, err error) {
	if caller.Kind != KindWallet || !caller.Has(ScopeReveal) {
		return nil, sessionInvalid()
	}
	if r.RecipientKey != nil && a.site.onPage {
		return nil, sealingMissing()
	}
	now := a.now().UTC()
	c, err := a.challenges.Find(ctx, r.IntentID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("find reveal challenge: %w", err)
	}
	proven := err == nil && c.opens(caller, r, now)
	if proven && !a.site.provenBy(c, r.Signature) {
		if proven, err = a.provenBySmartAccount(ctx, c, r.Signature); err != nil {
			return nil, err
		}
	}
	if !proven {
		return nil, a.voidReveal(ctx, caller, r.IntentID, now)
	}
	owner := caller.Wallet.Lower()
	if _, _, err := a.limits.Take(limit.Reveal, owner); err != nil {
		return nil, err
	}
	spent, err := a.challenges.Consume(ctx, c.ID, now, a.limits.Hit(limit.Reveal, owner)...)
	if err != nil {
		return nil, fmt.Errorf("consume reveal challenge: %w", err)
	}
	if !spent { // the same signature, at the same time
		a.limits.Give(limit.Reveal, owner)
		return nil, a.voidReveal(ctx, caller, r.IntentID, now)
	}
	if len(c.RecipientKey) == 0 {
		return nil, nil
	}
	return c.RecipientKey, nil
}

// voidReveal ends a challenge that was not signed as it must be, and is the answer.
func (a *Auth) voidReveal(ctx context.Context, caller Caller, id uuid.UUID, now time.Time) error {
	session := "session " + caller.SessionID.String()
	if _, _, err := a.limits.Take(limit.Reveal, session); err != nil {
		return err
	}
	if err := a.challenges.Void(ctx, id, now, a.limits.Hit(limit.Reveal, session)...); err != nil {
		return fmt.Errorf("void reveal challenge: %w", err)
	}
	return challengeInvalid()
}

// opens reports whether a request is for a challenge that is not used, whoever signed it.
func (c Challenge) opens(caller Caller, r RevealRequest, now time.Time) bool {
	return c.Purpose == PurposeReveal && c.ConsumedAt == nil && c.live(now) &&
		c.CardID == r.CardID && c.Wallet == caller.Wallet && c.SessionID == caller.SessionID &&
		(r.Scheme == "" || r.Scheme == c.Scheme) &&
		(r.RecipientKey == nil || bytes.Equal(r.RecipientKey, c.RecipientKey))
}

func challengeInvalid() error {
	return fault.New(fault.ChallengeInvalid,
		"Ask for a new challenge: this one is unknown, expired, used, or not signed by its wallet.")
}

func sealingMissing() error {
	return fault.New(fault.SealingMissing,
		"The issuer shows card numbers on a page only: leave recipientKey out. GET /api/card/discovery says so.")
}
