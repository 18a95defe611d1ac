// Package history checks what buyers saw of their purchases: every request and answer of a key must have happened in
// some order, one after the other, as a buyer may rely on it.
//
// It shares no code with the program that it checks.
package history

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Request is what a buyer asked for: a purchase by its key, with a payment or without.
type Request struct {
	Payer, Key string
	Paid       bool
	// Nonce is the payment's, and Body what was asked for besides the key.
	Nonce, Body string
}

// Reply is what the buyer was told; the zero one says that nobody knows.
type Reply struct {
	Status int
	Code   string
	// Again says that it is safe to pay again.
	Again              bool
	Order, Transaction string
	Amount, State      string
}

// Event is a request with its reply. From is before it was sent, To after it was answered.
type Event struct {
	Request
	Reply
	From, To time.Time
}

// Loss is a database that was put back. Copied is when it was still all in the copy, Ended when the lost one answered
// nothing any more, and Restored when the copy answered.
type Loss struct{ Copied, Ended, Restored time.Time }

// Forgets reports whether an answer may be of what was lost.
func (l Loss) Forgets(e Event) bool { return !e.To.Before(l.Copied) && e.From.Before(l.Restored) }

// World is what has happened besides.
type World struct {
	// Reorganised says that blocks were replaced: another transaction may have made a transfer in the end.
	Reorganised bool
	// Losses are in the order in which they came.
	Losses []Loss
}

// Check returns the histories of those keys that cannot have happened. What nobody knows may have happened at any time.
// It sorts all events by the time at which they began.
func Check(events []Event, w World) (broken [][]Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return a.From.Compare(b.From) })
	for _, one := range purchases(events) {
		parts := [][]Event{one}
		for _, loss := range w.Losses {
			last := len(parts) - 1
			parts = append(parts[:last], restored(parts[last], loss)...)
		}
		for _, part := range parts {
			if !porcupine.CheckOperations(model, operations(part, w.Reorganised)) {
				broken = append(broken, part)
			}
		}
	}
	return broken
}

// purchases are the events of each payer and key, in the order in which these came.
func purchases(events []Event) (all [][]Event) {
	at := map[[2]string]int{}
	for _, e := range events {
		key := [2]string{e.Payer, e.Key}
		i, known := at[key]
		if !known {
			i = len(all)
			at[key], all = i, append(all, nil)
		}
		all[i] = append(all[i], e)
	}
	return all
}

// restored divides a purchase's history where the database was put back: what was told in the time that it has lost
// binds nobody, and what was told before binds everybody, but for how far the order has come. Of an answer that came
// while it was put back nobody knows from which of the two it is.
func restored(events []Event, loss Loss) [][]Event {
	var before, after []Event
	told := slices.IndexFunc(events, func(e Event) bool { return e.Status == http.StatusOK && e.To.Before(loss.Copied) })
	for _, e := range events {
		switch {
		case !e.From.Before(loss.Restored):
			after = append(after, e)
		case e.To.Before(loss.Ended):
			before = append(before, e)
		}
	}
	if told >= 0 && len(after) > 0 {
		first := events[told]
		first.State = ""
		after = append([]Event{first}, after...)
	}
	return [][]Event{before, after}
}

// operations are events as porcupine takes them.
func operations(events []Event, reorganised bool) (all []porcupine.Operation) {
	for i, e := range events {
		if reorganised {
			e.Transaction = ""
		}
		o := porcupine.Operation{
			ClientId: i, Input: e.Request, Output: e.Reply, Call: e.From.UnixNano(), Return: e.To.UnixNano(),
		}
		if e.Status == 0 {
			o.Return = math.MaxInt64
		}
		all = append(all, o)
	}
	return all
}

// Ranks is how far an order of a state has come. What is told later is never less, but for an order that an
// operator lets be delivered again.
var Ranks = map[string]int{
	"settled": 1, "provisioning": 2, "fulfilled": 3, "refund_pending": 3, "operator_review": 3, "refunded": 4,
}

// purchase is what is known of one key.
type purchase struct {
	order, transaction, amount string
	// state is how far the order was, as last told, and body what it was bought with.
	state, body string
}

// model is one key, as a buyer may rely on it. The first order that anybody is told of is the only one; whoever asks
// after that was told gets the same, or an answer that decides nothing; nobody is asked to pay again, and nobody who
// asks for something else gets it.
var model = porcupine.Model{
	Init: func() any { return purchase{} },
	Step: func(state, input, output any) (bool, any) {
		known, in, out := state.(purchase), input.(Request), output.(Reply)
		switch {
		case out.Status == http.StatusOK && known.order == "":
			return in.Paid && out.Order != "", purchase{out.Order, out.Transaction, out.Amount, out.State, in.Body}
		case out.Status == http.StatusOK:
			same := purchase{out.Order, out.Transaction, out.Amount, known.state, in.Body} == known
			further := Ranks[out.State] >= Ranks[known.state] || known.state == "operator_review"
			known.state = out.State
			return same && further, known
		case out.Status == http.StatusPaymentRequired && in.Paid:
			return known.order == "", known
		case out.Again: // whatever the status is
			return known.order == "" || !in.Paid, known
		}
		return true, known
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}
