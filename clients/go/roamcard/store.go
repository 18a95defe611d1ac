package roamcard

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// Store keeps what was signed. Sharing one store between all programs that pay from a wallet is what makes its
// caps hold. Its errors are *JournalError.
type Store interface {
	// Read gives the book as it is.
	Read(ctx context.Context) (Book, error)
	// Update lets the book be changed, alone among all who share the store; once it returns, the change
	// survives a power cut. When change fails, nothing is kept.
	Update(ctx context.Context, change func(*Book) error) error
}

// Book is what a store keeps: one schema for the clients of all languages. It holds no card data and no private
// key, but its headers move money until they expire: keep it as safe as a cheque.
type Book struct {
	// Schema is "roamcard.journal", Version 2.
	Schema  string `json:"schema"`
	Version int    `json:"version"`
	// Payees are the payees of origins, as first seen.
	Payees map[string]string `json:"payees"`
	// Purchases are the payments. A purchase's id is the nonce of its first authorization, which is derived from
	// origin, path, payer and idempotency key.
	Purchases map[string]Entry `json:"purchases"`
	// Generation counts the changes of a file, whose store keeps it: a change of an older one is not written.
	Generation int64 `json:"generation,omitempty"`
}

const (
	bookSchema  = "roamcard.journal"
	bookVersion = 2
	// maxGeneration is the largest whole number that every language reads as it is.
	maxGeneration = 1<<53 - 1
)

// EntryState is what is known of a purchase.
type EntryState string

// The entry states.
const (
	// Reserved: its budget is taken, and nothing is signed.
	Reserved EntryState = "reserved"
	// Signed: its payment may have been sent; the outcome is not known.
	Signed EntryState = "signed"
	// Settled: the service answered with the order.
	Settled EntryState = "settled"
	// Refused: the service answered that no money moved. Its word frees no budget.
	Refused EntryState = "refused"
)

// Entry is one purchase and its payments. Times are seconds since 1970.
type Entry struct {
	// Key is the idempotency key; the id of the order for an order that was made first.
	Key string `json:"key"`
	// Operation is the documented path of what is bought, as in OpCard.
	Operation string `json:"operation"`
	Origin    string `json:"origin"`
	// Path is the documented one that is called.
	Path  string `json:"path"`
	Payer string `json:"payer"`
	// Request is the body of the request: a key belongs to it for good.
	Request json.RawMessage `json:"request"`
	// Amount is in USDC's atomic units, 10^-6 USDC.
	Amount int64      `json:"amount,string"`
	State  EntryState `json:"state"`
	// At is when its budget was taken, and then when it was last signed.
	At int64 `json:"at"`
	// Holder is whose turn it is to sign, until HeldUntil; set while reserved.
	Holder    string `json:"holder,omitempty"`
	HeldUntil int64  `json:"heldUntil,omitempty"`
	// Header is the last PAYMENT-SIGNATURE header, sent byte for byte every time.
	Header string `json:"header,omitempty"`
	// OrderID is the order, once an answer named it.
	OrderID string `json:"orderId,omitempty"`
	// Attempt counts the authorizations that the service told to be dead after it had taken them up: the next
	// one has a nonce of its own.
	Attempt int `json:"attempt"`
	// Authorizations are all that were ever signed, oldest first.
	Authorizations []SignedAuthorization `json:"authorizations"`
}

// SignedAuthorization is an EIP-3009 authorization that was signed.
type SignedAuthorization struct {
	Nonce string `json:"nonce"`
	// Amount is in USDC's atomic units.
	Amount      int64 `json:"amount,string"`
	SignedAt    int64 `json:"signedAt"`
	ValidBefore int64 `json:"validBefore"`
	// Void is why the chain can never take it: VoidExpired, VoidCancelled or VoidUsedElsewhere, as read from the
	// chain by this client. The service's word does not set it.
	Void string `json:"void,omitempty"`
}

// Why an authorization is void.
const (
	VoidExpired       = "expired"
	VoidCancelled     = "cancelled"
	VoidUsedElsewhere = "used_elsewhere"
)

// expiryMargin is how long after its validBefore an authorization counts as live: as far as this clock may be ahead of
// the chain's without being refused.
const expiryMargin = maxClockDifference

// live says that the chain may still take it.
func (a SignedAuthorization) live(now time.Time) bool {
	return a.Void == "" && now.Before(time.Unix(a.ValidBefore, 0).Add(expiryMargin))
}

// last is the newest authorization; ok is false when nothing was signed.
func (e Entry) last() (a SignedAuthorization, ok bool) {
	if len(e.Authorizations) == 0 {
		return SignedAuthorization{}, false
	}
	return e.Authorizations[len(e.Authorizations)-1], true
}

// Live is when the last authorization can no longer be taken by the chain; zero when it cannot be already.
func (e Entry) liveUntil(now time.Time) time.Time {
	if a, ok := e.last(); ok && a.live(now) {
		return time.Unix(a.ValidBefore, 0).Add(expiryMargin)
	}
	return time.Time{}
}

func newBook() Book {
	return Book{Schema: bookSchema, Version: bookVersion, Payees: map[string]string{}, Purchases: map[string]Entry{}}
}

func (b Book) clone() Book {
	b.Payees, b.Purchases = maps.Clone(b.Payees), maps.Clone(b.Purchases)
	for id, e := range b.Purchases {
		e.Authorizations = slices.Clone(e.Authorizations)
		b.Purchases[id] = e
	}
	return b
}

// MemoryStore remembers for as long as the program runs.
type MemoryStore struct {
	mu   sync.Mutex
	book Book
}

// NewMemoryStore makes an empty store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{book: newBook()} }

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
