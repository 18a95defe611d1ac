package memory_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/esim/esimtest"
	"github.com/roamcard/roamcard/internal/store/memory"
)

func TestJobsPassTheKit(t *testing.T) {
	jobtest.RunQueue(t, func(*testing.T) job.Queue { return memory.New(nil).Jobs() })
}

func TestEsimsPassTheKit(t *testing.T) {
	esimtest.RunStore(t, func(t *testing.T) esimtest.StoreHarness {
		s := memory.New(nil)
		return esimtest.StoreHarness{Store: s.Esims(), Fence: jobtest.Held(t, s.Jobs()), Put: s.Orders().Put}
	})
}

func TestSupplierJournalKeepsToTheRules(t *testing.T) {
	esimtest.RunJournal(t, func(*testing.T) esim.Journal { return memory.New(nil).SupplierJournal("one") })
}

func TestOrdersPassTheKit(t *testing.T) {
	checkouttest.RunStore(t, func(*testing.T) checkouttest.Database {
		disk := memory.NewDisk(nil, nil)
		return checkouttest.Database{Open: func(_ *testing.T, now func() time.Time) checkouttest.Store {
			return checkouttest.InMemory(disk.Open("", now))
		}}
	})
}
