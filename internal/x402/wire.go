package x402

import "github.com/roamcard/roamcard/internal/money"

// The constants of the protocol and of native USDC on Base.
const (
	Version   = 2
	Scheme    = "exact"
	NetworkID = "eip155:8453"
	ChainID   = 8453

	HeaderRequired  = "PAYMENT-REQUIRED"
	HeaderSignature = "PAYMENT-SIGNATURE"
	HeaderResponse  = "PAYMENT-RESPONSE"
	// HeaderSignatureV1 is where version 1 of the protocol has its payments.
	HeaderSignatureV1 = "X-PAYMENT"
)

// PaymentRequired is the challenge of a 402: the content of PAYMENT-REQUIRED and of its body.
type PaymentRequired struct {
	X402Version int            `json:"x402Version"`
	Error       string         `json:"error,omitempty"`
	Resource    Resource       `json:"resource"`
	Accepts     []Requirements `json:"accepts"`
	Extensions  map[string]any `json:"extensions,omitempty"`
}

// Resource says what is paid for. URL is absolute.
type Resource struct {
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	MimeType    string `json:"mimeType,omitempty"`
	ServiceName string `json:"serviceName,omitempty"`
}

// Requirements is one way to pay. Amount is a decimal string in the asset's atomic units.
type Requirements struct {
	Scheme            string         `json:"scheme"`
	Network           string         `json:"network"`
	Amount            string         `json:"amount"`
	Asset             string         `json:"asset"`
	PayTo             string         `json:"payTo"`
	MaxTimeoutSeconds int            `json:"maxTimeoutSeconds"`
	Extra             map[string]any `json:"extra"`
}

// Authorization is an EIP-3009 TransferWithAuthorization. Times are Unix seconds.
type Authorization struct {
	From, To                Address
	Value                   money.USDC
	ValidAfter, ValidBefore uint64
	Nonce                   Hash
}

// Signature is what was signed with. Of a key it is r, s and v, 65 bytes, v being 27 or 28 and s in the lower half; of
// a smart account it is whatever its code takes (EIP-1271). It is empty where there is none.
type Signature string

// Payment is a decoded PAYMENT-SIGNATURE: the requirements the client chose, echoed, and what it
// signed. Requirements, resource and extensions are unsigned: only Authorization binds the payer.
type Payment struct {
	Accepted      Requirements
	Resource      Resource
	Authorization Authorization
	Signature     Signature
	// Identifier is the id of the extension payment-identifier: the client's own name for what it pays. It is empty when
	// there is none, and is not written; Extensions has what is.
	Identifier string
	// Extensions are written next to the payment, and are not kept when it is decoded.
	Extensions map[string]any
}

// Settlement is the content of PAYMENT-RESPONSE.
type Settlement struct {
	Success     bool   `json:"success"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer,omitempty"`
	Amount      string `json:"amount,omitempty"`
	ErrorReason string `json:"errorReason,omitempty"`
	// Extensions are by their names.
	Extensions map[string]any `json:"extensions,omitempty"`
}

// Domain is the EIP-712 domain of a token.
type Domain struct {
	Name, Version string
	ChainID       uint64
	Contract      Address
}

// ExtraPaymentFlow is the member of Requirements.Extra that says when a payment is settled: with FlowUpfront, before
// what it buys is delivered. Clients that know other flows only do not choose it; older ones ignore it.
const (
	ExtraPaymentFlow = "paymentFlow"
	FlowUpfront      = "upfront"
)
