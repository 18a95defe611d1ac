package crash_test

import (
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
)

func TestFaultsAreRefusedInProduction(t *testing.T) {
	t.Setenv("ROAMCARD_FAULT", "settle.seen:kill")
	_, err := app.New(t.Context(), app.Config{Environment: app.Production}, app.Options{})
	if err == nil || !strings.Contains(err.Error(), "sandbox only") {
		t.Errorf("started with a fault: %v", err)
	}
}

func TestMisspeltFaultKeepsTheProgramFromStarting(t *testing.T) {
	t.Setenv("ROAMCARD_FAULT", "settle.sen:kill")
	_, err := app.New(t.Context(), app.Config{Environment: app.Sandbox}, app.Options{})
	if err == nil || !strings.Contains(err.Error(), "no such point") {
		t.Errorf("started with a fault that is none: %v", err)
	}
}
