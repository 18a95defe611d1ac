// Package lithicfake plays Lithic: an http.Handler that speaks the vendor's API, authenticates as it does, keeps books
// of cards, book transfers, balances and events, and fails on demand. It knows nothing of the adapter.
package lithicfake

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/vendorfake"
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
	// Front counts what arrives: open, account, accounts, sensitive, embed, frame, state, balance, stock, program, move,
	// transfers, moved, events, purchases. Faults name these, too.
	*vendorfake.Front

	mu        sync.Mutex
	float     int64
	cards     []*Card // the oldest first, as all that follows
	transfers []*Transfer
	purchases []*Purchase
	events    []event
	keys      map[string]kept // by Idempotency-Key
	sessions  map[string]*session
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
		keys: map[string]kept{}, sessions: map[string]*session{},
	}
	s.Front = vendorfake.New(s.vendor())
	if s.now == nil {
		s.now = time.Now
	}
	for pattern, route := range map[string]struct {
		op string
		do func(r *http.Request, body []byte) (any, error)
	}{
		"POST /v1/cards":                              {"open", s.postCard},
		"GET /v1/cards":                               {"accounts", s.getCards},
		"GET /v1/cards/{token}":                       {"sensitive", s.getCard},
		"PATCH /v1/cards/{token}":                     {"state", s.patchCard},
		"POST /v1/cards/{token}/embed":                {"embed", s.postEmbed},
		"GET /v1/cards/{token}/balances":              {"balance", s.getBalance},
		"GET /v1/financial_accounts/{token}/balances": {"stock", s.getFloat},
		"GET /v1/card_programs/{token}":               {"program", s.getProgram},
		"POST /v1/book_transfers":                     {"move", s.postTransfer},
		"GET /v1/book_transfers":                      {"transfers", s.getTransfers},
		"GET /v1/book_transfers/{token}":              {"moved", s.getTransfer},
		"GET /v1/events":                              {"events", s.getEvents},
		"GET /v1/transactions":                        {"purchases", s.getTransactions},
	} {
		s.mux.HandleFunc(pattern, s.Serve(func(c vendorfake.Call) string {
			if route.op == "accounts" && c.URL.Query().Has("memo") {
				return "account" // a search, and not a list of all
			}
			return route.op
		}, func(c vendorfake.Call) vendorfake.Reply { return answered(route.do(c.Request, c.Body)) }))
	}
	s.mux.HandleFunc("GET /v1/embed", s.getEmbed)
	s.Control(s.mux, "/control/", s.books)
	s.mux.HandleFunc("POST /control/cards/{token}/purchases", vendorfake.Local(s.postCharge))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// problem is an answer that something is not possible.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

// HTTPStatus is for the control API.
func (p *problem) HTTPStatus() int { return p.status }

func invalid(message string) error { return &problem{http.StatusBadRequest, message} }

func absent() error { return &problem{http.StatusNotFound, "the resource was not found"} }

func answered(body any, err error) vendorfake.Reply {
	if err == nil {
		return vendorfake.JSON(http.StatusOK, body)
	}
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{http.StatusInternalServerError, "server error"}
	}
	return vendorfake.JSON(p.status, map[string]string{"message": p.message, "debugging_request_id": uuid.NewString()})
}

// authenticate refuses a request without the key.
func (s *Server) authenticate(c vendorfake.Call) (vendorfake.Reply, bool) {
	if c.Header.Get("Authorization") == s.key {
		return vendorfake.Reply{}, false
	}
	return answered(nil, &problem{http.StatusUnauthorized, "the API key is not valid"}), true
}

// read decodes a whole body and nothing but the members that are known here.
func read(body []byte, into any) error {
	if vendorfake.Read(body, into) != nil {
		return invalid("the request is not the documented JSON")
	}
	return nil
}
