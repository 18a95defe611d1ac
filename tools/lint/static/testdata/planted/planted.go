package planted

import (
	"strings"
	"time"
)

func Facts() {
	strings.Title("x") // want `strings.Title has been deprecated .*\(SA1019\)` `its return value is ignored \(SA4017\)`
}

func Simple(x bool) bool {
	if x == true { // want `should omit comparison to bool constant, can be simplified to x \(S1002\)`
		return true
	}
	//lint:ignore S1002 shows that the check is read
	return x == true
}

func Several(x bool, t time.Time) bool {
	//lint:ignore S1*,SA4000 globs and lists
	y := x == true
	//lint:ignore SA1000 another check // want `this linter directive didn't match anything`
	z := x == false // want `S1002`
	//lint:ignore X9999 of another linter
	_ = time.Now().Sub(t) // want `S1012`
	return y && z
}

//lint:ignore S1002
func Malformed() {} // want `malformed linter directive`

func unused() {} // want `func unused is unused \(U1000\)`

//lint:ignore U1000 kept
func kept() {}

type half struct{ a, b int } // want `field b is unused \(U1000\)`

func (half) method() {} // want `func half.method is unused \(U1000\)`

var _ = half{a: 1}
