package apptest

import (
	"testing"
	"time"
)

// dated is a test of a binary whose tests have to end at a time.
type dated struct {
	testing.TB
	end time.Time
}

func (d dated) Deadline() (time.Time, bool) { return d.end, true }

// A test that waits in vain has time to say so before the deadline of all tests, which would say nothing of it.
func TestWaitsEndBeforeTheTests(t *testing.T) {
	if got := timeoutOf(dated{t, time.Now().Add(time.Minute)}); got <= 0 || got > time.Minute-toTell {
		t.Errorf("a minute before the end: %s", got)
	}
	if got := timeoutOf(dated{t, time.Now().Add(24 * time.Hour)}); got != maxTimeout {
		t.Errorf("a day before the end: %s", got)
	}
}

func TestNamedTestIsFound(t *testing.T) {
	if !HasTest(t, ".", "TestNamedTestIsFound") || HasTest(t, ".", "TestNamedTest") {
		t.Error("a test is found by its whole name only")
	}
}
