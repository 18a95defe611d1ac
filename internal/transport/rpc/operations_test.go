package rpc

import (
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/auth"
)

func TestOperatorIsToldWhatTheRoleMayAskFor(t *testing.T) {
	before := 0
	for _, c := range []struct {
		role       auth.Role
		may, mayNo string
	}{
		{auth.RoleViewer, "ListOrderQueue", "RetryJob"},
		{auth.RoleSupport, "SetSwitch", "DecideOrder"},
		{auth.RoleTreasurer, "DecideOrder", "MintToken"},
		{auth.RoleAdmin, "MintToken", ""},
	} {
		got, err := operationsOf(c.role)
		if err != nil || !slices.Contains(got, c.may) || slices.Contains(got, c.mayNo) || len(got) <= before {
			t.Errorf("%s may ask for %v, %v", c.role, got, err)
		}
		before = len(got)
	}
	if got, err := operationsOf(""); err != nil || len(got) != 0 {
		t.Errorf("without a role: %v, %v", got, err)
	}
}
