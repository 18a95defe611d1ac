package auth_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestWalletSignsIn(t *testing.T) {
	for _, scheme := range bothSchemes {
		t.Run(string(scheme), func(t *testing.T) {
			d, w := newBench(t), authtest.NewWallet(t, "ada")
			c, document, err := d.Challenge(t.Context(), w.Address(), []auth.Scheme{scheme})
			if err != nil {
				t.Fatal(err)
			}
			if c.Scheme != scheme || (document == nil) != (scheme == auth.EIP191) ||
				c.ExpiresAt.Sub(c.IssuedAt) != 5*time.Minute {
				t.Errorf("challenge %+v, document %v", c, document)
			}
			session, token, err := d.Verify(t.Context(), auth.VerifyRequest{
				Wallet: w.Address(), Signature: w.Sign(c, document), IntentID: c.ID, Scheme: scheme, Message: &c.Message,
			})
			if err != nil {
				t.Fatal(err)
			}
			caller, err := d.Authenticate(t.Context(), "Bearer "+token.Reveal())
			if err != nil {
				t.Fatal(err)
			}
			want := auth.Caller{
				Kind: auth.KindWallet, Wallet: w.Address(), SessionID: session.ID, ExpiresAt: c.IssuedAt.Add(time.Hour),
				Scopes: []auth.Scope{auth.ScopeOrders, auth.ScopeCards, auth.ScopeReveal},
			}
			if diff := cmp.Diff(want, caller); diff != "" {
				t.Errorf("caller (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignInMessageSaysWhatIsSigned(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	c, _, err := d.Challenge(t.Context(), w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := handshake.ParseMessage(c.Message)
	if err != nil {
		t.Fatal(err)
	}
	want := handshake.Message{
		Domain: "cards.example:8402", Address: w.Address(), URI: "https://cards.example:8402", ChainID: 8453,
		Statement: "Sign in to roamcard. This moves no money and reveals no card.", Nonce: c.Nonce,
		IssuedAt: "2026-03-01T12:00:00.123Z", ExpirationTime: "2026-03-01T12:05:00.123Z", RequestID: c.ID.String(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if again, _, _ := d.Challenge(t.Context(), w.Address(), nil); again.Nonce == c.Nonce || again.ID == c.ID ||
		len(c.Nonce) < 26 {
		t.Errorf("nonce %s and id %s came back", c.Nonce, c.ID)
	}
}

func TestSchemeIsTheFirstOffered(t *testing.T) {
	d := newBench(t)
	for _, tc := range []struct {
		offered []auth.Scheme
		want    auth.Scheme
	}{
		{nil, auth.EIP191},
		{[]auth.Scheme{auth.EIP712, auth.EIP191}, auth.EIP712},
		{[]auth.Scheme{auth.EIP191, auth.EIP712}, auth.EIP191},
		{[]auth.Scheme{"eip1271", auth.EIP712}, auth.EIP712},
	} {
		c, _, err := d.Challenge(t.Context(), x402.Address{1}, tc.offered)
		if err != nil || c.Scheme != tc.want {
			t.Errorf("%v: %s, %v", tc.offered, c.Scheme, err)
		}
	}
	if _, _, err := d.Challenge(t.Context(), x402.Address{1},
		[]auth.Scheme{"eip1271"}); fault.Of(err) != fault.SchemaInvalid {
		t.Errorf("err = %v", err)
	}
}

// attempt is a sign-in before its verification; each case changes one thing.
type attempt struct {
	d        *bench
	w        authtest.Wallet
	c        auth.Challenge
	document auth.TypedData
	request  auth.VerifyRequest
	verify   *auth.Auth
}

var wrongSignIns = map[string]func(t *testing.T, a *attempt){
	"another wallet signed": func(t *testing.T, a *attempt) {
		a.request.Signature = authtest.NewWallet(t, "eve").Sign(a.c, a.document)
	},
	"another wallet claims it": func(t *testing.T, a *attempt) {
		a.request.Wallet = authtest.NewWallet(t, "eve").Address()
	},
	"another wallet signed and claims it": func(t *testing.T, a *attempt) {
		eve := authtest.NewWallet(t, "eve")
		a.request.Wallet, a.request.Signature = eve.Address(), eve.Sign(a.c, a.document)
	},
	"unknown challenge": func(_ *testing.T, a *attempt) { a.request.IntentID = uuid.New() },
	"expired":           func(_ *testing.T, a *attempt) { a.d.clock.pass(5 * time.Minute) },
	"issued in the future": func(_ *testing.T, a *attempt) {
		a.d.clock.pass(-31 * time.Second)
	},
	"consumed": func(t *testing.T, a *attempt) {
		if _, _, err := a.d.Verify(t.Context(), a.request); err != nil {
			t.Fatal(err)
		}
	},
	"scheme is not the challenge's": func(_ *testing.T, a *attempt) { a.request.Scheme = otherScheme(a.c.Scheme) },
	"unknown scheme":                func(_ *testing.T, a *attempt) { a.request.Scheme = "eip1271" },
	"signed with the other scheme": func(t *testing.T, a *attempt) {
		if a.c.Scheme == auth.EIP712 {
			a.request.Signature = a.w.SignText(a.c.Message)
			return
		}
		_, document, _ := a.d.Challenge(t.Context(), a.w.Address(), []auth.Scheme{auth.EIP712})
		message := document["message"].(map[string]any)
		message["nonce"], message["requestId"] = a.c.Nonce, a.c.ID.String()
		a.request.Signature = a.w.SignTyped(document)
	},
	"another challenge signed": func(t *testing.T, a *attempt) {
		c, document, _ := a.d.Challenge(t.Context(), a.w.Address(), []auth.Scheme{a.c.Scheme})
		a.request.Signature = a.w.Sign(c, document)
	},
	"message changed and signed": func(_ *testing.T, a *attempt) {
		changed := strings.Replace(a.c.Message, "moves no money", "moves all money", 1)
		a.request.Message, a.request.Signature = &changed, a.w.SignText(changed)
	},
	"message has a line more": func(_ *testing.T, a *attempt) { m := a.c.Message + "\n"; a.request.Message = &m },
	"message is empty":        func(_ *testing.T, a *attempt) { a.request.Message = new(string) },
	"chain changed in what was signed": func(_ *testing.T, a *attempt) {
		if a.c.Scheme == auth.EIP191 {
			a.request.Signature = a.w.SignText(strings.Replace(a.c.Message, "Chain ID: 8453", "Chain ID: 84532", 1))
			return
		}
		a.document["domain"].(map[string]any)["chainId"] = int64(84532)
		a.request.Signature = a.w.SignTyped(a.document)
	},
	"verified for another chain": func(t *testing.T, a *attempt) {
		a.verify = a.d.with(t, func(c *auth.Config) { c.ChainID = 84532 })
	},
	"verified at another domain": func(t *testing.T, a *attempt) {
		a.verify = a.d.with(t, func(c *auth.Config) { c.Domain = "cards.example" })
	},
	"verified at another URI": func(t *testing.T, a *attempt) {
		a.verify = a.d.with(t, func(c *auth.Config) { c.URI = "https://cards.example" })
	},
	"stored message changed": func(_ *testing.T, a *attempt) {
		a.c.Message = strings.Replace(a.c.Message, "2026", "2027", 1)
		a.d.challenges.Put(a.c)
		a.request.Signature = a.w.Sign(a.c, a.document)
	},
	"stored expiry changed": func(_ *testing.T, a *attempt) {
		a.c.ExpiresAt = a.c.ExpiresAt.Add(time.Hour)
		a.d.challenges.Put(a.c)
	},
	"stored purpose changed": func(_ *testing.T, a *attempt) {
		a.c.Purpose = auth.PurposeReveal
		a.d.challenges.Put(a.c)
	},
}

func TestWrongSignInsAreIndistinguishable(t *testing.T) {
	same := &uniform{code: fault.SignatureInvalid}
	cases := maps.Clone(wrongSignIns)
	for name, alter := range badSignatures {
		cases["signature: "+name] = func(_ *testing.T, a *attempt) { a.request.Signature = alter(a.request.Signature) }
	}
	for _, scheme := range bothSchemes {
		for name, alter := range cases {
			t.Run(string(scheme)+" "+name, func(t *testing.T) {
				d, w := newBench(t), authtest.NewWallet(t, "ada")
				c, document, err := d.Challenge(t.Context(), w.Address(), []auth.Scheme{scheme})
				if err != nil {
					t.Fatal(err)
				}
				a := &attempt{d: d, w: w, c: c, document: document, verify: d.Auth}
				a.request = auth.VerifyRequest{Wallet: w.Address(), Signature: w.Sign(c, document), IntentID: c.ID}
				good := a.request
				alter(t, a)
				_, token, err := a.verify.Verify(t.Context(), a.request)
				same.check(t, err)
				if !token.IsZero() {
					t.Error("a token came with the fault")
				}
				if a.request.IntentID == c.ID {
					// The challenge was named, so it is consumed: the valid signature is too late.
					_, _, err = d.Verify(t.Context(), good)
					same.check(t, err)
				}
			})
		}
	}
}

func TestSignInSurvivesAStrangersWrongSignature(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	same := &uniform{code: fault.SignatureInvalid}
	_, _, err := d.Verify(t.Context(), auth.VerifyRequest{Wallet: w.Address(), Signature: w.SignText("no challenge yet")})
	same.check(t, err)

	c, document, err := d.Challenge(t.Context(), w.Address(), []auth.Scheme{auth.EIP712})
	if err != nil {
		t.Fatal(err)
	}
	for _, alter := range badSignatures {
		_, _, err := d.Verify(t.Context(), auth.VerifyRequest{Wallet: w.Address(), Signature: alter(w.Sign(c, document))})
		same.check(t, err)
	}
	request := auth.VerifyRequest{Wallet: w.Address(), Signature: w.Sign(c, document)}
	if _, _, err := d.Verify(t.Context(), request); err != nil {
		t.Fatalf("the owner is locked out: %v", err)
	}
	_, _, err = d.Verify(t.Context(), request)
	same.check(t, err)
}

func TestSignInMessageNamesItsChallenge(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	c, document, err := d.Challenge(t.Context(), w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d.clock.pass(time.Second)
	if _, _, err := d.Challenge(t.Context(), w.Address(), nil); err != nil { // a stranger asks for a newer one
		t.Fatal(err)
	}
	request := auth.VerifyRequest{Wallet: w.Address(), Signature: w.Sign(c, document), Message: &c.Message}
	if _, _, err := d.Verify(t.Context(), request); err != nil {
		t.Errorf("the older challenge was not found by its message: %v", err)
	}
}

// TestSignInCountsWhicheverOpenChallengeIsSigned has strangers ask for challenges of the wallet all the time, as many
// as the rate of one address lets through and from many addresses, with the required fields alone in the request.
func TestSignInCountsWhicheverOpenChallengeIsSigned(t *testing.T) {
	for _, scheme := range bothSchemes {
		for name, addresses := range map[string]int{"one stranger": 1, "the owner's address": 0, "many strangers": 200} {
			t.Run(string(scheme)+" "+name, func(t *testing.T) {
				d, w := newBench(t), authtest.NewWallet(t, "ada")
				limits := limit.NewLimiter(limit.Config{Rates: limit.Defaults(), Now: d.clock.Now, Key: []byte("key")})
				a := d.with(t, func(c *auth.Config) { c.Limits = limits })
				home := limit.WithAddress(t.Context(), "192.0.2.1")
				c, document, err := a.Challenge(home, w.Address(), []auth.Scheme{scheme})
				if err != nil {
					t.Fatal(err)
				}
				asks := max(addresses, 48) // those of one address within the life of a challenge
				for i := range asks {
					d.clock.pass(4 * time.Minute / time.Duration(asks))
					from := fmt.Sprintf("198.51.100.%d", i%max(addresses, 1))
					if addresses == 0 {
						from = "192.0.2.1"
					}
					if _, _, err := a.Challenge(limit.WithAddress(t.Context(), from), w.Address(), nil); err != nil {
						t.Fatal(err)
					}
				}
				request := auth.VerifyRequest{Wallet: w.Address(), Signature: w.Sign(c, document)}
				if _, _, err := a.Verify(home, request); err != nil {
					t.Errorf("the owner is kept out: %v", err)
				}
				if _, _, err := a.Verify(home, request); fault.Of(err) != fault.SignatureInvalid {
					t.Errorf("the same signature again: %v", err)
				}
			})
		}
	}
}

// TestSignInFromAnotherAddressThanItsChallenge is one of a phone that changes its network, while a stranger asks.
func TestSignInFromAnotherAddressThanItsChallenge(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	limits := limit.NewLimiter(limit.Config{Now: d.clock.Now, Key: []byte("key")})
	a := d.with(t, func(c *auth.Config) { c.Limits = limits })
	c, document, err := a.Challenge(limit.WithAddress(t.Context(), "192.0.2.1"), w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * auth.OpenAtMost {
		d.clock.pass(time.Millisecond)
		if _, _, err := a.Challenge(limit.WithAddress(t.Context(), "198.51.100.1"), w.Address(), nil); err != nil {
			t.Fatal(err)
		}
	}
	request := auth.VerifyRequest{Wallet: w.Address(), Signature: w.Sign(c, document)}
	if _, _, err := a.Verify(limit.WithAddress(t.Context(), "192.0.2.2"), request); err != nil {
		t.Errorf("the owner is kept out: %v", err)
	}
}

func TestSignInSucceedsForOneOfManyCalls(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	c, document, err := d.Challenge(t.Context(), w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	signature := w.Sign(c, document)
	var sessions atomic.Int32
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			r := auth.VerifyRequest{Wallet: w.Address(), Signature: signature}
			if i%2 == 0 {
				r.IntentID = c.ID
			}
			if _, _, err := d.Verify(t.Context(), r); err == nil {
				sessions.Add(1)
			} else if fault.Of(err) != fault.SignatureInvalid {
				t.Errorf("err = %v", err)
			}
		})
	}
	wg.Wait()
	if n := sessions.Load(); n != 1 {
		t.Errorf("%d sessions from one signature", n)
	}
}

// brokenChallenges fails in one method.
type brokenChallenges struct {
	auth.Challenges
	create, find, open, consume error
}

func (b brokenChallenges) Create(ctx context.Context, c auth.Challenge, turns ...limit.Hit) error {
	return errors.Join(b.create, b.Challenges.Create(ctx, c, turns...))
}

func (b brokenChallenges) Find(ctx context.Context, id uuid.UUID) (auth.Challenge, error) {
	c, err := b.Challenges.Find(ctx, id)
	return c, errors.Join(b.find, err)
}

func (b brokenChallenges) Open(
	ctx context.Context, w x402.Address, p auth.Purpose, source string, now time.Time,
) ([]auth.Challenge, error) {
	c, err := b.Challenges.Open(ctx, w, p, source, now)
	return c, errors.Join(b.open, err)
}

func (b brokenChallenges) Consume(ctx context.Context, id uuid.UUID, now time.Time, turns ...limit.Hit) (bool, error) {
	if b.consume != nil {
		return false, b.consume
	}
	return b.Challenges.Consume(ctx, id, now, turns...)
}

func TestSignInReportsABrokenStoreAsInternal(t *testing.T) {
	down := errors.New("database is down")
	for name, broken := range map[string]brokenChallenges{
		"create": {create: down}, "find": {find: down}, "open": {open: down}, "consume": {consume: down},
	} {
		d, w := newBench(t), authtest.NewWallet(t, "ada")
		caller, _ := d.signIn(t, w)
		signIn, _, _ := d.Challenge(t.Context(), w.Address(), nil)
		reveal, _, _ := d.RevealChallenge(t.Context(), caller, uuid.New(), nil, nil)
		broken.Challenges = d.challenges
		a := d.with(t, func(c *auth.Config) { c.Challenges = broken })

		var err error
		switch name {
		case "create":
			_, _, err = a.Challenge(t.Context(), w.Address(), nil)
		case "open":
			_, _, err = a.Verify(t.Context(), auth.VerifyRequest{Wallet: w.Address(), Signature: w.SignText(signIn.Message)})
		default:
			request := auth.RevealRequest{CardID: reveal.CardID, IntentID: reveal.ID, Signature: w.SignText(reveal.Message)}
			if _, err := a.Reveal(t.Context(), caller, request); !errors.Is(err, down) || fault.Of(err) != "" {
				t.Errorf("%s, reveal: %v", name, err)
			}
			_, _, err = a.Verify(t.Context(), auth.VerifyRequest{
				Wallet: w.Address(), IntentID: signIn.ID, Signature: w.SignText(signIn.Message),
			})
		}
		if !errors.Is(err, down) || fault.Of(err) != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
