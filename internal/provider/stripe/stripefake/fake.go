// Package stripefake plays Stripe Issuing: an http.Handler that speaks the vendor's API, authenticates as it does,
// keeps books of cards, authorizations, transactions and a balance, remembers idempotency keys for a day, and fails on
// demand. It knows nothing of the adapter.
package stripefake

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
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
	// Front counts what arrives: open, move, lock, card, cards, authorizations, transactions, cardholder, balance, embed,
	// nonce, frame. Faults name these, too.
	*vendorfake.Front

	mu    sync.Mutex
	books books
	looks map[string]*look // by nonce
}

// New makes a Server without cards.
func New(cfg Config) *Server {
	s := &Server{
		key: cmp.Or(cfg.Key, DevKey), cardholder: cmp.Or(cfg.Cardholder, DevCardholder), now: cfg.Now,
		publishable: cmp.Or(cfg.Publishable, DevPublishable), looks: map[string]*look{},
		mux: http.NewServeMux(),
		books: books{
			Balance: cmp.Or(cfg.Balance, defaultBalance), Holder: "active", Keys: map[string]kept{},
			Executed: map[string]int{}, Email: "cards@programme.example",
		},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.Front = vendorfake.New(s.vendor())
	for pattern, route := range map[string]struct {
		op string
		do func(call) (any, error)
	}{
		"POST /v1/issuing/cards":           {"open", s.open},
		"GET /v1/issuing/cards":            {"cards", s.listCards},
		"GET /v1/issuing/cards/{id}":       {"card", s.getCard},
		"POST /v1/issuing/cards/{id}":      {"move", s.update},
		"GET /v1/issuing/authorizations":   {"authorizations", s.listAuthorizations},
		"GET /v1/issuing/transactions":     {"transactions", s.listTransactions},
		"GET /v1/issuing/cardholders/{id}": {"cardholder", s.getHolder},
		"GET /v1/balance":                  {"balance", s.getBalance},
		"POST /v1/ephemeral_keys":          {"embed", s.postKey},
		"/":                                {"unknown", unknown},
	} {
		s.mux.HandleFunc(pattern, s.Serve(func(c vendorfake.Call) string {
			if asked, err := url.ParseQuery(string(c.Body)); route.op == "move" && err == nil && asked.Has("status") {
				return "lock" // an update that sets a state
			}
			return route.op
		}, func(c vendorfake.Call) vendorfake.Reply { return s.run(c, route.do) }))
	}
	s.mux.HandleFunc("GET /elements.js", s.script)
	s.mux.HandleFunc("POST /elements/nonce", s.postNonce)
	s.mux.HandleFunc("GET /elements/frame", s.frame)
	s.Control(s.mux, "/control/", s.control)
	s.mux.HandleFunc("POST /control/cards/{id}/purchases", vendorfake.Local(s.charge))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func unknown(c call) (any, error) {
	return nil, &problem{
		http.StatusNotFound, "invalid_request_error", "", "", "Unrecognized request URL (" + c.path + ").",
	}
}

// problem is an answer that something is not possible.
type problem struct {
	status                     int
	kind, code, param, message string
}

func (p *problem) Error() string { return p.kind + ": " + p.message }

// HTTPStatus is for the control API.
func (p *problem) HTTPStatus() int { return p.status }

func invalid(code, param, message string) error {
	return &problem{http.StatusBadRequest, "invalid_request_error", code, param, message}
}

// call is one request.
type call struct {
	path, id, version string
	form              *form
}

func answered(body any, err error) vendorfake.Reply {
	if err == nil {
		return replying(http.StatusOK, body)
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
	return replying(p.status, map[string]any{"error": said})
}

func replying(status int, body any) vendorfake.Reply {
	r := vendorfake.JSON(status, body)
	r.Header = map[string]string{"Request-Id": "req_fake"}
	return r
}

// authenticate refuses a request without the key.
func (s *Server) authenticate(c vendorfake.Call) (vendorfake.Reply, bool) {
	if c.Header.Get("Authorization") == "Bearer "+s.key {
		return vendorfake.Reply{}, false
	}
	return answered(nil, &problem{
		http.StatusUnauthorized, "invalid_request_error", "", "", "Invalid API Key provided: " + "sk_***",
	}), true
}

// run does what a request asks for, once for each idempotency key.
func (s *Server) run(r vendorfake.Call, do func(call) (any, error)) vendorfake.Reply {
	encoded := r.URL.RawQuery
	if r.Method == http.MethodPost {
		encoded = string(r.Body)
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
