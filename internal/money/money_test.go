package money

import (
	"errors"
	"math"
	"testing"
)

func TestEveryPriceConvertsExactly(t *testing.T) {
	for c := Cents(0); c <= 25_000; c++ {
		u := c.USDC()
		if int64(u) != int64(c)*10_000 {
			t.Fatalf("%d cents became %d units", c, u)
		}
		if back, ok := u.Cents(); !ok || back != c {
			t.Fatalf("%d units became %d cents, exact %v", u, back, ok)
		}
	}
}

func TestPartsOfACentAreNotDropped(t *testing.T) {
	if _, ok := USDC(10_001).Cents(); ok {
		t.Error("a part of a cent was dropped silently")
	}
}

func TestOnlyCanonicalAmountsParse(t *testing.T) {
	for _, s := range []string{"0", "1", "25000000", "9223372036854775807"} {
		if u, err := ParseUSDC(s); err != nil || u.String() != s {
			t.Errorf("ParseUSDC(%q) = %v, %v", s, u, err)
		}
	}
	for _, s := range []string{
		"", "+25", "-1", "-0", "025", "00", "25.0", "2.5e3", "0x10", "25_000", " 25", "25 ", "٢٥",
		"9223372036854775808", "115792089237316195423570985008687907853269984665640564039457584007913129639935", "1e3",
	} {
		if u, err := ParseUSDC(s); !errors.Is(err, ErrAmount) {
			t.Errorf("ParseUSDC(%q) = %v, %v; want ErrAmount", s, u, err)
		}
	}
}

func TestLoadFeeRoundsTowardsTheOwner(t *testing.T) {
	for c := Cents(2500); c <= 25_000; c++ {
		fee := c.BasisPoints(200)
		if fee*10_000 > c*200 || (fee+1)*10_000 <= c*200 {
			t.Fatalf("fee of %d cents is %d", c, fee)
		}
	}
	if got := Cents(2500).BasisPoints(200); got != 50 {
		t.Errorf("fee of 2500 = %d, want 50", got)
	}
}

func TestAmountsReadAsPeopleWriteThem(t *testing.T) {
	for want, got := range map[string]string{
		"25.00": Cents(2500).String(), "-0.05": Cents(-5).String(), "0.10": Cents(10).String(),
		"25.000000": USDC(25_000_000).Dollars(), "-0.000001": USDC(-1).Dollars(),
		"-92233720368547758.08": Cents(math.MinInt64).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDollarsHaveNoFractionsOfACent(t *testing.T) {
	for text, want := range map[string]Cents{"0": 0, "25": 2500, "25.5": 2550, "25.05": 2505, "25.50": 2550, "0.01": 1,
		"999999999999999.99": 99_999_999_999_999_999} {
		if got, err := ParseDollars(text); err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".", "25.", ".5", "25.001", "25.500", "-25", "+25", "025", "1e2", "25.-1", "25.+1",
		"25.x", "25,00", " 25", "25.5.5", "٢٥", "NaN", "1000000000000000"} {
		if got, err := ParseDollars(text); !errors.Is(err, ErrAmount) {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}
