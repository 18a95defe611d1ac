package static_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/roamcard/roamcard/tools/lint/static"
)

func TestStaticcheck(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), static.Analyzer, "./planted")
}
