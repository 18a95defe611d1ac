// Package decimal reads decimal numbers exactly, in every spelling that JSON has for them: 2500, 2500.0 and 2.5e3 are
// one number.
package decimal

import (
	"errors"
	"strconv"
	"strings"
)

// Why a text is no whole number.
var (
	ErrNumber   = errors.New("is no number")
	ErrFraction = errors.New("is no whole number")
	ErrLarge    = errors.New("has too many digits")
)

// MaxDigits is more than any integer of 64 bits has.
const MaxDigits = 40

// Whole is the number's plain spelling: digits without leading zeros, after a minus if it is below zero. Its cost is
// that of the text's length, whatever exponent it has.
func Whole(text string) (string, error) { return Shifted(text, 0) }

// Shifted is the plain spelling of the number times ten to the power of places: 12.5 with two places is 1250.
func Shifted(text string, places int) (string, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	mantissa, power := unsigned, ""
	if at := strings.IndexAny(unsigned, "eE"); at >= 0 {
		mantissa, power = unsigned[:at], unsigned[at+1:]
		if !isDigits(strings.TrimLeft(power[:min(1, len(power))], "+-") + power[min(1, len(power)):]) {
			return "", ErrNumber
		}
	}
	whole, part, point := strings.Cut(mantissa, ".")
	if !isDigits(whole) || (point && !isDigits(part)) || (len(whole) > 1 && whole[0] == '0') {
		return "", ErrNumber
	}
	digits := strings.TrimLeft(whole+part, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return "0", nil
	}
	zeros := len(digits) - len(significant) - len(part) + places
	if power != "" {
		n, err := strconv.ParseInt(power, 10, 32)
		switch {
		case err == nil:
			zeros += int(n)
		case power[0] == '-':
			return "", ErrFraction
		default:
			return "", ErrLarge
		}
	}
	switch {
	case zeros < 0:
		return "", ErrFraction
	case len(significant)+zeros > MaxDigits:
		return "", ErrLarge
	}
	plain := significant + strings.Repeat("0", zeros)
	if negative {
		plain = "-" + plain
	}
	return plain, nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
