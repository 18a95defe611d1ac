// Package fault names the failures a caller may act on: one catalogue of code, status and next action.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Code is the stable machine name of a failure, the same in every protocol of the service.
type Code string

// Path is where the code is explained: the type of its problem documents.
func (c Code) Path() string { return "/problems/" + string(c) }

// NextAction tells a caller what to do about a failure.
type NextAction string

// The next actions.
const (
	RetrySameRequest NextAction = "retry_same_request"
	WaitAndRetry     NextAction = "wait_and_retry"
	PollOrder        NextAction = "poll_order"
	SignNewPayment   NextAction = "sign_new_payment"
	FixRequest       NextAction = "fix_request"
	SignIn           NextAction = "sign_in"
	ContactSupport   NextAction = "contact_support"
)

var advice = map[NextAction]string{
	RetrySameRequest: "Send the same request again, with the same key and the same payment. Sign nothing new: the first " +
		"one may have been carried out.",
	WaitAndRetry: "Wait for as long as Retry-After says, or a few seconds, and send the same request again.",
	PollOrder:    "Read the order until it is final. Neither pay nor order again.",
	SignNewPayment: "Read the challenge, decide whether its terms suit you, sign a payment that meets them, and send it " +
		"with the same key.",
	FixRequest: "Do not send this request again. The detail, and fields where they are given, say what is wrong " +
		"with it.",
	SignIn:         "Prove who you are again, with a new session, challenge or token, and then repeat the request.",
	ContactSupport: "A person has to look at it. Tell them the requestId, and the orderId if there is one.",
}

// Advice describes the action in a sentence.
func (a NextAction) Advice() string { return advice[a] }

// Kind is the fixed meaning of a code. The catalogue has one for each code.
type Kind struct {
	Code Code
	// Status is the HTTP status of the REST API.
	Status int
	// Title is the same sentence for every occurrence.
	Title string
	// Retryable says that the same request, unchanged, can succeed later.
	Retryable bool
	// SafeToPayAgain is true only when no authorization of the request's key can still land.
	SafeToPayAgain bool
	NextAction     NextAction
}

// Fault is one occurrence: an error that may be shown to the caller as it is.
type Fault struct {
	Kind
	// Detail says what happened this time, fit to show.
	Detail string
	// OrderID names the order this is about, when the caller may know it.
	OrderID string
	// RetryAfter is how long to wait before trying again; zero says nothing about it.
	RetryAfter time.Duration
	Fields     []Field
}

// Field is one wrong member of a request.
type Field struct{ Path, Rule, Message string }

// New makes a fault of a code in the catalogue. An unknown code is a programming mistake and panics.
func New(code Code, detail string) *Fault {
	kind, ok := catalogue[code]
	if !ok {
		panic("fault: no such code: " + string(code))
	}
	f := &Fault{Kind: kind, Detail: detail}
	if kind.Status == http.StatusServiceUnavailable {
		f.RetryAfter = pause
	}
	return f
}

// pause is how long a caller should wait when the service cannot serve and nothing says for how long.
const pause = 5 * time.Second

// Newf is New with a formatted detail. The arguments are shown to the caller.
func Newf(code Code, format string, args ...any) *Fault {
	return New(code, fmt.Sprintf(format, args...))
}

// About names the order the fault is about.
func (f *Fault) About(orderID string) *Fault { f.OrderID = orderID; return f }

// After says when to try again.
func (f *Fault) After(d time.Duration) *Fault { f.RetryAfter = d; return f }

// MoneyMoved says that the payment has moved its money: another one would pay twice, whatever the code usually says.
func (f *Fault) MoneyMoved() *Fault {
	f.SafeToPayAgain, f.NextAction = false, ContactSupport
	return f
}

// Then sets the next action, where it differs from the usual one of the code.
func (f *Fault) Then(a NextAction) *Fault { f.NextAction = a; return f }

// Final says that the same request cannot succeed any more, whatever the code usually says.
func (f *Fault) Final() *Fault { f.Retryable, f.NextAction = false, FixRequest; return f }

// With adds the wrong members of the request.
func (f *Fault) With(fields ...Field) *Fault { f.Fields = append(f.Fields, fields...); return f }

// NotOneOf is the fault of a member of the request whose value is none of the known ones.
func NotOneOf[T ~string](path string, known []T) *Fault {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	slices.Sort(names)
	must := "must be one of " + strings.Join(names, ", ")
	return Newf(SchemaInvalid, "%s %s.", path, must).With(Field{Path: path, Rule: "string.in", Message: must})
}

// Error implements error.
func (f *Fault) Error() string { return string(f.Code) + ": " + f.Detail }

// Is makes errors.Is compare faults by code, so that errors.Is(err, fault.New(code, "")) works.
func (f *Fault) Is(target error) bool {
	other, ok := target.(*Fault)
	return ok && other.Code == f.Code
}

// As finds the fault in an error chain. Of several of ours, that is of a status from 500 on, the one counts that binds
// the caller most: that a payment may be under way, best with its order, then that the caller stopped waiting itself,
// then the first.
func As(err error) (*Fault, bool) {
	found, ok := errors.AsType[*Fault](err)
	if !ok || found.Status < http.StatusInternalServerError && !found.OfCaller() {
		return found, ok
	}
	each(err, func(f *Fault) {
		if f.binds() > found.binds() {
			found = f
		}
	})
	return found, true
}

// binds ranks faults that are joined, see As.
func (f *Fault) binds() int {
	switch {
	case f.Code == SettlementUnknown && f.OrderID != "":
		return 3
	case f.Code == SettlementUnknown:
		return 2
	case f.OfCaller():
		return 1
	}
	return 0
}

// each calls do with the faults in an error chain, the first one first.
func each(err error, do func(*Fault)) {
	if f, ok := err.(*Fault); ok { //nolint:errorlint // one link after the other
		do(f)
		return
	}
	switch of := err.(type) { //nolint:errorlint // one link after the other
	case interface{ Unwrap() error }:
		each(of.Unwrap(), do)
	case interface{ Unwrap() []error }:
		for _, one := range of.Unwrap() {
			each(one, do)
		}
	}
}

// Of is the code of the fault in an error chain, or the empty code.
func Of(err error) Code {
	if f, ok := As(err); ok {
		return f.Code
	}
	return ""
}
