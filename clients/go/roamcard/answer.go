package roamcard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// errAnotherOrder says that a purchase with an order was answered with another one: to repeat it would not help.
var errAnotherOrder = errors.New("the service answered with another order")

// kinds are the orders that the operations buy; an order that is paid by its id may be of any.
var kinds = map[string]string{OpCard: "card_issue", OpTopup: "card_topup", OpESIM: "esim", OpESIMTopup: "esim_topup"}

// withOrder is a message of the Connect protocol that has an order.
type withOrder interface {
	proto.Message
	GetOrder() *roamcardv1.Order
}

// answers are those messages by procedure. Everything else answers with the order itself.
var answers = map[string]func() withOrder{
	roamcardv1connect.CardServicePurchaseCardProcedure: func() withOrder { return &roamcardv1.PurchaseCardResponse{} },
	roamcardv1connect.CardServiceTopUpCardProcedure:    func() withOrder { return &roamcardv1.TopUpCardResponse{} },
	roamcardv1connect.EsimServicePurchaseEsimProcedure: func() withOrder { return &roamcardv1.PurchaseEsimResponse{} },
	roamcardv1connect.EsimServiceTopUpEsimProcedure:    func() withOrder { return &roamcardv1.TopUpEsimResponse{} },
}

// decodeOrder reads the order in the answer of a paid route. It is the very decoder that reads the order for the
// caller, so that what passes here for success cannot fail there.
func decodeOrder(path string, body []byte) (*roamcardv1.Order, error) {
	from := protojson.UnmarshalOptions{DiscardUnknown: true} // as the Connect client does
	if empty, ok := answers[path]; ok {
		message := empty()
		err := from.Unmarshal(body, message)
		return message.GetOrder(), err
	}
	order := &roamcardv1.Order{}
	return order, from.Unmarshal(body, order)
}

// orderIn reads the order that a payment bought, and leaves an answer that the caller reads alike. An answer without
// it says nothing of the payment, whatever its status: a proxy's page and a redirect are answers, too.
func orderIn(res *http.Response, c call, e Entry) (*roamcardv1.Order, error) {
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the service answered %d, which is no order", res.StatusCode)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	order, err := decodeOrder(c.req.URL.Path, body)
	if err != nil {
		return nil, errors.New("the service answered 200 with something else than an order") // it may hold secrets
	}
	if err := checkOrder(order, c, e); err != nil {
		return nil, err
	}
	// The Connect client reads no body that claims to be something else than the JSON that it is.
	res.Header.Set("Content-Type", "application/json")
	res.Header.Del("Content-Encoding")
	return order, nil
}

func checkOrder(o *roamcardv1.Order, c call, e Entry) error {
	kind, cents := kinds[c.operation()], Cents(o.GetAmountUsdCents())
	switch {
	case o.GetOrderId() == "":
		return errors.New("the service answered 200 without an order")
	case kind != "" && o.GetKind() != kind:
		return fmt.Errorf("the service answered with an order of kind %q, which is not %q", o.GetKind(), kind)
	case c.operation() == OpOrder && o.GetOrderId() != c.idempotencyKey:
		return fmt.Errorf("the service answered with order %q", o.GetOrderId())
	case units(cents) != e.Amount:
		return fmt.Errorf("the service answered with an order of %s USD, and %s were signed for", cents, inDollars(e.Amount))
	case o.GetPayment() != nil && !strings.EqualFold(o.GetPayment().GetPayer(), e.Payer):
		return fmt.Errorf("the service answered with an order that %s has paid", o.GetPayment().GetPayer())
	case e.OrderID != "" && o.GetOrderId() != e.OrderID:
		return fmt.Errorf("%w: %q, and before %q", errAnotherOrder, o.GetOrderId(), e.OrderID)
	case e.State == Settled && !o.GetReplayed():
		return fmt.Errorf("%w: the answer to a repeat does not say that it is one", errAnotherOrder)
	}
	return nil
}
