// Package stripefake plays Stripe Issuing: an http.Handler that speaks the vendor's API, authenticates as it does,
// keeps books of cards, authorizations, transactions and a balance, remembers idempotency keys for a day, and fails on
// demand. It knows nothing of the adapter.
package stripefake

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/provider/wire/spoil"
)

// Config is what a server needs. Zero values mean what the comments say.
type Config struct {
	// Key is what clients present, and Cardholder the one holder that there is; DevKey and DevCardholder if empty.
	Key, Cardholder string
	// Publishable is what pages present; DevPublishable if empty.
	Publishable string
	// Now is time.Now if nil.
	Now func() time.Time
	// Balance is what the account has for cards, in cents; 100,000 dollars if zero.
	Balance int64
}

// The credentials of a server that is configured with none.
const (
	DevKey         = "sk_test_roamcard"
	DevPublishable = "pk_test_roamcard"
	DevCardholder  = "ich_1Roamcard0Programme0Holder"
)

const (
	defaultBalance = 10_000_000
	// keysLast is how long an idempotency key is remembered.
	keysLast = 24 * time.Hour
)

// Server is the vendor. It is safe for concurrent use.
type Server struct {
	key, cardholder string
	publishable     string
	now             func() time.Time
	mux             *http.ServeMux
	faults          spoil.Queue[Mode]

	mu       sync.Mutex
	books    books
	looks    map[string]*look // by nonce
	requests map[string]int
}

// New makes a Server without cards.
func New(cfg Config) *Server {
	s := &Server{
		key: cmp.Or(cfg.Key, DevKey), cardholder: cmp.Or(cfg.Cardholder, DevCardholder), now: cfg.Now,
		publishable: cmp.Or(cfg.Publishable, DevPublishable), looks: map[string]*look{},
		mux: http.NewServeMux(), requests: map[string]int{},
		books: books{
			Balance: cmp.Or(cfg.Balance, defaultBalance), Holder: "active", Keys: map[string]kept{},
			Executed: map[string]int{}, Email: "cards@programme.example",
		},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.mux.HandleFunc("POST /v1/issuing/cards", s.serve("open", s.open))
	s.mux.HandleFunc("GET /v1/issuing/cards", s.serve("cards", s.listCards))
	s.mux.HandleFunc("GET /v1/issuing/cards/{id}", s.serve("card", s.getCard))
	s.mux.HandleFunc("POST /v1/issuing/cards/{id}", s.serve(opUpdate, s.update))
	s.mux.HandleFunc("GET /v1/issuing/authorizations", s.serve("authorizations", s.listAuthorizations))
	s.mux.HandleFunc("GET /v1/issuing/transactions", s.serve("transactions", s.listTransactions))
	s.mux.HandleFunc("GET /v1/issuing/cardholders/{id}", s.serve("cardholder", s.getHolder))
	s.mux.HandleFunc("GET /v1/balance", s.serve("balance", s.getBalance))
	s.mux.HandleFunc("POST /v1/ephemeral_keys", s.serve("embed", s.postKey))
	s.mux.HandleFunc("GET /elements.js", s.script)
	s.mux.HandleFunc("POST /elements/nonce", s.postNonce)
	s.mux.HandleFunc("GET /elements/frame", s.frame)
	s.mux.HandleFunc("/", s.serve("unknown", func(c call) (any, error) {
		return nil, &problem{
			http.StatusNotFound, "invalid_request_error", "", "", "Unrecognized request URL (" + c.path + ").",
		}
	}))
	s.mux.HandleFunc("GET /control/books", s.control)
	s.mux.HandleFunc("POST /control/cards/{id}/purchases", s.charge)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// opUpdate is the update of a card: lock when it sets a state, move otherwise.
const opUpdate = "move"

// Requests counts what arrived, by operation: open, move, lock, card, cards, authorizations, transactions, cardholder,
// balance, embed, nonce, frame.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// problem is an answer that something is not possible.
type problem struct {
	status                     int
	kind, code, param, message string
}

func (p *problem) Error() string { return p.kind + ": " + p.message }

func invalid(code, param, message string) error {
	return &problem{http.StatusBadRequest, "invalid_request_error", code, param, message}
}

// call is one request.
type call struct {
	path, id, version string
	form              *form
}

// answer is what a request is answered with.
type answer struct {
	Status int
	Body   json.RawMessage
}

func answered(body any, err error) answer {
	if err == nil {
		return answer{http.StatusOK, encode(body)}
	}
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{status: http.StatusInternalServerError, kind: "api_error", message: "Something went wrong."}
	}
	said := map[string]any{"type": p.kind, "message": p.message}
	for name, value := range map[string]string{"code": p.code, "param": p.param} {
		if value != "" {
			said[name] = value
		}
	}
	return answer{p.status, encode(map[string]any{"error": said})}
}

const maxRequest = 256 << 10

// serve wraps an operation in what every request goes through.
func (s *Server) serve(op string, do func(call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			write(w, answered(nil, invalid("", "", "the body cannot be read")))
			return
		}
		op := op
		if asked, err := url.ParseQuery(string(body)); err == nil && op == opUpdate && asked.Has("status") {
			op = "lock"
		}
		s.mu.Lock()
		s.requests[op]++
		s.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+s.key {
			write(w, answered(nil, &problem{
				http.StatusUnauthorized, "invalid_request_error", "", "", "Invalid API Key provided: " + "sk_***",
			}))
			return
		}
		run := func() answer { return s.run(r, string(body), do) }
		mode, faulty := s.faults.Take(op)
		if !faulty {
			write(w, run())
			return
		}
		s.misbehave(w, mode, run)
	}
}

// run does what a request asks for, once for each idempotency key.
func (s *Server) run(r *http.Request, body string, do func(call) (any, error)) answer {
	encoded := r.URL.RawQuery
	if r.Method == http.MethodPost {
		encoded = body
	}
	values, err := url.ParseQuery(encoded)
	if err != nil || (r.Method == http.MethodPost && r.URL.RawQuery != "") {
		return answered(nil, invalid("", "", "the parameters cannot be read"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, asked := r.Header.Get("Idempotency-Key"), r.URL.Path+"?"+values.Encode()
	if r.Method != http.MethodPost {
		key = ""
	}
	if first, known := s.books.Keys[key]; key != "" && known && s.now().Sub(first.At) < keysLast {
		if first.Asked != asked {
			return answered(nil, &problem{
				http.StatusBadRequest, "idempotency_error", "", "",
				"Keys for idempotent requests can only be used with the same parameters they were first used with.",
			})
		}
		return first.Answer
	}
	c := call{
		path: r.URL.Path, id: r.PathValue("id"), version: r.Header.Get("Stripe-Version"),
		form: &form{values: values, used: map[string]bool{}},
	}
	a := answered(do(c))
	// What fails its validation is not remembered.
	if key != "" && a.Status == http.StatusOK {
		s.books.Keys[key] = kept{At: s.now(), Asked: asked, Answer: a}
		s.books.Executed[key]++
	}
	return a
}

// form is the parameters of a request. Those that nobody asked for are refused.
type form struct {
	values url.Values
	used   map[string]bool
}

func (f *form) text(name string) string {
	f.used[name] = true
	return f.values.Get(name)
}

// under are the parameters name[key].
func (f *form) under(name string) map[string]string {
	found := map[string]string{}
	for full := range f.values {
		if key, ok := strings.CutPrefix(full, name+"["); ok && strings.HasSuffix(key, "]") {
			found[strings.TrimSuffix(key, "]")] = f.text(full)
		}
	}
	return found
}

func (f *form) rest() error {
	for name, values := range f.values {
		if !f.used[name] {
			return invalid("parameter_unknown", name, "Received unknown parameter: "+name)
		}
		if len(values) != 1 {
			return invalid("", name, "Received a parameter twice: "+name)
		}
	}
	return nil
}

// write answers. An answer that cannot be encoded is a mistake of this package.
func write(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_fake")
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may have disconnected
}

func encode(body any) []byte {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic("stripefake: encode an answer: " + err.Error())
	}
	return encoded
}
