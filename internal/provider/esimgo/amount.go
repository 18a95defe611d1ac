package esimgo

import (
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/money/decimal"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// currencyUSD is the only currency that we keep books in; the vendor charges in the organisation's.
const currencyUSD = "USD"

// parseUSD reads decimal dollars exactly, in any spelling of a JSON number; ok is false for a part of a millionth, a
// sign, or no number.
func parseUSD(text wire.Text) (amount money.USDC, ok bool) {
	const decimals, most = 6, 18
	micros, err := decimal.Shifted(strings.TrimSpace(string(text)), decimals)
	if err != nil || len(micros) > most || strings.HasPrefix(micros, "-") {
		return 0, false
	}
	n, err := strconv.ParseInt(micros, 10, 64)
	return money.USDC(n), err == nil
}
