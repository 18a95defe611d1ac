package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNotFound says that a store has no such row.
var ErrNotFound = errors.New("not found")

// Scheme is how a wallet signs a challenge.
type Scheme string

// The schemes: personal_sign over the text, or eth_signTypedData_v4 over the typed data.
const (
	EIP191 Scheme = "eip191"
	EIP712 Scheme = "eip712"
)

// Purpose is what a challenge's signature is good for. It is part of what is signed.
type Purpose string

// The purposes.
const (
	PurposeSignIn Purpose = "sign_in"
	PurposeReveal Purpose = "reveal"
	// PurposeRequest is a sign-in for one request, by x402's sign-in-with-x.
	PurposeRequest Purpose = "request"
)

// Challenge is a message that one wallet may sign once, for one purpose.
type Challenge struct {
	// ID is the intent id: random, known only to whoever asked for the challenge.
	ID      uuid.UUID
	Purpose Purpose
	Wallet  x402.Address
	// Scheme is the only one this challenge can be signed with.
	Scheme Scheme
	// Message is the EIP-4361 text exactly as it was handed out.
	Message string
	Nonce   string
	// CardID and SessionID are what a reveal is bound to; uuid.Nil for a sign-in.
	CardID    uuid.UUID
	SessionID uuid.UUID
	// RecipientKey is the X25519 key a reveal is sealed to; nil when there is none.
	RecipientKey []byte
	// Source tells apart the addresses that asked for sign-ins; it is a keyed hash, or empty.
	Source string
	// IssuedAt and ExpiresAt are UTC, in whole milliseconds, as the message says them.
	IssuedAt  time.Time
	ExpiresAt time.Time
	// ConsumedAt is nil while the challenge can be used.
	ConsumedAt *time.Time
}

// Challenges keeps challenges.
type Challenges interface {
	// Create stores a new challenge and counts it. One over the limit is a *limit.Refusal, and not stored.
	Create(ctx context.Context, c Challenge, hits ...limit.Hit) error
	// Spend stores a challenge that is used, and counts it, as Create does: it is true for exactly one caller with its
	// ID. For all others it is false, and neither stores nor counts.
	Spend(ctx context.Context, c Challenge, hits ...limit.Hit) (bool, error)
	// Find returns the challenge in any state, or ErrNotFound.
	Find(ctx context.Context, id uuid.UUID) (Challenge, error)
	// Open returns challenges of a wallet and a purpose that Consume would take at now: the newest OpenOfSource of a
	// source, and then those of other sources, the newest of each before the second of any, OpenAtMost in all. So who
	// asks from one address takes no place from who asks from another.
	Open(ctx context.Context, wallet x402.Address, purpose Purpose, source string, now time.Time) ([]Challenge, error)
	// Consume is one guarded update: it marks the challenge used at now unless it is used,
	// expired (ExpiresAt is not after now) or unknown. It is true for exactly one caller, and counts against the limit
	// only for that one. Over the limit it is a *limit.Refusal, and consumes nothing.
	Consume(ctx context.Context, id uuid.UUID, now time.Time, hits ...limit.Hit) (bool, error)
	// Void marks the challenge used where Consume would, and counts against the limit in any case, as Create does.
	Void(ctx context.Context, id uuid.UUID, now time.Time, hits ...limit.Hit) error
}

// How many challenges a signature that names none is compared with. OpenOfSource is more than one address can have at
// the default rate, ten a minute that live for five. They are of the OpenLookedAt of the wallet that expire last: when
// thousands of addresses ask for one wallet's, its owner has to name the challenge.
const (
	OpenOfSource = 64
	OpenAtMost   = 2 * OpenOfSource
	OpenLookedAt = 4096
)

// maxSkew is how far ahead the clock of the replica that issued a challenge may run.
const maxSkew = 30 * time.Second

// live reports whether the challenge is valid at a time. Only Consume knows whether it is used.
func (c Challenge) live(now time.Time) bool {
	return now.Before(c.ExpiresAt) && !c.IssuedAt.After(now.Add(maxSkew))
}

// chooseScheme takes the first scheme offered; a caller that offers none can do personal_sign.
func chooseScheme(offered []Scheme) (Scheme, error) {
	if len(offered) == 0 {
		return EIP191, nil
	}
	for _, s := range offered {
		if s == EIP191 || s == EIP712 {
			return s, nil
		}
	}
	return "", fault.New(fault.SchemaInvalid, "None of the message schemes is known.").With(fault.Field{
		Path: "preferredMessageSchemes", Rule: "in", Message: "must be eip191 or eip712",
	})
}

// site is the origin that messages bind a signature to.
type site struct {
	domain  string
	uri     string
	chainID uint64
	// onPage says that reveals are by a link to a page.
	onPage bool
}

// issue completes a challenge that starts now: identity, nonce, times and text.
func (s site) issue(c Challenge, now time.Time, ttl time.Duration) Challenge {
	c.ID = uuid.New()
	c.Nonce = rand.Text() // 130 random bits in 26 letters and digits
	c.IssuedAt = now.UTC().Truncate(time.Millisecond)
	c.ExpiresAt = c.IssuedAt.Add(ttl)
	c.Message = s.message(c).Format()
	return c
}

// message is the text of a challenge. Both purposes have a statement of their own, and a reveal
// names its card, session and recipient key, so a signature is valid in one place only.
func (s site) message(c Challenge) handshake.Message {
	m := handshake.Message{
		Domain: s.domain, Address: c.Wallet, URI: s.uri, ChainID: s.chainID, Nonce: c.Nonce,
		IssuedAt: timeText(c.IssuedAt), ExpirationTime: timeText(c.ExpiresAt), RequestID: c.ID.String(),
	}
	if c.Purpose != PurposeReveal {
		m.Statement = "Sign in to roamcard. This moves no money and reveals no card."
		return m
	}
	b := bindingOf(c)
	m.Statement = "Reveal card " + b.cardID + " once. This shows the full card number and security code."
	m.Resources = []string{"urn:roamcard:card:" + b.cardID, "urn:roamcard:session:" + b.sessionID}
	if s.onPage {
		// What is signed for a page cannot be used where the number is in the answer: a relay that claims that a service
		// does not seal gains nothing.
		m.Statement = "Reveal card " + b.cardID + " once, on a page of this service."
		m.Resources = append(m.Resources, "urn:roamcard:reveal:page")
	}
	if b.recipientKey != "" {
		m.Resources = append(m.Resources, "urn:roamcard:recipient-key:"+b.recipientKey)
	}
	return m
}

func (s site) typed(c Challenge) typedMessage {
	if c.Purpose == PurposeReveal {
		return typedReveal(s.message(c), bindingOf(c))
	}
	return typedSignIn(s.message(c))
}

// document is the typed data of a challenge; nil when its text is signed.
func (s site) document(c Challenge) TypedData {
	if c.Scheme != EIP712 {
		return nil
	}
	return s.typed(c).data()
}

// provenBy reports whether a signature proves that the challenge's wallet signed it here. The
// text is built again from the parts, so a stored row that was changed, or was made for another
// site or chain, proves nothing.
func (s site) provenBy(c Challenge, signature string) bool {
	digest, ok := s.digest(c)
	if !ok {
		return false
	}
	signer, err := Recover(digest, signature)
	return err == nil && signer == c.Wallet
}

// digest is what the wallet signs for a challenge. ok is false for one that was not made here.
func (s site) digest(c Challenge) (digest [32]byte, ok bool) {
	if s.message(c).Format() != c.Message {
		return digest, false
	}
	switch c.Scheme {
	case EIP191:
		return handshake.PersonalDigest(c.Message), true
	case EIP712:
		return s.typed(c).digest(), true
	default:
		return digest, false
	}
}

// revealBinding is what a reveal is bound to, as text. The recipient key is unpadded base64url,
// or empty.
type revealBinding struct{ cardID, sessionID, recipientKey string }

func bindingOf(c Challenge) revealBinding {
	return revealBinding{c.CardID.String(), c.SessionID.String(), base64.RawURLEncoding.EncodeToString(c.RecipientKey)}
}

// timeText is RFC 3339 with milliseconds, as JavaScript's toISOString writes it.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
