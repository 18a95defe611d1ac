package doctor

import (
	"errors"
	"testing"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestTreasuryHoldsWhatItHasSigned(t *testing.T) {
	for name, c := range map[string]struct {
		due, holds money.USDC
		err        error
		want       string
	}{
		"enough": {5, 5, nil, statusOK}, "less": {5, 4, nil, statusFail}, "unknown": {5, 0, errors.New("down"), statusFail},
	} {
		got := refundsOf(x402.Address{1}, c.due, c.holds, c.err)
		if got.Status != c.want || (got.Fix == "") != (c.want == statusOK) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
