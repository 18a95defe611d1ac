package esimgo

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
)

// currencyUSD is the only currency that we keep books in; the vendor charges in the organisation's.
const currencyUSD = "USD"

// parseUSD reads decimal dollars exactly; ok is false for a part of a millionth, a sign, an exponent or no number.
func parseUSD(n json.Number) (amount money.USDC, ok bool) {
	whole, part, point := strings.Cut(n.String(), ".")
	part = strings.TrimRight(part, "0")
	const decimals, most = 6, 12
	if whole == "" || len(whole) > most || len(part) > decimals || strings.Trim(whole+part, "0123456789") != "" ||
		(point && strings.HasSuffix(n.String(), ".")) {
		return 0, false
	}
	micros, err := strconv.ParseInt(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
	return money.USDC(micros), err == nil
}
