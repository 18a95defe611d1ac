// Package limit counts how often callers ask, and tells them how long to wait.
//
// Each class of requests has a rate. A caller may use it up at once, and it refills evenly (GCRA: one time is kept for
// each caller, nothing for each request). The counts are this process's own; limits that guard money or supply are also
// counted in the database, over all processes, see Turn.
package limit

import (
	"math"
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
	// Paid and PaidAddress are payments that claim something new, by payer and by address; the address is
	// counted before the signature is looked at. A repeat of what is claimed already is never counted.
	Paid        Class = "paid"
	PaidAddress Class = "paid_address"
	// Repeat is one claimed order asked for again, by order and address: too many are slowed, never refused.
	Repeat Class = "repeat"
	// Orders are new orders, by owner; OrdersAddress are unpaid ones, by address.
	Orders        Class = "orders"
	OrdersAddress Class = "orders_address"
	// InFlight is how many new payments of a payer may be under way at once; its rate has no time. A Limiter counts those
	// of its process, and the claim those of all processes.
	InFlight Class = "in_flight"
	// Undecided is how many payments of a payer may wait for the chain's decision, in all processes; its rate has no
	// time. The claim counts them, not a Limiter.
	Undecided Class = "undecided"
	// Concurrent is how many requests of an address may be answered at once, Waiting how many of them may wait
	// for one order, and Streams how many streams a wallet may hold open.
	Concurrent Class = "concurrent"
	Waiting    Class = "waiting"
	Streams    Class = "streams"
	// Reveal is showing a card's number, by owner, and trying to without the owner's signature, by session.
	Reveal Class = "reveal"
	// Control is what an owner asks of the issuer of a card, by owner: each is a call or two of its quota.
	Control Class = "control"
	// Events are product events, and MCP calls of tools, by address.
	Events Class = "events"
	MCP    Class = "mcp"
	// Operator is everything of an operator but what is polled, by name, and wrong tokens, by address.
	Operator Class = "operator"
	// Poll is everything else, by address and by wallet.
	Poll Class = "poll"
)

// Rate is so many in a time. A zero rate does not limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// each is how long it takes until one more request is given back.
func (r Rate) each() time.Duration { return max(1, r.Per/time.Duration(r.Count)) }

// whole is how long it takes until the whole rate is given back.
func (r Rate) whole() time.Duration { return r.each() * time.Duration(r.Count) }

// of is the rate of all who are in a network.
func (r Rate) of(in Network) Rate { return Rate{r.Count * in.Rate, r.Per} }

// Rates are the rates of the classes that are limited.
type Rates map[Class]Rate

// Defaults are the rates when nothing else is configured.
func Defaults() Rates {
	return Rates{
		Challenge: {10, time.Minute}, Verify: {10, time.Minute}, Unpaid: {60, time.Minute},
		Paid: {10, time.Minute}, PaidAddress: {60, time.Minute}, Repeat: {60, time.Minute},
		Orders: {60, time.Hour}, OrdersAddress: {120, time.Hour},
		InFlight: {2, 0}, Undecided: {4, 0}, Concurrent: {256, 0}, Waiting: {8, 0}, Streams: {16, 0},
		Reveal: {5, time.Hour}, Control: {30, time.Minute},
		Events: {120, time.Minute}, MCP: {120, time.Minute}, Operator: {60, time.Minute},
		Poll: {600, time.Minute},
	}
}

// State is a caller's remaining rate after a request.
type State struct {
	Limit, Remaining int
	// Reset is when the whole rate is there again; RetryAfter when one more request is, zero if it is now.
	Reset, RetryAfter time.Duration
}

// Headers are the state as callers read it.
func (s State) Headers() http.Header {
	return http.Header{
		"Ratelimit-Limit": {strconv.Itoa(s.Limit)}, "Ratelimit-Remaining": {strconv.Itoa(s.Remaining)},
		"Ratelimit-Reset": {seconds(s.Reset)},
	}
}

// Refusal is the fault of a caller whose rate is used up, with the headers that say when to retry.
type Refusal struct {
	*fault.Fault
	State
}

// Unwrap lets errors.As find the fault.
func (r *Refusal) Unwrap() error { return r.Fault }

func tooOften(s State) *Refusal {
	return refusal(s, "Wait "+seconds(s.RetryAfter)+" s before the next request of this kind.")
}

func refusal(s State, detail string) *Refusal {
	return &Refusal{Fault: fault.New(fault.RateLimited, detail).After(s.RetryAfter), State: s}
}

// seconds rounds up, so that no caller retries too early.
func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

// Limiter counts requests. A nil limiter allows everything. It is safe for concurrent use.
type Limiter struct {
	Config

	mu sync.Mutex
	// full is when a caller's rate is whole again.
	full map[caller]time.Time
	busy map[caller]int
	// swept is when callers with a full rate were last pruned.
	swept time.Time
}

type caller struct {
	class Class
	name  string
}

// Config is what a Limiter is made of.
type Config struct {
	// Rates are the limits; a class without a rate is not limited.
	Rates Rates
	Now   func() time.Time
	// Refused is called for each refusal; it may be nil.
	Refused func(Class)
	// Key hides the addresses in what is stored; every process of a deployment has the same.
	Key []byte
}

// New makes a limiter of rates and a clock alone.
func New(rates Rates, now func() time.Time) *Limiter {
	return NewLimiter(Config{Rates: rates, Now: now})
}

// NewLimiter makes a limiter.
func NewLimiter(c Config) *Limiter {
	return &Limiter{Config: c, full: map[caller]time.Time{}, busy: map[caller]int{}}
}

// maxCallers bounds the memory that strangers can use: some hundred bytes for each caller.
const maxCallers = 100_000

// Take counts a request. It returns the state, whether the class is limited at all, and a Refusal for a
// caller who has to wait; such a request is not counted.
func (l *Limiter) Take(class Class, name string) (s State, limited bool, err error) {
	return l.Weigh(class, name, 1)
}

// Weigh is Take for what costs as much as so many requests, before it is done. What costs more than the whole rate
// needs all that a request of its own has left of it.
func (l *Limiter) Weigh(class Class, name string, requests int) (s State, limited bool, err error) {
	s, limited, err = l.take(class, name, requests)
	if err != nil {
		l.refuse(class)
	}
	return s, limited, err
}

// Owe counts what a request turned out to cost, in requests. It refuses nothing; the caller's next requests wait for
// it.
func (l *Limiter) Owe(class Class, name string, requests int) {
	rate, limited := l.limits(class)
	if !limited {
		return
	}
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(now)
	for _, in := range Networks(name) {
		key := caller{class, in.Name}
		l.full[key] = l.fullOf(key, now).Add(rate.of(in).each() * time.Duration(requests))
	}
}

// Left is how many requests a caller has left of a class, as far as all of its networks have them.
func (l *Limiter) Left(class Class, name string) int {
	rate, limited := l.limits(class)
	if !limited {
		return math.MaxInt
	}
	now, left := l.Now(), rate.Count
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range Networks(name) {
		owed := l.fullOf(caller{class, in.Name}, now).Sub(now)
		left = min(left, max(0, int((rate.whole()-owed)/rate.each())))
	}
	return left
}

// fullOf is when a caller's rate is whole again, with the lock held.
func (l *Limiter) fullOf(key caller, now time.Time) time.Time {
	if full := l.full[key]; full.After(now) {
		return full
	}
	return now
}

// limits is the rate of a class, if its requests are limited in time.
func (l *Limiter) limits(class Class) (Rate, bool) {
	if l == nil || l.Rates[class].Count == 0 || l.Rates[class].Per == 0 {
		return Rate{}, false
	}
	return l.Rates[class], true
}

func (l *Limiter) refuse(class Class) {
	if l.Refused != nil {
		l.Refused(class)
	}
}

func (l *Limiter) take(class Class, name string, requests int) (s State, limited bool, err error) {
	rate, limited := l.limits(class)
	if !limited {
		return State{}, false, nil
	}
	now := l.Now()
	// With the request that asks, it is never more than the whole rate, which nobody would ever have.
	weight := max(1, min(requests, rate.Count-1))
	l.mu.Lock()
	defer l.mu.Unlock()
	networks := Networks(name)
	next := make([]time.Time, len(networks))
	for i, in := range networks {
		all := rate.of(in)
		full := l.fullOf(caller{class, in.Name}, now)
		next[i] = full.Add(all.each() * time.Duration(weight))
		state := State{Limit: rate.Count, Reset: next[i].Sub(now)}
		if wait := state.Reset - all.whole(); wait > 0 {
			state.Reset, state.RetryAfter = full.Sub(now), wait
			state.Remaining = min(rate.Count, max(0, int((all.whole()-state.Reset)/all.each())))
			return state, true, tooOften(state)
		}
		if i == 0 {
			state.Remaining = int((all.whole() - state.Reset) / all.each())
			s = state
		}
	}
	l.prune(now)
	for i, in := range networks {
		l.full[caller{class, in.Name}] = next[i]
	}
	return s, true, nil
}

// Give returns a request to the rate: it turned out to be of another class.
func (l *Limiter) Give(class Class, name string) {
	rate, limited := l.limits(class)
	if !limited {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range Networks(name) {
		key := caller{class, in.Name}
		if full, ok := l.full[key]; ok {
			l.full[key] = full.Add(-rate.of(in).each())
		}
	}
}

// prune makes room: it deletes callers with a full rate first, then arbitrary ones.
func (l *Limiter) prune(now time.Time) {
	if len(l.full) < maxCallers {
		return
	}
	// Scanning all of them on every request of a flood would be too slow.
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
	return l.Rates[class].Count
}

// Beat is the Retry-After when it is not known when there will be room.
const Beat = time.Second

// Busy is the Refusal of a caller who has the maximum number of operations under way.
func Busy(most int) *Refusal {
	s := State{Limit: most, Reset: Beat, RetryAfter: Beat}
	return refusal(s, "There are as many of these under way as one caller may have.")
}

// Enter begins an operation of which a caller may have a limited number at once. leave ends it.
func (l *Limiter) Enter(class Class, name string) (leave func(), err error) {
	if l == nil || l.Rates[class].Count == 0 {
		return func() {}, nil
	}
	most, networks := l.Rates[class].Count, Networks(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range networks {
		if l.busy[caller{class, in.Name}] >= most*in.AtOnce {
			l.refuse(class)
			return nil, Busy(most)
		}
	}
	for _, in := range networks {
		l.busy[caller{class, in.Name}]++
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, in := range networks {
			key := caller{class, in.Name}
			if l.busy[key]--; l.busy[key] == 0 {
				delete(l.busy, key)
			}
		}
	}), nil
}
