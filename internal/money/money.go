// Package money holds amounts exactly, as integers in their smallest unit.
package money

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Cents is an amount of US dollars in hundredths. It may be negative in a ledger, never in a price.
type Cents int64

// USDC is an amount of USDC in its atomic unit, a millionth of a dollar. It holds 9.2 * 10^12 USDC.
type USDC int64

// unitsPerCent is 10^6 atomic units a dollar over 100 cents a dollar.
const unitsPerCent = 10_000

// ErrAmount says that a text is not an amount in canonical form or does not fit.
var ErrAmount = errors.New("not an amount")

// USDC converts cents to USDC, one dollar to one USDC. It panics on overflow, which no price reaches.
func (c Cents) USDC() USDC {
	u := int64(c) * unitsPerCent
	if u/unitsPerCent != int64(c) {
		panic(fmt.Sprintf("money: %d cents overflow USDC", int64(c)))
	}
	return USDC(u)
}

// String shows dollars with two decimals, as in "25.00".
func (c Cents) String() string {
	sign, n := "", uint64(c)
	if c < 0 {
		sign, n = "-", -n
	}
	return sign + strconv.FormatUint(n/100, 10) + "." + strconv.FormatUint(100+n%100, 10)[1:]
}

// BasisPoints is the share of c in hundredths of a percent, rounded down: the remainder favours the
// owner of the money.
func (c Cents) BasisPoints(bps int64) Cents {
	return c * Cents(bps) / 10_000
}

// String shows the atomic amount as a plain decimal integer, the form x402 uses: "25000000".
func (u USDC) String() string { return strconv.FormatInt(int64(u), 10) }

// Dollars shows the amount with all six decimals, as in "25.000000".
func (u USDC) Dollars() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%06d", sign, n/1_000_000, n%1_000_000)
}

// Cents converts to cents; ok is false when a part of a cent would be lost.
func (u USDC) Cents() (c Cents, ok bool) {
	return Cents(u / unitsPerCent), u%unitsPerCent == 0
}

// Big is the amount for the chain's ABI.
func (u USDC) Big() *big.Int { return big.NewInt(int64(u)) }

// ParseUSDC reads an atomic amount in canonical form: ASCII digits without sign, leading zero or
// separator. "0" is an amount.
func ParseUSDC(s string) (USDC, error) {
	if s == "" || len(s) > 19 || (len(s) > 1 && s[0] == '0') {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrAmount)
	}
	for _, r := range []byte(s) {
		if r < '0' || r > '9' {
			return 0, fmt.Errorf("%q: %w", clip(s), ErrAmount)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrAmount)
	}
	return USDC(n), nil
}

// ParseDollars reads dollars as people write them, with at most two decimals: "25", "25.5", "25.50".
func ParseDollars(s string) (Cents, error) {
	whole, part, point := strings.Cut(s, ".")
	if point && (part == "" || len(part) > 2) || len(whole) > 15 {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrAmount)
	}
	dollars, err := ParseUSDC(whole) // the same form, whatever the unit
	if err != nil {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrAmount)
	}
	cents, err := strconv.ParseUint((part + "00")[:2], 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrAmount)
	}
	return Cents(dollars)*100 + Cents(cents), nil
}

// clip keeps a stranger's text short in an error.
func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "…"
	}
	return s
}
