// Package limit counts how often callers ask, and tells them how long to wait.
//
// Each class of requests has a rate. A caller may use it up at once, and gets it back evenly (GCRA: one
// time is kept for each caller, nothing for each request). The counts are this process's own.
package limit

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
)

// Class is a kind of requests that share a rate.
type Class string

// The classes, and what their callers are told apart by.
const (
	// Challenge and Verify are the two halves of signing in, by address.
	Challenge Class = "challenge"
	Verify    Class = "verify"
	// Unpaid is asking for the terms of a paid route, by address.
	Unpaid Class = "unpaid"
	// Paid and PaidAddress are payments that claim something new, by payer and by address. A repeat of
	// what is claimed already is never counted.
	Paid        Class = "paid"
	PaidAddress Class = "paid_address"
	// Orders are new orders, by owner.
	Orders Class = "orders"
	// InFlight is how many new payments of a payer may be under way at once; its rate has no time.
	InFlight Class = "in_flight"
	// Undecided is how many payments of a payer may wait for the chain's decision, in all processes; its rate has no
	// time. The claim counts them, not a Limiter.
	Undecided Class = "undecided"
	// Reveal is showing a card's number, by owner.
	Reveal Class = "reveal"
	// Events are product events, and MCP calls of tools, by address.
	Events Class = "events"
	MCP    Class = "mcp"
	// Operator is everything of operators, by address.
	Operator Class = "operator"
	// Poll is everything else, by address and by wallet.
	Poll Class = "poll"
)

// Rate is so many in a time. A zero rate does not limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// Rates are the rates of the classes that are limited.
type Rates map[Class]Rate

// Standard are the rates when nothing else is configured.
func Standard() Rates {
	return Rates{
		Challenge: {10, time.Minute}, Verify: {10, time.Minute}, Unpaid: {60, time.Minute},
		Paid: {10, time.Minute}, PaidAddress: {60, time.Minute}, Orders: {60, time.Hour}, InFlight: {2, 0}, Undecided: {4, 0},
		Reveal: {5, time.Hour}, Events: {120, time.Minute}, MCP: {120, time.Minute}, Operator: {60, time.Minute}, Poll: {600, time.Minute},
	}
}

// State is how a caller stands after a request.
type State struct {
	Limit, Remaining int
	// Reset is when the whole rate is there again; RetryAfter when one more request is, zero if it is now.
	Reset, RetryAfter time.Duration
}

// Headers are the state as callers read it.
func (s State) Headers() http.Header {
	return http.Header{
		"Ratelimit-Limit": {strconv.Itoa(s.Limit)}, "Ratelimit-Remaining": {strconv.Itoa(s.Remaining)}, "Ratelimit-Reset": {seconds(s.Reset)},
	}
}

// Refusal is the fault of a caller who asks too often, with the headers that say when to come back.
type Refusal struct {
	*fault.Fault
	State
}

// Unwrap lets errors.As find the fault.
func (r *Refusal) Unwrap() error { return r.Fault }

func refusal(s State, detail string) *Refusal {
	return &Refusal{Fault: fault.New(fault.RateLimited, detail).After(s.RetryAfter), State: s}
}

// seconds rounds up: a caller must not come early.
func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

// Limiter counts. A nil limiter lets everything by. It is safe for concurrent use.
type Limiter struct {
	rates Rates
	now   func() time.Time

	mu sync.Mutex
	// full is when a caller's rate is whole again.
	full map[caller]time.Time
	busy map[caller]int
	// swept is when callers whose rate is whole were last taken out.
	swept time.Time
}

type caller struct {
	class Class
	name  string
}

// New makes a limiter; rates that are missing do not limit. now is the clock.
func New(rates Rates, now func() time.Time) *Limiter {
	return &Limiter{rates: rates, now: now, full: map[caller]time.Time{}, busy: map[caller]int{}}
}

// maxCallers bounds the memory that strangers can take: some hundred bytes for each.
const maxCallers = 100_000

// Take counts a request. It returns the state, whether the class is limited at all, and a Refusal for a
// caller who has to wait; such a request is not counted.
func (l *Limiter) Take(class Class, name string) (s State, limited bool, err error) {
	if l == nil || l.rates[class].Count == 0 || l.rates[class].Per == 0 {
		return State{}, false, nil
	}
	rate, now, key := l.rates[class], l.now(), caller{class, name}
	each := rate.Per / time.Duration(rate.Count)
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.full[key]
	if full.Before(now) {
		full = now
	}
	next := full.Add(each)
	s = State{Limit: rate.Count, Reset: next.Sub(now)}
	if wait := next.Sub(now) - each*time.Duration(rate.Count); wait > 0 {
		s.Reset, s.RetryAfter = full.Sub(now), wait
		return s, true, refusal(s, "Wait "+seconds(wait)+" s before the next request of this kind.")
	}
	s.Remaining = int((each*time.Duration(rate.Count) - s.Reset) / each)
	l.forget(now)
	l.full[key] = next
	return s, true, nil
}

// forget makes room: callers whose rate is whole again first, then whichever come to hand.
func (l *Limiter) forget(now time.Time) {
	if len(l.full) < maxCallers {
		return
	}
	// A look at all of them is too much for every request of a flood.
	if now.Sub(l.swept) >= time.Second {
		l.swept = now
		for key, full := range l.full {
			if full.Before(now) {
				delete(l.full, key)
			}
		}
	}
	for key := range l.full {
		if len(l.full) < maxCallers {
			return
		}
		delete(l.full, key)
	}
}

// Most is how many a class allows at once or in its time; zero when it is not limited.
func (l *Limiter) Most(class Class) int {
	if l == nil {
		return 0
	}
	return l.rates[class].Count
}

// Enter begins something of which a caller may have only so many at once. leave ends it.
func (l *Limiter) Enter(class Class, name string) (leave func(), err error) {
	if l == nil || l.rates[class].Count == 0 {
		return func() {}, nil
	}
	key, most := caller{class, name}, l.rates[class].Count
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[key] >= most {
		s := State{Limit: most, Reset: time.Second, RetryAfter: time.Second}
		return nil, refusal(s, "There are as many of these under way as one caller may have.")
	}
	l.busy[key]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.busy[key]--; l.busy[key] == 0 {
			delete(l.busy, key)
		}
	}), nil
}
