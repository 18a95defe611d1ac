package auth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// mark ends the signature of the smart account of these tests, behind its owner's.
const mark = "00"

// owned is a smart account with one owner, unless the chain is down.
type owned struct {
	account, owner x402.Address
	down           error
	asked          int
}

func (o *owned) SignedBy(_ context.Context, account x402.Address, digest x402.Hash, s x402.Signature) error {
	o.asked++
	if o.down != nil {
		return o.down
	}
	if account != o.account {
		return &x402.PayerKindError{}
	}
	if signer, err := curve.Recover(digest, s[:len(s)-1]); err != nil || signer != o.owner {
		return curve.ErrNotSigned
	}
	return nil
}

func TestSmartAccountSignsInAndReveals(t *testing.T) {
	d, owner, stranger := newBench(t), authtest.NewWallet(t, "ada"), authtest.NewWallet(t, "eve")
	chain := &owned{account: x402.Address{19: 7}, owner: owner.Address()}
	keysOnly := d
	a := d.with(t, func(c *auth.Config) { c.SmartAccounts = chain })
	begin := func() auth.Challenge {
		t.Helper()
		c, _, err := a.Challenge(t.Context(), chain.account, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	request := func(c auth.Challenge, by authtest.Wallet) auth.VerifyRequest {
		return auth.VerifyRequest{Wallet: chain.account, IntentID: c.ID, Signature: by.SignText(c.Message) + mark}
	}
	wantInvalid := func(what string, err error) {
		t.Helper()
		if fault.Of(err) != fault.SignatureInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := a.Verify(t.Context(), request(begin(), stranger))
	wantInvalid("signed by no owner", err)
	_, _, err = keysOnly.Verify(t.Context(), request(begin(), owner))
	wantInvalid("where no smart account signs in", err)
	other := request(begin(), owner)
	other.Signature = owner.SignText("something else") + mark
	_, _, err = a.Verify(t.Context(), other)
	wantInvalid("signed for something else", err)
	asked := chain.asked
	unnamed := request(begin(), owner)
	unnamed.IntentID = [16]byte{}
	_, _, err = a.Verify(t.Context(), unnamed)
	wantInvalid("for no challenge by name", err)
	if chain.asked != asked {
		t.Errorf("the chain was asked %d times for challenges that nobody named", chain.asked-asked)
	}

	c := begin()
	chain.down = errors.New("no node answers")
	if _, _, err := a.Verify(t.Context(), request(c, owner)); fault.Of(err) != fault.DependencyDown {
		t.Errorf("while the chain is down: %v", err)
	}
	chain.down = nil
	session, token, err := a.Verify(t.Context(), request(c, owner))
	if err != nil {
		t.Fatalf("the same request again: %v", err)
	}
	if lasts := session.ExpiresAt.Sub(session.IssuedAt); lasts != 15*time.Minute {
		t.Errorf("the session lasts %s", lasts)
	}
	_, _, err = a.Verify(t.Context(), request(c, owner))
	wantInvalid("a second time", err)

	caller, err := a.Authenticate(t.Context(), "Bearer "+token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	reveal := func(by authtest.Wallet) error {
		t.Helper()
		c, _, err := a.RevealChallenge(t.Context(), caller, cardOne, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Reveal(t.Context(), caller, auth.RevealRequest{
			CardID: cardOne, IntentID: c.ID, Signature: by.SignText(c.Message) + mark,
		})
		return err
	}
	if err := reveal(stranger); fault.Of(err) != fault.ChallengeInvalid {
		t.Errorf("revealed to a stranger: %v", err)
	}
	if err := reveal(owner); err != nil {
		t.Error(err)
	}
	chain.owner = x402.Address{}
	if err := reveal(owner); fault.Of(err) != fault.ChallengeInvalid {
		t.Errorf("revealed to an owner that is removed: %v", err)
	}
}
