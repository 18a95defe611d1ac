package auth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// countingChallenges counts turns as the database does: those of a Consume only with what it consumes.
type countingChallenges struct {
	auth.Challenges
	counts *limit.Limiter
}

func (s countingChallenges) take(turns []limit.Hit) error {
	for _, turn := range turns {
		if _, _, err := s.counts.Take(turn.Class, turn.Name); err != nil {
			return err
		}
	}
	return nil
}

func (s countingChallenges) Consume(
	ctx context.Context, id uuid.UUID, now time.Time, turns ...limit.Hit,
) (bool, error) {
	if c, err := s.Find(ctx, id); err == nil && c.ConsumedAt == nil {
		if err := s.take(turns); err != nil {
			return false, err
		}
	}
	return s.Challenges.Consume(ctx, id, now)
}

func (s countingChallenges) Void(ctx context.Context, id uuid.UUID, now time.Time, turns ...limit.Hit) error {
	if err := s.take(turns); err != nil {
		return err
	}
	return s.Challenges.Void(ctx, id, now)
}

const revealsAnHour = 3

// limitedReveals is a bench whose reveals are limited in the process and in what stands for the database.
func limitedReveals(t *testing.T) (*bench, *auth.Auth) {
	t.Helper()
	d := newBench(t)
	rates := limit.Rates{limit.Reveal: {Count: revealsAnHour, Per: time.Hour}}
	return d, d.with(t, func(c *auth.Config) {
		c.Challenges = countingChallenges{d.challenges, limit.New(rates, d.clock.Now)}
		c.Limits = limit.New(rates, d.clock.Now)
	})
}

// signedReveal is a request that the caller's wallet signed.
func signedReveal(t *testing.T, a *auth.Auth, caller auth.Caller, w authtest.Wallet) auth.RevealRequest {
	t.Helper()
	c, document, err := a.RevealChallenge(t.Context(), caller, cardOne, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return auth.RevealRequest{CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document)}
}

// TestStolenSessionUsesUpNoRevealOfTheOwner in any way that needs no signature of the owner's.
func TestStolenSessionUsesUpNoRevealOfTheOwner(t *testing.T) {
	for name, try := range map[string]func(t *testing.T, a *auth.Auth, caller auth.Caller) auth.RevealRequest{
		"wrong signature": func(t *testing.T, a *auth.Auth, caller auth.Caller) auth.RevealRequest {
			return signedReveal(t, a, caller, authtest.NewWallet(t, "eve"))
		},
		"no signature": func(t *testing.T, a *auth.Auth, caller auth.Caller) auth.RevealRequest {
			r := signedReveal(t, a, caller, authtest.NewWallet(t, "eve"))
			r.Signature = "0x"
			return r
		},
		"unknown challenge": func(t *testing.T, a *auth.Auth, caller auth.Caller) auth.RevealRequest {
			r := signedReveal(t, a, caller, authtest.NewWallet(t, "eve"))
			r.IntentID = uuid.New()
			return r
		},
		"signature that was used": func() func(*testing.T, *auth.Auth, auth.Caller) auth.RevealRequest {
			var used *auth.RevealRequest
			return func(t *testing.T, a *auth.Auth, caller auth.Caller) auth.RevealRequest {
				if used == nil {
					r := signedReveal(t, a, caller, authtest.NewWallet(t, "ada"))
					if _, err := a.Reveal(t.Context(), caller, r); err != nil {
						t.Fatal(err)
					}
					used = &r
				}
				return *used
			}
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			d, a := limitedReveals(t)
			w := authtest.NewWallet(t, "ada")
			caller, _ := d.signIn(t, w)
			for i, want := range []fault.Code{fault.ChallengeInvalid, fault.ChallengeInvalid, fault.ChallengeInvalid,
				fault.RateLimited} {
				if _, err := a.Reveal(t.Context(), caller, try(t, a, caller)); fault.Of(err) != want {
					t.Errorf("try %d: %v, want %s", i+1, err, want)
				}
			}
			if _, err := a.Reveal(t.Context(), caller, signedReveal(t, a, caller, w)); err != nil {
				t.Errorf("the owner in the same session: %v", err)
			}
			other, _ := d.signIn(t, w)
			if _, err := a.Reveal(t.Context(), other, signedReveal(t, a, other, w)); err != nil {
				t.Errorf("the owner in another session: %v", err)
			}
		})
	}
}

// TestOwnersRevealsAreCountedOverAllSessions, each signature once, however often it is sent at once.
func TestOwnersRevealsAreCountedOverAllSessions(t *testing.T) {
	d, a := limitedReveals(t)
	w := authtest.NewWallet(t, "ada")
	for range revealsAnHour {
		caller, _ := d.signIn(t, w)
		r := signedReveal(t, a, caller, w)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := a.Reveal(t.Context(), caller, r); fault.Of(err) == "" && err != nil {
					t.Errorf("Reveal: %v", err)
				}
			})
		}
		all.Wait()
		if c, err := d.challenges.Find(t.Context(), r.IntentID); err != nil || c.ConsumedAt == nil {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	caller, _ := d.signIn(t, w)
	r := signedReveal(t, a, caller, w)
	if _, err := a.Reveal(t.Context(), caller, r); fault.Of(err) != fault.RateLimited {
		t.Errorf("one more than the rate: %v", err)
	}
	if c, err := d.challenges.Find(t.Context(), r.IntentID); err != nil || c.ConsumedAt != nil {
		t.Errorf("the refusal spent the challenge: %+v, %v", c, err)
	}
	d.clock.pass(time.Hour / revealsAnHour)
	if _, err := a.Reveal(t.Context(), caller, signedReveal(t, a, caller, w)); err != nil {
		t.Errorf("later: %v", err)
	}
}
