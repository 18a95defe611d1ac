package crash_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of the time the cases wait for leases and visibility delays: more of them run at once than there are cores.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(2*atOnce())) // the flag exists
	}
	code := storetest.Main(m)
	apptest.RemoveBinary()
	os.Exit(code)
}
