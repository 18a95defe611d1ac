// Package memory is the store in memory, for tests: each call is one transaction, and one comes after the other.
package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// Disk is a database: it outlives the processes that open it, and has a clock of its own.
type Disk struct {
	now  func() time.Time
	hook Hook

	mu      sync.Mutex
	watches []*watch

	orders       table[order.ID, order.Order]
	payments     table[uuid.UUID, payment.Payment]
	refunds      table[uuid.UUID, payment.Refund]
	receipts     table[receipted, checkout.SignedReceipt]
	timeline     table[move, order.Event]
	reservations table[uuid.UUID, reservation]
	reported     table[authorization, payment.Arrived]
	switches     table[order.Kind, availability.Switch]
	rates        table[string, time.Time]
	postings     table[posting, posted]
	cards        table[uuid.UUID, cardRow]
	plans        table[esim.PlanID, esim.Plan]
	syncs        table[string, synced]
	profiles     table[uuid.UUID, esim.Profile]
	topups       table[uuid.UUID, esim.Topup]
	tokens       table[order.ID, esim.TokenVersion]
	sent         table[sent, sentRow]
	jobs         table[uuid.UUID, job.Row]
	workers      table[string, worker]
}

// Hook is called around each operation of a process, by its name such as "orders.claim". An error means that it does
// not happen. What it returns otherwise is called with the operation's error once that is stored or not, and its own
// error is the answer.
type Hook func(ctx context.Context, process, op string) (answer func(error) error, err error)

// NewDisk makes an empty database. The clock is time.Now where it is nil; the hook may be nil.
func NewDisk(now func() time.Time, hook Hook) *Disk {
	if now == nil {
		now = time.Now
	}
	if hook == nil {
		hook = func(context.Context, string, string) (func(error) error, error) {
			return func(err error) error { return err }, nil
		}
	}
	return &Disk{now: now, hook: hook}
}

// New is an empty database as one process sees it, which has the same clock; time.Now where it is nil.
func New(now func() time.Time) *Store { return NewDisk(now, nil).Open("", now) }

// Open is the database as a process sees it, by the process's own clock, which is time.Now where it is nil.
func (d *Disk) Open(process string, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{disk: d, process: process, now: now}
}

// Store is the service's state, as package store keeps it in PostgreSQL.
type Store struct {
	disk    *Disk
	process string
	now     func() time.Time
}

// stamp is the process's time with the database's precision.
func (s *Store) stamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// tx is one transaction.
type tx struct {
	*Disk
	ctx context.Context
	// at is the database's time, of all statements, and stamp the process's.
	at, stamp time.Time
	undo      []func()
	wakes     []subject
}

// do runs an operation in one transaction, which is undone when fn fails.
func (s *Store) do(ctx context.Context, op string, fn func(*tx) error) error {
	if ctx.Err() != nil {
		return fault.Ended(ctx, fmt.Errorf("begin: %w", ctx.Err()))
	}
	answer, err := s.disk.hook(ctx, s.process, op)
	if err != nil {
		return err
	}
	return answer(s.disk.run(ctx, s.stamp(), fn))
}

func (d *Disk) run(ctx context.Context, stamp time.Time, fn func(*tx) error) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &tx{Disk: d, ctx: ctx, at: d.now().UTC().Truncate(time.Microsecond), stamp: stamp}
	done := false
	defer func() {
		if done {
			d.wake(t.wakes)
			return
		}
		for _, undo := range slices.Backward(t.undo) {
			undo()
		}
	}()
	err = fn(t)
	done = err == nil
	return err
}

// fenced is do for the holder of a job's claim; it changes nothing once that is over.
func (s *Store) fenced(ctx context.Context, op string, f job.Fence, fn func(*tx) error) error {
	return s.do(ctx, op, func(t *tx) error {
		if row := t.held(f); row == nil || !row.LeaseUntil.After(t.at) {
			return fmt.Errorf("fence job: %w", job.ErrLeaseLost)
		}
		return fn(t)
	})
}

// violation is the refusal of a row by a unique key, of the name that it has in ent/schema.
type violation string

// Error implements error.
func (v violation) Error() string { return "the row violates " + string(v) }

// table is rows by their primary key, in the order of their insertion.
type table[K comparable, R any] struct {
	rows []*R
	byID map[K]*R
}

// get is the row of a key, or nil. It is changed by edit only.
func (b *table[K, R]) get(key K) *R { return b.byID[key] }

// first is the first row of which a condition holds, or nil.
func (b *table[K, R]) first(wanted func(*R) bool) *R {
	if i := slices.IndexFunc(b.rows, wanted); i >= 0 {
		return b.rows[i]
	}
	return nil
}

// all copies the rows of which a condition holds.
func (b *table[K, R]) all(wanted func(*R) bool) (found []R) {
	for _, row := range b.rows {
		if wanted(row) {
			found = append(found, *row)
		}
	}
	return found
}

// add inserts a row whose key is not there.
func add[K comparable, R any](t *tx, b *table[K, R], name string, key K, row R) (*R, error) {
	if b.byID[key] != nil {
		return nil, violation(name)
	}
	if b.byID == nil {
		b.byID = map[K]*R{}
	}
	was := b.rows
	b.rows, b.byID[key] = append(b.rows, &row), &row
	t.undo = append(t.undo, func() {
		b.rows = was
		delete(b.byID, key)
	})
	return &row, nil
}

// edit is a row to be changed. What it refers to is replaced, never changed.
func edit[R any](t *tx, row *R) *R {
	was := *row
	t.undo = append(t.undo, func() { *row = was })
	return row
}

// drop deletes up to limit rows of which a condition holds, and returns how many.
func drop[K comparable, R any](t *tx, b *table[K, R], limit int, key func(*R) K, wanted func(*R) bool) (n int) {
	was := b.rows
	b.rows = nil
	for _, row := range was {
		if n == limit || !wanted(row) {
			b.rows = append(b.rows, row)
			continue
		}
		n++
		delete(b.byID, key(row))
		t.undo = append(t.undo, func() { b.byID[key(row)] = row })
	}
	t.undo = append(t.undo, func() { b.rows = was })
	return n
}

// subject is what notifications are about: the orders by their ids, or the jobs of a class.
type subject struct{ topic, key string }

const (
	topicOrder = "order"
	topicJobs  = "jobs"
)

type watch struct {
	ch   chan struct{}
	keys []subject
}

// subscribe returns a channel that is signalled after changes of the keys of a topic, until stop.
func (d *Disk) subscribe(topic string, keys ...string) (wake <-chan struct{}, stop func()) {
	w := &watch{ch: make(chan struct{}, 1)}
	for _, key := range keys {
		w.keys = append(w.keys, subject{topic, key})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches = append(d.watches, w)
	return w.ch, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.watches = slices.DeleteFunc(d.watches, func(one *watch) bool { return one == w })
	}
}

// wake signals in the order of what was notified, as the store in PostgreSQL does: who is woken last runs first.
func (d *Disk) wake(about []subject) {
	for _, of := range about {
		for _, w := range d.watches {
			if slices.Contains(w.keys, of) {
				select {
				case w.ch <- struct{}{}:
				default:
				}
			}
		}
	}
}

func (t *tx) notify(topic, key string) { t.wakes = append(t.wakes, subject{topic, key}) }
