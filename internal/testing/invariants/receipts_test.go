package invariants

import (
	"encoding/base64"
	"fmt"
)

// signed adds the receipts of Alice's card and of Dora's refund.
func signed(r *records) {
	r.receipts = []receiptRow{
		receiptOf("ord_a", alice, "delivered", "25000000", "0xaa", ""),
		receiptOf("ord_d", dora, "refunded", "25000000", "0xd1", "0xd2"),
	}
}

func receiptOf(order, payer, outcome, amount, transaction, refund string) receiptRow {
	claims := fmt.Sprintf(`{"amount":%q,"orderId":%q,"outcome":%q,"payer":%q,"transaction":%q`,
		amount, order, outcome, payer, transaction)
	if refund != "" {
		claims += fmt.Sprintf(`,"refundTransaction":%q`, refund)
	}
	return receiptRow{order, payer, outcome, "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims+"}")) + ".e30"}
}

// corruptReceipts are receipts of what did not happen.
var corruptReceipts = func() corruptions {
	elsewhere := receiptOf("ord_a", alice, "delivered", "25000000", "0xaa", "")
	elsewhere.Order = "ord_d"
	all := corruptions{}
	for name, row := range map[string]receiptRow{
		"a delivery that was refunded":     receiptOf("ord_d", dora, "delivered", "25000000", "0xd1", ""),
		"a delivery that is under way":     receiptOf("ord_c", carol, "delivered", "25000000", "0xcc", ""),
		"a receipt of another order":       elsewhere,
		"a receipt of another transaction": receiptOf("ord_a", alice, "delivered", "25000000", "0xcc", ""),
		"a receipt of another amount":      receiptOf("ord_a", alice, "delivered", "26000000", "0xaa", ""),
		"a receipt of another payer":       receiptOf("ord_a", bob, "delivered", "25000000", "0xaa", ""),
		"a refund without its transaction": receiptOf("ord_d", dora, "refunded", "25000000", "0xd1", ""),
		"a refund by another transaction":  receiptOf("ord_d", dora, "refunded", "25000000", "0xd1", "0xaa"),
		"a delivery that names a refund":   receiptOf("ord_a", alice, "delivered", "25000000", "0xaa", "0xd2"),
		"a receipt that cannot be read":    {"ord_a", alice, "delivered", "e30.e30"},
	} {
		entry := all[name]
		entry.corrupt, entry.want = func(r *records) { r.receipts = []receiptRow{row} }, []string{"I30"}
		all[name] = entry
	}
	return all
}()
