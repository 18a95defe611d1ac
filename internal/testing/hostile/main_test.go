package hostile_test

import (
	"os"
	"testing"

	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// whole runs every attack at its full size, for `make torture`.
var whole = os.Getenv("ROAMCARD_TORTURE") != ""

// sized is how much of something an attack uses: less in `make test` than in `make torture`.
func sized(quick, torture int) int {
	if whole {
		return torture
	}
	return quick
}

func TestMain(m *testing.M) {
	code := storetest.Main(m)
	apptest.RemoveBinary()
	os.Exit(code)
}
