package auth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

const purchase = "https://cards.example:8402/api/esim/purchase"

// newRequestBench is a bench whose challenges have nonces.
func newRequestBench(t *testing.T) *bench {
	t.Helper()
	d := newBench(t)
	d.config.NonceKey = []byte("the key of the nonces, 32 bytes.")
	d.Auth = d.with(t, func(*auth.Config) {})
	return d
}

// offered is the message of a challenge for a resource.
func offered(t *testing.T, a *auth.Auth, uri string) map[string]any {
	t.Helper()
	info, ok := a.OfferRequestSignIn(uri).Extension["info"].(map[string]any)
	if !ok {
		t.Fatal("nothing is offered")
	}
	return maps.Clone(info)
}

// textOf is what the published clients sign for a message.
func textOf(t *testing.T, info map[string]any, wallet x402.Address, chain uint64) string {
	t.Helper()
	said := func(name string) string { s, _ := info[name].(string); return s }
	resources, _ := info["resources"].([]string)
	return handshake.Message{
		Domain: said("domain"), Address: wallet, Statement: said("statement"), URI: said("uri"), ChainID: chain,
		Nonce: said("nonce"), IssuedAt: said("issuedAt"), ExpirationTime: said("expirationTime"),
		NotBefore: said("notBefore"), RequestID: said("requestId"), Resources: resources,
	}.Format()
}

// headerOf is what the published clients send of a message.
func headerOf(t *testing.T, info map[string]any, wallet x402.Address, signature string) string {
	t.Helper()
	payload := map[string]any{
		"chainId": "eip155:8453", "type": "eip191", "address": wallet.String(), "signature": signature,
	}
	maps.Copy(payload, info)
	body, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(body)
}

// signed is the header of a wallet for a message.
func signed(t *testing.T, info map[string]any, w authtest.Wallet) string {
	t.Helper()
	return headerOf(t, info, w.Address(), w.SignText(textOf(t, info, w.Address(), 8453)))
}

func wantFault(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if fault.Of(err) != code {
		t.Errorf("%s: %v, want %q", what, err, code)
	}
}

func TestRequestSignInIsTheWalletOnce(t *testing.T) {
	d, ada, analyst := newRequestBench(t), authtest.NewWallet(t, "ada"), authtest.NewWallet(t, "analyst")
	info := offered(t, d.Auth, purchase)
	header := signed(t, info, ada)
	who, err := d.AuthenticateRequest(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	if who.Kind != auth.KindWallet || who.Wallet != ada.Address() || !who.Has(auth.ScopeOrders) ||
		!who.Has(auth.ScopeCards) || who.Has(auth.ScopeReveal) || who.Has(auth.ScopeActivity) {
		t.Errorf("signed in as %+v", who)
	}
	if lasts := who.ExpiresAt.Sub(d.clock.Now().Truncate(time.Millisecond)); lasts != 5*time.Minute {
		t.Errorf("signed in for %s", lasts)
	}
	_, err = d.AuthenticateRequest(t.Context(), header)
	wantFault(t, "the same again", err, fault.SignatureInvalid)
	lower := maps.Clone(info)
	lower["address"] = ada.Address().Lower()
	_, err = d.AuthenticateRequest(t.Context(), signed(t, lower, ada))
	wantFault(t, "the same address in other letters", err, fault.SignatureInvalid)
	_, err = d.AuthenticateRequest(t.Context(), signed(t, info, analyst))
	wantFault(t, "the same nonce by another wallet", err, fault.SignatureInvalid)
	if who, err = d.AuthenticateRequest(t.Context(), signed(t, offered(t, d.Auth, purchase), analyst)); err != nil {
		t.Fatalf("another wallet: %v", err)
	}
	if !who.Has(auth.ScopeActivity) {
		t.Errorf("a wallet with the scope activity has %v", who.Scopes)
	}
	if err := d.Revoke(t.Context(), who); fault.Of(err) != fault.SessionInvalid {
		t.Errorf("signed out without a session: %v", err)
	}
	offer := d.OfferRequestSignIn(purchase)
	if offer.Nonce == info["nonce"] || offer.Nonce == offer.Renew() {
		t.Error("two challenges have one nonce")
	}
	info["nonce"] = offer.Renew()
	if _, err := d.AuthenticateRequest(t.Context(), signed(t, info, ada)); err != nil {
		t.Errorf("with a nonce that was renewed: %v", err)
	}
}

func TestRequestSignInRace(t *testing.T) {
	d := newRequestBench(t)
	header := signed(t, offered(t, d.Auth, purchase), authtest.NewWallet(t, "ada"))
	var winners atomic.Int32
	var racers sync.WaitGroup
	for range 50 {
		racers.Go(func() {
			_, err := d.AuthenticateRequest(t.Context(), header)
			if err == nil {
				winners.Add(1)
			} else {
				wantFault(t, "a loser", err, fault.SignatureInvalid)
			}
		})
	}
	racers.Wait()
	if n := winners.Load(); n != 1 {
		t.Errorf("%d of 50 signed in by one message", n)
	}
}

// TestRequestSignInProvesWhatWasIssued: whatever is changed in a message, the wallet signs it so.
func TestRequestSignInProvesWhatWasIssued(t *testing.T) {
	d, ada := newRequestBench(t), authtest.NewWallet(t, "ada")
	for name, change := range map[string]func(map[string]any){
		"another domain":       func(m map[string]any) { m["domain"] = "evil.example" },
		"the domain, bare":     func(m map[string]any) { m["domain"] = "cards.example" },
		"another origin":       func(m map[string]any) { m["uri"] = "https://evil.example/api/esim/purchase" },
		"an origin like ours":  func(m map[string]any) { m["uri"] = "https://cards.example:8402.evil.example/a" },
		"another path of ours": func(m map[string]any) { m["uri"] = "https://cards.example:8402/api/card/purchase" },
		"no URI":               func(m map[string]any) { m["uri"] = "" },
		"another statement":    func(m map[string]any) { m["statement"] = "Log in." },
		"no statement":         func(m map[string]any) { delete(m, "statement") },
		"another version":      func(m map[string]any) { m["version"] = "2" },
		"a nonce of its own":   func(m map[string]any) { m["nonce"] = "abcdefghijklmnop" },
		"a nonce as long":      func(m map[string]any) { m["nonce"] = strings.Repeat("A", 42) },
		"an empty nonce":       func(m map[string]any) { m["nonce"] = "" },
		"another salt":         func(m map[string]any) { m["nonce"] = strings.Repeat("A", 16) + m["nonce"].(string)[16:] },
		"an earlier time":      func(m map[string]any) { m["issuedAt"] = "2026-03-01T11:59:00.123Z" },
		"another spelling":     func(m map[string]any) { m["issuedAt"] = "2026-03-01T12:00:00.123+00:00" },
		"no time":              func(m map[string]any) { m["issuedAt"] = "now" },
		"a time far ahead":     func(m map[string]any) { m["issuedAt"] = "9999-12-31T23:59:59.999Z" },
		"a longer life":        func(m map[string]any) { m["expirationTime"] = "2026-03-01T13:00:00.123Z" },
		"no end":               func(m map[string]any) { delete(m, "expirationTime") },
		"a beginning":          func(m map[string]any) { m["notBefore"] = m["issuedAt"] },
		"a request id":         func(m map[string]any) { m["requestId"] = "1" },
		"resources":            func(m map[string]any) { m["resources"] = []string{purchase} },
	} {
		info := offered(t, d.Auth, purchase)
		change(info)
		_, err := d.AuthenticateRequest(t.Context(), signed(t, info, ada))
		wantFault(t, name, err, fault.SignatureInvalid)
	}

	info := offered(t, d.Auth, purchase)
	sepolia := maps.Clone(info)
	sepolia["chainId"] = "eip155:84532"
	_, err := d.AuthenticateRequest(t.Context(),
		headerOf(t, sepolia, ada.Address(), ada.SignText(textOf(t, info, ada.Address(), 84532))))
	wantFault(t, "another chain", err, fault.SignatureInvalid)
	_, err = d.AuthenticateRequest(t.Context(),
		headerOf(t, sepolia, ada.Address(), ada.SignText(textOf(t, info, ada.Address(), 8453))))
	wantFault(t, "said to be of another chain", err, fault.SignatureInvalid)
	_, err = d.AuthenticateRequest(t.Context(),
		headerOf(t, info, ada.Address(), ada.SignText(textOf(t, info, ada.Address(), 84532))))
	wantFault(t, "signed for another chain", err, fault.SignatureInvalid)
	_, err = d.AuthenticateRequest(t.Context(),
		headerOf(t, info, ada.Address(), authtest.NewWallet(t, "eve").SignText(textOf(t, info, ada.Address(), 8453))))
	wantFault(t, "signed by another key", err, fault.SignatureInvalid)
	_, err = d.ReadRequestSignIn(signed(t, info, ada), "https://cards.example:8402/api/card/purchase")
	wantFault(t, "for another resource than the request's", err, fault.SignatureInvalid)
	if _, err := d.ReadRequestSignIn(signed(t, info, ada), purchase); err != nil {
		t.Errorf("for the request's resource: %v", err)
	}

	for name, change := range map[string]func(*auth.Config){
		"another service": func(c *auth.Config) { c.Domain = "cards.example" },
		"another chain":   func(c *auth.Config) { c.ChainID = 84532 },
		"another key":     func(c *auth.Config) { c.NonceKey = []byte("another key of the nonces, too..") },
		"no key":          func(c *auth.Config) { c.NonceKey = nil },
	} {
		_, err := d.with(t, change).AuthenticateRequest(t.Context(), signed(t, info, ada))
		wantFault(t, "at "+name, err, fault.SignatureInvalid)
	}
	if d.with(t, func(c *auth.Config) { c.NonceKey = nil }).OfferRequestSignIn(purchase).Extension != nil {
		t.Error("without a key a sign-in is offered")
	}
	after := d.with(t, func(c *auth.Config) {
		c.FormerNonceKeys, c.NonceKey = [][]byte{c.NonceKey}, []byte("the key that followed, 32 bytes.")
	})
	if _, err := after.AuthenticateRequest(t.Context(), signed(t, info, ada)); err != nil {
		t.Errorf("by a nonce of a former key: %v", err)
	}
}

func TestRequestSignInLivesFiveMinutes(t *testing.T) {
	d, ada := newRequestBench(t), authtest.NewWallet(t, "ada")
	for _, tt := range []struct {
		later time.Duration
		want  fault.Code
	}{
		{5*time.Minute - time.Millisecond, ""}, {5 * time.Minute, fault.SignatureInvalid},
		{time.Hour, fault.SignatureInvalid},
		// The clock of the replica that issued it is ahead.
		{-30 * time.Second, ""}, {-31 * time.Second, fault.SignatureInvalid},
	} {
		header := signed(t, offered(t, d.Auth, purchase), ada)
		d.clock.pass(tt.later)
		_, err := d.AuthenticateRequest(t.Context(), header)
		wantFault(t, "after "+tt.later.String(), err, tt.want)
		d.clock.pass(-tt.later)
	}
}

// wrongChecksum is an address with its first letter in the other case.
func wrongChecksum(a x402.Address) string {
	text := []byte(a.String())
	for i, c := range text[2:] {
		if c > '9' {
			text[2+i] = c ^ 0x20
			break
		}
	}
	return string(text)
}

func TestRequestSignInRefusesHostileHeaders(t *testing.T) {
	d, ada := newRequestBench(t), authtest.NewWallet(t, "ada")
	info := offered(t, d.Auth, purchase)
	good := signed(t, info, ada)
	body, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	with := func(name string, value any) string {
		m := maps.Clone(info)
		m[name] = value
		return signed(t, m, ada)
	}
	without := func(name string) string {
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		delete(m, name)
		text, _ := json.Marshal(m)
		return encode(string(text))
	}
	for name, header := range map[string]string{
		"nothing": "", "no base64": "!", "URL's base64": "e30_", "an object of nothing": encode("{}"),
		"no object": encode("[]"), "null": encode("null"), "a number": encode("1"), "no JSON": encode("{"),
		"two objects": encode(string(body) + "{}"), "no text": encode("{\"domain\":\"\xff\"}"),
		"a member twice":   encode(`{"domain":"evil.example",` + string(body[1:])),
		"NUL":              with("domain", "a\x00"),
		"deep":             encode(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)),
		"long":             with("padding", strings.Repeat("x", x402.MaxSignIn)),
		"two lines":        good[:100] + "\n" + good[100:],
		"a number's nonce": with("nonce", 12345678), "a list of domains": with("domain", []string{"cards.example:8402"}),
		"resources that are no texts": with("resources", []int{1}), "a resource alone": with("resources", purchase),
		"Solana": with("type", "ed25519"), "another scheme": with("signatureScheme", "siws"),
		"no address": without("address"), "no signature": without("signature"), "no type": without("type"),
		"no chain": without("chainId"), "no time": without("issuedAt"), "no URI": without("uri"),
		"no nonce": without("nonce"), "no domain": without("domain"), "no version": without("version"),
		"half an address":  with("address", "0x1234"),
		"a wrong checksum": with("address", wrongChecksum(ada.Address())),
	} {
		_, err := d.AuthenticateRequest(t.Context(), header)
		wantFault(t, name, err, fault.SignatureInvalid)
	}
	for name, signature := range map[string]string{
		"empty": "", "no hex": "0xzz", "short": "0x00", "zeros": "0x" + strings.Repeat("0", 130),
		"twice": ada.SignText(textOf(t, info, ada.Address(), 8453)) + "00",
	} {
		_, err := d.AuthenticateRequest(t.Context(), headerOf(t, info, ada.Address(), signature))
		wantFault(t, "a signature that is "+name, err, fault.SignatureInvalid)
	}
	if _, err := d.AuthenticateRequest(t.Context(), good); err != nil {
		t.Errorf("after all of them: %v", err)
	}
}

func TestSmartAccountSignsInForOneRequest(t *testing.T) {
	d, owner, stranger := newRequestBench(t), authtest.NewWallet(t, "ada"), authtest.NewWallet(t, "eve")
	chain := &owned{account: x402.Address{19: 7}, owner: owner.Address()}
	keysOnly := d.Auth
	a := d.with(t, func(c *auth.Config) { c.SmartAccounts = chain })
	header := func(info map[string]any, by authtest.Wallet) string {
		t.Helper()
		return headerOf(t, info, chain.account, by.SignText(textOf(t, info, chain.account, 8453))+mark)
	}
	info := offered(t, a, purchase)
	_, err := keysOnly.AuthenticateRequest(t.Context(), header(info, owner))
	wantFault(t, "where no smart account signs in", err, fault.SignatureInvalid)
	_, err = a.AuthenticateRequest(t.Context(), header(info, stranger))
	wantFault(t, "signed by no owner", err, fault.SignatureInvalid)

	asked := chain.asked
	byKey := maps.Clone(info)
	byKey["signatureScheme"] = "eip191"
	_, err = a.AuthenticateRequest(t.Context(), header(byKey, owner))
	wantFault(t, "declared as a key's", err, fault.SignatureInvalid)
	madeUp := maps.Clone(info)
	madeUp["nonce"] = strings.Repeat("A", 42)
	_, err = a.AuthenticateRequest(t.Context(), header(madeUp, owner))
	wantFault(t, "with a nonce of its own", err, fault.SignatureInvalid)
	if _, err := a.ReadRequestSignIn(header(info, owner), purchase); err != nil || chain.asked != asked {
		t.Errorf("before it is used: %v, and the chain was asked %d times", err, chain.asked-asked)
	}

	chain.down = errors.New("no node answers")
	_, err = a.AuthenticateRequest(t.Context(), header(info, owner))
	wantFault(t, "while the chain is down", err, fault.DependencyDown)
	chain.down = nil
	for _, scheme := range []string{"eip1271", "eip6492"} {
		info := offered(t, a, purchase)
		info["signatureScheme"] = scheme
		who, err := a.AuthenticateRequest(t.Context(), header(info, owner))
		if err != nil || who.Wallet != chain.account {
			t.Errorf("%s: %+v, %v", scheme, who, err)
		}
	}
	if _, err := a.AuthenticateRequest(t.Context(), header(info, owner)); err != nil {
		t.Errorf("the one that met a chain that was down: %v", err)
	}
	_, err = a.AuthenticateRequest(t.Context(), header(info, owner))
	wantFault(t, "a second time", err, fault.SignatureInvalid)
}

func TestRequestSignInsAreLimitedAsSignIns(t *testing.T) {
	d, ada := newRequestBench(t), authtest.NewWallet(t, "ada")
	a := d.with(t, func(c *auth.Config) {
		c.Limits = limit.New(limit.Rates{limit.Verify: {Count: 2, Per: time.Minute}}, d.clock.Now)
	})
	ctx := limit.WithAddress(t.Context(), "192.0.2.1")
	_, err := a.AuthenticateRequest(ctx, "!")
	wantFault(t, "one that cannot be read", err, fault.SignatureInvalid)
	s, err := a.ReadRequestSignIn(signed(t, offered(t, a, purchase), ada), purchase)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Use(ctx); err != nil {
		t.Errorf("the second: %v", err)
	}
	header := signed(t, offered(t, a, purchase), ada)
	_, err = a.AuthenticateRequest(ctx, header)
	wantFault(t, "the third", err, fault.RateLimited)
	if _, err = a.AuthenticateRequest(limit.WithAddress(t.Context(), "192.0.2.2"), header); err != nil {
		t.Errorf("the third from elsewhere: %v", err)
	}
}

// TestRequestSignInsAreCountedAsChallenges: over all processes, what is stored of them is bounded by address.
func TestRequestSignInsAreCountedAsChallenges(t *testing.T) {
	d := newRequestBench(t)
	counted := &counting{Challenges: d.challenges}
	a := d.with(t, func(c *auth.Config) {
		c.Challenges = counted
		c.Limits = limit.New(limit.Rates{limit.Challenge: {Count: 2, Per: time.Minute}}, d.clock.Now)
	})
	ctx := limit.WithAddress(t.Context(), "192.0.2.1")
	if _, err := a.AuthenticateRequest(ctx, signed(t, offered(t, a, purchase), authtest.NewWallet(t, "ada"))); err != nil {
		t.Fatal(err)
	}
	if len(counted.turns) != 2 || counted.turns[0].Class != limit.Challenge || counted.turns[0].Rate.Count != 2 ||
		counted.turns[1].Rate != (limit.Rate{Count: 100_000, Per: 5 * time.Minute}) {
		t.Errorf("counted as %+v", counted.turns)
	}
}

// counting keeps what spent challenges are counted as.
type counting struct {
	auth.Challenges
	turns []limit.Hit
}

func (c *counting) Spend(ctx context.Context, n auth.Challenge, turns ...limit.Hit) (bool, error) {
	c.turns = append(c.turns, turns...)
	return c.Challenges.Spend(ctx, n, turns...)
}
