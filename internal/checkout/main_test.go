package checkout_test

import "github.com/roamcard/roamcard/internal/checkout/checkouttest"

// price of a card, in millionths of a dollar.
const price = checkouttest.Price
