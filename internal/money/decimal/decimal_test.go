package decimal

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestWholeNumberHasManySpellings(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0.00e7": "0", "0e999999999999": "0", "7": "7", "-7": "-7", "2500": "2500",
		"2500.0": "2500", "2.5e3": "2500", "2.5E+3": "2500", "25000e-1": "2500", "0.0025e6": "2500", "1e2": "100",
		"9007199254740993": "9007199254740993", "9007199254740993.000": "9007199254740993",
		"18446744073709551615": "18446744073709551615", "1e39": "1" + strings.Repeat("0", 39),
	} {
		if got, err := Whole(text); err != nil || got != want {
			t.Errorf("Whole(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": ErrNumber, "-": ErrNumber, "+1": ErrNumber, "01": ErrNumber, "1.": ErrNumber, ".5": ErrNumber, "1e": ErrNumber,
		"1e+": ErrNumber, "1e+-1": ErrNumber, "e5": ErrNumber, "0x10": ErrNumber, "1_000": ErrNumber, " 1": ErrNumber,
		"NaN": ErrNumber, "true": ErrNumber, "--1": ErrNumber, "1.5.0": ErrNumber, "1e5e5": ErrNumber, "1e.5": ErrNumber,
		"0.5": ErrFraction, "2500.01": ErrFraction, "1e-1": ErrFraction, "1e-999999999999": ErrFraction,
		"9007199254740993.0000000000000001": ErrFraction,
		"1e40":                              ErrLarge, "1e999999999999": ErrLarge, strings.Repeat("9", 41): ErrLarge,
	} {
		if got, err := Whole(text); !errors.Is(err, want) {
			t.Errorf("Whole(%q) = %q, %v, want %v", text, got, err, want)
		}
	}
	if got, err := Shifted("12.50", 6); err != nil || got != "12500000" {
		t.Errorf("12.50 with six places is %q, %v", got, err)
	}
}

// FuzzWhole compares with exact rational numbers.
func FuzzWhole(f *testing.F) {
	for _, seed := range []string{
		"2500.0", "2.5e3", "-0", "1e-2", "1.50E1", "18446744073709551616", "00", "1e9999999999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Whole(text)
		number := json.Valid([]byte(text)) && strings.Trim(text, "+-.0123456789eE") == ""
		if err != nil && errors.Is(err, ErrNumber) == number {
			t.Fatalf("Whole(%q) = %v", text, err)
		}
		_, power, _ := strings.Cut(strings.ToLower(text), "e")
		if len(strings.TrimLeft(power, "+-0")) > 3 || errors.Is(err, ErrNumber) {
			return // what big.Rat would need gigabytes for
		}
		want, ok := new(big.Rat).SetString(text)
		switch {
		case !ok:
			t.Fatalf("Whole(%q) = %q, %v of no number", text, got, err)
		case err == nil && (!want.IsInt() || want.Num().String() != got):
			t.Fatalf("Whole(%q) = %q, it is %s", text, got, want)
		case errors.Is(err, ErrFraction) && want.IsInt():
			t.Fatalf("Whole(%q) = %v, it is %s", text, err, want)
		}
	})
}
