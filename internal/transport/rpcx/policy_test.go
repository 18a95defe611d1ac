package rpcx

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/x402"
)

const operatorToken = "operator token of the test"

// newAuth knows one operator and one session, whose token it returns: ada's, with the scope orders.
func newAuth(t *testing.T) (callers *auth.Auth, session string) {
	t.Helper()
	sessions := &authtest.Sessions{}
	callers, err := auth.New(auth.Config{
		Challenges: &authtest.Challenges{}, Sessions: sessions, Domain: "shop.example", URI: "https://shop.example",
		ChainID: x402.ChainID, Operators: []auth.Operator{{Name: "ada", Hash: sha256.Sum256([]byte(operatorToken))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	session = "rcs_" + base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	now := time.Now().UTC()
	err = sessions.Create(t.Context(), auth.Session{
		ID: uuid.New(), Wallet: authtest.NewWallet(t, "ada").Address(), Scopes: []auth.Scope{auth.ScopeOrders},
		TokenHash: sha256.Sum256([]byte(session)), IssuedAt: now, ExpiresAt: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return callers, session
}

// callerBy is who calls by some headers, at a method of a policy that names an order.
func callerBy(t *testing.T, callers Callers, p *roamcardv1.Policy, h *connect.Header) (auth.Caller, error) {
	t.Helper()
	a := admission{Config: Config{Callers: callers, Deliveries: noDeliveries{}}, ctx: t.Context(), policy: p, headers: h}
	return a.caller(&roamcardv1.GetEsimOrderRequest{})
}

type noDeliveries struct{ Deliveries }

func TestPolicyRefusesCallersOfOtherAccess(t *testing.T) {
	callers, session := newAuth(t)
	type policy = roamcardv1.Policy
	public, payer := &policy{Access: roamcardv1.Access_ACCESS_PUBLIC}, &policy{Access: roamcardv1.Access_ACCESS_PAYER}
	owner := &policy{Access: roamcardv1.Access_ACCESS_SESSION, Scope: "orders"}
	operator := &policy{Access: roamcardv1.Access_ACCESS_OPERATOR}
	for _, tt := range []struct {
		name   string
		policy *policy
		token  string
		want   fault.Code
		kind   auth.CallerKind
	}{
		{"anyone at a public method", public, "", "", auth.KindAnonymous},
		{"anyone at a paid method", payer, "", "", auth.KindAnonymous},
		{"an owner at an owner's", owner, session, "", auth.KindWallet},
		{"an operator at an owner's", owner, operatorToken, fault.SessionInvalid, ""},
		{"an operator at an operator's", operator, operatorToken, "", auth.KindOperator},
		{"an owner at an operator's", operator, session, fault.OperatorTokenInvalid, ""},
		{"a wrong token at an operator's", operator, operatorToken + " ", fault.OperatorTokenInvalid, ""},
		{"nobody at an operator's", operator, "", fault.OperatorTokenInvalid, ""},
	} {
		h := &connect.Header{}
		if tt.token != "" {
			h.Set("Authorization", "Bearer "+tt.token)
		}
		who, err := callerBy(t, callers, tt.policy, h)
		if got := fault.Of(err); got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got, err, tt.want)
		}
		if err == nil && who.Kind != tt.kind {
			t.Errorf("%s: called by %+v", tt.name, who)
		}
	}
	if _, err := callerBy(t, callers, &policy{Access: 99}, &connect.Header{}); err == nil {
		t.Error("an unknown access is served")
	}
}

// once signs in for one request by the header "signed", once.
type once struct {
	Callers
	used bool
}

func (o *once) AuthenticateRequest(_ context.Context, header string) (auth.Caller, error) {
	if header != "signed" || o.used {
		return auth.Caller{}, fault.New(fault.SignatureInvalid, "")
	}
	o.used = true
	return auth.Caller{Kind: auth.KindWallet, Scopes: []auth.Scope{auth.ScopeOrders}}, nil
}

func TestSignInForOneRequestIsReadWhereNothingElseSaysWhoAsks(t *testing.T) {
	callers, session := newAuth(t)
	type policy = roamcardv1.Policy
	for _, tt := range []struct {
		name          string
		access        roamcardv1.Access
		scope, signed string
		bearer        bool
		want          fault.Code
		used          bool
	}{
		{"at an owner's", roamcardv1.Access_ACCESS_SESSION, "orders", "signed", false, "", true},
		{"at an order's", roamcardv1.Access_ACCESS_DELIVERY, "orders", "signed", false, "", true},
		{"for a scope it lacks", roamcardv1.Access_ACCESS_SESSION, "activity", "signed", false, fault.SessionInvalid, true},
		{"at a reveal", roamcardv1.Access_ACCESS_SESSION, "reveal", "signed", false, fault.SessionInvalid, false},
		{"at the session's own", roamcardv1.Access_ACCESS_SESSION, "", "signed", false, fault.SessionInvalid, false},
		{"not signed", roamcardv1.Access_ACCESS_SESSION, "orders", "", false, fault.SignatureInvalid, false},
		{"next to a session", roamcardv1.Access_ACCESS_SESSION, "orders", "signed", true, "", false},
		{"at a public method", roamcardv1.Access_ACCESS_PUBLIC, "", "signed", false, "", false},
		{"at a paid method", roamcardv1.Access_ACCESS_PAYER, "", "signed", false, "", false},
		{"at an operator's", roamcardv1.Access_ACCESS_OPERATOR, "", "signed", false, fault.OperatorTokenInvalid, false},
	} {
		signedOnce := &once{Callers: callers}
		h := &connect.Header{}
		h.Set(x402.HeaderSignIn, tt.signed)
		if tt.bearer {
			h.Set("Authorization", "Bearer "+session)
		}
		_, err := callerBy(t, signedOnce, &policy{Access: tt.access, Scope: tt.scope}, h)
		if fault.Of(err) != tt.want || signedOnce.used != tt.used {
			t.Errorf("%s: %v, want %q; used up: %t", tt.name, err, tt.want, signedOnce.used)
		}
	}
	twice := http.Header{"Sign-In-With-X": {"signed", "signed"}}
	if f := Doubled(twice); f == nil || f.Code != fault.SchemaInvalid {
		t.Errorf("two of them: %v", f)
	}
}

// TestRevealIsNotCountedBeforeItsSignature: the edge cannot know whose reveals a request uses up.
func TestRevealIsNotCountedBeforeItsSignature(t *testing.T) {
	limits := limit.New(limit.Rates{limit.Reveal: {Count: 1, Per: time.Hour}, limit.Poll: {Count: 3, Per: time.Hour}},
		time.Now)
	reveals := &roamcardv1.Policy{Access: roamcardv1.Access_ACCESS_SESSION, Rate: string(limit.Reveal)}
	who := auth.Caller{Kind: auth.KindWallet}
	for i, want := range []fault.Code{"", "", "", fault.RateLimited} {
		if got := fault.Of(throttle(limits, reveals, who)); got != want {
			t.Errorf("request %d: %q, want %q", i+1, got, want)
		}
	}
}

func TestOperatorsAreCountedByNameAndWrongTokensByAddress(t *testing.T) {
	type policy = roamcardv1.Policy
	limits := limit.New(limit.Rates{limit.Operator: {Count: 2, Per: time.Hour}}, time.Now)
	reads, polls := &policy{Access: roamcardv1.Access_ACCESS_OPERATOR},
		&policy{Access: roamcardv1.Access_ACCESS_OPERATOR, Rate: "poll"}
	ada, bob := auth.Caller{Kind: auth.KindOperator, Name: "ada"}, auth.Caller{Kind: auth.KindOperator, Name: "bob"}
	for _, tt := range []struct {
		policy *policy
		who    auth.Caller
		want   fault.Code
	}{
		{reads, ada, ""}, {reads, ada, ""}, {reads, ada, fault.RateLimited},
		{polls, ada, ""}, {polls, ada, ""}, {polls, ada, ""},
		{reads, bob, ""},
	} {
		if got := fault.Of(throttle(limits, tt.policy, tt.who)); got != tt.want {
			t.Errorf("%s, %q: %q, want %q", tt.who.Name, tt.policy.GetRate(), got, tt.want)
		}
	}
	wrong := fault.New(fault.OperatorTokenInvalid, "")
	one, other := limit.WithAddress(t.Context(), "192.0.2.1"), limit.WithAddress(t.Context(), "192.0.2.2")
	for i, want := range []fault.Code{fault.OperatorTokenInvalid, fault.OperatorTokenInvalid, fault.RateLimited} {
		if got := fault.Of(guessed(one, limits, wrong)); got != want {
			t.Errorf("wrong token %d: %q, want %q", i, got, want)
		}
	}
	if got := fault.Of(guessed(other, limits, wrong)); got != fault.OperatorTokenInvalid {
		t.Errorf("a wrong token of another address: %q", got)
	}
	if got := fault.Of(guessed(one, limits, fault.New(fault.SessionInvalid, ""))); got != fault.SessionInvalid {
		t.Errorf("a wrong session is counted: %q", got)
	}
}

func TestPolicyRequiresOneIdempotencyKey(t *testing.T) {
	const (
		unused   = roamcardv1.IdempotencyHeader_IDEMPOTENCY_HEADER_UNSPECIFIED
		optional = roamcardv1.IdempotencyHeader_IDEMPOTENCY_HEADER_OPTIONAL
		required = roamcardv1.IdempotencyHeader_IDEMPOTENCY_HEADER_REQUIRED
	)
	for _, tt := range []struct {
		name string
		rule roamcardv1.IdempotencyHeader
		keys []string
		want fault.Code
	}{
		{"none, unused", unused, nil, ""},
		{"two, unused", unused, []string{"a", "b"}, ""},
		{"none, optional", optional, nil, ""},
		{"none, required", required, nil, fault.IdempotencyKeyMissing},
		{"one", required, []string{"a"}, ""},
		{"200 characters", required, []string{strings.Repeat("é", 200)}, ""},
		{"201 characters", required, []string{strings.Repeat("a", 201)}, fault.SchemaInvalid},
		{"empty", required, []string{""}, fault.SchemaInvalid},
		{"empty, optional", optional, []string{""}, fault.SchemaInvalid},
		{"two", optional, []string{"a", "a"}, fault.SchemaInvalid},
		{"no UTF-8", required, []string{"\xff"}, fault.SchemaInvalid},
	} {
		if got := fault.Of(checkKey(tt.rule, tt.keys)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPolicyOfRefusesMethodWithoutPolicy(t *testing.T) {
	purchase := roamcardv1.File_roamcard_v1_card_proto.Services().ByName("CardService").Methods().ByName("PurchaseCard")
	if p, err := PolicyOf(purchase); err != nil || !p.GetPaid() || p.GetAccess() != roamcardv1.Access_ACCESS_PAYER {
		t.Errorf("%v, %v", p, err)
	}
	bare, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("bare.proto"), Package: proto.String("bare"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Nothing")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Bare"),
			Method: []*descriptorpb.MethodDescriptorProto{{
				Name: proto.String("Do"), InputType: proto.String(".bare.Nothing"),
				OutputType: proto.String(".bare.Nothing"),
			}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := PolicyOf(bare.Services().Get(0).Methods().Get(0)); err == nil {
		t.Errorf("served by %v", p)
	}
}

// TestOwnersCallsAreMarked, so that they leave a vendor's quota to sales.
func TestOwnersCallsAreMarked(t *testing.T) {
	for access, want := range map[roamcardv1.Access]limit.Use{
		roamcardv1.Access_ACCESS_PUBLIC: limit.ForSale, roamcardv1.Access_ACCESS_PAYER: limit.ForSale,
		roamcardv1.Access_ACCESS_OPERATOR: limit.ForSale, roamcardv1.Access_ACCESS_SESSION: limit.ForOwner,
		roamcardv1.Access_ACCESS_DELIVERY: limit.ForOwner, roamcardv1.Access_ACCESS_WATCH: limit.ForOwner,
	} {
		if got := limit.UseOf(usedFor(t.Context(), &roamcardv1.Policy{Access: access})); got != want {
			t.Errorf("%s is used for %d, want %d", access, got, want)
		}
	}
}

// TestOwnersAreSlowedAtTheIssuer, by wallet, whatever addresses they come from.
func TestOwnersAreSlowedAtTheIssuer(t *testing.T) {
	l := limit.New(limit.Rates{limit.Control: {Count: 2, Per: time.Minute}}, time.Now)
	p := &roamcardv1.Policy{Access: roamcardv1.Access_ACCESS_SESSION, Rate: string(limit.Control)}
	ada, bob := authtest.NewWallet(t, "ada").Address(), authtest.NewWallet(t, "bob").Address()
	for n, want := range []fault.Code{"", "", fault.RateLimited} {
		err := throttle(l, p, auth.Caller{Kind: auth.KindWallet, Wallet: ada})
		if fault.Of(err) != want && (err != nil || want != "") {
			t.Errorf("call %d: %v, want %q", n+1, err, want)
		}
	}
	if err := throttle(l, p, auth.Caller{Kind: auth.KindWallet, Wallet: bob}); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if got := RateOf(p); got != limit.Poll {
		t.Errorf("counted by address as %s", got)
	}
}
