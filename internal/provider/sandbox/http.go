// Package sandbox is a card issuer and an eSIM supplier for development and tests: an HTTP server with its
// own books, which fails on demand, and the adapters that call it like any other vendor.
//
//	Dial ───────── HTTP ──▶ /v1/…            the issuer: authentication, faults, then cards.go and movements.go
//	DialSupplier ─ HTTP ──▶ /esim/v1/…       the supplier, with books and faults of its own
//	tests ──────── HTTP ──▶ /control/…       the books, the faults, the master balance, the pace
//	                        /control/esim/…  the same of the supplier
//	                   │
//	                   ▼
//	books.go, supplierbooks.go ──▶ journal.go: one line per mutation, on disk before the answer
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// DevKey is the API key of a server that is configured with none.
const DevKey = "sandbox"

// defaultFloat is 100,000 dollars.
const defaultFloat money.Cents = 10_000_000

// Config is what a server needs. Zero values mean what the comments say.
type Config struct {
	// Dir is the folder of the books; empty keeps them in memory.
	Dir string
	// Now is time.Now if nil.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
	// APIKey is what clients present; DevKey if empty.
	APIKey secret.Text
	// Float is the master balance of new books; 100,000 dollars if zero.
	Float money.Cents
	// BINs are the prefixes of new books, all online; 400000 if nil.
	BINs []string
	// SettleAfter is how long cards and movements stay pending; 300 ms if zero.
	SettleAfter time.Duration
	// SlowAfter is how long they do in scenario 005; 30 s if zero.
	SlowAfter time.Duration
	// ReverseAfter is how long a success lasts in scenario 006; 2 s if zero.
	ReverseAfter time.Duration
	// Retention is what a withdrawal must leave on a card.
	Retention money.Cents
	// SpendLimits opens cards with a limit to what is spent on them, and takes no money for them.
	SpendLimits bool
	// Latency delays every answer of the vendor's API.
	Latency time.Duration
	// AllocateAfter is how long the supplier takes for an eSIM; 300 ms if zero.
	AllocateAfter time.Duration
	// SupplierFloat is what is left with the supplier in new books; 100,000 dollars if zero.
	SupplierFloat money.USDC
}

// Server is the issuer and the supplier: an http.Handler with the vendor's API under /v1/ and the control API under
// /control/. Close it when nothing calls it any more.
type Server struct {
	front
	books *books
	// limits says that cards are opened with a limit instead of money.
	limits   bool
	supplier *supplier
	mux      *http.ServeMux
	close    sync.Once
}

// NewServer opens the books and serves them.
func NewServer(cfg Config) (*Server, error) {
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	path := ""
	if cfg.Dir != "" {
		path = filepath.Join(cfg.Dir, "cards.jsonl")
	}
	prefixes := cfg.BINs
	if prefixes == nil {
		prefixes = []string{"400000"}
	}
	var bins []binRow
	for _, prefix := range prefixes {
		if !isPrefix(prefix) {
			return nil, fmt.Errorf("open the sandbox issuer: %q is not a card range", prefix)
		}
		bins = append(bins, binRow{Prefix: prefix, Open: true})
	}
	r := rules{
		settle:    cmp.Or(cfg.SettleAfter, 300*time.Millisecond),
		slow:      cmp.Or(cfg.SlowAfter, 30*time.Second),
		reverse:   cmp.Or(cfg.ReverseAfter, 2*time.Second),
		retention: cfg.Retention,
	}
	b, err := openBooks(path, r, now, cmp.Or(cfg.Float, defaultFloat), bins)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox issuer: %w", err)
	}
	s := &Server{
		front: newFront(cfg, cfg.Latency, issuerOps), books: b, limits: cfg.SpendLimits, mux: http.NewServeMux(),
	}
	if s.supplier, err = newSupplier(cfg, newFront(cfg, 0, supplierOps), now); err != nil {
		return nil, errors.Join(fmt.Errorf("open the sandbox supplier: %w", err), b.close())
	}
	s.vendorRoutes()
	s.controlRoutes()
	s.supplier.routes(s.mux)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close releases held requests and closes the books.
func (s *Server) Close() error {
	var err error
	s.close.Do(func() {
		s.Front.Close()
		s.supplier.Close()
		err = errors.Join(s.books.close(), s.supplier.books.close())
	})
	return err
}

// The codes of an error answer or a declined row: the vendor's documentation.
const (
	codeInvalidRequest   = "invalid_request"
	codeUnauthorized     = "unauthorized"
	codeNotFound         = "not_found"
	codeConflict         = "reference_conflict"
	codeRateLimited      = "rate_limited"
	codeInternal         = "internal_error"
	codeMasterBalanceLow = "master_balance_low"
	codeBINOffline       = "bin_offline"
	codeHolderDeclined   = "holder_declined"
	codeBalanceTooLow    = "balance_too_low"
	codeRetentionQuota   = "retention_quota"
	codeCardNotUsable    = "card_not_usable"
	codeDeclined         = "declined"
	// codeNothingToTake: a withdrawal is not a part of the card's limit.
	codeNothingToTake = "nothing_to_withdraw"
)

// problem is an error answer.
type problem struct {
	status        int
	code, message string
}

func (p *problem) Error() string { return p.code + ": " + p.message }

// HTTPStatus is for the control API.
func (p *problem) HTTPStatus() int { return p.status }

var (
	errConflict = &problem{http.StatusConflict, codeConflict, "the reference was used for another request"}
	errNoCard   = &problem{http.StatusNotFound, codeNotFound, "there is no such card"}
)

// envelope is the form of every answer of the vendor's API.
type envelope struct {
	OK    bool       `json:"ok"`
	Data  any        `json:"data,omitempty"`
	Error *errorBody `json:"error,omitempty"`
}

type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func answered(data any, err error) vendorfake.Reply {
	status, body := http.StatusOK, envelope{OK: true, Data: data}
	if err != nil {
		p, ok := errors.AsType[*problem](err)
		if !ok {
			p = &problem{http.StatusInternalServerError, codeInternal, "the books cannot be written"}
		}
		status, body = p.status, envelope{Error: &errorBody{p.code, p.message}}
	}
	r := vendorfake.JSON(status, body)
	r.Header = map[string]string{"Cache-Control": "no-store"}
	return r
}
