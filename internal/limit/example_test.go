package limit_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
)

// A caller may use a rate up at once, and gets it back evenly.
func ExampleLimiter_Take() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	limiter := limit.New(limit.Rates{limit.Reveal: {Count: 2, Per: time.Minute}}, func() time.Time { return now })

	reveal := func() {
		state, _, err := limiter.Take(limit.Reveal, "owner")
		if refusal, ok := errors.AsType[*limit.Refusal](err); ok {
			fmt.Println("refused, again in", refusal.State.RetryAfter)
			return
		}
		fmt.Println("allowed, remaining", state.Remaining)
	}
	reveal()
	reveal()
	reveal()
	now = now.Add(30 * time.Second)
	reveal()
	// Output:
	// allowed, remaining 1
	// allowed, remaining 0
	// refused, again in 30s
	// allowed, remaining 0
}
