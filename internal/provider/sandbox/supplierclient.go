package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// Supplier is the sandbox supplier as the eSIM domain sees it. It is safe for concurrent use.
type Supplier struct {
	wire            *wire.Client
	visibilityDelay time.Duration
}

var _ esim.Supplier = (*Supplier)(nil)

// DialSupplier makes a Supplier. It sends nothing yet.
func DialSupplier(cfg ClientConfig) (*Supplier, error) {
	w, err := dial(cfg, "supplier")
	if err != nil {
		return nil, fmt.Errorf("dial the sandbox supplier: %w", err)
	}
	return &Supplier{wire: w, visibilityDelay: cmp.Or(cfg.VisibilityDelay, defaultVisibilityDelay)}, nil
}

// Traits says what may be done after an unknown outcome: the server takes a reference once only.
func (s *Supplier) Traits() fulfilment.Traits {
	return fulfilment.Traits{Deduplicates: true, VisibilityDelay: s.visibilityDelay}
}

// Probe implements provider.SupplierClient.
func (s *Supplier) Probe(ctx context.Context) (string, error) {
	plans, err := s.Listings(ctx)
	return fmt.Sprintf("%d plans", len(plans)), err
}

const supplierAPI = "esim"

// Listings implements esim.Supplier.
func (s *Supplier) Listings(ctx context.Context) ([]esim.Listing, error) {
	all, err := s.plans(ctx, request{op: "plans", path: []string{"plans"}, route: "/esim/v1/plans"})
	if err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	return all, nil
}

// plans reads a list of plans.
func (s *Supplier) plans(ctx context.Context, rq request) ([]esim.Listing, error) {
	rq.method, rq.under = http.MethodGet, supplierAPI
	var got listAnswer[planAnswer]
	if err := s.call(ctx, rq, &got); err != nil {
		return nil, err
	}
	if got.Items == nil {
		return nil, wire.Unclear("the list in the answer does not match the documentation")
	}
	all := make([]esim.Listing, len(*got.Items))
	for i, item := range *got.Items {
		var err error
		if all[i], err = item.listing(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Check implements esim.Supplier.
func (s *Supplier) Check(ctx context.Context, code string) (esim.Stock, error) {
	var got stockAnswer
	err := s.call(ctx, request{
		op: "check", method: http.MethodGet, under: supplierAPI, path: []string{"plans", code},
		route: "/esim/v1/plans/{code}",
	}, &got)
	if no, ok := errors.AsType[*fulfilment.Refusal](err); ok && no.Code == esim.RefusedPlan {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", esim.ErrNoPlan)
	}
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", err)
	}
	stock, err := got.stock(code)
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", err)
	}
	return stock, nil
}

// Order implements esim.Supplier. Its answers are confidential: a profile may be ready at once.
func (s *Supplier) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	p, err := s.order(ctx, r, "", request{op: "order", path: []string{"orders"}, route: "/esim/v1/orders"})
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("order an eSIM: %w", err)
	}
	return p, nil
}

// order sends an order, for a profile that the plan is added to or for one of its own.
func (s *Supplier) order(ctx context.Context, r esim.Request, onto string, rq request) (esim.Purchase, error) {
	rq.method, rq.under, rq.confidential = http.MethodPost, supplierAPI, true
	rq.body = map[string]any{
		"reference": r.Ref.String(), "plan": r.Code, "maxCostMicros": int64(r.MaxCost), "currency": currencyUSD,
		"scenario": scenario.In(ctx), "note": r.Buyer,
	}
	var got orderAnswer
	if err := s.call(ctx, rq, &got); err != nil {
		return esim.Purchase{}, err
	}
	p, err := got.purchase(r.Ref)
	if err == nil && (p.Code != r.Code || p.Cost > r.MaxCost || p.Onto != onto) {
		err = wire.Unclear("the answer is about another order")
	}
	if err != nil {
		return esim.Purchase{}, err
	}
	return p, nil
}

// Ordered implements esim.Supplier.
func (s *Supplier) Ordered(ctx context.Context, ref fulfilment.Ref) (esim.Purchase, error) {
	return s.ordered(ctx, ref, "")
}

func (s *Supplier) ordered(ctx context.Context, ref fulfilment.Ref, onto string) (esim.Purchase, error) {
	var got listAnswer[orderAnswer]
	err := s.call(ctx, request{
		op: "ordered", method: http.MethodGet, under: supplierAPI, path: []string{"orders"}, route: "/esim/v1/orders",
		ref: uuid.UUID(ref), confidential: true,
	}, &got)
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read an order: %w", err)
	}
	p, err := only(got, func(one orderAnswer) (esim.Purchase, error) { return one.purchase(ref) }, samePurchase)
	if err == nil && p.Onto != onto {
		err = wire.Unclear("the answer is about another profile")
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("read an order: %w", err)
	}
	return p, nil
}

// call sends once, and knows the supplier's refusals.
func (s *Supplier) call(ctx context.Context, rq request, into any) error {
	return send(ctx, s.wire, rq, supplierRefusals, into)
}

// supplierRefusals are the supplier's codes of a definite refusal.
func supplierRefusals(code string) (neutral string, definite bool) {
	switch code {
	case codeOutOfStock:
		return esim.RefusedStock, true
	case codePlanGone:
		return esim.RefusedPlan, true
	case codePriceChanged:
		return esim.RefusedPrice, true
	case codeInstalled:
		return esim.RefusedInstalled, true
	case codeFinished:
		return esim.RefusedProfile, true
	case codeFloatLow:
		return fulfilment.RefusedFloat, true
	case codeInvalidRequest:
		return fulfilment.RefusedRequest, true
	case codeDeclined:
		return fulfilment.RefusedUnstated, true
	}
	return "", false
}

type planAnswer struct {
	Code      string       `json:"code"`
	Name      string       `json:"name"`
	Kind      wire.Lower   `json:"kind"`
	Countries []wire.Upper `json:"countries"`
	DataMB    wire.Int     `json:"dataMb"`
	Unlimited wire.Flag    `json:"unlimited"`
	FairUse   string       `json:"fairUse"`
	Days      wire.Int     `json:"days"`
	Cost      *wire.Int    `json:"costMicros"`
	Currency  wire.Upper   `json:"currency"`
	InStock   *wire.Flag   `json:"inStock"`
}

func (a planAnswer) listing() (esim.Listing, error) {
	if !isID(a.Code) || a.Cost == nil || *a.Cost <= 0 || a.Currency != currencyUSD || a.InStock == nil {
		return esim.Listing{}, wire.Unclear("a plan in the answer does not match the documentation")
	}
	l := esim.Listing{
		Code: a.Code, Name: a.Name, Type: esim.Country, DataMB: int(a.DataMB), Unlimited: bool(a.Unlimited),
		FairUse: a.FairUse, ValidityDays: int(a.Days), Cost: money.USDC(*a.Cost), InStock: bool(*a.InStock),
	}
	for _, country := range a.Countries {
		l.Countries = append(l.Countries, string(country))
	}
	if string(a.Kind) == string(esim.Region) {
		l.Type = esim.Region
	}
	return l, nil
}

type stockAnswer struct {
	Code     string     `json:"code"`
	Cost     *wire.Int  `json:"costMicros"`
	Currency wire.Upper `json:"currency"`
	Units    *wire.Int  `json:"units"`
	Float    *wire.Int  `json:"balanceMicros"`
}

func (a stockAnswer) stock(code string) (esim.Stock, error) {
	if a.Code != code || a.Cost == nil || *a.Cost <= 0 || a.Currency != currencyUSD || a.Float == nil || *a.Float < 0 ||
		(a.Units != nil && *a.Units < 0) {
		return esim.Stock{}, wire.Unclear("the plan in the answer does not match the documentation")
	}
	s := esim.Stock{Cost: money.USDC(*a.Cost), Units: esim.Plenty, Float: money.USDC(*a.Float)}
	if a.Units != nil {
		s.Units = int64(*a.Units)
	}
	return s, nil
}

type orderAnswer struct {
	ID         string     `json:"id"`
	Reference  string     `json:"reference"`
	Plan       string     `json:"plan"`
	Status     wire.Lower `json:"status"`
	Reason     string     `json:"reason"`
	Cost       *wire.Int  `json:"costMicros"`
	Currency   wire.Upper `json:"currency"`
	Note       string     `json:"note"`
	Profile    string     `json:"profile"`
	ICCID      wire.Text  `json:"iccid"`
	SMDP       string     `json:"smdpAddress"`
	MatchingID string     `json:"matchingId"`
}

func (a orderAnswer) purchase(ref fulfilment.Ref) (esim.Purchase, error) {
	if !isID(a.ID) || !isID(a.Plan) || a.Status == "" || a.Cost == nil || *a.Cost < 0 || a.Currency != currencyUSD {
		return esim.Purchase{}, wire.Unclear("the order in the answer does not match the documentation")
	}
	if a.Reference != ref.String() {
		return esim.Purchase{}, wire.Unclear("the answer is about another reference")
	}
	p := esim.Purchase{
		ID: a.ID, Ref: ref, Code: a.Plan, State: esim.PurchasePending, Cost: money.USDC(*a.Cost), Buyer: a.Note,
		Onto: a.Profile,
	}
	switch allocation(a.Status) {
	case released:
		if p.State = esim.PurchaseReady; p.Onto != "" {
			return p, nil
		}
		m, err := esim.Activation(string(a.ICCID), a.SMDP, a.MatchingID)
		if err != nil || luhnSum(m.ICCID.Reveal())%10 != 0 {
			return esim.Purchase{}, wire.Unclear("the profile in the answer does not match the documentation")
		}
		p.ActivationData = &m
	case cancelled:
		code, known := supplierRefusals(a.Reason)
		if !known {
			code = fulfilment.RefusedUnstated
		}
		p.State, p.Refusal = esim.PurchaseRejected, &fulfilment.Refusal{Code: code, Message: quote(a.Reason)}
	case allocating:
	}
	return p, nil
}

func samePurchase(a, b esim.Purchase) bool {
	same := a.ID == b.ID && a.State == b.State && a.Cost == b.Cost &&
		(a.ActivationData == nil) == (b.ActivationData == nil)
	return same && (a.ActivationData == nil || a.ActivationData.Equal(*b.ActivationData))
}
