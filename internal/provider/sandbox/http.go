// Package sandbox is a card issuer for development and tests: an HTTP server with its own books,
// which fails on demand, and the adapter that speaks to it as to any other vendor.
//
//	Dial ── HTTP ──▶ /v1/…       the vendor: authentication, faults, then cards.go and movements.go
//	tests ─ HTTP ──▶ /control/…  the books, the faults, the master balance, the clockwork
//	                   │
//	                   ▼
//	                 books.go ──▶ journal.go: one line per mutation, on disk before the answer
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/telemetry"
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
	APIKey telemetry.Secret
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
	// Latency holds every answer of the vendor's face back.
	Latency time.Duration
}

// Server is the issuer: an http.Handler with the vendor's face under /v1/ and the control face under
// /control/. Close it when nothing calls it any more.
type Server struct {
	apiKey  telemetry.Secret
	latency time.Duration
	log     *slog.Logger
	books   *books
	faults  *faults
	seen    *tally
	mux     *http.ServeMux
	closing chan struct{}
	close   sync.Once
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
		apiKey: cfg.APIKey, latency: cfg.Latency, log: cfg.Log, books: b,
		faults: &faults{}, seen: newTally(), mux: http.NewServeMux(), closing: make(chan struct{}),
	}
	if s.apiKey.IsZero() {
		s.apiKey = telemetry.NewSecret(DevKey)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.vendorRoutes()
	s.controlRoutes()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close lets held requests go and closes the books.
func (s *Server) Close() error {
	var err error
	s.close.Do(func() {
		close(s.closing)
		err = s.books.close()
	})
	return err
}

// The codes an error answer or a declined row may carry: the vendor's documentation.
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
)

// problem is an error answer.
type problem struct {
	status        int
	code, message string
}

func (p *problem) Error() string { return p.code + ": " + p.message }

var (
	errConflict = &problem{http.StatusConflict, codeConflict, "the reference was used for another request"}
	errNoCard   = &problem{http.StatusNotFound, codeNotFound, "there is no such card"}
)

// envelope is the form of every answer of the vendor's face.
type envelope struct {
	OK    bool       `json:"ok"`
	Data  any        `json:"data,omitempty"`
	Error *errorBody `json:"error,omitempty"`
}

type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// reply is an answer before it is written: what a fault can still spoil.
type reply struct {
	status int
	body   envelope
}

func answered(data any, err error) reply {
	if err == nil {
		return reply{http.StatusOK, envelope{OK: true, Data: data}}
	}
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{http.StatusInternalServerError, codeInternal, "the books cannot be written"}
	}
	return reply{p.status, envelope{Error: &errorBody{p.code, p.message}}}
}

// call is one request to the vendor's face, its body read.
type call struct {
	request *http.Request
	body    []byte
	// hide is how long its effect stays out of look-ups.
	hide time.Duration
}

const maxRequest = 64 << 10

// vendor wraps an operation in what every request of the vendor's face goes through.
func (s *Server) vendor(op string, do func(call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Read to the end first: only then does the server notice that the client has hung up.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			write(w, answered(nil, &problem{http.StatusBadRequest, codeInvalidRequest, "the body cannot be read"}))
			return
		}
		s.seen.count(op, body)
		if !s.authentic(r) {
			write(w, answered(nil, &problem{http.StatusUnauthorized, codeUnauthorized, "the API key is not valid"}))
			return
		}
		if s.latency > 0 && !s.wait(r, s.latency) {
			return
		}
		f, faulty := s.faults.take(op)
		s.log.InfoContext(r.Context(), "sandbox request", "op", op, "fault", f.Mode)
		if !faulty {
			data, err := do(call{request: r, body: body})
			write(w, answered(data, err))
			return
		}
		s.misbehave(w, f, call{request: r, body: body}, do)
	}
}

func (s *Server) authentic(r *http.Request) bool {
	return telemetry.NewSecret(r.Header.Get("Authorization")).Equal(telemetry.NewSecret("Bearer " + s.apiKey.Reveal()))
}

// wait is false when the client or the server went away meanwhile.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

func write(w http.ResponseWriter, r reply) { writeJSON(w, r.status, r.body) }
