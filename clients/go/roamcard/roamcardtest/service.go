package roamcardtest

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

// Origin is where a fake says it is, unless it listens.
const Origin = "http://roamcard.test"

// Config is how a fake is made.
type Config struct {
	// Balance is what every wallet has at first; zero means 1000.00.
	Balance roamcard.Cents
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Service is a fake of the service. It is safe for concurrent use.
type Service struct {
	// Faults hit what comes through Transport and Listen.
	Faults *Faults
	// Token is the fake's USDC.
	Token *Token

	now       func() time.Time
	origin    string
	published published
	server    *http.Server
	stopped   chan struct{}

	mu         sync.Mutex
	counter    int
	orders     []*order
	bought     map[string]*order
	paidWith   map[usedNonce]*order
	cards      map[x402.Address]*card
	challenges map[string]challenge
	sessions   map[string]session
}

// New makes a fake, which is reached by its Transport.
func New(c Config) *Service {
	s := &Service{
		Faults: new(Faults), now: c.Now, origin: Origin, bought: map[string]*order{}, paidWith: map[usedNonce]*order{},
		cards: map[x402.Address]*card{}, challenges: map[string]challenge{}, sessions: map[string]session{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.published = publishedBy(s.origin)
	s.Token = &Token{
		now: s.now, starting: int64(cmp.Or(c.Balance, 100_000)) * unitsPerCent, balances: map[x402.Address]int64{},
		used:   map[usedNonce]bool{},
		domain: x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: mustAddress(roamcard.BaseUSDC)},
	}
	return s
}

// URL is the fake's origin, for roamcard.Config.BaseURL.
func (s *Service) URL() string { return s.origin }

// PayTo is whom purchases pay.
func (s *Service) PayTo() string { return s.published.Config.Network.PayTo }

// Transport reaches the fake in this process, for roamcard.Config.HTTP.
func (s *Service) Transport() http.RoundTripper { return s.Faults.Transport(direct{s}) }

// Listen serves the fake on a free port of the loopback interface as well, for programs that are not Go, until Close.
// Call it before anything else: it is the fake's URL from then on.
func (s *Service) Listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.origin = "http://" + l.Addr().String()
	s.published = publishedBy(s.origin)
	s.mu.Unlock()
	s.server, s.stopped = &http.Server{Handler: gateway{s.Transport()}, ReadHeaderTimeout: time.Minute},
		make(chan struct{})
	go func() {
		_ = s.server.Serve(l) // it ends when it is closed
		close(s.stopped)
	}()
	return nil
}

// Close ends Listen.
func (s *Service) Close() error {
	if s.server == nil {
		return nil
	}
	err := s.server.Close()
	<-s.stopped
	return err
}

// ServeHTTP implements http.Handler, without faults.
func (s *Service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 64<<10))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	a := s.answer(req, body)
	a.header.Set("Date", s.now().UTC().Format(http.TimeFormat))
	s.mu.Unlock()
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, encode(a.body)) // whoever asked has gone
}

// call is a request as both protocols make it.
type call struct {
	// resource is the address that was called, and method the Connect procedure.
	resource, method string
	connect          bool
	header           http.Header
	// asked are the members of the body, the path and the query.
	asked map[string]any
	// id is the request's.
	id string
}

func (c call) text(name string) string {
	text, _ := c.asked[name].(string)
	return text
}

// answer is what is said, in the form of REST until it is encoded.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (s *Service) answer(req *http.Request, body []byte) answer {
	c := call{resource: s.origin + req.URL.Path, header: req.Header, asked: map[string]any{}, id: s.id("request")}
	known, inBody := s.published.find(req.Method, req.URL.Path, &c)
	for name, values := range req.URL.Query() {
		c.asked[name] = values[0]
	}
	var a answer
	switch {
	case !known:
		a = c.problem("route_not_found", "There is nothing here.")
	case len(body) > 0 && json.Unmarshal(body, &c.asked) != nil:
		a = c.problem("schema_invalid", "The body is no JSON object.")
	default:
		a = s.serve(c)
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("X-Request-Id", c.id)
	a.header.Set("Content-Type", "application/json")
	switch failed := a.status >= http.StatusBadRequest; {
	case failed && c.connect:
		a.body = connectError(a.body)
	case failed:
		a.header.Set("Content-Type", "application/problem+json")
	case inBody != "" && !c.connect:
		a.body, _ = a.body[inBody].(map[string]any)
	}
	return a
}

func (s *Service) serve(c call) answer {
	switch c.method {
	case "RuntimeService/GetHealth":
		return c.ok(map[string]any{"status": "ok"})
	case "RuntimeService/GetConfig":
		return c.ok(s.published.raw("config"))
	case "CardService/GetCardDiscovery":
		return c.ok(s.published.discovery("card"))
	case "CardService/GetTopupDiscovery":
		return c.ok(s.published.discovery("topup"))
	case "EsimService/GetEsimDiscovery":
		return c.ok(s.published.discovery("esim"))
	case "EsimService/ListEsimPlans":
		return s.listPlans(c)
	case "AuthService/CreateChallenge":
		return s.createChallenge(c)
	case "AuthService/VerifyChallenge":
		return s.verifyChallenge(c)
	case "CardService/PurchaseCard", "CardService/TopUpCard", "EsimService/PurchaseEsim", "EsimService/TopUpEsim",
		"OrderService/PayOrder":
		return s.sell(c)
	}
	return s.serveOwner(c)
}

func (c call) ok(body map[string]any) answer { return answer{status: http.StatusOK, body: body} }

// direct reaches a handler in this process.
type direct struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if req.Body == nil {
		req = req.Clone(req.Context())
		req.Body = http.NoBody
	}
	w := &written{header: http.Header{}, status: http.StatusOK}
	d.handler.ServeHTTP(w, req)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header,
		Body:   io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: req,
	}, nil
}

type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header            { return w.header }
func (w *written) WriteHeader(status int)         { w.status = status }
func (w *written) Write(part []byte) (int, error) { return w.body.Write(part) }

// gateway answers over the network as a transport does in this process.
type gateway struct{ to http.RoundTripper }

func (g gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// A client that disconnects has still sent the request.
	res, err := g.to.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	if _, err := io.Copy(w, res.Body); err != nil {
		_ = http.NewResponseController(w).Flush() // the connection ends here
		panic(http.ErrAbortHandler)
	}
}

func mustAddress(text string) x402.Address {
	a, err := x402.ParseAddress(text)
	if err != nil {
		panic(errors.Join(errors.New("roamcardtest: "+text), err))
	}
	return a
}

//go:embed published.json
var publishedJSON string

// published is what the service says of itself, as recorded from a real one.
type published struct {
	Config struct {
		Network struct{ PayTo, Asset string }
		Card    struct {
			WalletPaymentUSDCents, CardIssueFeeUSDCents, DefaultOrderUSDCents, MinOrderUSDCents, MaxOrderUSDCents,
			LoadFeeBps int64
		}
	}
	Plans    []plan
	Routes   []struct{ Route, Method, Body string }
	Problems map[string]struct {
		Status                     int
		Title, NextAction, Connect string
		Retryable, SafeToPayAgain  bool
	}
	all map[string]any
}

type plan struct {
	PlanID, Name, Type string
	CountryCodes       []string
	PriceUSDCents      int64
	// DataMB is zero for a plan without a limit.
	DataMB       int64
	ValidityDays int64
}

func publishedBy(origin string) (p published) {
	text := []byte(strings.ReplaceAll(publishedJSON, "{origin}", origin))
	if err := errors.Join(json.Unmarshal(text, &p), json.Unmarshal(text, &p.all)); err != nil {
		panic("roamcardtest: published.json: " + err.Error())
	}
	return p
}

func (p published) raw(name string) map[string]any {
	object, _ := p.all[name].(map[string]any)
	return object
}

func (p published) discovery(name string) map[string]any {
	object, _ := p.raw("discovery")[name].(map[string]any)
	return object
}

// find names the procedure of a request, and the member of its answer that is the body over REST.
func (p published) find(method, path string, c *call) (known bool, inBody string) {
	if procedure, ok := strings.CutPrefix(path, "/roamcard.v1."); ok && method == http.MethodPost {
		c.connect = true
		for _, r := range p.Routes {
			if r.Method == procedure {
				c.method = procedure
				return true, r.Body
			}
		}
		return false, ""
	}
	for _, r := range p.Routes {
		verb, pattern, _ := strings.Cut(r.Route, " ")
		if verb == method && c.fits(strings.Split(pattern, "/"), strings.Split(path, "/")) {
			c.method = r.Method
			return true, r.Body
		}
	}
	return false, ""
}

// fits matches a path, and takes what it names.
func (c *call) fits(pattern, path []string) bool {
	if len(pattern) != len(path) {
		return false
	}
	named := map[string]any{}
	for i, part := range pattern {
		if strings.HasPrefix(part, "{") {
			value, err := url.PathUnescape(path[i])
			if err != nil || value == "" {
				return false
			}
			named[strings.Trim(part, "{}")] = value
		} else if part != path[i] {
			return false
		}
	}
	for name, value := range named {
		c.asked[name] = value
	}
	return true
}
