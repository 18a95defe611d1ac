package auth_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
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
	"github.com/roamcard/roamcard/internal/x402"
)

var cardOne, cardTwo = uuid.MustParse("0b0c6f0e-5d7c-4b8a-9a55-1c3f0d4f5a11"),
	uuid.MustParse("1b0c6f0e-5d7c-4b8a-9a55-1c3f0d4f5a12")

func recipientKey(t *testing.T, seed byte) []byte {
	t.Helper()
	key, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return key.PublicKey().Bytes()
}

func TestRevealWorksOnceForTheOwner(t *testing.T) {
	for _, scheme := range bothSchemes {
		for name, key := range map[string][]byte{"open": nil, "sealed": recipientKey(t, 1)} {
			t.Run(string(scheme)+" "+name, func(t *testing.T) {
				d, w := newBench(t), authtest.NewWallet(t, "ada")
				caller, _ := d.signIn(t, w)
				c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{scheme}, key)
				if err != nil {
					t.Fatal(err)
				}
				if (document == nil) != (scheme == auth.EIP191) || c.ExpiresAt.Sub(c.IssuedAt) != 300*time.Second {
					t.Errorf("challenge %+v, document %v", c, document)
				}
				request := auth.RevealRequest{
					CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document), Scheme: scheme, RecipientKey: key,
				}
				got, err := d.Reveal(t.Context(), caller, request)
				if err != nil || !bytes.Equal(got, key) || (got == nil) != (key == nil) {
					t.Fatalf("Reveal = %x, %v", got, err)
				}
				if _, err := d.Reveal(t.Context(), caller, request); fault.Of(err) != fault.ChallengeInvalid {
					t.Errorf("a second reveal: %v", err)
				}
			})
		}
	}
}

func TestRevealUsesTheSignedKeyWhenTheRequestNamesNone(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	caller, _ := d.signIn(t, w)
	key := recipientKey(t, 1)
	c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Reveal(t.Context(), caller, auth.RevealRequest{
		CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document),
	})
	if err != nil || !bytes.Equal(got, key) {
		t.Errorf("Reveal = %x, %v", got, err)
	}
}

func TestRevealMessageNamesCardSessionAndKey(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	caller, _ := d.signIn(t, w)
	key := recipientKey(t, 1)
	c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{auth.EIP712}, key)
	if err != nil {
		t.Fatal(err)
	}
	m, err := handshake.ParseMessage(c.Message)
	if err != nil {
		t.Fatal(err)
	}
	keyText := base64.RawURLEncoding.EncodeToString(key)
	want := []string{
		"urn:roamcard:card:" + cardOne.String(), "urn:roamcard:session:" + caller.SessionID.String(),
		"urn:roamcard:recipient-key:" + keyText,
	}
	if diff := cmp.Diff(want, m.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(m.Statement, "Reveal card "+cardOne.String()+" once.") {
		t.Errorf("statement = %q", m.Statement)
	}
	message := document["message"].(map[string]any)
	if document["primaryType"] != "RevealCard" || message["cardId"] != cardOne.String() ||
		message["sessionId"] != caller.SessionID.String() || message["recipientKey"] != keyText ||
		message["statement"] != m.Statement {
		t.Errorf("typed data %v", document)
	}
}

// opening is a reveal before its verification; each case changes one thing.
type opening struct {
	d        *bench
	w        authtest.Wallet
	scheme   auth.Scheme
	c        auth.Challenge
	document auth.TypedData
	caller   auth.Caller
	request  auth.RevealRequest
	reveal   *auth.Auth
}

// signOther makes another reveal challenge and signs that.
func (o *opening) signOther(t *testing.T, card uuid.UUID, key []byte) {
	t.Helper()
	c, document, err := o.d.RevealChallenge(t.Context(), o.caller, card, []auth.Scheme{o.scheme}, key)
	if err != nil {
		t.Fatal(err)
	}
	o.request.Signature = o.w.Sign(c, document)
}

// store changes the stored challenge after it was signed.
func (o *opening) store(change func(*auth.Challenge)) {
	change(&o.c)
	o.d.challenges.Put(o.c)
}

var wrongReveals = map[string]func(t *testing.T, o *opening){
	"another wallet signed": func(t *testing.T, o *opening) {
		o.request.Signature = authtest.NewWallet(t, "eve").Sign(o.c, o.document)
	},
	"another wallet's session": func(t *testing.T, o *opening) {
		o.caller, _ = o.d.signIn(t, authtest.NewWallet(t, "eve"))
	},
	"another wallet's session and signature": func(t *testing.T, o *opening) {
		eve := authtest.NewWallet(t, "eve")
		o.caller, _ = o.d.signIn(t, eve)
		o.request.Signature = eve.Sign(o.c, o.document)
	},
	"another wallet in the same session": func(t *testing.T, o *opening) {
		o.caller.Wallet = authtest.NewWallet(t, "eve").Address()
	},
	"issued in the future":         func(_ *testing.T, o *opening) { o.d.clock.pass(-31 * time.Second) },
	"another session of the owner": func(t *testing.T, o *opening) { o.caller, _ = o.d.signIn(t, o.w) },
	"another card":                 func(_ *testing.T, o *opening) { o.request.CardID = cardTwo },
	"another card signed":          func(t *testing.T, o *opening) { o.signOther(t, cardTwo, o.c.RecipientKey) },
	"another card stored": func(_ *testing.T, o *opening) {
		o.store(func(c *auth.Challenge) { c.CardID = cardTwo })
		o.request.CardID = cardTwo
	},
	"another challenge signed": func(t *testing.T, o *opening) { o.signOther(t, cardOne, o.c.RecipientKey) },
	"another key":              func(t *testing.T, o *opening) { o.request.RecipientKey = recipientKey(t, 2) },
	"another key signed":       func(t *testing.T, o *opening) { o.signOther(t, cardOne, recipientKey(t, 2)) },
	"no key signed":            func(t *testing.T, o *opening) { o.signOther(t, cardOne, nil) },
	"another key stored": func(t *testing.T, o *opening) {
		key := recipientKey(t, 2)
		o.store(func(c *auth.Challenge) { c.RecipientKey = key })
		o.request.RecipientKey = key
	},
	"key taken out of the store": func(_ *testing.T, o *opening) {
		o.store(func(c *auth.Challenge) { c.RecipientKey = nil })
		o.request.RecipientKey = nil
	},
	"another session stored": func(t *testing.T, o *opening) {
		o.caller, _ = o.d.signIn(t, o.w)
		o.store(func(c *auth.Challenge) { c.SessionID = o.caller.SessionID })
	},
	"unknown challenge": func(_ *testing.T, o *opening) { o.request.IntentID = uuid.New() },
	"no challenge":      func(_ *testing.T, o *opening) { o.request.IntentID = uuid.Nil },
	"expired":           func(_ *testing.T, o *opening) { o.d.clock.pass(300 * time.Second) },
	"consumed": func(t *testing.T, o *opening) {
		if _, err := o.d.Reveal(t.Context(), o.caller, o.request); err != nil {
			t.Fatal(err)
		}
	},
	"scheme is not the challenge's": func(_ *testing.T, o *opening) { o.request.Scheme = otherScheme(o.scheme) },
	"signed with the other scheme": func(_ *testing.T, o *opening) {
		if o.scheme == auth.EIP712 {
			o.request.Signature = o.w.SignText(o.c.Message)
		} else {
			o.store(func(c *auth.Challenge) { c.Scheme = auth.EIP712 })
		}
	},
	"message changed and signed": func(_ *testing.T, o *opening) {
		if o.scheme == auth.EIP191 {
			o.request.Signature = o.w.SignText(strings.Replace(o.c.Message, "once", "twice", 1))
			return
		}
		o.document["message"].(map[string]any)["statement"] = "Claim your prize."
		o.request.Signature = o.w.SignTyped(o.document)
	},
	"revealed for another chain": func(t *testing.T, o *opening) {
		o.reveal = o.d.with(t, func(c *auth.Config) { c.ChainID = 84532 })
	},
	"revealed at another domain": func(t *testing.T, o *opening) {
		o.reveal = o.d.with(t, func(c *auth.Config) { c.Domain = "cards.example" })
	},
	"a sign-in challenge": func(t *testing.T, o *opening) {
		c, document, err := o.d.Challenge(t.Context(), o.w.Address(), []auth.Scheme{o.scheme})
		if err != nil {
			t.Fatal(err)
		}
		o.request.IntentID, o.request.Signature = c.ID, o.w.Sign(c, document)
	},
	"a sign-in challenge for no card in no session": func(t *testing.T, o *opening) {
		c, document, err := o.d.Challenge(t.Context(), o.w.Address(), []auth.Scheme{o.scheme})
		if err != nil {
			t.Fatal(err)
		}
		o.request = auth.RevealRequest{IntentID: c.ID, Signature: o.w.Sign(c, document)}
		o.caller.SessionID = uuid.Nil
	},
	"a sign-in signature": func(t *testing.T, o *opening) {
		c, document, err := o.d.Challenge(t.Context(), o.w.Address(), []auth.Scheme{o.scheme})
		if err != nil {
			t.Fatal(err)
		}
		o.request.Signature = o.w.Sign(c, document)
	},
	"a sign-in of the same nonce": func(t *testing.T, o *opening) {
		o.request.Signature = o.signInTwin(t)
	},
}

func TestWrongRevealsAreIndistinguishableAndConsumeTheChallenge(t *testing.T) {
	same := &uniform{code: fault.ChallengeInvalid}
	cases := maps.Clone(wrongReveals)
	for name, alter := range badSignatures {
		cases["signature: "+name] = func(_ *testing.T, o *opening) { o.request.Signature = alter(o.request.Signature) }
	}
	for _, scheme := range bothSchemes {
		for name, alter := range cases {
			t.Run(string(scheme)+" "+name, func(t *testing.T) {
				d, w := newBench(t), authtest.NewWallet(t, "ada")
				caller, _ := d.signIn(t, w)
				key := recipientKey(t, 1)
				c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{scheme}, key)
				if err != nil {
					t.Fatal(err)
				}
				good := auth.RevealRequest{CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document), RecipientKey: key}
				o := &opening{d: d, w: w, scheme: scheme, c: c, document: document, caller: caller, request: good, reveal: d.Auth}
				alter(t, o)
				got, err := o.reveal.Reveal(t.Context(), o.caller, o.request)
				same.check(t, err)
				if got != nil {
					t.Error("a key came with the fault")
				}
				if o.request.IntentID == c.ID {
					_, err = d.Reveal(t.Context(), caller, good)
					same.check(t, err)
				}
			})
		}
	}
}

func TestRevealChallengeNeverSignsIn(t *testing.T) {
	same := &uniform{code: fault.SignatureInvalid}
	for _, scheme := range bothSchemes {
		d, w := newBench(t), authtest.NewWallet(t, "ada")
		caller, _ := d.signIn(t, w)
		signIn, _, err := d.Challenge(t.Context(), w.Address(), []auth.Scheme{scheme})
		if err != nil {
			t.Fatal(err)
		}
		d.clock.pass(time.Second)
		c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{scheme}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signature := w.Sign(c, document)
		for name, r := range map[string]auth.VerifyRequest{
			"as the latest":           {},
			"as its own message":      {Message: &c.Message},
			"as its own intent":       {IntentID: c.ID},
			"as the sign-in's intent": {IntentID: signIn.ID},
		} {
			r.Wallet, r.Signature = w.Address(), signature
			_, _, err := d.Verify(t.Context(), r)
			if err == nil {
				t.Fatalf("%s %s: signed in", scheme, name)
			}
			same.check(t, err)
		}
	}
}

func TestRevealSucceedsForOneOfManyCalls(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	caller, _ := d.signIn(t, w)
	c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := auth.RevealRequest{CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document)}
	var reveals atomic.Int32
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if _, err := d.Reveal(t.Context(), caller, request); err == nil {
				reveals.Add(1)
			}
		})
	}
	wg.Wait()
	if n := reveals.Load(); n != 1 {
		t.Errorf("%d reveals from one signature", n)
	}
}

func TestRevealNeedsASessionWithTheScope(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	caller, _ := d.signIn(t, w)
	c, document, err := d.RevealChallenge(t.Context(), caller, cardOne, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	narrow := caller
	narrow.Scopes = []auth.Scope{auth.ScopeCards}
	for _, who := range []auth.Caller{{}, narrow, {Kind: auth.KindOperator, Name: "alice", Scopes: caller.Scopes}} {
		if _, _, err := d.RevealChallenge(t.Context(), who, cardOne, nil, nil); fault.Of(err) != fault.SessionInvalid {
			t.Errorf("RevealChallenge for %+v: %v", who, err)
		}
		request := auth.RevealRequest{CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document)}
		if _, err := d.Reveal(t.Context(), who, request); fault.Of(err) != fault.SessionInvalid {
			t.Errorf("Reveal for %+v: %v", who, err)
		}
	}
	if d.consumed(t, c) {
		t.Error("a caller without a session spent the challenge")
	}
}

func TestRevealChallengeRefusesBadKeysAndSchemes(t *testing.T) {
	d := newBench(t)
	caller, _ := d.signIn(t, authtest.NewWallet(t, "ada"))
	for _, key := range [][]byte{{}, make([]byte, 31), make([]byte, 32), make([]byte, 33)} {
		if _, _, err := d.RevealChallenge(t.Context(), caller, cardOne, nil, key); fault.Of(err) != fault.SchemaInvalid {
			t.Errorf("key %x: %v", key, err)
		}
	}
	if _, _, err := d.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{"eip1271"},
		nil); fault.Of(err) != fault.SchemaInvalid {
		t.Errorf("scheme: %v", err)
	}
}

// signInTwin signs a sign-in with the nonce, id and times of the reveal.
func (o *opening) signInTwin(t *testing.T) string {
	t.Helper()
	m, err := handshake.ParseMessage(o.c.Message)
	if err != nil {
		t.Fatal(err)
	}
	m.Statement, m.Resources = "Sign in to roamcard. This moves no money and reveals no card.", nil
	if o.scheme == auth.EIP191 {
		return o.w.SignText(m.Format())
	}
	_, document, err := o.d.Challenge(t.Context(), x402.Address{}, []auth.Scheme{auth.EIP712})
	if err != nil {
		t.Fatal(err)
	}
	object := document["message"].(map[string]any)
	object["address"], object["nonce"], object["requestId"] = o.w.Address().String(), m.Nonce, m.RequestID
	return o.w.SignTyped(document)
}

func TestRevealOnAPageIsSignedAsSuchAndSealsNothing(t *testing.T) {
	for _, scheme := range bothSchemes {
		t.Run(string(scheme), func(t *testing.T) {
			d, w := newBench(t), authtest.NewWallet(t, "ada")
			caller, _ := d.signIn(t, w)
			page := d.with(t, func(c *auth.Config) { c.RevealOnPage = true })
			key := recipientKey(t, 1)
			if _, _, err := page.RevealChallenge(t.Context(), caller, cardOne, nil, key); fault.Of(err) != fault.SealingMissing {
				t.Errorf("a challenge with a key: %v", err)
			}
			c, document, err := page.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{scheme}, nil)
			if err != nil || !strings.Contains(c.Message, "\n- urn:roamcard:reveal:page") {
				t.Fatalf("%s, %v", c.Message, err)
			}
			request := auth.RevealRequest{CardID: cardOne, IntentID: c.ID, Signature: w.Sign(c, document), RecipientKey: key}
			if _, err := page.Reveal(t.Context(), caller, request); fault.Of(err) != fault.SealingMissing {
				t.Errorf("a reveal with a key: %v", err)
			}
			request.RecipientKey = nil
			if key, err := page.Reveal(t.Context(), caller, request); err != nil || key != nil {
				t.Errorf("Reveal = %x, %v", key, err)
			}
			// What is signed for a page reveals nothing where the number is in the answer.
			c, document, err = page.RevealChallenge(t.Context(), caller, cardOne, []auth.Scheme{scheme}, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.IntentID, request.Signature = c.ID, w.Sign(c, document)
			if _, err := d.Reveal(t.Context(), caller, request); fault.Of(err) != fault.ChallengeInvalid {
				t.Errorf("a signature for a page reveals in the open: %v", err)
			}
		})
	}
}
