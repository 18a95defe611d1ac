package apptest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// variables are those that say how tests run. The program takes a variable with its prefix that it does not know for
// a misspelt setting, so no program that a test starts gets them.
var variables = []string{
	BinaryVariable, "ROAMCARD_CASES", "ROAMCARD_COSTS", "ROAMCARD_COST_TABLE", "ROAMCARD_HOSTILE", "ROAMCARD_KMS_URL",
	"ROAMCARD_LOG",
	"ROAMCARD_MATRIX", "ROAMCARD_PREVIOUS", "ROAMCARD_READY_LITHIC", "ROAMCARD_RUNS", "ROAMCARD_SCENARIOS",
	"ROAMCARD_SEED", "ROAMCARD_SHOTS", "ROAMCARD_SUITE", "ROAMCARD_TEST_CITUS", "ROAMCARD_TEST_LOG", "ROAMCARD_TORTURE",
	"ROAMCARD_VENDOR_OPENAPI",
}

// OfTests reports whether a variable says how tests run.
func OfTests(name string) bool { return slices.Contains(variables, name) }

// Environ is the environment of a program that a test starts: that of the tests, without the variables that say how
// tests run. Where PostgreSQL and anvil are is left in it.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return OfTests(name)
	})
}

// HideVariables takes the variables that say how tests run out of the environment for the rest of a test, which calls
// what reads settings from it.
func HideVariables(t testing.TB) {
	t.Helper()
	for _, name := range variables {
		if _, set := os.LookupEnv(name); set {
			t.Setenv(name, "")    // it is set again after the test
			_ = os.Unsetenv(name) // it was just set
		}
	}
}

// ForgetVariables is HideVariables for all tests of a binary that has no use for them.
func ForgetVariables() {
	for _, name := range variables {
		_ = os.Unsetenv(name) // its name is valid
	}
}
