package job

import (
	"math"
	"testing"
	"time"
)

func TestBackoffGrowsAndSaturates(t *testing.T) {
	for used, want := range map[int]time.Duration{
		1: 400 * time.Millisecond, 2: 800 * time.Millisecond, 6: 12800 * time.Millisecond,
		7: 13050 * time.Millisecond, 106: 37800 * time.Millisecond, 434: 119800 * time.Millisecond, 435: 2 * time.Minute,
		math.MaxInt: 2 * time.Minute, math.MinInt: 400 * time.Millisecond,
	} {
		for range 100 {
			if d := backoff(used); d < want || d >= want+want/5 {
				t.Fatalf("back-off after %d = %s, want %s and at most a fifth more", used, d, want)
			}
		}
	}
}

func TestLatenessIsSeenByEitherClock(t *testing.T) {
	now := time.Now()
	deadline := now.Add(time.Second)
	wallOnly := deadline.Round(0)
	if !before(now, deadline) || before(deadline, deadline) || before(now.Add(time.Minute), wallOnly) {
		t.Error("before is wrong")
	}
}
