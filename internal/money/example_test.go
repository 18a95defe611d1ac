package money_test

import (
	"fmt"

	"github.com/roamcard/roamcard/internal/money"
)

// A price is in cents, the payment for it in the token's atomic unit.
func ExampleCents() {
	price, err := money.ParseDollars("25.5")
	fmt.Println(price, err)
	fmt.Println("fee of 2 %:", price.BasisPoints(200))
	fmt.Println("as x402 writes it:", price.USDC())
	// Output:
	// 25.50 <nil>
	// fee of 2 %: 0.51
	// as x402 writes it: 25500000
}

// What was paid may be no whole number of cents: ok tells, and the cents are rounded down.
func ExampleUSDC_Cents() {
	for _, paid := range []money.USDC{25_000_000, 25_000_001} {
		cents, ok := paid.Cents()
		fmt.Println(paid.Dollars(), cents, ok)
	}
	// Output:
	// 25.000000 25.00 true
	// 25.000001 25.00 false
}
