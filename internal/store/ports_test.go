package store_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestJobsPassTheKit(t *testing.T) {
	jobtest.RunQueue(t, func(t *testing.T) job.Queue { return storetest.New(t).Jobs() })
}

func TestSignInStoresPassTheKit(t *testing.T) {
	authtest.RunStore(t, func(t *testing.T) (auth.Challenges, auth.Sessions) {
		s := storetest.New(t)
		return s.Challenges(), s.Sessions()
	})
}
