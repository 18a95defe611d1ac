package ledger_test

import (
	"fmt"

	"github.com/roamcard/roamcard/internal/ledger"
)

// The entries of a posting sum to zero: what the treasury gains, the customer is owed.
func ExamplePosting_Check() {
	posting := ledger.Posting{ID: "settled/ord_1", Order: "ord_1", Kind: ledger.KindSettled, Entries: []ledger.Entry{
		{Account: ledger.Treasury, Amount: 25_000_000},
		{Account: ledger.Customer("ord_1"), Amount: -25_000_000},
	}}
	fmt.Println(posting.Check())
	for _, entry := range posting.Entries {
		fmt.Println(entry)
	}
	// Output:
	// <nil>
	// treasury:usdc 25.000000
	// customer:ord_1 -25.000000
}
