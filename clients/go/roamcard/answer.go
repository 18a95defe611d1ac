package roamcard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// soldOrder is what is read of the order in the answer to a paid request.
type soldOrder struct {
	OrderID        string `json:"orderId"`
	Kind           string `json:"kind"`
	AmountUSDCents int64  `json:"amountUsdCents"`
	Replayed       bool   `json:"replayed"`
	Payment        *struct {
		Payer string `json:"payer"`
	} `json:"payment"`
}

// errAnotherOrder says that a purchase with an order was answered with another one: to repeat it would not help.
var errAnotherOrder = errors.New("the service answered with another order")

// kinds are the orders that the operations buy; an order that is paid by its id may be of any.
var kinds = map[string]string{OpCard: "card_issue", OpTopup: "card_topup", OpESIM: "esim"}

// orderIn reads the order that a payment bought. An answer without it says nothing of the payment, whatever its
// status: a proxy's page and a redirect are answers, too.
func orderIn(res *http.Response, c call, e Entry) (soldOrder, error) {
	if res.StatusCode != http.StatusOK {
		return soldOrder{}, fmt.Errorf("the service answered %d, which is no order", res.StatusCode)
	}
	var told struct {
		soldOrder
		// Order is where the Connect protocol has it.
		Order *soldOrder `json:"order"`
	}
	if err := json.Unmarshal(bodyOf(res), &told); err != nil {
		return soldOrder{}, errors.New("the service answered 200 with something else than an order")
	}
	o := told.soldOrder
	if told.Order != nil {
		o = *told.Order
	}
	return o, o.check(c, e)
}

func (o soldOrder) check(c call, e Entry) error {
	kind := kinds[c.operation()]
	switch {
	case o.OrderID == "":
		return errors.New("the service answered 200 without an order")
	case kind != "" && o.Kind != kind:
		return fmt.Errorf("the service answered with an order of kind %q, which is not %q", o.Kind, kind)
	case c.operation() == OpOrder && o.OrderID != c.idempotencyKey:
		return fmt.Errorf("the service answered with order %q", o.OrderID)
	case o.AmountUSDCents*unitsPerCent != e.Amount:
		return fmt.Errorf("the service answered with an order of %s USD, and %s were signed for", Cents(o.AmountUSDCents), inDollars(e.Amount))
	case o.Payment != nil && !strings.EqualFold(o.Payment.Payer, e.Payer):
		return fmt.Errorf("the service answered with an order that %s has paid", o.Payment.Payer)
	case e.OrderID != "" && o.OrderID != e.OrderID:
		return fmt.Errorf("%w: %q, and before %q", errAnotherOrder, o.OrderID, e.OrderID)
	case e.State == Settled && !o.Replayed:
		return fmt.Errorf("%w: the answer to a repeat does not say that it is one", errAnotherOrder)
	}
	return nil
}
