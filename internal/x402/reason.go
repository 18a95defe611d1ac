package x402

// The reasons of the reference implementation (@x402/evm 2.27), which payers' software matches on.
const (
	ReasonVersion           = "invalid_x402_version"
	ReasonPayloadType       = "unsupported_payload_type"
	ReasonScheme            = "invalid_exact_evm_scheme"
	ReasonNetwork           = "invalid_exact_evm_network_mismatch"
	ReasonRequirements      = "invalid_payment_requirements"
	ReasonRecipient         = "invalid_exact_evm_recipient_mismatch"
	ReasonValue             = "invalid_exact_evm_payload_authorization_value_mismatch"
	ReasonValidAfter        = "invalid_exact_evm_payload_authorization_valid_after"
	ReasonValidBefore       = "invalid_exact_evm_payload_authorization_valid_before"
	ReasonSignature         = "invalid_exact_evm_signature"
	ReasonSignatureForm     = "invalid_exact_evm_failed_to_parse_signature"
	ReasonFactory           = "eip6492_factory_not_allowed"
	ReasonNonceUsed         = "invalid_exact_evm_nonce_already_used"
	ReasonBalance           = "invalid_exact_evm_insufficient_balance"
	ReasonSimulation        = "invalid_exact_evm_transaction_simulation_failed"
	ReasonTransaction       = "invalid_exact_evm_transaction_failed"
	ReasonSettlementPending = "settlement_pending"
	reasonMalformed         = "invalid_payload"
)

// MalformedError says that a header is not a payment at all: not base64, not strict JSON, a member
// missing or of the wrong type. Detail is fit to show.
type MalformedError struct{ Reason, Detail string }

// Error implements error.
func (e *MalformedError) Error() string { return "malformed payment: " + e.Detail }

// PayerKindError says that the payer is an account of a kind that is not taken here, such as a contract: whatever it
// signs, it cannot pay.
type PayerKindError struct{ RejectedError }

// Unwrap makes it a *RejectedError.
func (e *PayerKindError) Unwrap() error { return &e.RejectedError }

// RejectedError says that a header is a payment, of a kind this service does not take. Reason is
// one of the reference reasons; Detail is fit to show.
type RejectedError struct{ Reason, Detail string }

// Error implements error.
func (e *RejectedError) Error() string { return "payment not accepted: " + e.Reason + ": " + e.Detail }

func malformed(detail string) error {
	return &MalformedError{Reason: reasonMalformed, Detail: detail}
}
