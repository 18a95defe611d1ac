package job

import (
	"strings"
	"time"
)

// Outcome is the result of an attempt. Handlers make one with Done, Snooze, Fail, Review or Recorded.
type Outcome struct {
	// Status is the job's next status; empty in the zero Outcome, which is no outcome.
	Status Status
	// Delay is how long a job put back to queued waits.
	Delay time.Duration
	// Reason is kept as the job's last error.
	Reason string
	// Uncounted says that the attempt does not count, nor do those before it.
	Uncounted bool
	// Class is what the job is from now on; empty is what it was, or what its handler has entered.
	Class Class

	recorded bool
}

// Done ends the job: its work is done.
func Done() Outcome { return Outcome{Status: Succeeded} }

// Snooze puts the job back for d, with all of its attempts: what it waits for has not happened yet.
func Snooze(d time.Duration) Outcome {
	return Outcome{Status: Queued, Delay: max(d, 0), Uncounted: true}
}

// HandOver puts the job back for a slot of another class, at once.
func HandOver(to Class) Outcome { return Outcome{Status: Queued, Uncounted: true, Class: to} }

// Pace is how long to wait before the next look at a running operation: a twentieth of the time elapsed, and not less
// than least.
func Pace(least, elapsed time.Duration) time.Duration { return max(least, elapsed/20) }

// catchUp is how long after an interruption nobody gives up.
const catchUp = 10 * time.Minute

// Overdue reports whether something is awaited since a time for longer than its deadline. What is awaited for longer
// because of an interruption was not asked about meanwhile, so it is overdue only once it was. working is since when
// jobs are claimed, see Runner.Working; the zero time is always.
func Overdue(now, since, working time.Time, deadline time.Duration) bool {
	return now.Sub(since) > deadline && now.Sub(working) > min(deadline, catchUp)
}

// Fail ends the job for a failure that the outside has confirmed.
func Fail(reason string) Outcome { return Outcome{Status: Failed, Reason: storable(reason)} }

// Review leaves the job to an operator.
func Review(reason string) Outcome { return Outcome{Status: OperatorReview, Reason: storable(reason)} }

// Recorded says that the handler itself ended the claim, in the transaction of its effect.
func Recorded() Outcome { return Outcome{recorded: true} }

// Retry puts the job back for d after an error. Handlers return the error instead.
func Retry(reason string, d time.Duration) Outcome {
	return Outcome{Status: Queued, Delay: max(d, 0), Reason: storable(reason)}
}

// Release hands the job back at once, for another worker to go on with.
func Release(reason string) Outcome {
	return Outcome{Status: Queued, Reason: storable(reason), Uncounted: true}
}

// maxReason bounds a stored reason, in bytes.
const maxReason = 2000

// storable makes any text fit a database column: an error that could not be stored would strand its job.
func storable(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(reason, "\uFFFD"), "\x00", "\uFFFD")
}
