package hostile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// sessions are attacks on who may see and do what.
func sessions() []attack {
	return []attack{
		{
			name: "session-of-another", ref: "API1", by: owner, do: asAnother,
			aim:     "another's cards, orders and eSIMs",
			defence: "the owner is part of every query; what is another's does not exist",
		},
		{
			name: "swapped-tokens", ref: "API2", by: owner, do: swapsTokens,
			aim:     "more rights by a token of another kind or another order",
			defence: "each kind of token has its own table and prefix; a delivery token opens one order",
		},
		{
			name: "reveals-at-once", ref: "I15", by: owner, do: racesReveals,
			held:    "auth TestRevealSucceedsForOneOfManyCalls",
			aim:     "a card's number several times by one signature",
			defence: "a challenge is consumed by one guarded update, used or not",
		},
		{
			name: "signature-for-something-else", by: owner, do: crossSigns,
			held:    "auth TestRevealChallengeNeverSignsIn",
			aim:     "a signature that was given for signing in reveals a card, or the other way round",
			defence: "what is signed names purpose, card, owner and session, and is compared whole",
		},
		{
			name: "replayed-sign-in", by: watcher, do: replaysSignIn,
			aim:     "a session by a signature that was seen, or given to another site",
			defence: "challenges are ours, single-use, and expire; the message is compared with the stored one",
		},
		{
			name: "sign-in-of-one-request", by: watcher, do: replaysRequestSignIn,
			held:    "auth TestRequestSignInProvesWhatWasIssued",
			aim:     "a wallet's cards, orders or a card's number by a sign-in for one request that was seen, or changed",
			defence: "its nonce is ours, for this text alone, and is used up by the first request; it opens no reveal",
		},
		{
			name: "reveals-for-a-day", by: owner, do: revealsMany,
			held:    "store TestChallengesAndRevealsAreCountedWhereTheyAreStored",
			aim:     "a stolen session reads the card as often as it likes",
			defence: "5 reveals an hour for each owner, signed anew each time; what is not signed counts for the session",
		},
		{
			name: "session-after-logout", by: owner, do: afterLogout,
			aim:     "a session that was given up still works",
			defence: "sessions are rows that are revoked, and are looked up for each request",
		},
	}
}

func asAnother(r *trial) {
	victim, thief := r.wallet(1000), r.wallet(0)
	card := victim.owns(r)
	thief.signsIn(r)
	var open order
	victim.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500}).into(r, &open)
	esim, _ := victim.buys(r, esimPath)
	none := uuid.NewString()
	for _, c := range []struct{ method, theirs, nobodys string }{
		{"GET", "/api/orders/" + open.OrderID, "/api/orders/ord_" + none},
		{"POST", "/api/orders/" + open.OrderID + "/pay", "/api/orders/ord_" + none + "/pay"},
		{"GET", "/api/cards/" + card + "/balance", "/api/cards/" + none + "/balance"},
		{"POST", "/api/cards/" + card + "/reveal-challenge", "/api/cards/" + none + "/reveal-challenge"},
		{"GET", "/api/esim/orders/" + esim.OrderID, "/api/esim/orders/ord_" + none},
		{"GET", "/api/esim/orders/" + esim.OrderID + "/credentials", "/api/esim/orders/ord_" + none + "/credentials"},
		{"POST", "/api/esim/orders/" + esim.OrderID + "/rotate-token", "/api/esim/orders/ord_" + none + "/rotate-token"},
	} {
		var body any
		if c.method == "POST" {
			body = map[string]any{}
			if strings.HasSuffix(c.theirs, "/pay") {
				body = map[string]any{"paymentSignature": "AAAA"}
			}
		}
		key := []string{"Idempotency-Key", "k"}
		a := thief.send(r.Context(), c.method, c.theirs, body, append(key, thief.bearer()...)...)
		b := thief.send(r.Context(), c.method, c.nobodys, body, append(key, thief.bearer()...)...)
		if a.status == http.StatusOK || a.status != b.status || a.code() != b.code() {
			r.Errorf("%s %s: %d %s, and for nobody's %d %s", c.method, c.theirs, a.status, a.code(), b.status, b.code())
		}
	}
	var cards struct{ Cards []any }
	if thief.get(r, "/api/cards").into(r, &cards); len(cards.Cards) != 0 {
		r.Errorf("the thief sees %d cards", len(cards.Cards))
	}
	r.exactly(victim, 2)
}

func swapsTokens(r *trial) {
	p, q := r.wallet(1000), r.wallet(1000)
	mine, _ := p.buys(r, esimPath)
	theirs, _ := q.buys(r, esimPath)
	if mine.Delivery.Token == "" || theirs.Delivery.Token == "" {
		r.Fatalf("no delivery token: %+v", mine)
	}
	r.keep("a delivery token", mine.Delivery.Token)
	q.signsIn(r)
	const token = "X-Esim-Delivery-Token"
	secrets := "/api/esim/orders/" + theirs.OrderID + "/credentials"
	if a := q.send(r.Context(), "GET", secrets, nil, token, theirs.Delivery.Token); a.status != http.StatusOK {
		r.Fatalf("the right token: %d %.300s", a.status, a.body)
	}
	for name, headers := range map[string][]string{
		"another order's":          {token, mine.Delivery.Token},
		"a delivery token as user": {"Authorization", "Bearer " + theirs.Delivery.Token},
		"a session as delivery":    {token, q.token},
		"the operator's":           {"Authorization", "Bearer " + r.operator},
		"the operator's as one":    {token, r.operator},
		"cut":                      {token, theirs.Delivery.Token[:len(theirs.Delivery.Token)-1]},
		"longer":                   {token, theirs.Delivery.Token + "A"},
		"another case":             {token, strings.ToUpper(theirs.Delivery.Token)},
		"in the query":             {},
	} {
		path := secrets
		if name == "in the query" {
			path += "?" + token + "=" + theirs.Delivery.Token
		}
		a := r.caller().send(r.Context(), "GET", path, nil, headers...)
		if a.status == http.StatusOK || bytes.Contains(a.body, []byte("LPA:")) {
			r.Errorf("%s token: %d %.200s", name, a.status, a.body)
		}
	}
	for path, headers := range map[string][]string{
		"/api/admin/orders":   {"Authorization", "Bearer " + q.token},
		"/api/admin/switches": {"Authorization", "Bearer " + mine.Delivery.Token},
		"/api/admin/activity": {"Authorization", "Bearer " + r.operator},
		"/api/cards":          {"Authorization", "Bearer " + r.operator},
		"/api/auth/session":   {"Authorization", "Basic " + q.token},
	} {
		if a := r.caller().send(r.Context(), "GET", path, nil, headers...); a.status != http.StatusUnauthorized &&
			a.status != http.StatusForbidden {
			r.Errorf("%s: %d", path, a.status)
		}
	}
}

// reveal asks for a card's number with a signature of a challenge.
func (p *wallet) reveal(t *trial, card, intentID, signature string) answer {
	t.Helper()
	a := p.post(t, "/api/cards/"+card+"/reveal", map[string]any{"intentId": intentID, "signature": signature})
	var shown struct {
		Credentials struct{ Number, SecurityCode string }
	}
	if a.status == http.StatusOK && json.Unmarshal(a.body, &shown) == nil {
		t.keep("a card's number", shown.Credentials.Number)
	}
	return a
}

func (p *wallet) challenge(t *trial, card string) (c intent) {
	t.Helper()
	p.post(t, "/api/cards/"+card+"/reveal-challenge", map[string]any{}).into(t, &c)
	return c
}

func racesReveals(r *trial) {
	p := r.wallet(1000)
	card := p.owns(r)
	c := p.challenge(r, card)
	signature := p.says(r, c.Message)
	shown := 0
	for _, a := range race(5, func(int) answer { return p.reveal(r, card, c.IntentID, signature) }) {
		switch a.status {
		case http.StatusOK:
			shown++
		case http.StatusUnauthorized, http.StatusTooManyRequests:
		default:
			r.Errorf("%d %.300s", a.status, a.body)
		}
	}
	if shown != 1 {
		r.Errorf("one signature revealed the card %d times", shown)
	}
}

func crossSigns(r *trial) {
	p, thief := r.wallet(1000), r.wallet(1000)
	card, other := p.owns(r), thief.owns(r)
	c := p.challenge(r, card)
	theirs := thief.challenge(r, other)
	var login intent
	p.send(r.Context(), "POST", "/api/auth/challenge", map[string]any{"address": p.address.Hex()}).into(r, &login)
	for name, a := range map[string]answer{
		"signed by another":         p.reveal(r, card, c.IntentID, thief.says(r, c.Message)),
		"used up by a wrong one":    p.reveal(r, card, c.IntentID, p.says(r, c.Message)),
		"of signing in":             p.reveal(r, card, login.IntentID, p.says(r, login.Message)),
		"of another card":           p.reveal(r, card, theirs.IntentID, thief.says(r, theirs.Message)),
		"of a message of one's own": p.reveal(r, card, uuid.NewString(), p.says(r, "reveal")),
	} {
		if a.status != http.StatusUnauthorized || bytes.Contains(a.body, []byte("number")) {
			r.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
	}
	again := thief.challenge(r, other)
	a := r.caller().send(r.Context(), "POST", "/api/auth/verify", map[string]any{
		"address": thief.address.Hex(), "intentId": again.IntentID, "message": again.Message,
		"signature": thief.says(r, again.Message),
	})
	if a.status != http.StatusUnauthorized {
		r.Errorf("a reveal's signature signs in: %d %.300s", a.status, a.body)
	}
}

func replaysSignIn(r *trial) {
	p, thief := r.wallet(0), r.wallet(0)
	var c, fresh intent
	ask := map[string]any{"address": p.address.Hex()}
	p.send(r.Context(), "POST", "/api/auth/challenge", ask).into(r, &c)
	body := map[string]any{
		"address": p.address.Hex(), "intentId": c.IntentID, "message": c.Message, "signature": p.says(r, c.Message),
	}
	p.send(r.Context(), "POST", "/api/auth/verify", body).into(r, nil)
	thief.send(r.Context(), "POST", "/api/auth/challenge", ask).into(r, &fresh)
	evil := strings.ReplaceAll(fresh.Message, strings.TrimPrefix(r.base, "http://"), "evil.example")
	if evil == fresh.Message {
		r.Fatalf("the message does not name the service: %s", fresh.Message)
	}
	for name, body := range map[string]map[string]any{
		"again": body,
		"for another intent": {
			"address": p.address.Hex(), "intentId": fresh.IntentID, "message": c.Message, "signature": body["signature"],
		},
		"for another site": {
			"address": p.address.Hex(), "intentId": fresh.IntentID, "message": evil, "signature": p.says(r, evil),
		},
		"as another": {
			"address": thief.address.Hex(), "intentId": fresh.IntentID, "message": fresh.Message,
			"signature": p.says(r, fresh.Message),
		},
	} {
		if a := thief.send(r.Context(), "POST", "/api/auth/verify", body); a.status != http.StatusUnauthorized {
			r.Errorf("%s: %d %.300s", name, a.status, a.body)
		}
	}
}

// requestSignIn is the header of a wallet's sign-in for one request, by the message of a challenge; some members are
// replaced once it is signed.
func (p *wallet) requestSignIn(t *trial, message, replaced map[string]any) string {
	t.Helper()
	text := fmt.Sprintf("%s wants you to sign in with your Ethereum account:\n%s\n\n%s\n\nURI: %s\nVersion: 1\n"+
		"Chain ID: 8453\nNonce: %s\nIssued At: %s\nExpiration Time: %s", message["domain"], p.address.Hex(),
		message["statement"], message["uri"], message["nonce"], message["issuedAt"], message["expirationTime"])
	sent := maps.Clone(message)
	sent["type"], sent["chainId"], sent["address"] = "eip191", "eip155:8453", p.address.Hex()
	sent["signature"] = p.says(t, text)
	maps.Copy(sent, replaced)
	raw, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	return encoded(string(raw))
}

func replaysRequestSignIn(r *trial) {
	const name, cards = "SIGN-IN-WITH-X", "/api/cards"
	p, thief := r.wallet(1000), r.wallet(0)
	card := p.owns(r)
	// message is what a new challenge lets any wallet sign, with a change.
	message := func(member, value string) map[string]any {
		raw, _ := p.terms(r, cardPath, keyed(uuid.NewString())).Extensions["sign-in-with-x"]["info"].(map[string]any)
		if raw["nonce"] == nil {
			r.Fatal("the challenge offers no sign-in")
		}
		m := maps.Clone(raw)
		if member != "" {
			m[member] = value
		}
		return m
	}
	signed := func(member, value string) string { return p.requestSignIn(r, message(member, value), nil) }
	used := signed("", "")
	statuses := map[int]int{}
	for _, a := range race(5, func(int) answer { return thief.send(r.Context(), "GET", cards, nil, name, used) }) {
		statuses[a.status]++
	}
	if statuses[http.StatusOK] != 1 || statuses[http.StatusUnauthorized] != 4 {
		r.Errorf("one sign-in for five requests at once: %v", statuses)
	}
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for what, header := range map[string]string{
		"again":                    used,
		"again, spelt otherwise":   encoded(decoded(r, used) + " "),
		"as another":               thief.requestSignIn(r, message("", ""), map[string]any{"address": p.address.Hex()}),
		"with another's signature": p.requestSignIn(r, message("", ""), map[string]any{"signature": thief.says(r, "this")}),
		"for another site":         signed("domain", "evil.example"),
		"for another site's page":  signed("uri", "https://evil.example/pay"),
		"for longer":               signed("expirationTime", later),
		"of a nonce of one's own":  signed("nonce", strings.Repeat("A", 42)),
		"that promises less":       signed("statement", "Read the news."),
	} {
		// Each from an address of its own: the limit of one would refuse them, whatever they say.
		if a := r.caller().send(r.Context(), "GET", cards, nil, name, header); a.status != http.StatusUnauthorized {
			r.Errorf("%s: %d %.300s", what, a.status, a.body)
		}
	}
	for _, path := range []string{"/api/cards/" + card + "/reveal-challenge", "/api/cards/" + card + "/reveal"} {
		body := map[string]any{"intentId": uuid.NewString(), "signature": "0x00"}
		if strings.HasSuffix(path, "challenge") {
			body = map[string]any{}
		}
		a := r.caller().send(r.Context(), "POST", path, body, name, signed("", ""))
		if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			r.Errorf("%s: %d %.300s", path, a.status, a.body)
		}
	}
}

func revealsMany(r *trial) {
	p := r.wallet(1000)
	card := p.owns(r)
	shown := 0
	for range 8 {
		c := answerIntent(p.post(r, "/api/cards/"+card+"/reveal-challenge", map[string]any{}))
		if a := p.reveal(r, card, c.IntentID, p.says(r, c.Message)); a.status == http.StatusOK {
			shown++
		} else if a.status != http.StatusTooManyRequests && a.status != http.StatusUnauthorized &&
			a.status != http.StatusBadRequest {
			r.Errorf("%d %.300s", a.status, a.body)
		}
	}
	if shown == 0 || shown > 5 {
		r.Errorf("the card was revealed %d times within an hour", shown)
	}
}

// answerIntent is the challenge of an answer, empty for a refusal.
func answerIntent(a answer) (c intent) {
	_ = json.Unmarshal(a.body, &c) // a refusal has none
	return c
}

func afterLogout(r *trial) {
	p := r.wallet(0)
	p.signsIn(r)
	p.get(r, "/api/cards").into(r, nil)
	if a := p.post(r, "/api/auth/logout", map[string]any{}); a.status != http.StatusOK &&
		a.status != http.StatusNoContent {
		r.Fatalf("log out: %d %.300s", a.status, a.body)
	}
	begin := time.Now()
	for _, path := range []string{"/api/cards", "/api/orders", "/api/auth/session"} {
		if a := p.get(r, path); a.status != http.StatusUnauthorized {
			r.Errorf("%s, %s after the logout: %d", path, time.Since(begin), a.status)
		}
	}
	for _, token := range []string{"", "null", "undefined", "rcs_", fmt.Sprintf("rcs_%043d", 0)} {
		if a := p.send(r.Context(), "GET", "/api/cards", nil, "Authorization", "Bearer "+
			token); a.status != http.StatusUnauthorized {
			r.Errorf("token %q: %d", token, a.status)
		}
	}
}
