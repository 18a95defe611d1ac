package roamcardtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	challengeTime = 5 * time.Minute
	sessionTime   = time.Hour
)

var scopes = []any{"cards", "orders"}

type challenge struct {
	wallet  x402.Address
	text    string
	expires time.Time
}

type session struct {
	wallet  x402.Address
	expires time.Time
}

// createChallenge gives a text to sign in with (EIP-4361).
func (s *Service) createChallenge(c call) answer {
	wallet, err := x402.ParseAddress(c.text("address"))
	if err != nil {
		return c.problem("schema_invalid", "The address is none.")
	}
	id, expires := s.id("intent"), s.now().Add(challengeTime)
	text := fmt.Sprintf("%s wants you to sign in with your Ethereum account:\n%s\n\nSign in to roamcard. This moves no "+
		"money and reveals no card.\n\n"+
		"URI: %s\nVersion: 1\nChain ID: %d\nNonce: %s\nIssued At: %s\nExpiration Time: %s\nRequest ID: %s",
		strings.TrimPrefix(s.origin, "http://"), wallet, s.origin, x402.ChainID, strings.ReplaceAll(s.id("nonce"), "-", ""),
		s.text(s.now()), s.text(expires), id)
	s.challenges[id] = challenge{wallet, text, expires}
	return c.ok(map[string]any{"intentId": id, "messageScheme": "eip191", "message": text, "expiresAt": s.text(expires)})
}

// verifyChallenge signs in, once for each challenge.
func (s *Service) verifyChallenge(c call) answer {
	asked, known := s.challenges[c.text("intentId")]
	delete(s.challenges, c.text("intentId"))
	signature, err := x402.ParseSignature(c.text("signature"))
	signer, err2 := curve.Recover(handshake.PersonalDigest(asked.text), signature)
	if !known || err != nil || err2 != nil || signer != asked.wallet || s.now().After(asked.expires) {
		return c.problem("challenge_invalid", "The challenge is not signed by its wallet.")
	}
	token := "rcs_" + s.id("session")
	in := session{asked.wallet, s.now().Add(sessionTime)}
	s.sessions[token] = in
	return c.ok(map[string]any{"accessToken": token, "tokenType": "Bearer", "wallet": in.wallet.String(), "scopes": scopes,
		"expiresAt": s.text(in.expires)})
}

func (s *Service) signedIn(c call) (in session, ok bool) {
	in, ok = s.sessions[bearer(c)]
	return in, ok && s.now().Before(in.expires)
}

func bearer(c call) string { return strings.TrimPrefix(c.header.Get("Authorization"), "Bearer ") }

func (s *Service) text(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
