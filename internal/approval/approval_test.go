package approval_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func asked(by order.OperatorContext) approval.Approval {
	rule := approval.Rule{Above: 100, Within: time.Hour}
	return rule.Ask(approval.Asked{Action: approval.RefundOrder, Subject: "ord_1", Amount: 101, Version: 3}, by, noon)
}

func TestRuleIsOfAmountsAboveIt(t *testing.T) {
	rule := approval.Rule{Above: 100}
	if rule.Needs(100) || !rule.Needs(101) || (approval.Rule{}).Needs(1<<40) {
		t.Error("the amount is not compared as it is said")
	}
	if a := rule.Ask(approval.Asked{}, order.OperatorContext{}, noon); a.ExpiresAt.Sub(noon) != approval.DefaultWithin {
		t.Errorf("waits until %s", a.ExpiresAt)
	}
}

func TestSecondOperatorIsAnother(t *testing.T) {
	ann := order.OperatorContext{Operator: "ann", Minters: []string{"root"}}
	for name, tt := range map[string]struct {
		by   order.OperatorContext
		want fault.Code
	}{
		"another":                   {order.OperatorContext{Operator: "bob"}, ""},
		"another of another minter": {order.OperatorContext{Operator: "bob", Minters: []string{"eve"}}, ""},
		"another of the same minter": {
			order.OperatorContext{Operator: "bob", Minters: []string{"root"}}, fault.SecondOperatorRequired,
		},
		"another whose minter's token the same one minted": {
			order.OperatorContext{Operator: "bob", Minters: []string{"eve", "root"}}, fault.SecondOperatorRequired,
		},
		"who asked": {order.OperatorContext{Operator: "ann"}, fault.SecondOperatorRequired},
		"who asked, with another token": {
			order.OperatorContext{Operator: "ann", Minters: []string{"eve"}}, fault.SecondOperatorRequired,
		},
		"whose token who asked minted": {
			order.OperatorContext{Operator: "bob", Minters: []string{"ann"}}, fault.SecondOperatorRequired,
		},
		"two tokens further": {
			order.OperatorContext{Operator: "bob", Minters: []string{"eve", "ann"}}, fault.SecondOperatorRequired,
		},
		"who minted the token of the one": {order.OperatorContext{Operator: "root"}, fault.SecondOperatorRequired},
	} {
		if got := fault.Of(asked(ann).Check(tt.by, noon)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestPersonIsOneByAnyName: whom an issuer knows is told by the mark, and may be anybody else of the same name only
// where that one has a mark, too.
func TestPersonIsOneByAnyName(t *testing.T) {
	act := func(operator string, minters ...string) order.OperatorContext {
		return order.OperatorContext{Operator: operator, Minters: minters}
	}
	for name, tt := range map[string]struct {
		one, other order.OperatorContext
		want       fault.Code
	}{
		"who was called otherwise":             {act("ann~a"), act("anna~a"), fault.SecondOperatorRequired},
		"whose minter was called otherwise":    {act("ann~a"), act("bob", "anna~a"), fault.SecondOperatorRequired},
		"two minters, called otherwise":        {act("bob", "ann~a"), act("eve", "anna~a"), fault.SecondOperatorRequired},
		"another of the same name":             {act("ann~a"), act("ann~b"), ""},
		"who may be the same, by a token":      {act("ann~a"), act("ann"), fault.SecondOperatorRequired},
		"who may be the same, by a sign-in":    {act("ann"), act("ann~a"), fault.SecondOperatorRequired},
		"another, by a token":                  {act("ann~a"), act("bob"), ""},
		"who is called as another is marked":   {act("ann~a"), act("a"), ""},
		"another of two whom the issuer knows": {act("ann~a"), act("bob~b"), ""},
	} {
		if got := fault.Of(asked(tt.one).Check(tt.other, noon)); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestExpiredIsNotApproved(t *testing.T) {
	a, bob := asked(order.OperatorContext{Operator: "ann"}), order.OperatorContext{Operator: "bob"}
	if err := a.Check(bob, noon.Add(time.Hour-time.Nanosecond)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	if err := a.Check(bob, noon.Add(time.Hour)); fault.Of(err) != fault.ApprovalClosed {
		t.Errorf("at its end: %v", err)
	}
	if err := a.CheckOpen(noon.Add(time.Hour)); fault.Of(err) != fault.ApprovalClosed {
		t.Errorf("rejected at its end: %v", err)
	}
	for _, s := range []approval.Status{approval.Approved, approval.Rejected, approval.Expired} {
		a.Status = s
		if err := a.Check(bob, noon); fault.Of(err) != fault.ApprovalClosed {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestEffectIsOfWhoAsked: the version that was seen is part of it.
func TestEffectIsOfWhoAsked(t *testing.T) {
	act := asked(order.OperatorContext{Operator: "ann", Key: "k", Reason: "r"}).Effect()
	if act.Operator != "ann" || act.Key != "k" || act.Reason != "r" || act.Version != 3 {
		t.Errorf("%+v", act)
	}
}
