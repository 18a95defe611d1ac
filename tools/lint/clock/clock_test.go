package clock_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/roamcard/roamcard/tools/lint/clock"
)

func TestClock(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), clock.Analyzer,
		"github.com/roamcard/roamcard/internal/testing/crash",
		"github.com/roamcard/roamcard/internal/store")
}
