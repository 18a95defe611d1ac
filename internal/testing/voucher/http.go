package voucher

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/x402"
)

// shop is the route that sells vouchers. A product of the contract has a method in a proto file instead.
type shop struct {
	selling app.Selling
	press   *Press
}

// receipt is the answer of a purchase.
type receipt struct {
	OrderID  string `json:"orderId"`
	Status   string `json:"status"`
	Replayed bool   `json:"replayed,omitempty"`
	// Code is there once the voucher is printed, for a buyer that repeats the purchase.
	Code string `json:"code,omitempty"`
}

// maxBody is larger than any request.
const maxBody = 4 << 10

// ServeHTTP implements http.Handler: a 402 with the terms until the voucher is paid, and then the order.
func (s shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	paid, err := s.buy(w, r)
	if err != nil {
		rest.Refuse(w, r, err)
		return
	}
	answer, err := s.receipt(paid)
	if err != nil {
		rest.Refuse(w, r, err)
		return
	}
	header, err := x402.EncodeSettlement(checkout.Receipt(paid.Payment))
	if err != nil {
		rest.Refuse(w, r, fmt.Errorf("encode the receipt: %w", err))
		return
	}
	w.Header().Set(x402.HeaderResponse, header)
	w.Header().Set("Content-Type", "application/json")
	// A failed write means that the caller has disconnected.
	_ = json.NewEncoder(w).Encode(answer)
}

func (s shop) buy(w http.ResponseWriter, r *http.Request) (checkout.PaidOrder, error) {
	var asked struct {
		Key string `json:"idempotencyKey"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&asked); err != nil || asked.Key == "" {
		return checkout.PaidOrder{}, fault.New(fault.SchemaInvalid, "Send an idempotencyKey.")
	}
	return s.selling.Checkout.Buy(r.Context(), checkout.Purchase{
		Kind: Kind, Key: asked.Key, Request: item, Payment: x402.PaymentIn(r.Header),
		Resource: x402.Resource{
			URL: s.selling.BaseURL + Path, MimeType: "application/json", ServiceName: "roamcard",
		},
	})
}

// receipt shows an order, with its code to a caller who has proven to be the buyer.
func (s shop) receipt(paid checkout.PaidOrder) (receipt, error) {
	o := paid.Order
	shown := receipt{OrderID: string(o.ID), Status: string(o.Status), Replayed: paid.Replayed}
	if o.Status != order.Fulfilled || !paid.ProvenCaller {
		return shown, nil
	}
	code, err := s.press.Printed(Ref(o.Name(), o.Delivery))
	if err != nil {
		return receipt{}, fmt.Errorf("read the voucher: %w", err)
	}
	shown.Code = code.Text.Reveal()
	return shown, nil
}
