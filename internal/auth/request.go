package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

// A sign-in for one request is x402's extension sign-in-with-x: every challenge of a payment has a nonce, and the text
// that the wallet signs comes back with the request, in a header. Anybody gets challenges, so none is stored: the nonce
// is signed with a key of ours, and one that is used is stored until it has expired.

// requestStatement is what a wallet shows of a sign-in for one request.
const requestStatement = "Sign in to roamcard for one request. This moves no money and reveals no card."

// saltLength is how many characters of a nonce are random, and macBytes how many bytes sign the rest of the message.
const (
	saltLength = 16
	macBytes   = 16
)

// mostRequests is how many sign-ins for one request are used in the time that one lives, from all addresses. None of
// those may be forgotten, or it could be used again.
const mostRequests = 100_000

// nonceContext keeps a signature of a nonce from passing for one of something else.
const nonceContext = "roamcard x402 sign-in v1\n"

// nonceText writes bytes in letters and digits, as a nonce has to be.
var nonceText = base32.StdEncoding.WithPadding(base32.NoPadding)

// RequestOffer is a message that any wallet may sign to sign in for one request.
type RequestOffer struct {
	// Extension is what a challenge says of sign-in-with-x; nil where wallets do not sign in so.
	Extension map[string]any
	// Nonce is the one in Extension, and Renew makes another, which is as good in its place: who answers many with one
	// challenge gives each a nonce of its own.
	Nonce string
	Renew func() string
}

// OfferRequestSignIn makes a message for a resource, and stores nothing.
func (a *Auth) OfferRequestSignIn(uri string) RequestOffer {
	if len(a.nonceKeys) == 0 {
		return RequestOffer{}
	}
	m := a.requestMessage(uri, a.now().UTC().Truncate(time.Millisecond))
	before, after := aroundSalt(m)
	renew := func() string {
		salt := rand.Text()[:saltLength]
		return salt + signSalt(a.nonceKeys[0], before, salt, after)
	}
	nonce := renew()
	return RequestOffer{Nonce: nonce, Renew: renew, Extension: x402.DeclareSignIn(x402.SignIn{
		Domain: m.Domain, Statement: m.Statement, URI: m.URI, Version: handshake.MessageVersion, ChainID: a.network(),
		Nonce: nonce, IssuedAt: m.IssuedAt, ExpirationTime: m.ExpirationTime,
	})}
}

// requestMessage is the message of a sign-in for one request, without address and nonce.
func (a *Auth) requestMessage(uri string, issued time.Time) handshake.Message {
	return handshake.Message{
		Domain: a.site.domain, Statement: requestStatement, URI: uri, ChainID: a.site.chainID,
		IssuedAt: timeText(issued), ExpirationTime: timeText(issued.Add(a.signInTTL)),
	}
}

// network is the chain by its name in CAIP-2.
func (a *Auth) network() string { return "eip155:" + strconv.FormatUint(a.site.chainID, 10) }

// aroundSalt is a message before and behind the salt that its nonce begins with, whoever signs it.
func aroundSalt(m handshake.Message) (before, after string) {
	m.Address, m.Nonce = x402.Address{}, ""
	const label = "\nNonce: "
	text := m.Format()
	at := strings.LastIndex(text, label) + len(label) // the times behind it are ours
	return text[:at], text[at:]
}

// signSalt signs a salt, and the message that it is in.
func signSalt(key []byte, before, salt, after string) string {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, nonceContext+before+salt+after) // never fails
	return nonceText.EncodeToString(h.Sum(nil)[:macBytes])
}

// ours reports whether a nonce was made here, for the message that it is in.
func (a *Auth) ours(m handshake.Message) bool {
	if len(m.Nonce) != saltLength+nonceText.EncodedLen(macBytes) {
		return false
	}
	found := false
	before, after := aroundSalt(m)
	salt, signed := m.Nonce[:saltLength], []byte(m.Nonce[saltLength:])
	for _, key := range a.nonceKeys {
		found = hmac.Equal(signed, []byte(signSalt(key, before, salt, after))) || found
	}
	return found
}

// RequestSignIn is a message that a wallet may have signed for one request. It proves nothing before Use.
type RequestSignIn struct {
	auth      *Auth
	challenge Challenge
	digest    [32]byte
	signature string
	// byKey says that the wallet's key signed.
	byKey bool
}

// Wallet is who is said to have signed.
func (s *RequestSignIn) Wallet() x402.Address { return s.challenge.Wallet }

// ByKey reports whether the wallet's key has signed; otherwise the chain may say that an owner has, see Use.
func (s *RequestSignIn) ByKey() bool { return s.byKey }

// ReadRequestSignIn reads a header SIGN-IN-WITH-X and checks it as far as that asks nobody: form, domain, resource,
// chain, time and nonce, and the signature unless it may be a smart account's. With a uri, the message has to be for
// that resource; without, for any of this service. It changes nothing. The error is signature_invalid, with the reason.
func (a *Auth) ReadRequestSignIn(header, uri string) (*RequestSignIn, error) {
	s, err := x402.DecodeSignIn(header)
	if err != nil {
		return nil, requestInvalid(err.Error())
	}
	m, issued, err := a.signedMessage(s, uri)
	if err != nil {
		return nil, err
	}
	text := m.Format()
	r := &RequestSignIn{
		auth: a, digest: handshake.PersonalDigest(text), signature: s.Signature,
		challenge: Challenge{
			ID: requestID(m.Nonce), Purpose: PurposeRequest, Wallet: s.Address, Scheme: EIP191, Message: text,
			Nonce: m.Nonce, IssuedAt: issued, ExpiresAt: issued.Add(a.signInTTL),
		},
	}
	signer, err := Recover(r.digest, s.Signature)
	r.byKey = err == nil && signer == s.Address
	if !r.byKey && (s.ByKey || a.smartAccounts == nil) {
		return nil, requestInvalid("it is not signed by its address")
	}
	return r, nil
}

// signedMessage is the message of ours that a header repeats, and when it was issued.
func (a *Auth) signedMessage(s x402.SignIn, uri string) (handshake.Message, time.Time, error) {
	// What is not written as we write it has another spelling than what was issued, and the nonce is not signed for that.
	issued, err := time.Parse(time.RFC3339, s.IssuedAt)
	m := a.requestMessage(s.URI, issued)
	m.Address, m.Nonce = s.Address, s.Nonce
	now := a.now()
	var wrong string
	switch {
	case s.Domain != m.Domain:
		wrong = "it is for another domain"
	case uri != "" && s.URI != uri || !strings.HasPrefix(s.URI, a.site.uri+"/"):
		wrong = "it is for another resource"
	case s.ChainID != a.network():
		wrong = "it is for another chain"
	case s.Version != handshake.MessageVersion:
		wrong = "it is of another version"
	case err != nil || issued.After(now.Add(maxSkew)):
		wrong = "it is issued at no time that has been"
	case !now.Before(issued.Add(a.signInTTL)):
		wrong = "it has expired"
	case s.Statement != m.Statement, s.ExpirationTime != m.ExpirationTime, s.IssuedAt != m.IssuedAt,
		s.NotBefore != "", s.RequestID != "", len(s.Resources) > 0, !a.ours(m):
		wrong = "it was not issued here"
	default:
		return m, issued.UTC(), nil
	}
	return handshake.Message{}, time.Time{}, requestInvalid(wrong)
}

// requestID identifies a message by its nonce, whoever signs it.
func requestID(nonce string) uuid.UUID {
	const version = 8
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(nonce), version)
}

// Use proves the wallet and uses the sign-in up: it is nil for exactly one call of all that have the same nonce. It is
// counted as our own sign-in is, by address. The errors are signature_invalid, dependency_down while the chain does not
// answer, which says who owns a smart account, and a *limit.Refusal: the call has not used it up.
func (s *RequestSignIn) Use(ctx context.Context) error {
	limits, address := s.auth.limits, limit.Address(ctx)
	if _, _, err := limits.Take(limit.Verify, address); err != nil {
		return err
	}
	return s.use(ctx)
}

func (s *RequestSignIn) use(ctx context.Context) error {
	a, address := s.auth, limit.Address(ctx)
	if !s.byKey {
		signed, err := a.signedBySmartAccount(ctx, s.challenge.Wallet, s.digest, s.signature)
		if err != nil {
			return err
		}
		if !signed {
			return requestInvalid("it is not signed by its address")
		}
	}
	now := a.now().UTC()
	c := s.challenge
	c.Source, c.ConsumedAt = a.limits.Source(address), &now
	hits := append(a.limits.AddressHits(limit.Challenge, address), limit.Hit{
		Class: limit.Challenge, Name: "for one request", Rate: limit.Rate{Count: mostRequests, Per: a.signInTTL},
	})
	fresh, err := a.challenges.Spend(ctx, c, hits...)
	if err != nil {
		return fmt.Errorf("use a sign-in up: %w", err)
	}
	if !fresh {
		return requestInvalid("it was used before")
	}
	return nil
}

// AuthenticateRequest is the wallet that signed in for this request alone, by a header SIGN-IN-WITH-X, with the scopes
// of its sessions but reveal. The errors are those of ReadRequestSignIn and Use.
func (a *Auth) AuthenticateRequest(ctx context.Context, header string) (Caller, error) {
	if _, _, err := a.limits.Take(limit.Verify, limit.Address(ctx)); err != nil {
		return Caller{}, err
	}
	s, err := a.ReadRequestSignIn(header, "")
	if err != nil {
		return Caller{}, err
	}
	if err := s.use(ctx); err != nil {
		return Caller{}, err
	}
	var scopes []Scope
	for _, scope := range a.scopesFor(s.Wallet()) {
		if scope != ScopeReveal { // a reveal is bound to a session, and the message says that it reveals no card
			scopes = append(scopes, scope)
		}
	}
	return Caller{Kind: KindWallet, Wallet: s.Wallet(), Scopes: scopes, ExpiresAt: s.challenge.ExpiresAt}, nil
}

func requestInvalid(why string) error {
	return fault.New(fault.SignatureInvalid, "The "+x402.HeaderSignIn+" proves no wallet: "+why+
		". A new message is in the PAYMENT-REQUIRED of a purchase.")
}
