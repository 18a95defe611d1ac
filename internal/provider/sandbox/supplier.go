package sandbox

import (
	"cmp"
	"maps"
	"net/http"
	"path/filepath"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// The codes of a refused or cancelled order, in addition to those of every vendor.
const (
	codePlanGone     = "plan_gone"
	codeOutOfStock   = "out_of_stock"
	codePriceChanged = "price_changed"
	codeFloatLow     = "float_low"
	codeInstalled    = "profile_installed"
	codeFinished     = "profile_finished"
)

// supplierOps are the calls of the supplier's API, as faults name them.
var supplierOps = []string{"plans", "check", "order", "ordered", "profile", "cancel", "topups", "topup",
	"statement", "history"}

// defaultSupplierFloat is 100,000 dollars.
const defaultSupplierFloat money.USDC = 100_000_000_000

// supplier is the eSIM supplier of the server: an API, books and faults of its own.
type supplier struct {
	front
	books *supplierBooks
}

func newSupplier(cfg Config, f front, now func() time.Time) (*supplier, error) {
	path := ""
	if cfg.Dir != "" {
		path = filepath.Join(cfg.Dir, "esims.jsonl")
	}
	b, err := openSupplierBooks(path, now, cmp.Or(cfg.AllocateAfter, 300*time.Millisecond), cmp.Or(cfg.SlowAfter,
		30*time.Second),
		cmp.Or(cfg.SupplierFloat, defaultSupplierFloat))
	if err != nil {
		return nil, err
	}
	return &supplier{front: f, books: b}, nil
}

func (s *supplier) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /esim/v1/plans", s.vendor("plans", s.getPlans))
	mux.HandleFunc("GET /esim/v1/plans/{code}", s.vendor("check", s.getPlan))
	mux.HandleFunc("POST /esim/v1/orders", s.vendor("order", s.postOrder))
	mux.HandleFunc("GET /esim/v1/orders", s.vendor("ordered", s.getOrders))
	mux.HandleFunc("GET /esim/v1/profiles/{id}", s.vendor("profile", s.getProfile))
	mux.HandleFunc("POST /esim/v1/profiles/{id}/cancel", s.vendor("cancel", s.postCancel))
	mux.HandleFunc("GET /esim/v1/profiles/{id}/plans", s.vendor("topups", s.getTopups))
	mux.HandleFunc("POST /esim/v1/profiles/{id}/orders", s.vendor("topup", s.postOrder))
	mux.HandleFunc("GET /esim/v1/statement", s.vendor("statement", s.getStatement))

	s.Control(mux, "/control/esim/", s.showBooks)
	mux.HandleFunc("POST /control/esim/float", vendorfake.Local(s.setFloat))
	mux.HandleFunc("POST /control/esim/pace", vendorfake.Local(s.setPace))
	mux.HandleFunc("POST /control/esim/settle", vendorfake.Local(s.settle))
	mux.HandleFunc("POST /control/esim/profiles/{id}", vendorfake.Local(s.setProfile))
	mux.HandleFunc("POST /control/esim/plans/{code}", vendorfake.Local(s.setPlan))
}

// planBody is a plan on the wire.
type planBody struct {
	Code      string   `json:"code"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Countries []string `json:"countries"`
	// DataMB is 0 for a plan without a limit; FairUse says what slows that down.
	DataMB    int    `json:"dataMb"`
	Unlimited bool   `json:"unlimited,omitempty"`
	FairUse   string `json:"fairUse,omitempty"`
	Days      int    `json:"days"`
	Cost      int64  `json:"costMicros"`
	Currency  string `json:"currency"`
	InStock   bool   `json:"inStock"`
}

// stockBody is what can be had of a plan now.
type stockBody struct {
	Code     string `json:"code"`
	Cost     int64  `json:"costMicros"`
	Currency string `json:"currency"`
	// Units is absent when they are not counted.
	Units *int64 `json:"units,omitempty"`
	Float int64  `json:"balanceMicros"`
}

// orderBody is an order on the wire, with the profile once it is released.
type orderBody struct {
	ID         string     `json:"id"`
	Reference  string     `json:"reference"`
	Plan       string     `json:"plan"`
	Status     allocation `json:"status"`
	Reason     string     `json:"reason,omitempty"`
	Cost       int64      `json:"costMicros"`
	Currency   string     `json:"currency"`
	Note       string     `json:"note,omitempty"`
	Profile    string     `json:"profile,omitempty"`
	ICCID      string     `json:"iccid,omitempty"`
	SMDP       string     `json:"smdpAddress,omitempty"`
	MatchingID string     `json:"matchingId,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
}

func (s *supplier) orderBody(row esimRow) orderBody {
	b := orderBody{
		ID: row.ID, Reference: row.Reference, Plan: row.Plan, Status: row.Status, Reason: row.Reason, Cost: row.Cost,
		Currency: currencyUSD, Note: row.Note, Profile: row.Onto, CreatedAt: row.CreatedAt,
	}
	if row.Status == released && row.Onto == "" {
		b.ICCID, b.SMDP, b.MatchingID = s.books.iccid(row), smdpHost, s.books.matchingID(row)
	}
	return b
}

func (s *supplier) getPlans(call) (any, error) {
	list := listBody[planBody]{Items: []planBody{}}
	for _, p := range s.books.listed() {
		list.Items = append(list.Items, p.body())
	}
	return list, nil
}

func (p planRow) body() planBody {
	return planBody{
		p.Code, p.Name, p.Kind, p.Countries, p.DataMB, p.Unlimited, p.FairUse, p.Days, p.Cost, currencyUSD, p.Units != 0,
	}
}

func (s *supplier) getPlan(c call) (any, error) {
	p, float, err := s.books.stock(c.PathValue("code"))
	if err != nil {
		return nil, err
	}
	body := stockBody{Code: p.Code, Cost: p.Cost, Currency: currencyUSD, Float: float}
	if p.Units != uncounted {
		body.Units = &p.Units
	}
	return body, nil
}

func (s *supplier) postOrder(c call) (any, error) {
	var asked struct {
		Reference string `json:"reference"`
		Plan      string `json:"plan"`
		MaxCost   int64  `json:"maxCostMicros"`
		Currency  string `json:"currency"`
		Scenario  string `json:"scenario"`
		Note      string `json:"note"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if err := validate(asked.Reference, maxAmount, asked.Currency, asked.Scenario); err != nil {
		return nil, err
	}
	row, err := s.books.order(wanted{
		asked.Reference, asked.Plan, asked.MaxCost, asked.Scenario, asked.Note, c.PathValue("id"),
	}, c.Hide)
	if err != nil {
		return nil, err
	}
	if row.AtOnce {
		return nil, &problem{http.StatusUnprocessableEntity, row.Reason, "the order is declined"}
	}
	return s.orderBody(row), nil
}

func (s *supplier) getOrders(c call) (any, error) {
	reference, err := reference(c.Request)
	if err != nil {
		return nil, err
	}
	rows, err := s.books.find(reference)
	if err != nil {
		return nil, err
	}
	list := listBody[orderBody]{Items: []orderBody{}}
	for _, row := range rows {
		list.Items = append(list.Items, s.orderBody(row))
	}
	return list, nil
}

// supplierShown is all the supplier knows, without the activation data of profiles.
type supplierShown struct {
	Float int64     `json:"floatMicros"`
	Esims []esimRow `json:"esims"`
	// Executed counts, by reference, the orders that were really executed.
	Executed map[string]int `json:"executed"`
	// Requests counts what arrived since the start, by operation; Sent the orders among it, by reference.
	Requests map[string]int `json:"requests"`
	Sent     map[string]int `json:"sent"`
}

func (s *supplier) showBooks() (any, error) {
	b := s.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.advance(b.clock()); err != nil {
		return nil, err
	}
	shown := supplierShown{Float: b.float, Esims: append([]esimRow{}, b.rows()...), Executed: maps.Clone(b.executed)}
	shown.Requests, shown.Sent = s.Requests(), s.Sent()
	return shown, nil
}

func (s *supplier) setFloat(c call) (any, error) {
	var asked struct {
		Micros *int64 `json:"micros"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if asked.Micros == nil || *asked.Micros < 0 {
		return nil, invalid("micros is an amount")
	}
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	return struct{}{}, s.books.write(supplierEntry{At: s.books.clock(), Float: *asked.Micros})
}

// setPace says how long new orders take, until a restart.
func (s *supplier) setPace(c call) (any, error) {
	var asked struct {
		AllocateMS int64 `json:"allocateMs"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if asked.AllocateMS <= 0 {
		return nil, invalid("allocateMs is a time")
	}
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	s.books.allocate = time.Duration(asked.AllocateMS) * time.Millisecond
	return struct{}{}, nil
}

// settle decides every order that has its end due, without waiting for the clock.
func (s *supplier) settle(call) (any, error) {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	return struct{}{}, s.books.decide(func(esimRow) bool { return true })
}

// setPlan changes a plan's cost, the units left of it, or whether it is sold at all.
func (s *supplier) setPlan(c call) (any, error) {
	var asked struct {
		Cost  *int64 `json:"costMicros"`
		Units *int64 `json:"units"`
		Gone  *bool  `json:"gone"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if (asked.Cost != nil && *asked.Cost <= 0) || (asked.Units != nil && *asked.Units < uncounted) {
		return nil, invalid("costMicros is an amount, units a count, or -1 when they are not counted")
	}
	b := s.books
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.plans[c.PathValue("code")]
	if !ok {
		return nil, &problem{http.StatusNotFound, codeNotFound, "there is no such plan"}
	}
	if asked.Cost != nil {
		p.Cost = *asked.Cost
	}
	if asked.Units != nil {
		p.Units = *asked.Units
	}
	if asked.Gone != nil {
		p.Gone = *asked.Gone
	}
	return p, b.write(supplierEntry{At: b.clock(), Float: b.float, Plans: []planRow{p}})
}
