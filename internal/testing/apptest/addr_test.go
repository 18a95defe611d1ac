package apptest

import "testing"

// TestRangeOfPortsHasOneOwner as long as it lives, however pids fall.
func TestRangeOfPortsHasOneOwner(t *testing.T) {
	one, guard, err := takeRange(5)
	if err != nil {
		t.Fatal(err)
	}
	other, second, err := takeRange(5)
	if err != nil || other == one {
		t.Errorf("%d and %d, %v", one, other, err)
	}
	_ = second.Close()
	_ = guard.Close()
}
