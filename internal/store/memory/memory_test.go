package memory_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/store/memory"
)

func TestJobsPassTheKit(t *testing.T) {
	jobtest.RunQueue(t, func(*testing.T) job.Queue { return memory.New(nil).Jobs() })
}
