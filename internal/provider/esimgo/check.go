package esimgo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// orderBody is an order of one bundle for a new eSIM.
type orderBody struct {
	Type   string     `json:"type"`
	Assign bool       `json:"assign"`
	Order  []lineBody `json:"order"`
}

type lineBody struct {
	Type     string `json:"type"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
}

func orderOf(kind, code string) orderBody {
	return orderBody{Type: kind, Assign: true, Order: []lineBody{{Type: "bundle", Item: code, Quantity: 1}}}
}

// Check implements esim.Supplier: validate runs all checks of an order and charges nothing.
func (s *Supplier) Check(ctx context.Context, code string) (esim.Stock, error) {
	if !isBundle(code) {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", esim.ErrNoPlan)
	}
	cost, valid, err := s.validate(ctx, code)
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", err)
	}
	balance, err := s.balance(ctx)
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", err)
	}
	stock := esim.Stock{Cost: cost, Units: esim.Plenty, Float: balance}
	if valid {
		return stock, nil
	}
	price, listed, err := s.price(ctx, code)
	if err == nil && !listed {
		err = esim.ErrNoPlan
	}
	if err != nil {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", err)
	}
	if stock.Cost = price; balance >= price {
		// Listed and affordable, and not to be had.
		stock.Units = 0
	}
	return stock, nil
}

// validate asks what an order would cost; valid is false when the vendor would not take it.
func (s *Supplier) validate(ctx context.Context, code string) (cost money.USDC, valid bool, err error) {
	var got orderAnswer
	err = s.call(ctx, request{
		op: "check", method: http.MethodPost, path: []string{"orders"}, route: "/orders", body: orderOf("validate", code),
	}, &got)
	switch {
	case declined(err):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("validate an order: %w", err)
	case got.Valid != nil && !*got.Valid:
		return 0, false, nil
	}
	cost, err = got.cost(code)
	if err != nil {
		return 0, false, fmt.Errorf("validate an order: %w", err)
	}
	return cost, true, nil
}

// price is what the catalogue says of one bundle; listed is false when it is not sold.
func (s *Supplier) price(ctx context.Context, code string) (price money.USDC, listed bool, err error) {
	var got bundleAnswer
	err = s.call(ctx, request{
		op: "plan", method: http.MethodGet, path: []string{"catalogue", code}, route: "/catalogue/{bundleName}",
	}, &got)
	if declined(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read a bundle: %w", err)
	}
	price, ok := parseUSD(got.Price)
	if got.Name != code || !ok || price <= 0 {
		return 0, false, wire.Unclear("the bundle in the answer does not match the documentation")
	}
	return price, true, nil
}

// refusal is why the vendor would not take an order. It says so in prose only, so its own figures are read instead.
func (s *Supplier) refusal(ctx context.Context, code string) (*fulfilment.Refusal, error) {
	price, listed, err := s.price(ctx, code)
	if err != nil {
		return nil, err
	}
	if !listed {
		return &fulfilment.Refusal{Code: esim.RefusedPlan, Message: "the bundle is not in the catalogue"}, nil
	}
	balance, err := s.balance(ctx)
	if err != nil {
		return nil, err
	}
	if balance < price {
		return &fulfilment.Refusal{
			Code: fulfilment.RefusedFloat, Message: "the balance does not cover the bundle",
		}, nil
	}
	return &fulfilment.Refusal{Code: esim.RefusedStock, Message: "validate does not take the order"}, nil
}

// orderAnswer is an order in every form in which the vendor shows one.
type orderAnswer struct {
	Reference string       `json:"orderReference"`
	Status    string       `json:"status"`
	Valid     *bool        `json:"valid"`
	Total     json.Number  `json:"total"`
	Currency  string       `json:"currency"`
	Created   string       `json:"createdDate"`
	Order     []lineAnswer `json:"order"`
}

type lineAnswer struct {
	Item     string          `json:"item"`
	Quantity int             `json:"quantity"`
	ESIMs    []installAnswer `json:"esims"`
}

// isOf says whether an order is of the kind that we send: one bundle, once.
func (a orderAnswer) isOf(code string) bool {
	return len(a.Order) == 1 && a.Order[0].Item == code && a.Order[0].Quantity == 1
}

// cost is the total of an order for one bundle.
func (a orderAnswer) cost(code string) (money.USDC, error) {
	cost, ok := parseUSD(a.Total)
	switch {
	case !a.isOf(code):
		return 0, wire.Unclear("the answer is about another order")
	case !ok || cost <= 0 || a.Currency != currencyUSD:
		return 0, wire.Unclear("the total in the answer is no exact amount of US dollars")
	}
	return cost, nil
}
