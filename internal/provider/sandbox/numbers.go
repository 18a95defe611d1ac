package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
)

const (
	numberLength = 16
	validYears   = 3
)

// number is a card's number: in its range, passing the Luhn check, the same every time, and not
// to be guessed without the seed of the books.
func (b *books) number(row cardRow) string {
	body := row.BIN + b.digits("number "+row.ID, numberLength-1-len(row.BIN))
	return body + luhnDigit(body)
}

func (b *books) securityCode(row cardRow) string { return b.digits("code "+row.ID, 3) }

func (b *books) last4(row cardRow) string {
	if row.BIN == "" {
		return ""
	}
	return b.number(row)[numberLength-4:]
}

func (b *books) masked(row cardRow) string {
	if row.BIN == "" {
		return ""
	}
	return row.BIN + strings.Repeat("*", numberLength-len(row.BIN)-4) + b.last4(row)
}

func (b *books) digits(of string, n int) string { return seeded(b.seed, of, n) }

// seeded are n decimal digits that follow from a seed and a text.
func seeded(seed []byte, of string, n int) string {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte(of))
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
	drawn := new(big.Int).SetBytes(mac.Sum(nil))
	return fmt.Sprintf("%0*d", n, drawn.Mod(drawn, limit))
}

// luhnDigit is the check digit that completes a number.
func luhnDigit(body string) string {
	return string(rune('0' + (10-luhnSum(body+"0")%10)%10))
}

// luhnSum is a multiple of ten for a whole, correct number.
func luhnSum(number string) int {
	sum := 0
	for i := range len(number) {
		digit := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			digit *= 2
			if digit > 9 {
				digit -= 9
			}
		}
		sum += digit
	}
	return sum
}
