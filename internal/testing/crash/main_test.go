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
	// The cases of the crash suite wait for leases and horizons most of their time: more of them run at
	// once than there are cores.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce)) // the flag exists
	}
	code := storetest.Main(m)
	apptest.RemoveBinary()
	os.Exit(code)
}
