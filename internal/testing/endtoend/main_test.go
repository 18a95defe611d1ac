package endtoend_test

import (
	"flag"
	"os"
	"testing"

	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests wait for settlements, leases and visibility delays most of the time: more of them run at once
	// than there are cores.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "10") // the flag exists
	}
	code := storetest.Main(m)
	apptest.RemoveBinary()
	removeEvaluator()
	os.Exit(code)
}
