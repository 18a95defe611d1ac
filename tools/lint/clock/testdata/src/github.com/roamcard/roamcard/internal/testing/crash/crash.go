package crash

import "time"

// What is no test may sleep.
func nap() { time.Sleep(time.Second) }
