package rpc

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/fault"
)

func TestASessionDoesWhatItWasGrantedWhileItLives(t *testing.T) {
	d := newAdmin(t)
	ada := authtest.NewWallet(t, "ada")
	good := d.session(ada, auth.ScopeOrders, auth.ScopeCards, auth.ScopeReveal)
	list := func(token string) error {
		ctx, _ := as(t, token)
		_, err := d.client.ListCards(ctx, &roamcardv1.ListCardsRequest{})
		return err
	}
	if err := list(good); err != nil {
		t.Fatalf("a good session: %v", err)
	}
	revoked := d.session(ada, auth.ScopeCards)
	who, err := d.auth.Authenticate(t.Context(), "Bearer "+revoked)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.auth.Revoke(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no session":             "",
		"garbage":                "garbage",
		"unknown":                "rcs_" + strings.Repeat("A", 43),
		"revoked":                revoked,
		"without the scope":      d.session(ada, auth.ScopeOrders, auth.ScopeReveal),
		"without any":            d.session(ada),
		"an operator's token":    operatorToken,
		"two tokens in one line": good + ", Bearer " + good,
	} {
		if p := problemOf(t, list(token)); p.GetCode() != string(fault.SessionInvalid) || p.GetStatus() != 401 {
			t.Errorf("%s: %d %s", name, p.GetStatus(), p.GetCode())
		}
	}
	d.now = d.now.Add(time.Hour)
	if p := problemOf(t, list(good)); p.GetCode() != string(fault.SessionInvalid) {
		t.Errorf("an hour later: %s", p.GetCode())
	}
}

func TestRevealingNeedsItsOwnScope(t *testing.T) {
	d := newAdmin(t)
	ada := authtest.NewWallet(t, "ada")
	c := d.paidOrder(ada)
	ctx, _ := as(t, d.session(ada, auth.ScopeOrders, auth.ScopeCards))
	_, err := d.client.CreateRevealChallenge(ctx, &roamcardv1.CreateRevealChallengeRequest{Id: c.ID.String()})
	if p := problemOf(t, err); p.GetCode() != string(fault.SessionInvalid) || !strings.Contains(p.GetDetail(), "reveal") {
		t.Errorf("challenge: %s %s", p.GetCode(), p.GetDetail())
	}
}

func TestPrivateAnswersAreNotStored(t *testing.T) {
	d := newAdmin(t)
	ctx, info := as(t, d.session(authtest.NewWallet(t, "ada"), auth.ScopeCards))
	if _, err := d.client.ListCards(ctx, &roamcardv1.ListCardsRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := info.ResponseHeader().Get("Cache-Control"); got != "private, no-store" {
		t.Errorf("a list of cards: Cache-Control %q", got)
	}
	ctx, info = as(t, "")
	if _, err := d.client.GetCardDiscovery(ctx, &roamcardv1.GetCardDiscoveryRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := info.ResponseHeader().Get("Cache-Control"); got != "" {
		t.Errorf("a public document: Cache-Control %q", got)
	}
}

func TestEachAccessAdmitsItsOwnCallers(t *testing.T) {
	d := newAdmin(t)
	ada := authtest.NewWallet(t, "ada")
	session := d.session(ada, auth.ScopeOrders)
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
		h := http.Header{}
		if tt.token != "" {
			h.Set("Authorization", "Bearer "+tt.token)
		}
		ctx, err := checkAccess(t.Context(), d.auth, tt.policy, h)
		if got := fault.Of(err); got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got, err, tt.want)
		}
		if who, _ := auth.CallerFrom(ctx); err == nil && who.Kind != tt.kind {
			t.Errorf("%s: called by %+v", tt.name, who)
		}
	}
	if _, err := checkAccess(t.Context(), d.auth, &policy{Access: 99}, http.Header{}); err == nil {
		t.Error("an access that nobody knows is served")
	}
}

func TestTheIdempotencyHeaderIsOneKeyWhereItIsWanted(t *testing.T) {
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

func TestAMethodWithoutAPolicyIsNotServed(t *testing.T) {
	purchase := roamcardv1.File_roamcard_v1_card_proto.Services().ByName("CardService").Methods().ByName("PurchaseCard")
	if p, err := PolicyOf(purchase); err != nil || !p.GetPaid() || p.GetAccess() != roamcardv1.Access_ACCESS_PAYER {
		t.Errorf("%v, %v", p, err)
	}
	bare, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("bare.proto"), Package: proto.String("bare"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Nothing")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Bare"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Do"), InputType: proto.String(".bare.Nothing"), OutputType: proto.String(".bare.Nothing"),
		}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := PolicyOf(bare.Services().Get(0).Methods().Get(0)); err == nil {
		t.Errorf("served by %v", p)
	}
}
