package telemetry

import (
	"context"
	"strings"
	"testing"
)

func TestRequestIDFromAcceptsValidIDs(t *testing.T) {
	for _, id := range []string{"a", "Trace_1.2-3", strings.Repeat("x", 64)} {
		if got := RequestIDFrom(id); got != id {
			t.Errorf("RequestIDFrom(%q) = %q", id, got)
		}
	}
}

func TestRequestIDFromReplacesInvalidIDs(t *testing.T) {
	for _, id := range []string{"", strings.Repeat("x", 65), "a b", "a\r\nb", "é", `"quoted"`} {
		if got := RequestIDFrom(id); got == id || len(got) != 36 {
			t.Errorf("RequestIDFrom(%q) = %q", id, got)
		}
	}
}

func TestContextHasTheRequestID(t *testing.T) {
	if got := RequestID(context.Background()); got != "" {
		t.Errorf("RequestID without one = %q", got)
	}
	if got := RequestID(WithRequestID(context.Background(), "r1")); got != "r1" {
		t.Errorf("RequestID = %q", got)
	}
}
