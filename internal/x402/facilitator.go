package x402

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Verification is a facilitator's answer to /verify. Its answer to /settle is a Settlement.
type Verification struct {
	IsValid       bool   `json:"isValid"`
	InvalidReason string `json:"invalidReason,omitempty"`
	Payer         string `json:"payer,omitempty"`
}

// Supported is a facilitator's answer to /supported.
type Supported struct {
	Kinds []Kind `json:"kinds"`
}

// Kind is one way to pay that a facilitator settles.
type Kind struct {
	X402Version int    `json:"x402Version"`
	Scheme      string `json:"scheme"`
	Network     string `json:"network"`
}

// facilitatorRequest is the body of /verify and /settle.
type facilitatorRequest struct {
	X402Version         int             `json:"x402Version"`
	PaymentPayload      json.RawMessage `json:"paymentPayload"`
	PaymentRequirements Requirements    `json:"paymentRequirements"`
}

// EncodeFacilitatorRequest writes the body of /verify and /settle. The requirements are those that the
// payment accepts. Equal payments have equal bodies, byte for byte.
func EncodeFacilitatorRequest(p Payment) ([]byte, error) {
	payload, err := json.Marshal(payloadOf(p))
	if err != nil {
		return nil, fmt.Errorf("encode payment payload: %w", err)
	}
	body, err := json.Marshal(facilitatorRequest{X402Version: Version, PaymentPayload: payload,
		PaymentRequirements: p.Accepted})
	if err != nil {
		return nil, fmt.Errorf("encode facilitator request: %w", err)
	}
	return body, nil
}

// DecodeFacilitatorRequest reads the body of /verify and /settle, for a facilitator. Payments are taken
// and refused as DecodePayment does.
func DecodeFacilitatorRequest(body []byte) (Payment, Requirements, error) {
	var r facilitatorRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return Payment{}, Requirements{}, malformed("the body is not a facilitator request")
	}
	p, err := DecodePayment(base64.StdEncoding.EncodeToString(r.PaymentPayload))
	return p, r.PaymentRequirements, err
}
