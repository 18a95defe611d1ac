package reconcile

import (
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// Progress is the progress of comparisons over all runs.
type Progress struct {
	// Since is the time up to which changes have been compared.
	Since time.Time `json:"since,omitzero"`
	// Arrived is the number up to which arrivals have been compared.
	Arrived RowWatermark `json:"arrived"`
	// Orders, Transfers, Postings and Standing are the position of the full pass in each list.
	Orders    Round `json:"orders"`
	Transfers Round `json:"transfers"`
	Postings  Round `json:"postings"`
	Standing  Round `json:"standing"`
	// Issuers is the progress in the books of each issuer, by its name.
	Issuers map[string]BookProgress `json:"issuers,omitempty"`
	// Balances are the sums of the ledger.
	Balances Balances `json:"balances"`
}

// completeAt is when the oldest of the last complete passes began, those over the books of some issuers included; zero
// until each list has had one.
func (p Progress) completeAt(issuers []string) time.Time {
	at := p.Orders.Complete
	rounds := []Round{p.Transfers, p.Postings}
	for _, name := range issuers {
		rounds = append(rounds, p.Issuers[name].Round)
	}
	for _, r := range rounds {
		if r.Complete.Before(at) {
			at = r.Complete
		}
	}
	return at
}

// BookProgress is the progress in the books of one issuer.
type BookProgress struct {
	// Feed is the cursor of its changes.
	Feed string `json:"feed,omitempty"`
	// Asked is when they were asked for first, and Read when they were read last.
	Asked time.Time `json:"asked,omitzero"`
	Read  time.Time `json:"read,omitzero"`
	// Round is the full pass over all of its books.
	Round Round `json:"round"`
}

// Balances are sums of the ledger's entries by kind of account.
type Balances struct {
	// Entries is the number up to which Sums contain the entries.
	Entries RowWatermark          `json:"entries"`
	Sums    map[string]money.USDC `json:"sums,omitempty"`
	// Again are the same sums, recomputed from the first entry up to Upto.
	Again map[string]money.USDC `json:"again,omitempty"`
	Upto  int64                 `json:"upto"`
}

// lateness is longer than any transaction takes: a transaction has committed by then, or never does.
const lateness = 10 * time.Minute

// RowWatermark tracks rows that are numbered when they are inserted but may be committed in another order.
type RowWatermark struct {
	// Done is the number up to which no more rows can appear.
	Done int64 `json:"done"`
	// Last was the highest number at At. After lateness, it becomes Done.
	Last int64     `json:"last"`
	At   time.Time `json:"at,omitzero"`
}

// settled reports whether all rows up to Last are committed.
func (m *RowWatermark) settled(now time.Time) bool { return !m.At.IsZero() && now.Sub(m.At) > lateness }

// pass advances Done to Last once that is settled.
func (m *RowWatermark) pass(now time.Time) {
	if m.settled(now) {
		m.Done, m.At = m.Last, time.Time{}
	}
}

// see records the highest number, unless an earlier record is not settled yet.
func (m *RowWatermark) see(last int64, now time.Time) {
	if m.At.IsZero() {
		m.Last, m.At = max(last, m.Done), now
	}
}

// Round is a repeated pass over a list, a part in each comparison.
type Round struct {
	After string `json:"after,omitempty"`
	// Number counts the complete passes. Begun is when the current one began, Complete when the last complete one did.
	Number   int64     `json:"number"`
	Begun    time.Time `json:"begun,omitzero"`
	Complete time.Time `json:"complete,omitzero"`
}

// begin records when a pass begins.
func (r *Round) begin(now time.Time) {
	if r.After == "" {
		r.Begun = now
	}
}

// reach records the position; ended completes the pass.
func (r *Round) reach(after string, ended bool) {
	r.After = after
	if ended {
		r.After, r.Complete = "", r.Begun
		r.Number++
	}
}
