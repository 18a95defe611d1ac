package doctor

import (
	"os"
	"testing"

	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
