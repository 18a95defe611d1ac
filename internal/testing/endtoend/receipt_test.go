package endtoend_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/receipt"
	"github.com/roamcard/roamcard/internal/x402"
)

// receiptsOf are what the list of receipts answers.
type receiptsOf struct {
	Receipts []struct {
		OrderID   string `json:"orderId"`
		Outcome   string `json:"outcome"`
		Format    string `json:"format"`
		Signature string `json:"signature"`
	} `json:"receipts"`
}

func (b *buyer) receipts() (all receiptsOf) {
	b.w.t.Helper()
	b.w.send(get("/api/receipts").as(b)).into(b.w.t, 200, &all)
	return all
}

// A buyer has one receipt of a delivery, in the answer to the payment and in the list; nobody else lists it, and the
// published keys verify it after a restart.
func TestReceiptOfADeliveryIsTheBuyersProof(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b, stranger := w.buyer(), w.buyer()
	b.signIn()
	stranger.signIn()
	payment := b.esimPayment(w.esimTerms("receipt"))
	var signed string
	eventually(t, func() (bool, string) {
		a := w.send(esimPurchase("receipt", payment))
		settlement, err := x402.DecodeSettlement(a.header.Get(x402.HeaderResponse))
		if err != nil {
			return false, err.Error()
		}
		signed = settlement.SignedReceipt()
		return signed != "", string(clipped(a.body))
	})
	proof, err := receipt.Verify(signed, w.send(get(receipt.DocumentPath)).body)
	if err != nil || proof.Outcome != receipt.Delivered || proof.Payer != b.address.String() {
		t.Errorf("%+v, %v", proof, err)
	}
	all := b.receipts().Receipts
	if len(all) != 1 || all[0].Signature != signed || all[0].OrderID != proof.OrderID || all[0].Outcome != "delivered" {
		t.Errorf("%+v", all)
	}
	if others := stranger.receipts(); len(others.Receipts) != 0 {
		t.Errorf("another wallet lists %+v", others)
	}
}
