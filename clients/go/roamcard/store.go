package roamcard

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Store keeps what was signed. Sharing one store between all programs that pay from a wallet is what makes
// its caps hold.
type Store interface {
	// Read gives the book as it is.
	Read(ctx context.Context) (Book, error)
	// Update lets the book be changed, alone among all who share the store; once it returns, the change
	// survives a power cut. When change fails, nothing is kept.
	Update(ctx context.Context, change func(*Book) error) error
	// Lock holds a purchase against all who share the store, until it is unlocked or the program dies.
	Lock(ctx context.Context, purchase string) (unlock func(), err error)
}

// Book is what a store keeps. It holds no card data and no private key, but its headers move money until they
// die: keep it as safe as a cheque.
type Book struct {
	// Version is 1.
	Version int `json:"version"`
	// Payees are the payees of origins, as first seen.
	Payees map[string]string `json:"payees"`
	// Entries are the payments, by purchase: wallet, address and idempotency key.
	Entries map[string]Entry `json:"entries"`
}

const bookVersion = 1

// EntryState is what is known of a payment.
type EntryState string

// The entry states.
const (
	// Reserved: its budget is taken, and nothing is signed.
	Reserved EntryState = "reserved"
	// Signed: it may have been sent; its outcome is not known.
	Signed EntryState = "signed"
	// Settled: the service answered with the order.
	Settled EntryState = "settled"
	// Refused: the service answered that no money moved.
	Refused EntryState = "refused"
)

// Entry is the payment of one purchase.
type Entry struct {
	// Key is the idempotency key, Operation the documented path of what is bought.
	Key       string `json:"key"`
	Operation string `json:"operation"`
	Payer     string `json:"payer"`
	// Body is the SHA-256 of the request's body, in hex: a key belongs to it for good.
	Body   string `json:"body"`
	Amount Cents  `json:"amountUsdCents"`
	// At is when its budget was taken, and then when it was signed.
	At    time.Time  `json:"at"`
	State EntryState `json:"state"`
	// Header is the PAYMENT-SIGNATURE header, sent byte for byte every time.
	Header string `json:"header,omitempty"`
	// ValidBefore is when the authorization dies.
	ValidBefore time.Time `json:"validBefore,omitzero"`
	// Attempt counts the authorizations that the service proved dead: the next one has a nonce of its own.
	Attempt int `json:"attempt,omitempty"`
}

func newBook() Book {
	return Book{Version: bookVersion, Payees: map[string]string{}, Entries: map[string]Entry{}}
}

func (b Book) clone() Book {
	b.Payees, b.Entries = maps.Clone(b.Payees), maps.Clone(b.Entries)
	return b
}

// MemoryStore remembers for as long as the program runs.
type MemoryStore struct {
	mu    sync.Mutex
	book  Book
	locks map[string]chan struct{}
}

// NewMemoryStore makes an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{book: newBook(), locks: map[string]chan struct{}{}}
}

// Read implements Store.
func (s *MemoryStore) Read(context.Context) (Book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.clone(), nil
}

// Update implements Store.
func (s *MemoryStore) Update(_ context.Context, change func(*Book) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.book.clone()
	if err := change(&b); err != nil {
		return err
	}
	s.book = b
	return nil
}

// Lock implements Store.
func (s *MemoryStore) Lock(ctx context.Context, purchase string) (func(), error) {
	for {
		s.mu.Lock()
		held, busy := s.locks[purchase]
		if !busy {
			mine := make(chan struct{})
			s.locks[purchase] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.locks, purchase)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
