package roamcard

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// EntryState is what is known of a signed payment.
type EntryState string

// The entry states.
const (
	// Signed: it may have been sent; its outcome is not known.
	Signed EntryState = "signed"
	// Paid: the service answered with the order.
	Paid EntryState = "settled"
	// Refused: the service proved that it does not take this payment.
	Refused EntryState = "refused"
)

// Entry is one signed payment. It holds no card data and no private key, but its header moves money until
// ValidBefore: keep it as safe as a cheque.
type Entry struct {
	// Key is the operation's path and its idempotency key.
	Key string `json:"key"`
	// Body is the SHA-256 of the request's body, in hex.
	Body string `json:"body"`
	// Header is the PAYMENT-SIGNATURE header, sent byte for byte every time.
	Header string `json:"header"`
	Amount Cents  `json:"amountUsdCents"`
	// Attempt counts authorizations under one key that the chain may tell apart.
	Attempt     int        `json:"attempt"`
	SignedAt    time.Time  `json:"signedAt"`
	ValidBefore time.Time  `json:"validBefore"`
	State       EntryState `json:"state"`
}

// Journal remembers what was signed. Sharing one journal between all programs that pay from a wallet is
// what makes its caps hold.
type Journal interface {
	// Find gives the entry of a key; ok is false when there is none.
	Find(ctx context.Context, key string) (e Entry, ok bool, err error)
	// Sign writes an entry, durably, before it returns. It does so only when the entry replaces the one that
	// was found, was being nil when there was none, and when the payments signed since then, apart from
	// refused ones, leave room for it under the cap; no cap is zero. Otherwise nothing is written: ErrEntry
	// for the one, ErrPolicyDenied for the other.
	Sign(ctx context.Context, e Entry, was *Entry, since time.Time, limit Cents) error
	// Conclude records what became of the entry with this header.
	Conclude(ctx context.Context, key, header string, s EntryState) error
}

// ErrEntry says that the journal has another entry for the key than was expected.
var ErrEntry = fmt.Errorf("the journal was changed meanwhile")

// book is the content of a journal.
type book map[string]Entry

func (b book) sign(e Entry, was *Entry, since time.Time, limit Cents) error {
	now, known := b[e.Key]
	if known != (was != nil) || (known && now.Header != was.Header) {
		return ErrEntry
	}
	spent := e.Amount
	for key, other := range b {
		if key != e.Key && other.State != Refused && other.SignedAt.After(since) {
			spent += other.Amount
		}
	}
	if limit > 0 && spent > limit {
		return fmt.Errorf("%w: with it, %s USD would be spent in a day, and the cap is %s", ErrPolicyDenied, spent, limit)
	}
	b[e.Key] = e
	return nil
}

func (b book) conclude(key, header string, s EntryState) {
	// A payment that was made stays made, whatever a late answer says.
	if e, ok := b[key]; ok && e.Header == header && e.State != Paid {
		e.State = s
		b[key] = e
	}
}

// MemoryJournal remembers for as long as the program runs.
type MemoryJournal struct {
	mu   sync.Mutex
	book book
}

// NewMemoryJournal makes an empty journal.
func NewMemoryJournal() *MemoryJournal { return &MemoryJournal{book: book{}} }

// Find implements Journal.
func (j *MemoryJournal) Find(_ context.Context, key string) (Entry, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.book[key]
	return e, ok, nil
}

// Sign implements Journal.
func (j *MemoryJournal) Sign(_ context.Context, e Entry, was *Entry, since time.Time, limit Cents) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.book.sign(e, was, since, limit)
}

// Conclude implements Journal.
func (j *MemoryJournal) Conclude(_ context.Context, key, header string, s EntryState) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.book.conclude(key, header, s)
	return nil
}
