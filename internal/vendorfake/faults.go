package vendorfake

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Mode is a way for a request to go wrong. Before and after speak of the effect: "after" means it happened and the
// client does not learn of it.
type Mode string

// The modes that every request has.
const (
	ErrorBefore   Mode = "error_before"   // the server fails
	ErrorAfter    Mode = "error_after"    // the server fails, its text repeating what was not to be seen
	TimeoutBefore Mode = "timeout_before" // no answer, for the fault's delay or until the client leaves
	TimeoutAfter  Mode = "timeout_after"
	Hang          Mode = "hang"         // timeout_before, but after the head was sent
	Slow          Mode = "slow"         // the right answer, late by the fault's delay
	RateLimited   Mode = "rate_limited" // too many requests
	Unauthorized  Mode = "unauthorized" // the credentials are not taken any more
	Malformed     Mode = "malformed"    // a page in place of JSON
	Truncated     Mode = "truncated"    // half an answer
	Huge          Mode = "huge"         // a right answer behind a lot of spaces
)

// Modes that a vendor has for some of its operations.
const (
	Late          Mode = "late"           // no answer; the effect is found only later
	Refused       Mode = "refused"        // a definite refusal
	Conflict      Mode = "conflict"       // a request with the same key is being worked on
	NotFound      Mode = "not_found"      // there is no such thing
	UnknownState  Mode = "unknown_state"  // a state that is not documented
	WrongAmount   Mode = "wrong_amount"   // a unit more
	Inexact       Mode = "inexact_amount" // a part of a unit more
	WrongCurrency Mode = "wrong_currency" // EUR
	WrongUnit     Mode = "wrong_unit"     // dollars
	WrongOwner    Mode = "wrong_owner"    // the answer to somebody else's request
	Partial       Mode = "partial"        // without a part
	Repeated      Mode = "repeated"       // each of a list twice, in its place
	Duplicate     Mode = "duplicate"      // a list twice
	Contradiction Mode = "contradiction"  // a list twice, its second half of others
	Reordered     Mode = "reordered"      // a list from its end
)

// everywhere are the modes that need nothing of a vendor's.
var everywhere = []Mode{
	ErrorBefore, ErrorAfter, TimeoutBefore, TimeoutAfter, Hang, Slow, RateLimited, Unauthorized, Malformed, Truncated,
	Huge,
}

// anyOp is the operation of faults that every request may take.
const anyOp = "*"

// Fault is one instruction to misbehave.
type Fault struct {
	// Op is an operation, or * for each.
	Op   string `json:"op"`
	Mode Mode   `json:"mode"`
	// DelayMS is in milliseconds; zero is what the mode needs.
	DelayMS int64 `json:"delayMs,omitempty"`
	// Times is how many more requests go wrong; with 0 all do until the faults are cleared.
	Times int `json:"times"`
}

// Delay is how long the fault takes, or else what is given.
func (f Fault) Delay(otherwise time.Duration) time.Duration {
	if f.DelayMS > 0 {
		return time.Duration(f.DelayMS) * time.Millisecond
	}
	return otherwise
}

// Fault makes the next request of an operation go wrong, and says whether it can: an answer that names no amount cannot
// name a wrong one. Faults of one operation queue up.
func (f *Front) Fault(op string, mode Mode) bool { return f.Add(Fault{Op: op, Mode: mode, Times: 1}) }

// Add makes requests go wrong, and says whether they can.
func (f *Front) Add(one Fault) bool {
	if one.Times < 0 || one.DelayMS < 0 || !f.fits(one.Op, one.Mode) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, one)
	return true
}

func (f *Front) fits(op string, mode Mode) bool {
	if op != anyOp && !slices.Contains(f.vendor.Ops, op) {
		return false
	}
	ops, own := f.vendor.Modes[mode]
	switch {
	case own:
		return op == anyOp || ops == nil || slices.Contains(ops, op)
	default:
		return slices.Contains(everywhere, mode)
	}
}

// Modes are the ways for a request of an operation to go wrong.
func (f *Front) Modes(op string) []Mode {
	all := append(slices.Sorted(maps.Keys(f.vendor.Modes)), everywhere...)
	return slices.DeleteFunc(all, func(mode Mode) bool { return !f.fits(op, mode) })
}

// Clear leaves all requests that are still to come as they are.
func (f *Front) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// standing are the faults that are still to come.
func (f *Front) standing() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Fault{}, f.faults...)
}

// take is how a request goes wrong: by the oldest fault that fits.
func (f *Front) take(op string) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.faults, func(one Fault) bool { return one.Op == op || one.Op == anyOp })
	if at < 0 {
		return Fault{}, false
	}
	taken := f.faults[at]
	switch taken.Times {
	case 0:
	case 1:
		f.faults = slices.Delete(f.faults, at, at+1)
	default:
		f.faults[at].Times--
	}
	return taken, true
}

// misbehave answers a request as a fault says.
func (f *Front) misbehave(w http.ResponseWriter, fault Fault, c Call, do func(Call) Reply) {
	v := &f.vendor
	switch fault.Mode {
	case TimeoutBefore:
		f.wait(c.Request, fault.Delay(v.Hold))
		HangUp(w)
	case Hang:
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		f.wait(c.Request, fault.Delay(v.Hold))
		panic(http.ErrAbortHandler)
	case Slow:
		if !f.wait(c.Request, fault.Delay(v.Hold)) {
			if c.Context().Err() != nil {
				return // the client has closed the connection already
			}
			HangUp(w)
		}
	case Late:
		c.Hide = fault.Delay(v.Hold)
	}
	if no, refused := v.Refuse(fault, c.Request); refused {
		no.Write(w)
		return
	}
	f.spoil(w, fault, c, do(c))
}

// spoil changes the answer to a request that has had its effect.
func (f *Front) spoil(w http.ResponseWriter, fault Fault, c Call, answer Reply) {
	v := &f.vendor
	switch fault.Mode {
	case Late:
		if v.Conceal != nil {
			v.Conceal()
		}
		HangUp(w)
	case TimeoutAfter:
		f.wait(c.Request, fault.Delay(v.Hold))
		HangUp(w)
	case ErrorAfter:
		v.Failed("while answering " + string(answer.Body)).Write(w)
	case Malformed:
		Page(w, answer.Body)
	case Truncated:
		Half(w, answer.Body)
	case Huge:
		Padded(w, answer.Body, v.Huge)
	case Slow:
		answer.Write(w)
	default:
		if v.Replace != nil {
			if instead, ok := v.Replace(fault.Mode, answer); ok {
				instead.Write(w)
				return
			}
		}
		if answer.Status/100 == 2 {
			answer.Body = v.edited(fault.Mode, answer.Body)
		}
		answer.Write(w)
	}
}

// edited changes the members of a successful answer, and of each object of its lists.
func (v *Vendor) edited(mode Mode, encoded []byte) json.RawMessage {
	var whole map[string]any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&whole); err != nil {
		panic("vendorfake: edit an answer: " + err.Error())
	}
	answer := whole
	if v.Inside != "" {
		answer, _ = whole[v.Inside].(map[string]any)
	}
	listed := false
	for _, name := range v.Lists {
		if items, ok := answer[name].([]any); ok {
			answer[name], listed = v.editedList(mode, items), true
		}
	}
	if !listed && answer != nil {
		v.Edit(mode, answer)
	}
	return JSON(http.StatusOK, whole).Body
}

func (v *Vendor) editedList(mode Mode, items []any) []any {
	switch mode {
	case Reordered:
		slices.Reverse(items)
		return items
	case Repeated:
		var twice []any
		for _, item := range items {
			twice = append(twice, item, item)
		}
		return twice
	case Duplicate, Contradiction:
		for _, item := range slices.Clone(items) {
			if one, ok := item.(map[string]any); ok && mode == Contradiction {
				one = maps.Clone(one)
				v.Edit(mode, one)
				item = one
			}
			items = append(items, item)
		}
		return items
	}
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			v.Edit(mode, one)
		}
	}
	return items
}

// Replace sets those of some members of an object that it has.
func Replace(one map[string]any, value string, names ...string) {
	for _, name := range names {
		if _, has := one[name]; has {
			one[name] = value
		}
	}
}

// Change changes the amounts of an object, those that it has, as a mode says: WrongAmount is one more, Inexact a half
// more, and WrongUnit makes dollars of cents.
func Change(one map[string]any, mode Mode, names ...string) {
	for _, name := range names {
		number, ok := one[name].(json.Number)
		if !ok {
			continue
		}
		units, err := number.Float64()
		if err != nil {
			panic("vendorfake: edit an answer: " + err.Error())
		}
		switch mode {
		case WrongAmount:
			one[name] = units + 1
		case Inexact:
			one[name] = units + 0.5
		case WrongUnit:
			one[name] = units / 100
		}
	}
}
