// Package esimaccessfake plays eSIM Access: an http.Handler that speaks the vendor's API, authenticates as it does,
// keeps books of packages, orders, profiles and a balance, and fails on demand. It knows nothing of the adapter. Its
// control API needs no key: it is for this machine.
package esimaccessfake

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// Config is what a server needs. Zero values mean what the comments say.
type Config struct {
	// AccessCode and Secret are what clients present and sign with; DevAccessCode and DevSecret if empty.
	AccessCode, Secret string
	// Now is time.Now if nil.
	Now func() time.Time
	// Balance is the account's in ten thousandths of a dollar; 100,000 dollars if zero.
	Balance int64
	// AllocateAfter is how long profiles are allocated; 300 ms if zero.
	AllocateAfter time.Duration
	// HideAllocating leaves what is being allocated out of lists by time. Lists by order number never have it.
	HideAllocating bool
	// Packages replace the catalogue, see Catalogue.
	Packages []Package
}

// The credentials of a server that is configured with none.
const (
	DevAccessCode = "esimaccess-sandbox"
	DevSecret     = "esimaccess-sandbox-secret"
)

const defaultBalance = 1_000_000_000

// Server is the vendor. It is safe for concurrent use.
type Server struct {
	accessCode, secret string
	now                func() time.Time
	allocate           time.Duration
	hide               bool
	mux                *http.ServeMux
	// Front counts what arrives: plans, check, balance, order, ordered, profile, usage, cancel, topups, topup. Faults
	// name these, too.
	*vendorfake.Front

	mu       sync.Mutex
	packages []Package
	balance  int64
	orders   []*Order // the oldest first
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{
		accessCode: cmp.Or(cfg.AccessCode, DevAccessCode), secret: cmp.Or(cfg.Secret, DevSecret), now: cfg.Now,
		allocate: cmp.Or(cfg.AllocateAfter, 300*time.Millisecond), hide: cfg.HideAllocating, mux: http.NewServeMux(),
		packages: cfg.Packages, balance: cmp.Or(cfg.Balance, defaultBalance),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.packages == nil {
		s.packages = Catalogue()
	}
	s.Front = vendorfake.New(s.vendor())
	for path, route := range map[string]struct {
		op func(vendorfake.Call) string
		do func(body []byte) (any, error)
	}{
		"package/list":     {listing, s.list},
		"balance/query":    {vendorfake.Always("balance"), s.showBalance},
		"esim/order":       {vendorfake.Always("order"), s.order},
		"esim/query":       {looking, s.query},
		"esim/usage/query": {vendorfake.Always("usage"), s.usage},
		"esim/cancel":      {vendorfake.Always("cancel"), s.cancel},
		"esim/topup":       {vendorfake.Always("topup"), s.topup},
	} {
		s.mux.HandleFunc("/api/v1/open/"+path, s.Serve(route.op, func(c vendorfake.Call) vendorfake.Reply {
			return answered(route.do(c.Body))
		}))
	}
	s.Control(s.mux, "/control/", s.books)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// The codes of the vendor's documentation that this server answers with.
const (
	codeServer     = "000001"
	codeHeader     = "000101"
	codeHeaderForm = "000102"
	codeMethod     = "000103"
	codeJSON       = "000104"
	codeMissing    = "000105"
	codeLength     = "000107"
	codeExpired    = "101001"
	codeSignature  = "101003"
	codeStatus     = "200002"
	codePrice      = "200005"
	codeAmount     = "200006"
	codeBalance    = "200007"
	codeAllocating = "200010"
	codeStock      = "200011"
	codeNoPackage  = "310241"
	codeNoOrder    = "310272"
)

// problem is an answer that something is not possible.
type problem struct{ code, message string }

func (p *problem) Error() string { return p.code + ": " + p.message }

// envelope is the form of every answer.
type envelope struct {
	Success   bool    `json:"success"`
	ErrorCode string  `json:"errorCode"`
	ErrorMsg  *string `json:"errorMsg"`
	Obj       any     `json:"obj"`
}

func answered(obj any, err error) vendorfake.Reply {
	if err == nil {
		return vendorfake.JSON(http.StatusOK, envelope{Success: true, ErrorCode: "0", Obj: obj})
	}
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p = &problem{codeServer, "server error"}
	}
	return vendorfake.JSON(http.StatusOK, envelope{ErrorCode: p.code, ErrorMsg: &p.message})
}

// listing is topups for a request about a profile, check for one that names a package, and plans for any other.
func listing(c vendorfake.Call) string {
	var asked struct {
		PackageCode string `json:"packageCode"`
		Type        string `json:"type"`
	}
	switch err := json.Unmarshal(c.Body, &asked); {
	case err == nil && asked.Type == "TOPUP":
		return "topups"
	case err == nil && asked.PackageCode != "":
		return "check"
	}
	return "plans"
}

// looking is profile for a request that names a profile, and ordered for any other.
func looking(c vendorfake.Call) string {
	var asked struct {
		ProfileNo string `json:"esimTranNo"`
	}
	if json.Unmarshal(c.Body, &asked) == nil && asked.ProfileNo != "" {
		return "profile"
	}
	return "ordered"
}

// maxAge is how far a request's timestamp may be from the clock.
const maxAge = 5 * time.Minute

// authenticate refuses a request that is not signed.
func (s *Server) authenticate(c vendorfake.Call) (vendorfake.Reply, bool) {
	if err := s.signed(c.Request, c.Body); err != nil {
		return answered(nil, err), true
	}
	return vendorfake.Reply{}, false
}

func (s *Server) signed(r *http.Request, body []byte) error {
	if r.Method != http.MethodPost {
		return &problem{codeMethod, "the method is not supported"}
	}
	code, stamp, id := r.Header.Get("RT-AccessCode"), r.Header.Get("RT-Timestamp"), r.Header.Get("RT-RequestID")
	if code == "" || stamp == "" || id == "" || r.Header.Get("RT-Signature") == "" {
		return &problem{codeHeader, "a mandatory header is missing"}
	}
	millis, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || len(id) < 32 || code != s.accessCode {
		return &problem{codeHeaderForm, "a header has the wrong format"}
	}
	if age := s.now().Sub(time.UnixMilli(millis)); age > maxAge || age < -maxAge {
		return &problem{codeExpired, "the timestamp of the request has expired"}
	}
	mac := hmac.New(sha256.New, []byte(s.secret))
	_, _ = mac.Write([]byte(stamp + id + code + string(body)))
	signed, err := hex.DecodeString(r.Header.Get("RT-Signature"))
	if err != nil || !hmac.Equal(signed, mac.Sum(nil)) {
		return &problem{codeSignature, "request signature mismatch"}
	}
	return nil
}

// read decodes a whole body and nothing but the documented members.
func read(body []byte, into any) error {
	if vendorfake.Read(body, into) != nil {
		return &problem{codeJSON, "the request is not the documented JSON"}
	}
	return nil
}
