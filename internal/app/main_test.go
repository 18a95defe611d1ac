package app_test

import (
	"os"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

func TestMain(m *testing.M) {
	// Settings are read from the environment, too, and variables that say how tests run are none.
	apptest.ForgetVariables()
	os.Exit(m.Run())
}
