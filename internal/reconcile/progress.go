package reconcile

import (
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// Progress is how far comparisons have come.
type Progress struct {
	// Since is the time up to which changes have been compared.
	Since time.Time `json:"since,omitzero"`
	// Arrived numbers the arrivals that have been compared.
	Arrived Watermark `json:"arrived"`
	// Orders, Transfers, Postings and Standing are where the round through everything stands in each list.
	Orders    Round `json:"orders"`
	Transfers Round `json:"transfers"`
	Postings  Round `json:"postings"`
	Standing  Round `json:"standing"`
	// Feed is the cursor of the issuer's changes; Issuer is the round through all of its books.
	Feed   string `json:"feed,omitempty"`
	Issuer Round  `json:"issuer"`
	// Balances are the ledger's.
	Balances Balances `json:"balances"`
}

// completeAt is when the oldest of the last whole rounds began; zero while there is one that never was whole.
func (p Progress) completeAt() time.Time {
	at := p.Orders.Complete
	for _, r := range []Round{p.Transfers, p.Postings, p.Issuer} {
		if r.Complete.Before(at) {
			at = r.Complete
		}
	}
	return at
}

// Balances are sums of the ledger's entries by kind of account.
type Balances struct {
	// Entries numbers those that Sums contain.
	Entries Watermark             `json:"entries"`
	Sums    map[string]money.USDC `json:"sums,omitempty"`
	// Again are the same sums, made once more from the first entry on, up to a number.
	Again map[string]money.USDC `json:"again,omitempty"`
	Upto  int64                 `json:"upto"`
}

// lateness is longer than any transaction takes: what one has begun is committed by then, or never.
const lateness = 10 * time.Minute

// Watermark counts what is numbered in the order in which it is begun, not in that in which it is committed.
type Watermark struct {
	// Done is the number up to which nothing more can appear.
	Done int64 `json:"done"`
	// Last was the highest number at a time. Once that is long enough ago, it is done.
	Last int64     `json:"last"`
	At   time.Time `json:"at,omitzero"`
}

// settled says that all up to Last is committed.
func (m *Watermark) settled(now time.Time) bool { return !m.At.IsZero() && now.Sub(m.At) > lateness }

// pass moves Done to Last once it may.
func (m *Watermark) pass(now time.Time) {
	if m.settled(now) {
		m.Done, m.At = m.Last, time.Time{}
	}
}

// see notes the highest number at a time, unless an earlier note still waits.
func (m *Watermark) see(last int64, now time.Time) {
	if m.At.IsZero() {
		m.Last, m.At = max(last, m.Done), now
	}
}

// Round goes through a list again and again, a part in each comparison.
type Round struct {
	After string `json:"after,omitempty"`
	// Number counts the whole rounds. Begun is when the one under way began, Complete when the last whole one did.
	Number   int64     `json:"number"`
	Begun    time.Time `json:"begun,omitzero"`
	Complete time.Time `json:"complete,omitzero"`
}

// begin notes when a round begins.
func (r *Round) begin(now time.Time) {
	if r.After == "" {
		r.Begun = now
	}
}

// reach notes how far it has come; ended says that nothing follows.
func (r *Round) reach(after string, ended bool) {
	r.After = after
	if ended {
		r.After, r.Complete = "", r.Begun
		r.Number++
	}
}
