// Package lithicfake plays Lithic: an http.Handler that speaks the vendor's API, authenticates as it does, keeps books
// of cards, book transfers, balances and events, and fails on demand. It knows nothing of the adapter.
package lithicfake

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider/wire/spoil"
)

// Config is what a server needs. Zero values mean what the comments say.
type Config struct {
	// Key is what clients present; DevKey if empty.
	Key string
	// Now is time.Now if nil.
	Now func() time.Time
	// Float is what the float's account has, in cents; 100,000 dollars if zero.
	Float int64
	// Replays answers a key or token that was used for another request with what that has made, instead of a rejection.
	Replays bool
	// Numbers puts card numbers into answers, as for a programme that may read them.
	Numbers bool
	// PageSize is the longest page; 100 if zero.
	PageSize int
}

// What a server has from the beginning.
const (
	DevKey = "lithic-sandbox"
	// Program is the card programme, Float the financial account, and Account that of the operator.
	Program = "2b6b4a5c-3c1e-4f0a-9d52-6c7f0a4b9e01"
	Float   = "8f1d9f0e-5a77-4b7e-8a53-0d2c6f4e7b02"
	Account = "c4a1e0b2-7d3f-4c15-b1a6-9e8d7c6b5a03"
	// Range is how the programme's card numbers begin.
	Range = "52304803"
)

const defaultFloat = 10_000_000

// Server is the vendor. It is safe for concurrent use.
type Server struct {
	key      string
	now      func() time.Time
	replays  bool
	numbers  bool
	pageSize int
	mux      *http.ServeMux
	faults   spoil.Queue[Mode]

	mu        sync.Mutex
	float     int64
	cards     []*Card // the oldest first, as all that follows
	transfers []*Transfer
	purchases []*Purchase
	events    []event
	keys      map[string]kept // by Idempotency-Key
	sessions  map[string]*session
	requests  map[string]int
}

// kept is what a key has made, and of what.
type kept struct {
	body string
	card *Card
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{
		key: cmp.Or(cfg.Key, DevKey), now: cfg.Now, replays: cfg.Replays, numbers: cfg.Numbers,
		pageSize: cmp.Or(cfg.PageSize, 100), float: cmp.Or(cfg.Float, defaultFloat), mux: http.NewServeMux(),
		keys: map[string]kept{}, sessions: map[string]*session{}, requests: map[string]int{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.mux.HandleFunc("POST /v1/cards", s.serve(always("open"), s.postCard))
	s.mux.HandleFunc("GET /v1/cards", s.serve(listing, s.getCards))
	s.mux.HandleFunc("GET /v1/cards/{token}", s.serve(always("sensitive"), s.getCard))
	s.mux.HandleFunc("PATCH /v1/cards/{token}", s.serve(always("state"), s.patchCard))
	s.mux.HandleFunc("POST /v1/cards/{token}/embed", s.serve(always("embed"), s.postEmbed))
	s.mux.HandleFunc("GET /v1/embed", s.getEmbed)
	s.mux.HandleFunc("GET /v1/cards/{token}/balances", s.serve(always("balance"), s.getBalance))
	s.mux.HandleFunc("GET /v1/financial_accounts/{token}/balances", s.serve(always("stock"), s.getFloat))
	s.mux.HandleFunc("GET /v1/card_programs/{token}", s.serve(always("program"), s.getProgram))
	s.mux.HandleFunc("POST /v1/book_transfers", s.serve(always("move"), s.postTransfer))
	s.mux.HandleFunc("GET /v1/book_transfers", s.serve(always("transfers"), s.getTransfers))
	s.mux.HandleFunc("GET /v1/book_transfers/{token}", s.serve(always("moved"), s.getTransfer))
	s.mux.HandleFunc("GET /v1/events", s.serve(always("events"), s.getEvents))
	s.mux.HandleFunc("GET /v1/transactions", s.serve(always("purchases"), s.getTransactions))
	s.mux.HandleFunc("GET /control/books", local(s.showBooks))
	s.mux.HandleFunc("POST /control/cards/{token}/purchases", local(s.postCharge))
	return s
}

// local serves this machine only.
func local(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			http.Error(w, "only this machine sees the books", http.StatusForbidden)
			return
		}
		do(w, r)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests counts what arrived, by operation: open, account, accounts, sensitive, embed, frame, state, balance, stock,
// program, move, transfers, moved, events, purchases.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// problem is an answer that something is not possible.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

func invalid(message string) error { return &problem{http.StatusBadRequest, message} }

func absent() error { return &problem{http.StatusNotFound, "the resource was not found"} }

// reply is an answer before it is written.
type reply struct {
	status int
	body   any
}

func answered(body any, err error) reply {
	if err == nil {
		return reply{http.StatusOK, body}
	}
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{http.StatusInternalServerError, "server error"}
	}
	return reply{p.status, map[string]string{"message": p.message, "debugging_request_id": uuid.NewString()}}
}

// operation names a request, for faults and counts.
type operation func(*http.Request) string

func always(op string) operation { return func(*http.Request) string { return op } }

// listing is account for a search, and accounts for a list of all.
func listing(r *http.Request) string {
	if r.URL.Query().Has("memo") {
		return "account"
	}
	return "accounts"
}

const maxRequest = 64 << 10

// serve wraps an operation in what every request goes through.
func (s *Server) serve(name operation, do func(r *http.Request, body []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			write(w, answered(nil, invalid("the body cannot be read")))
			return
		}
		op := name(r)
		s.mu.Lock()
		s.requests[op]++
		s.mu.Unlock()
		if r.Header.Get("Authorization") != s.key {
			write(w, answered(nil, &problem{http.StatusUnauthorized, "the API key is not valid"}))
			return
		}
		mode, faulty := s.faults.Take(op)
		if !faulty {
			write(w, answered(do(r, body)))
			return
		}
		s.misbehave(w, mode, func() reply { return answered(do(r, body)) })
	}
}

// read decodes a whole body and nothing but the members that are known here.
func read(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil {
		return invalid("the request is not the documented JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return invalid("there is something behind the request")
	}
	return nil
}

// write answers.
func write(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = w.Write(encode(r.body)) // the client may have disconnected
}

func encode(body any) []byte {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic("lithicfake: encode an answer: " + err.Error())
	}
	return encoded
}
