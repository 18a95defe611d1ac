package jobtest_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
)

func TestMemoryQueue(t *testing.T) {
	jobtest.RunQueue(t, func(*testing.T) job.Queue { return jobtest.NewQueue(nil) })
}
