package rpcx

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
)

// needs is the least role of every operators' method. A new method is added here on purpose.
var needs = map[protoreflect.Name]auth.Role{
	"ListFeeJobs": auth.RoleViewer, "ListCardClosings": auth.RoleViewer, "GetReconciliation": auth.RoleViewer,
	"ListReconciliations": auth.RoleViewer,
	"ListFindings":        auth.RoleViewer, "ListTransfers": auth.RoleViewer, "ListOrderQueue": auth.RoleViewer,
	"InspectOrder": auth.RoleViewer, "ListSwitches": auth.RoleViewer, "GetChallengeRetention": auth.RoleViewer,
	"WhoAmI": auth.RoleViewer, "ReviewOrder": auth.RoleViewer, "CountOrders": auth.RoleViewer,
	"GetSummary": auth.RoleViewer, "ListEsimCancellations": auth.RoleViewer,
	"ListAudit": auth.RoleViewer, "GetGauges": auth.RoleViewer, "ListJobs": auth.RoleViewer, "GetJob": auth.RoleViewer,
	"InspectCard":   auth.RoleViewer,
	"ListApprovals": auth.RoleViewer, "GetApproval": auth.RoleViewer,

	"ReconcileFeeJob": auth.RoleSupport, "Reconcile": auth.RoleSupport,
	"SetSwitch": auth.RoleSupport, "PruneChallenges": auth.RoleSupport, "RetryJob": auth.RoleSupport,

	"RetryFeeJob": auth.RoleTreasurer, "WriteOffFeeJob": auth.RoleTreasurer, "CloseCard": auth.RoleTreasurer,
	"RetryCardClosing": auth.RoleTreasurer, "ConcludeCardClosing": auth.RoleTreasurer,
	"RetryEsimCancellation": auth.RoleTreasurer, "ConcludeEsimCancellation": auth.RoleTreasurer,
	"ResolveTransfer": auth.RoleTreasurer, "ResolveFinding": auth.RoleTreasurer,
	"DecideOrder": auth.RoleTreasurer, "ProvePayment": auth.RoleTreasurer, "DropJob": auth.RoleTreasurer,
	"ApproveDecision": auth.RoleTreasurer, "RejectDecision": auth.RoleTreasurer,

	"MintToken": auth.RoleAdmin, "ListTokens": auth.RoleAdmin, "RevokeToken": auth.RoleAdmin,
}

func operatorMethods(t *testing.T) map[protoreflect.Name]protoreflect.MethodDescriptor {
	t.Helper()
	methods := roamcardv1.File_roamcard_v1_operator_proto.Services().ByName("OperatorService").Methods()
	all := map[protoreflect.Name]protoreflect.MethodDescriptor{}
	for i := range methods.Len() {
		all[methods.Get(i).Name()] = methods.Get(i)
	}
	return all
}

func TestEveryOperatorMethodNeedsItsRole(t *testing.T) {
	methods := operatorMethods(t)
	for name, m := range methods {
		p, err := PolicyOf(m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := RoleOf(p); got != needs[name] {
			t.Errorf("%s needs %q, want %q", name, got, needs[name])
		}
	}
	for name := range needs {
		if methods[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	// Whoever may ask for a decision may approve one.
	for _, name := range []protoreflect.Name{"DecideOrder", "ResolveTransfer", "CloseCard"} {
		if needs[name] != needs["ApproveDecision"] {
			t.Errorf("%s needs %s, and its approval %s", name, needs[name], needs["ApproveDecision"])
		}
	}
}

// refusals records what was refused, or fails.
type refusals struct {
	err  error
	seen []string
}

func (r *refusals) Refused(_ context.Context, who auth.Caller, method string, needed auth.Role) error {
	r.seen = append(r.seen, who.Name+" "+method+" "+string(needed))
	return r.err
}

func TestRoleCoversThoseBeforeIt(t *testing.T) {
	methods := operatorMethods(t)
	for have, role := range auth.Roles() {
		ann := auth.Caller{Kind: auth.KindOperator, Name: "ann", Role: role}
		for name, needed := range needs {
			var record refusals
			p, err := PolicyOf(methods[name])
			if err != nil {
				t.Fatal(err)
			}
			var request proto.Message = dynamicpb.NewMessage(methods[name].Input())
			if name == "SetSwitch" {
				request = &roamcardv1.SetSwitchRequest{Paused: proto.Bool(true)}
			}
			err = checkRole(t.Context(), Config{Refusals: &record}, methods[name], p, ann, request)
			allowed := have >= slices.Index(auth.Roles(), needed)
			if allowed != (err == nil) || !allowed && (fault.Of(err) != fault.OperatorRoleMissing || len(record.seen) != 1) {
				t.Errorf("%s at %s: %v, %v", role, name, err, record.seen)
			}
		}
	}
}

func TestOpeningASaleNeedsAnAdmin(t *testing.T) {
	m := operatorMethods(t)["SetSwitch"]
	p, err := PolicyOf(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		role    auth.Role
		request *roamcardv1.SetSwitchRequest
		want    fault.Code
	}{
		{auth.RoleSupport, &roamcardv1.SetSwitchRequest{Paused: proto.Bool(true)}, ""},
		{auth.RoleTreasurer, &roamcardv1.SetSwitchRequest{Paused: proto.Bool(false)}, fault.OperatorRoleMissing},
		{auth.RoleAdmin, &roamcardv1.SetSwitchRequest{Paused: proto.Bool(false)}, ""},
		{auth.RoleSupport, &roamcardv1.SetSwitchRequest{}, fault.OperatorRoleMissing}, // absent is false
	} {
		who := auth.Caller{Kind: auth.KindOperator, Role: tt.role}
		if got := fault.Of(checkRole(t.Context(), Config{}, m, p, who, tt.request)); got != tt.want {
			t.Errorf("%s, %v: %q, want %q", tt.role, tt.request, got, tt.want)
		}
	}
}

func TestRefusalThatIsNotRecordedIsAnError(t *testing.T) {
	m := operatorMethods(t)["MintToken"]
	p, err := PolicyOf(m)
	if err != nil {
		t.Fatal(err)
	}
	down := errors.New("down")
	viewer := auth.Caller{Kind: auth.KindOperator, Role: auth.RoleViewer}
	err = checkRole(t.Context(), Config{Refusals: &refusals{err: down}}, m, p, viewer, &roamcardv1.MintTokenRequest{})
	if !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
}

// TestRolesOfAPolicyAreChecked: what a proto file may say wrongly is an error at the start.
func TestRolesOfAPolicyAreChecked(t *testing.T) {
	m := operatorMethods(t)["SetSwitch"]
	when := func(field, equals string, role roamcardv1.Role) []*roamcardv1.RoleWhen {
		return []*roamcardv1.RoleWhen{{Field: field, Equals: equals, Role: role}}
	}
	const (
		operator  = roamcardv1.Access_ACCESS_OPERATOR
		public    = roamcardv1.Access_ACCESS_PUBLIC
		treasurer = roamcardv1.Role_ROLE_TREASURER
		admin     = roamcardv1.Role_ROLE_ADMIN
	)
	for name, p := range map[string]*roamcardv1.Policy{
		"no role":             {Access: operator},
		"an unknown role":     {Access: operator, Role: 99},
		"a public method's":   {Access: public, Role: treasurer},
		"no such field":       {Access: operator, Role: treasurer, RoleWhen: when("nothing", "true", admin)},
		"no boolean":          {Access: operator, Role: treasurer, RoleWhen: when("reason", "true", admin)},
		"no boolean value":    {Access: operator, Role: treasurer, RoleWhen: when("paused", "perhaps", admin)},
		"a lower role":        {Access: operator, Role: admin, RoleWhen: when("paused", "true", treasurer)},
		"an unknown one then": {Access: operator, Role: treasurer, RoleWhen: when("paused", "true", 0)},
	} {
		if err := checkRoles(m, p); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
