package apptest_test

import (
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// TestProgramsDoNotGetTheVariablesOfTests: the release before, which a test starts too, does not know those of today.
func TestProgramsDoNotGetTheVariablesOfTests(t *testing.T) {
	t.Setenv("ROAMCARD_PREVIOUS", "v1")
	t.Setenv("ROAMCARD_TORTURE", "1")
	t.Setenv("ROAMCARD_PG_BIN", "/bin")
	environ := apptest.Environ()
	if slices.Contains(environ, "ROAMCARD_PREVIOUS=v1") || slices.Contains(environ, "ROAMCARD_TORTURE=1") {
		t.Error("a program gets what is for tests only")
	}
	if !slices.Contains(environ, "ROAMCARD_PG_BIN=/bin") {
		t.Error("a program does not find PostgreSQL")
	}
}
