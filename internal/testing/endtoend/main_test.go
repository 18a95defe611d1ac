package endtoend_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// suite are the tests, with the end of what they share while its database is there.
type suite struct{ tests *testing.M }

// Run implements storetest.Runner.
func (s suite) Run() int {
	code := s.tests.Run()
	if !lent.end() && code == 0 {
		code = 1
	}
	return code
}

func TestMain(m *testing.M) {
	flag.Parse()
	// What the instances keep is little, and what they make as they start is much: collected less often, it costs less.
	debug.SetGCPercent(400)
	// These tests wait for blocks and leases half of the time. More of them at once than this would make leases end and
	// limits of calls pass on a machine of two cores.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "4") // the flag exists
	}
	code := storetest.Main(suite{m})
	apptest.RemoveBinary()
	removeEvaluator()
	os.Exit(code)
}
