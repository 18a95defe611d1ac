package fulfilment

import (
	"maps"
	"time"

	"github.com/roamcard/roamcard/internal/order"
)

// Attempt is one attempt at the delivery of an order, as it is reported to the order and shown on its timeline.
type Attempt struct {
	Provider Provider
	// Since is when the attempt began. It is not when the order was made: that may have waited for its payment, and
	// an operator's retry gives the provider its time again.
	Since time.Time
	// Evidence goes on the order's timeline. Never a secret.
	Evidence map[string]string
	// NoTrace is the reason of an untraceable call, TooLong that of one that is pending past the deadline.
	NoTrace, TooLong string
}

// Delivered says that the buyer has the goods.
func (a Attempt) Delivered(reason string) order.Progress {
	return order.Progress{State: order.Delivered, Reason: reason, Evidence: a.Evidence}
}

// Refused says that the provider will never deliver, by its refusal; nil is one without a reason.
func (a Attempt) Refused(no *Refusal) order.Progress {
	no = no.Stated()
	said := map[string]string{}
	maps.Copy(said, a.Evidence)
	said["refusal"], said[a.Provider.Name+"_message"] = no.Code, no.Message
	return order.Progress{State: order.Refused, Reason: no.Code, Evidence: said}
}

// Doubtful leaves the delivery to a person.
func (a Attempt) Doubtful(reason string) order.Progress {
	return order.Progress{State: order.Doubtful, Reason: reason, Evidence: a.Evidence}
}

// Untraceable leaves a call without a trace to a person.
func (a Attempt) Untraceable() order.Progress { return a.Doubtful(a.NoTrace) }

// Elsewhere waits for a process that knows a provider which this one does not, as while one process after the other
// gets a configuration that adds it: the job goes on there. After its deadline nobody seems to know it.
func (p Provider) Elsewhere(named string, since time.Time) order.Progress {
	return Attempt{Provider: p, Since: since, TooLong: "the " + p.Name + " " + named + " is not configured"}.Pending()
}

// Pending waits for the provider, until its deadline has passed.
func (a Attempt) Pending() order.Progress {
	after, ok := a.Provider.Wait(a.Since)
	if !ok {
		return a.Doubtful(a.TooLong)
	}
	return order.Progress{State: order.Waiting, After: after}
}
