package crash_test

import (
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// The ordinary run kills the program in each area at least once: in a case of an ordinary purchase, or in the test that
// is named here.
//
// The simulation kills its processes at any call to the outside, before it and after it. So they die in all that is
// between two calls of an ordinary purchase, of a top-up and of an eSIM. `make torture` kills the program at every
// point.
func TestEachAreaIsKilled(t *testing.T) {
	killed := map[string]bool{}
	for _, c := range ordinary() {
		for _, point := range []string{c.first, c.second} {
			area, _, _ := strings.Cut(point, ".")
			killed[area] = true
		}
	}
	const simulated = "testing/simulation TestKeptSeeds"
	elsewhere := map[string]string{
		"batch": simulated, "buy": simulated, "card": simulated, "confirm": simulated, "facilitator": simulated,
		"fee": simulated, "fulfill": simulated, "load": simulated, "move": simulated, "settle": simulated,
		"transaction": simulated, "turn": simulated,
		"arrive":   "testing/crash TestKilledWhileArrivedMoneyIsRecorded",
		"bump":     "testing/crash TestKilledBetweenAHigherFeeAndItsSending",
		"cancel":   "testing/crash TestEsimIsCancelledOnce",
		"close":    "testing/crash TestCardIsClosedOnce",
		"expire":   "testing/crash TestKilledWhileOrdersExpire",
		"extend":   "testing/crash TestEsimIsToppedUpOnce",
		"journal":  "testing/crash TestKilledWhileASupplierIsSentAnOrder",
		"owe":      "testing/crash TestSpentFeeIsOwedOnce",
		"recover":  "testing/crash TestRecoveryOfOrdersLostInEveryState",
		"return":   "testing/crash TestCardIsClosedOnce",
		"timeline": "testing/crash TestKilledWhileTimelinesArePruned",
		"void":     "testing/crash TestCancelledWhileTheProgramIsDown",
		"webhook":  "testing/crash TestEventIsStoredOnce",
		// A step of these that fails is taken again, and leaves nothing half done.
		"catchup":      "testing/crash TestProgramSurvivesErrorsAtEveryPoint",
		"observe":      "testing/crash TestProgramSurvivesErrorsAtEveryPoint",
		"periodic":     "job TestSuccessClearsParkedPeriodicJobs",
		"resume":       "settlement TestMissedPaymentHoldsNothing",
		"prove":        "admin TestNamedTransactionIsBelievedOnlyAsTheChainShowsIt",
		"transactions": "store TestPrunedTransactionsStayPruned",
	}
	for _, p := range faultpoint.Points() {
		area, _, _ := strings.Cut(p.Name, ".")
		if killed[area] {
			continue
		}
		dir, name, _ := strings.Cut(elsewhere[area], " ")
		if dir == "" || !apptest.HasTest(t, "../../"+dir, name) {
			t.Errorf("nothing kills the program at %s: %q is no test of it", p.Name, elsewhere[area])
		}
	}
}
