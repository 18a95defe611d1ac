package hostile_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/signer/web3signer/web3signerfake"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// staff is what operators have of their own: their listener, the issuer that they sign in with, and who has the keys.
type staff struct {
	base, metrics string
	issuer        *issuer
	keeper        *web3signerfake.Signer
}

// operations are attacks by and on those who operate the service, and on its keys.
func operations(s *staff) []attack {
	with := func(do func(*staff, *trial)) func(*trial) { return func(r *trial) { do(s, r) } }
	return []attack{
		{
			name: "operator-beyond-a-role", ref: "API5", by: operator, do: with((*staff).exceedRoles),
			aim: "decides about money, opens a sale or mints tokens with a role that may not",
			defence: "each route names its role and the server enforces it, for REST and Connect alike; the audit trail has " +
				"each refusal",
		},
		{
			name: "operator-token-after-its-end", ref: "API2", by: operator, do: with((*staff).outlive),
			held:    "auth TestMintedTokenWorksUntilItsEnd",
			aim:     "goes on after the token has ended or was revoked, on a connection that is still open",
			defence: "tokens are looked up by their hashes for each request, and end by the service's clock",
		},
		{
			name: "operator-approves-alone", by: operator, do: with((*staff).approveAlone),
			held: "approval TestSecondOperatorIsAnother",
			aim: "alone decides about an amount that needs two: again, by a second token of the same name, by the token of " +
				"who minted it, by another name's token of the same admin, or all at once",
			defence: "who asked is refused, and whose token somebody could have kept together with that of who asked: one of " +
				"them or an admin minted both; the database refuses an approval by who asked, too",
		},
		{
			name: "issuer-tokens-forged", ref: "API2", by: stranger, do: with((*staff).forgeTokens),
			held: "oidc TestForgedTokensAreRefused",
			aim: "an operator by a token that the OpenID Connect issuer has not made for us: unsigned, signed with its public " +
				"key as a secret or with a key that the token brings, of another issuer or audience, ended, changed",
			defence: "issuer, audience, time and signature are checked with the issuer's own keys, and with public-key " +
				"algorithms only",
		},
		{
			name: "operators-routes-in-public", ref: "API9", by: operator, do: with((*staff).comeInPublic),
			aim: "a token that was read somewhere is used from the internet",
			defence: "with admin.addr the public listener serves no operators' route in any protocol, and gRPC reflection " +
				"does not describe them",
		},
		{
			name: "keys-read-anywhere", by: stranger, do: with((*staff).lookForKeys),
			aim:     "a private key of the relayer or the treasury",
			defence: "keys are given by reference, and nothing but their addresses is shown, logged or measured",
		},
		{
			name: "signer-that-lies", by: keeper, do: with((*staff).signWrongly),
			held: "chain TestNothingOfALyingSignerIsStoredOrSent",
			aim: "signatures of another key, of something else or of nothing are stored and sent, and buyers are charged " +
				"for nothing",
			defence: "each signature has to recover our address before it is stored or sent; until it does, nothing is sold",
		},
	}
}

// TestHostileOperations attacks a program whose operators have a listener, roles, an issuer and a second approver, and
// whose keys another machine has.
func TestHostileOperations(t *testing.T) {
	w := newWorld(t)
	s := &staff{issuer: newIssuer(t), keeper: web3signerfake.New()}
	var keys []*ecdsa.PrivateKey
	var refs []string
	server := httptest.NewServer(s.keeper)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	for _, role := range []devnet.Role{devnet.RoleRelayer, devnet.RoleTreasury} {
		key, err := crypto.HexToECDSA(strings.TrimPrefix(devnet.WalletsOf(role)[0].PrivateKey, "0x"))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
		refs = append(refs, "web3signer:"+server.URL+"#"+crypto.PubkeyToAddress(key.PublicKey).Hex())
	}
	s.keeper.Load(keys...)
	admin, metrics := apptest.FreeAddr(t), apptest.FreeAddr(t)
	s.base, s.metrics = "http://"+admin, "http://"+metrics
	w.start("ADMIN__ADDR", admin, "METRICS__ADDR", metrics, "OPERATORS__SECOND_APPROVER_ABOVE", "100",
		"OIDC__ISSUER", s.issuer.URL, "OIDC__AUDIENCE", "roamcard", "OIDC__ROLES", "ops=support,root=admin",
		"RELAYER__KEYS", refs[0], "TREASURY__KEY", refs[1])
	mount(t, w, operations(s))
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

// as makes a call with a token, at the operators' listener and from an address of its own.
func (s *staff) as(r *trial, token, method, path string, body any) answer {
	r.Helper()
	c := r.caller()
	c.base = s.base
	headers := []string{"Authorization", "Bearer " + token}
	if method != http.MethodGet {
		headers = append(headers, "Idempotency-Key", uuid.NewString())
	}
	return c.send(r.Context(), method, path, body, headers...)
}

// mint makes a token, and says its id.
func (s *staff) mint(r *trial, name, role string, ends time.Duration) (token, id string) {
	r.Helper()
	var made struct {
		Secret string
		Token  struct{ ID string }
	}
	s.as(r, r.operator, http.MethodPost, "/api/admin/tokens", map[string]any{
		"name": name, "role": role, "expiresInSeconds": int(ends.Seconds()), "reason": "the suite",
	}).into(r, &made)
	r.keep("an operator's minted token", made.Secret)
	return made.Secret, made.Token.ID
}

func (s *staff) exceedRoles(r *trial) {
	none, reason := "/api/admin/orders/ord_none", "the suite"
	calls := []struct {
		least, path string
		body        map[string]any
	}{
		{"support", "/api/admin/reconcile", map[string]any{}},
		{"support", "/api/admin/switches/esim", map[string]any{"paused": true, "reason": reason}},
		{"treasurer", none + "/decide", map[string]any{"action": "refund", "reason": reason}},
		{"treasurer", "/api/admin/cards/" + uuid.NewString() + "/close", map[string]any{"reason": reason}},
		{"treasurer", "/api/admin/jobs/" + uuid.NewString() + "/drop", map[string]any{"reason": reason}},
		{"treasurer", "/api/admin/approvals/" + uuid.NewString() + "/approve", map[string]any{"reason": reason}},
		{"admin", "/api/admin/switches/esim", map[string]any{"paused": false, "reason": reason}},
		{"admin", "/api/admin/tokens", map[string]any{
			"name": "eve", "role": "admin", "expiresInSeconds": 3600, "reason": reason,
		}},
		{"admin", "/api/admin/tokens/" + uuid.NewString() + "/revoke", map[string]any{"reason": reason}},
		{"admin", "/roamcard.v1.OperatorService/MintToken", map[string]any{
			"name": "eve", "role": "admin", "expiresInSeconds": 3600, "reason": reason,
		}},
	}
	roles := []string{"viewer", "support", "treasurer", "admin"}
	rank := map[string]int{}
	for i, role := range roles {
		rank[role] = i
	}
	refused := 0
	for _, role := range roles[:3] {
		token, _ := s.mint(r, role+"-mallory", role, time.Hour)
		before := r.count("operator_tokens")
		for _, c := range calls {
			if rank[role] >= rank[c.least] {
				continue
			}
			a := s.as(r, token, http.MethodPost, c.path, c.body)
			if a.status != http.StatusForbidden || !bytes.Contains(a.body, []byte("operator_role_missing")) {
				r.Errorf("%s at %s: %d %.200s", role, c.path, a.status, a.body)
			}
			refused++
		}
		if now := r.count("operator_tokens"); now != before {
			r.Errorf("%s minted %d tokens", role, now-before)
		}
	}
	told := query[int64](r.world,
		"SELECT count(*) FROM audit WHERE actor LIKE '%-mallory' AND action = 'operator.refused'")
	if int(told[0]) != refused {
		r.Errorf("%d refusals are in the audit trail, of %d", told[0], refused)
	}
	r.caller().terms(r, esimPath, keyed(uuid.NewString())) // the sale is as it was
}

func (s *staff) outlive(r *trial) {
	const whoami = "/api/admin/whoami"
	held := r.caller() // one connection for all
	held.base = s.base
	ask := func(token string) answer {
		return held.send(r.Context(), http.MethodGet, whoami, nil, "Authorization", "Bearer "+token)
	}
	gone, id := s.mint(r, "gone", "treasurer", time.Hour)
	ask(gone).into(r, nil)
	s.as(r, r.operator, http.MethodPost, "/api/admin/tokens/"+id+"/revoke", map[string]any{"reason": "lost"}).into(r, nil)
	if a := ask(gone); a.status != http.StatusUnauthorized {
		r.Errorf("a revoked token: %d %.200s", a.status, a.body)
	}
	// The shortest that there is.
	short, _ := s.mint(r, "short", "treasurer", time.Minute)
	ask(short).into(r, nil)
	ends := query[time.Time](r.world, "SELECT expires_at FROM operator_tokens WHERE name = 'short'")[0]
	// Its end comes sooner, as a minute would.
	r.execute("UPDATE operator_tokens SET expires_at = now() - interval '1 second' WHERE name = 'short'")
	if a := ask(short); a.status != http.StatusUnauthorized || !ends.After(time.Now()) {
		r.Errorf("a token that has ended: %d %.200s", a.status, a.body)
	}
}

func (s *staff) approveAlone(r *trial) {
	p := r.wallet(1000)
	card := p.owns(r)
	r.rest() // its fee is withdrawn, before which no card is closed
	one, _ := s.mint(r, "carol", "treasurer", time.Hour)
	again, _ := s.mint(r, "carol", "treasurer", time.Hour)
	sibling, _ := s.mint(r, "mallory", "treasurer", time.Hour)
	var asked struct {
		Status          string
		PendingApproval struct{ ID string }
	}
	s.as(r, one, http.MethodPost, "/api/admin/cards/"+card+"/close", map[string]any{"reason": "mine"}).into(r, &asked)
	if asked.Status != "approval_pending" || asked.PendingApproval.ID == "" {
		r.Fatalf("a card is closed by one: %+v", asked)
	}
	decide := "/api/admin/approvals/" + asked.PendingApproval.ID
	tokens := []string{one, again, sibling, r.operator} // the last one minted the others
	for _, a := range race(40, func(i int) answer {
		return s.as(r, tokens[i%len(tokens)], http.MethodPost, decide+"/approve", map[string]any{"reason": "yes"})
	}) {
		if a.status != http.StatusForbidden || a.code() != "second_operator_required" {
			r.Errorf("%d %s %.200s", a.status, a.code(), a.body)
		}
	}
	s.as(r, again, http.MethodPost, decide+"/reject", map[string]any{"reason": "taken back"}).into(r, nil)
	if n := query[int64](r.world, "SELECT count(*) FROM jobs WHERE kind = 'card_close'")[0]; n != 0 {
		r.Errorf("%d closings began", n)
	}
	r.exactly(p, 1)
}

func (s *staff) comeInPublic(r *trial) {
	for path, method := range map[string]string{
		"/api/admin/whoami": http.MethodGet, "/api/admin/orders": http.MethodGet, "/api/admin/tokens": http.MethodPost,
		"/roamcard.v1.OperatorService/WhoAmI": http.MethodPost, "/roamcard.v1.OperatorService/MintToken": http.MethodPost,
	} {
		for _, kind := range []string{"application/json", "application/proto", "application/grpc-web+proto"} {
			a := r.caller().send(r.Context(), method, path, "{}", "Authorization", "Bearer "+r.operator, "Content-Type", kind)
			if a.status != http.StatusNotFound {
				r.Errorf("%s %s as %s: %d %.200s", method, path, kind, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/openapi.json", "/llms.txt", "/SKILL.md", "/api/agent", "/.well-known/mcp.json"} {
		a := r.caller().send(r.Context(), http.MethodGet, path, nil)
		if a.status != http.StatusOK || bytes.Contains(a.body, []byte("/api/admin/orders")) {
			r.Errorf("%s: %d, and names the operators' routes", path, a.status)
		}
	}
	s.as(r, r.operator, http.MethodGet, "/api/admin/whoami", nil).into(r, nil)
}

func (s *staff) lookForKeys(r *trial) {
	r.exactly(r.paidOnce(), 1) // so that there are signatures
	pages := map[string][]byte{}
	for _, path := range []string{"/ready", "/health", "/api/config", "/api/status", "/openapi.json", "/llms.txt"} {
		pages[path] = r.caller().send(r.Context(), http.MethodGet, path, nil).body
	}
	for _, path := range []string{"gauges", "summary", "audit", "jobs", "orders", "whoami"} {
		pages[path] = s.as(r, r.operator, http.MethodGet, "/api/admin/"+path, nil).body
	}
	measured := r.caller()
	measured.base = s.metrics
	pages["metrics"] = measured.send(r.Context(), http.MethodGet, "/metrics", nil).body
	if !bytes.Contains(pages["metrics"], []byte("relayer_balance_gwei{")) {
		r.Errorf("%d bytes of metrics", len(pages["metrics"]))
	}
	texts := map[string]string{}
	for name, page := range pages {
		if texts[name] = string(page); len(page) == 0 {
			r.Errorf("%s is empty", name)
		}
	}
	for _, v := range invariants.Leaks(texts, r.secrets.all) {
		r.Error(v)
	}
}

// paidOnce is a wallet that has bought.
func (r *trial) paidOnce() *wallet {
	r.Helper()
	p := r.wallet(100)
	p.buys(r, esimPath)
	return p
}

func (s *staff) signWrongly(r *trial) {
	defer s.keeper.Misbehave(web3signerfake.None)
	sent := func() (count hexutil.Uint64) {
		r.rpc(&count, "eth_getTransactionCount", r.books.Relayers[0], "latest")
		return count
	}
	faults := []web3signerfake.Fault{web3signerfake.Lie, web3signerfake.Replay, web3signerfake.Garble}
	for _, fault := range faults[:sized(1, len(faults))] {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		header := p.pays(r, p.terms(r, esimPath, body)).header(r)
		before, stored := sent(), r.count("transactions")
		s.keeper.Misbehave(fault)
		brief, cancel := context.WithTimeout(r.Context(), 5*time.Second) // clock: it never comes
		a := p.offers(brief, esimPath, body, header)
		cancel()
		if a.status == http.StatusOK || p.moved() != 0 || sent() != before || r.count("transactions") != stored {
			r.Errorf("fault %d: %d %.200s, %d units moved, %d sent, %d stored", fault, a.status, a.body, p.moved(),
				sent()-before, r.count("transactions")-stored)
		}
		r.untilReady(http.StatusServiceUnavailable)
		s.keeper.Misbehave(web3signerfake.None)
		r.untilReady(http.StatusOK)
		r.await("what was paid is delivered", func() error {
			if a := p.offers(r.Context(), esimPath, body, header); a.status != http.StatusOK {
				return errorOf(a)
			}
			return nil
		})
		r.exactly(p, 1)
	}
}

// untilReady waits until the program says so, or that it is not.
func (r *trial) untilReady(status int) {
	r.Helper()
	r.await("the program is ready or not, as it should be", func() error {
		if a := r.caller().send(r.Context(), http.MethodGet, "/ready", nil); a.status != status {
			return errorOf(a)
		}
		return nil
	})
}

// execute changes the service's database, as time would.
func (w *world) execute(sql string) {
	w.t.Helper()
	if n := query[int64](w, "WITH changed AS ("+sql+" RETURNING 1) SELECT count(*) FROM changed")[0]; n != 1 {
		w.t.Fatalf("%s: %d rows", sql, n)
	}
}
