package invariants

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// receiptRow is a signed receipt, as it is kept.
type receiptRow struct{ Order, Owner, Outcome, JWS string }

// receiptClaims are what the signature of a receipt is about.
type receiptClaims struct {
	Amount, OrderID, Outcome, Payer, Transaction, RefundTransaction string
}

func (r receiptRow) claims() (c receiptClaims, err error) {
	parts := strings.Split(r.JWS, ".")
	if len(parts) != 3 {
		return c, fmt.Errorf("%d parts", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(payload, &c)
}

// receiptsSayWhatHappened holds every receipt against its order, the payment and the refund.
func receiptsSayWhatHappened(r *records) []string {
	var f findings
	orders := r.ordersByID()
	paid, refunded := map[string]paymentRow{}, map[string]refundRow{}
	for _, p := range r.payments {
		if p.Status == "paid" {
			paid[p.Order] = p
		}
	}
	for _, b := range r.refunds {
		refunded[b.Order] = b
	}
	for _, row := range r.receipts {
		c, err := row.claims()
		if err != nil {
			f.add("the receipt of %s cannot be read: %v", row.Order, err)
			continue
		}
		p, back := paid[row.Order], ""
		if row.Outcome == "refunded" {
			back = hashOf(refunded[row.Order].Transaction)
		}
		switch {
		case c.OrderID != row.Order || c.Outcome != row.Outcome || lower(c.Payer) != lower(row.Owner):
			f.add("the receipt of %s, %s, %s says %+v", row.Order, row.Outcome, row.Owner, c)
		case lower(p.Payer) != lower(row.Owner) || c.Amount != strconv.FormatInt(p.Value, 10) ||
			lower(c.Transaction) != hashOf(p.Transaction):
			f.add("the receipt of %s says %+v, its payment is %+v", row.Order, c, p)
		case row.Outcome != map[string]string{"fulfilled": "delivered", "refunded": "refunded"}[orders[row.Order].Status]:
			f.add("the receipt of %s says %s, and it is %s", row.Order, row.Outcome, orders[row.Order].Status)
		case lower(c.RefundTransaction) != back || back == "" && row.Outcome == "refunded":
			f.add("the receipt of %s names the refund %q, which is %+v", row.Order, c.RefundTransaction, refunded[row.Order])
		}
	}
	return f
}

func hashOf(transaction *string) string {
	if transaction == nil {
		return ""
	}
	return lower(*transaction)
}
