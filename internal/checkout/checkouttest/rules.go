package checkouttest

import (
	"sync/atomic"
	"testing"
	"time"
)

// Database is a database under test.
type Database struct {
	// Open is what another process sees of it, by its own clock; nil is time.Now.
	Open func(t *testing.T, now func() time.Time) Store
}

// clocked is a process whose clock runs as far ahead as the test says.
func (db Database) clocked(t *testing.T) (Store, *atomic.Int64) {
	t.Helper()
	var ahead atomic.Int64
	return db.Open(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }), &ahead
}

// RunStore checks what sells, settles and refunds on databases that are empty, one for each rule.
func RunStore(t *testing.T, empty func(t *testing.T) Database) {
	t.Helper()
	for _, rule := range []struct {
		name string
		test func(*testing.T, Database)
	}{
		{"KeyIsOneOrderWhateverPaysForIt", keyIsOneOrderWhateverPaysForIt},
		{"AuthorizationPaysForOneOrder", authorizationPaysForOneOrder},
		{"OrderIsClaimedWithItsJobOrNotAtAll", orderIsClaimedWithItsJobOrNotAtAll},
		{"ScarceStockIsReservedAsOftenAsItIsThere", scarceStockIsReservedAsOftenAsItIsThere},
		{"ReservationLastsUntilTheOrderIsFinal", reservationLastsUntilTheOrderIsFinal},
		{"DeadPaymentReleasesItsReservationsAndMayBeReplaced", deadPaymentReleasesItsReservationsAndMayBeReplaced},
		{"WorkerThatLostItsJobMovesNothing", workerThatLostItsJobMovesNothing},
		{"MoveStartsAtTheOrdersStatus", moveStartsAtTheOrdersStatus},
		{"OnlyTheOwnerPays", onlyTheOwnerPays},
		{"UnpaidOrderIsPaidInTimeAndThenKept", unpaidOrderIsPaidInTimeAndThenKept},
		{"ExpiredOrderTakesNoPayment", expiredOrderTakesNoPayment},
		{"PaymentAndExpiryHaveOneWinner", paymentAndExpiryHaveOneWinner},
		{"KeyCreatesOneOrder", keyCreatesOneOrder},
		{"OrderIsCreatedAnewOnceTheLastOneIsOver", orderIsCreatedAnewOnceTheLastOneIsOver},
		{"RefundIsStoredBeforeItIsSentAndReplacedOnlyAsRead", refundIsStoredBeforeItIsSentAndReplacedOnlyAsRead},
		{"RefundIsRecordedOnceWithItsOrderAndItsWatchJob", refundIsRecordedOnceWithItsOrderAndItsWatchJob},
		{"FirstReceiptOfAnOrderIsKept", firstReceiptOfAnOrderIsKept},
		{"EndedOrdersAreListed", endedOrdersAreListed},
		{"RetryHasACardOfItsOwn", retryHasACardOfItsOwn},
		{"SuspendedReservationsPromiseNothing", suspendedReservationsPromiseNothing},
		{"ShortageSaysWhetherUnpaidOrdersCauseIt", shortageSaysWhetherUnpaidOrdersCauseIt},
		{"UndecidedPaymentsPerPayerAreBounded", undecidedPaymentsPerPayerAreBounded},
		{"LimitsOfAPayerHoldOverTwoProcesses", limitsOfAPayerHoldOverTwoProcesses},
		{"UnpaidOrdersReserveABoundedShareOfTheFloat", unpaidOrdersReserveABoundedShareOfTheFloat},
		{"MoneyOfAPayerIsPromisedOnce", moneyOfAPayerIsPromisedOnce},
	} {
		t.Run(rule.name, func(t *testing.T) { rule.test(t, empty(t)) })
	}
}
