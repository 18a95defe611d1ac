package x402

import "encoding/json"

// OfferReceipt is the extension by which a server signs its terms, and what became of a payment.
const OfferReceipt = "offer-receipt"

// signed is an offer or a receipt in the extension, as JWS.
type signed struct {
	Format string `json:"format"`
	// AcceptIndex is the place of what is offered in accepts; nil for a receipt.
	AcceptIndex *int   `json:"acceptIndex,omitempty"`
	Signature   string `json:"signature"`
}

// The schemas are short, because they are sent in headers.
const (
	offersSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"properties":{"offers":{"type":"array","items":{"type":"object","properties":{"format":{"type":"string"},` +
		`"acceptIndex":{"type":"integer"},"signature":{"type":"string"}},"required":["format","signature"]}}},` +
		`"required":["offers"]}`
	receiptSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"properties":{"receipt":{"type":"object","properties":{"format":{"type":"string"},` +
		`"signature":{"type":"string"}},"required":["format","signature"]}},"required":["receipt"]}`
)

// DeclareOffers is what a challenge says of the extension: the JWS of each of its ways to pay, in the order of accepts.
func DeclareOffers(jws ...string) map[string]any {
	offers := make([]signed, len(jws))
	for i, one := range jws {
		offers[i] = signed{Format: "jws", AcceptIndex: &i, Signature: one}
	}
	return map[string]any{"info": map[string]any{"offers": offers}, "schema": json.RawMessage(offersSchema)}
}

// DeclareReceipt is what a settlement says of the extension: the JWS of its receipt.
func DeclareReceipt(jws string) map[string]any {
	return map[string]any{
		"info": map[string]any{"receipt": signed{Format: "jws", Signature: jws}}, "schema": json.RawMessage(receiptSchema),
	}
}

// SignedReceipt is the JWS of the receipt in a decoded settlement, for a payer; empty when there is none. It is not
// verified.
func (s Settlement) SignedReceipt() string {
	extension, _ := s.Extensions[OfferReceipt].(map[string]any)
	info, _ := extension["info"].(map[string]any)
	receipt, _ := info["receipt"].(map[string]any)
	jws, _ := receipt["signature"].(string)
	if receipt["format"] != "jws" {
		return ""
	}
	return jws
}
