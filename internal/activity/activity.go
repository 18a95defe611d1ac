// Package activity accepts product events, reports aggregates, and prunes old events.
//
//	submission ─► allowlist and types ─► search for forbidden values ─► event without identifiers ─► store
//
// An event says what happened on a page or in a client, never to whom. Two checks protect the store: every member has a
// type that no secret fits, and every text is searched for forbidden values in any encoding, in case a type is loosened
// one day.
package activity

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
)

// DefaultRetention is how long events are kept when the configuration names no time.
const DefaultRetention = 90 * 24 * time.Hour

// Visitor is a digest of the id that a visitor's client chose: enough to count visitors.
type Visitor [16]byte

// Event is one accepted product event.
type Event struct {
	// ID is a digest of the client's id. An event is stored once, however often it is sent.
	ID      uuid.UUID
	Visitor Visitor
	Name    string
	// Path has placeholders in place of ids.
	Path string
	// Properties hold allowlisted names only.
	Properties map[string]string
	At         time.Time
}

// Store keeps events.
type Store interface {
	// Record stores an event unless one with its id is there.
	Record(ctx context.Context, e Event) error
	// Tallies counts the events of each day from a time on, at which a day begins in UTC.
	Tallies(ctx context.Context, from time.Time) ([]Tally, error)
	// RollUp counts the events of the first day that is not rolled up, in which there are any, for good, and reports
	// whether there was one before a time, at which a day begins. An event that comes later counts for the day after those
	// that are rolled up.
	RollUp(ctx context.Context, until time.Time) (bool, error)
	// Oldest is the time of the oldest of the newest so many events; the zero time when there are not more.
	Oldest(ctx context.Context, newest int) (time.Time, error)
	// Prune deletes at most limit events from before a time, and says how many.
	Prune(ctx context.Context, before time.Time, limit int) (int, error)
	// PruneDays does the same with the counts of days that are rolled up.
	PruneDays(ctx context.Context, before time.Time, limit int) (int, error)
	// Pruned writes to the audit trail that actor had so many events deleted.
	Pruned(ctx context.Context, actor string, deleted int) error
}

// Summary is what happened in a period, without anyone who did it.
type Summary struct {
	Events, Visitors int
	ByName           []Count
	ByDay            []Count
	// ByProperty counts the values of each property.
	ByProperty map[string][]Count
}

// Count is how often something was seen, and by how many visitors.
type Count struct {
	Value            string
	Events, Visitors int
}

// Config is what an Activity is made of.
type Config struct {
	Store Store
	Now   func() time.Time
	// Retention is how long events are kept; zero stands for DefaultRetention.
	Retention time.Duration
	// MostStored is how many events are kept, whatever their age: anybody may send them. Zero does not limit.
	MostStored int
}

// Activity accepts, reports and prunes product events.
type Activity struct{ Config }

// New makes an Activity.
func New(c Config) *Activity {
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	return &Activity{c}
}

// Accept checks and stores what a client sent, or refuses with the fault event_rejected, which never
// repeats what was sent.
func (a *Activity) Accept(ctx context.Context, s Submission) error {
	e, err := Check(s)
	if err != nil {
		return err
	}
	e.At = a.Now().UTC()
	if err := a.Store.Record(ctx, e); err != nil {
		return fmt.Errorf("record the event: %w", err)
	}
	return nil
}

// The days that a report may cover.
const (
	MinDays     = 1
	DefaultDays = 7
	MaxDays     = 90
)

// Report is the activity of the last days, today included.
type Report struct {
	Days     int
	From, To time.Time
	Summary
}

// Report counts the events of some days.
func (a *Activity) Report(ctx context.Context, days int) (Report, error) {
	if days < MinDays || days > MaxDays {
		return Report{}, fault.Newf(fault.SchemaInvalid, "days must be %d to %d.", MinDays, MaxDays)
	}
	now := a.Now().UTC()
	r := Report{Days: days, From: now.Truncate(24*time.Hour).AddDate(0, 0, 1-days), To: now}
	tallies, err := a.Store.Tallies(ctx, r.From)
	if err != nil {
		return Report{}, fmt.Errorf("count the events: %w", err)
	}
	r.Summary = sum(tallies)
	return r, nil
}

// rollUpAfter is how long after its end a day is rolled up. No event is on its way to the store for so long, and the
// clocks of processes differ by less.
const rollUpAfter = time.Hour

// RollUp counts the events of days that are over, so that reports need not read them, and those that are pruned have
// been counted. It is safe to call at any time and by several processes.
func (a *Activity) RollUp(ctx context.Context) error {
	until := a.Now().Add(-rollUpAfter).UTC().Truncate(24 * time.Hour)
	for {
		if more, err := a.Store.RollUp(ctx, until); err != nil || !more {
			return err
		}
	}
}

const (
	pruneBatch = 1000
	// maxBatches bounds one call; the next call prunes the rest.
	maxBatches = 50
)

// Prune deletes the events that are past their retention, and the oldest of more than are kept, in bounded
// batches, and says how many. The counts of a day go when all of its events are past their retention.
func (a *Activity) Prune(ctx context.Context) (int, error) {
	before, deleted := a.Now().Add(-a.Retention), 0
	if _, err := a.Store.PruneDays(ctx, before.UTC().Truncate(24*time.Hour), pruneBatch); err != nil {
		return 0, fmt.Errorf("prune the days: %w", err)
	}
	if a.MostStored > 0 {
		oldest, err := a.Store.Oldest(ctx, a.MostStored)
		if err != nil {
			return 0, fmt.Errorf("count the events: %w", err)
		}
		if oldest.After(before) {
			before = oldest
		}
	}
	for range maxBatches {
		n, err := a.Store.Prune(ctx, before, pruneBatch)
		if deleted += n; err != nil {
			return deleted, fmt.Errorf("prune the events: %w", err)
		}
		if n < pruneBatch {
			break
		}
	}
	return deleted, nil
}

// PruneFor is Prune for an operator, with a record in the audit trail.
func (a *Activity) PruneFor(ctx context.Context, actor string) (int, error) {
	deleted, err := a.Prune(ctx)
	if err != nil {
		return deleted, err
	}
	if err := a.Store.Pruned(ctx, actor, deleted); err != nil {
		return deleted, fmt.Errorf("record the pruning: %w", err)
	}
	return deleted, nil
}

// eventOf is a digest of an event's id: as unique as the id, which is not kept.
func eventOf(id uuid.UUID) uuid.UUID { return uuid.NewHash(sha256.New(), uuid.Nil, id[:], 8) }

// visitorOf is a digest of a visitor's id: it tells whether two events are of one visitor.
func visitorOf(id uuid.UUID) Visitor {
	sum := sha256.Sum256(id[:])
	return Visitor(sum[:len(Visitor{})])
}
