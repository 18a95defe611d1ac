package settlement_test

import (
	"os"
	"testing"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// price of a card, in millionths of a dollar.
const price = checkouttest.Price
