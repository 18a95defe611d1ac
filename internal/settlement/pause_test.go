package settlement

import (
	"testing"
	"time"
)

// TestFinalBlockIsWaitedForWithFewLooks has chains whose final block is minutes behind. Many payments are watched at a
// time, so each look counts; a look that finds the payment removed has to come soon all the same.
func TestFinalBlockIsWaitedForWithFewLooks(t *testing.T) {
	for _, c := range []struct {
		behind time.Duration
		most   int
	}{{2 * time.Second, 2}, {2 * time.Minute, 3}, {20 * time.Minute, 7}} {
		var age, last time.Duration
		looks := 1
		for ; age < c.behind; looks++ {
			last = confirmPause(age, c.behind-age)
			age += last
		}
		if looks > c.most {
			t.Errorf("%s behind: %d looks, want at most %d", c.behind, looks, c.most)
		}
		if late := age - c.behind; late > maxFinalPause {
			t.Errorf("%s behind: final is seen %s later", c.behind, late)
		}
	}
	if first := confirmPause(0, time.Hour); first != minConfirmPause {
		t.Errorf("the first pause is %s, want %s", first, minConfirmPause)
	}
	if unknown := confirmPause(time.Hour, 0); unknown != maxConfirmPause {
		t.Errorf("the pause is %s, want %s", unknown, maxConfirmPause)
	}
}
