package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// buy pays with the first wallet that can.
func (s *story) buy(ctx context.Context) error {
	s.begin("Choose a wallet")
	var unfit []string
	for _, secret := range s.Wallets {
		w, err := openWallet(secret)
		if err != nil {
			return err
		}
		s.wallet, s.summary.Wallet = w, w.address.String()
		reason, err := s.unfit(ctx)
		if err != nil {
			return err
		}
		if reason == "" {
			err = s.pay(ctx)
			p, ok := errors.AsType[*Problem](err)
			if !ok || p.Code != fault.CardAlreadyExists {
				return err
			}
			s.begin("Choose another wallet")
			reason = "has bought a card meanwhile; nothing moved"
		}
		s.say("%s %s.", w.address, reason)
		unfit = append(unfit, w.address.String()+" "+reason)
	}
	s.summary.Wallet = ""
	return fmt.Errorf("%w (%s). Next: use another wallet, or start roamcard dev on a new folder",
		ErrNoWallet, strings.Join(append(unfit, fmt.Sprintf("%d tried", len(unfit))), "; "))
}

// unfit says why the wallet cannot buy; empty when it can. Only the owner may ask after a card, so it
// signs in for that. To pay, no sign-in is needed.
func (s *story) unfit(ctx context.Context) (reason string, err error) {
	s.before, err = balance(ctx, s.HTTP, s.RPCURL, s.terms.domain.Contract, s.wallet.address)
	if err != nil {
		return "", err
	}
	if s.before < s.terms.amount {
		return fmt.Sprintf("has %s USDC, too little for %s", dollars(s.before), dollars(s.terms.amount)), nil
	}
	scopes, err := s.signIn(ctx)
	if err != nil {
		return "", err
	}
	err = s.client.post(ctx, "/api/cards", s.token, nil, &struct{}{})
	p, ok := errors.AsType[*Problem](err)
	switch {
	case err == nil:
		return "owns a card already, and one wallet owns one card", nil
	case !ok || p.Code != fault.PaidIssueRequired:
		return "", err
	}
	s.say("%s holds %s USDC, says the chain.", s.wallet.address, dollars(s.before))
	s.say("Signed in with it (EIP-4361, personal_sign); the session may: %s.", strings.Join(scopes, ", "))
	s.say("POST /api/cards answers %d %s: it owns no card yet.", http.StatusConflict, p.Code)
	return "", nil
}

// signIn proves the wallet by a signed message and gets a session.
func (s *story) signIn(ctx context.Context) (scopes []string, err error) {
	who := s.wallet.address.String()
	var ch challenge
	err = s.client.post(ctx, "/api/auth/challenge", telemetry.Secret{},
		map[string]any{"address": who, "preferredMessageSchemes": schemes()}, &ch)
	if err != nil {
		return nil, err
	}
	signature, err := s.signMessage(ch, nil)
	if err != nil {
		return nil, err
	}
	var session struct {
		AccessToken string   `json:"accessToken"`
		Scopes      []string `json:"scopes"`
	}
	err = s.client.post(ctx, "/api/auth/verify", telemetry.Secret{},
		map[string]any{"address": who, "intentId": ch.IntentID, "messageScheme": schemes()[0], "signature": signature}, &session)
	if err != nil {
		return nil, err
	}
	s.token = telemetry.NewSecret(session.AccessToken)
	return session.Scopes, nil
}
