package esimgo

import (
	"context"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// wanted is one bundle: for a new eSIM, or for the one with a number.
type wanted struct{ code, iccid string }

// orderBody is an order of one bundle.
type orderBody struct {
	Type   string     `json:"type"`
	Assign bool       `json:"assign"`
	Order  []lineBody `json:"order"`
}

type lineBody struct {
	Type     string `json:"type"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	// ICCIDs is the eSIM that the bundle is added to. Without AllowReassign the vendor makes no other one in its place.
	ICCIDs        []string `json:"iccids,omitempty"`
	AllowReassign *bool    `json:"allowReassign,omitempty"`
}

func orderOf(kind string, w wanted) orderBody {
	line := lineBody{Type: "bundle", Item: w.code, Quantity: 1}
	if w.iccid != "" {
		line.ICCIDs, line.AllowReassign = []string{w.iccid}, new(bool)
	}
	return orderBody{Type: kind, Assign: true, Order: []lineBody{line}}
}

// Check implements esim.Supplier: validate runs all checks of an order and charges nothing.
func (s *Supplier) Check(ctx context.Context, code string) (esim.Stock, error) {
	return s.check(ctx, wanted{code: code})
}

func (s *Supplier) check(ctx context.Context, w wanted) (esim.Stock, error) {
	code := w.code
	if !isBundle(code) {
		return esim.Stock{}, fmt.Errorf("check a plan: %w", esim.ErrNoPlan)
	}
	cost, valid, err := s.validate(ctx, w)
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
func (s *Supplier) validate(ctx context.Context, w wanted) (cost money.USDC, valid bool, err error) {
	var got orderAnswer
	err = s.call(ctx, request{
		op: "check", method: http.MethodPost, path: []string{"orders"}, route: "/orders", body: orderOf("validate", w),
	}, &got)
	switch {
	case declined(err):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("validate an order: %w", err)
	case got.Valid != nil && !bool(*got.Valid):
		return 0, false, nil
	}
	cost, err = got.cost(w.code)
	if err != nil {
		return 0, false, fmt.Errorf("validate an order: %w", err)
	}
	return cost, true, nil
}

// price is what the catalogue says of one bundle; listed is false when it is not sold.
func (s *Supplier) price(ctx context.Context, code string) (price money.USDC, listed bool, err error) {
	got, listed, err := s.bundle(ctx, code)
	if err != nil || !listed {
		return 0, false, err
	}
	price, ok := parseUSD(got.Price)
	if !ok || price <= 0 {
		return 0, false, wire.Unclear("the bundle in the answer does not match the documentation")
	}
	return price, true, nil
}

// bundle reads one bundle of the catalogue; listed is false when it is not sold.
func (s *Supplier) bundle(ctx context.Context, code string) (got bundleAnswer, listed bool, err error) {
	err = s.call(ctx, request{
		op: "plan", method: http.MethodGet, path: []string{"catalogue", code}, route: "/catalogue/{bundleName}",
	}, &got)
	if declined(err) {
		return bundleAnswer{}, false, nil
	}
	if err == nil && got.Name != code {
		err = wire.Unclear("the bundle in the answer does not match the documentation")
	}
	if err != nil {
		return bundleAnswer{}, false, fmt.Errorf("read a bundle: %w", err)
	}
	return got, true, nil
}

// refusal is why the vendor would not take an order. It says so in prose only, so its own figures are read instead.
func (s *Supplier) refusal(ctx context.Context, w wanted) (*fulfilment.Refusal, error) {
	price, listed, err := s.price(ctx, w.code)
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
	if w.iccid != "" {
		return &fulfilment.Refusal{Code: esim.RefusedProfile, Message: "validate does not take the bundle for the eSIM"}, nil
	}
	return &fulfilment.Refusal{Code: esim.RefusedStock, Message: "validate does not take the order"}, nil
}

// orderAnswer is an order in every form in which the vendor shows one.
type orderAnswer struct {
	Reference string       `json:"orderReference"`
	Status    wire.Lower   `json:"status"`
	Valid     *wire.Flag   `json:"valid"`
	Total     wire.Text    `json:"total"`
	Currency  wire.Upper   `json:"currency"`
	Created   wire.Time    `json:"createdDate"`
	Order     []lineAnswer `json:"order"`
}

type lineAnswer struct {
	Item     string          `json:"item"`
	Quantity wire.Int        `json:"quantity"`
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
