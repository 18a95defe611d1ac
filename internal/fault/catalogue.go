package fault

import (
	"net/http"
	"slices"
	"strings"
)

// The codes. Each is documented by its row in the catalogue below.
const (
	SchemaInvalid            Code = "schema_invalid"
	IdempotencyKeyMissing    Code = "idempotency_key_missing"
	PaymentMalformed         Code = "payment_malformed"
	EventRejected            Code = "event_rejected"
	SignatureInvalid         Code = "signature_invalid"
	SessionInvalid           Code = "session_invalid"
	ChallengeInvalid         Code = "challenge_invalid"
	OperatorTokenInvalid     Code = "operator_token_invalid"
	PaymentRequired          Code = "payment_required"
	PaymentRejected          Code = "payment_rejected"
	WrongPayer               Code = "wrong_payer"
	PaymentUnclaimed         Code = "payment_unclaimed"
	RouteNotFound            Code = "route_not_found"
	OrderNotFound            Code = "order_not_found"
	CardNotFound             Code = "card_not_found"
	JobNotFound              Code = "job_not_found"
	ReportNotFound           Code = "report_not_found"
	TransferNotFound         Code = "transfer_not_found"
	FindingNotFound          Code = "finding_not_found"
	MethodNotAllowed         Code = "method_not_allowed"
	BodyTooLarge             Code = "body_too_large"
	MediaTypeUnsupported     Code = "media_type_unsupported"
	CardAlreadyExists        Code = "card_already_exists"
	CardNotActive            Code = "card_not_active"
	ActiveCardMissing        Code = "active_card_missing"
	FeeOutstanding           Code = "fee_outstanding"
	TermsChanged             Code = "terms_changed"
	OrderNotPayable          Code = "order_not_payable"
	OrderNotFulfilled        Code = "order_not_fulfilled"
	IdempotencyKeyReused     Code = "idempotency_key_reused"
	AuthorizationAlreadyUsed Code = "authorization_already_used"
	PaidIssueRequired        Code = "paid_issue_required"
	FailureUnconfirmed       Code = "provider_failure_unconfirmed"
	OrderNotInReview         Code = "order_not_in_review"
	RefundUnavailable        Code = "refund_unavailable"
	OrderOnlyRefunded        Code = "order_only_refunded"
	TransferResolved         Code = "transfer_resolved"
	TransferUnproven         Code = "transfer_unproven"
	PayerBlacklisted         Code = "payer_blacklisted"
	TokenPaused              Code = "token_paused"
	AccountBlocked           Code = "account_blocked"
	FacilitatorDown          Code = "facilitator_down"
	ChainUnsettled           Code = "chain_unsettled"
	FindingResolved          Code = "finding_resolved"
	VersionChanged           Code = "version_changed"
	JobNotStopped            Code = "job_not_stopped"
	OperatorRoleMissing      Code = "operator_role_missing"
	TokenNotFound            Code = "token_not_found"
	ApprovalNotFound         Code = "approval_not_found"
	ApprovalPending          Code = "approval_pending"
	ApprovalClosed           Code = "approval_closed"
	SecondOperatorRequired   Code = "second_operator_required"
	PayerNotAccepted         Code = "payer_not_accepted"
	PayerKindNotAccepted     Code = "payer_kind_not_accepted"
	WebhookRejected          Code = "webhook_rejected"
	CardLocked               Code = "card_locked"
	CardControlMissing       Code = "card_control_missing"
	SealingMissing           Code = "sealing_missing"
	EsimControlMissing       Code = "esim_control_missing"
	EsimInstalled            Code = "esim_installed"
	EsimCancelled            Code = "esim_cancelled"
	EsimFinished             Code = "esim_finished"
	EsimToppedUp             Code = "esim_topped_up"
	DeadlineExceeded         Code = "deadline_exceeded"
	Canceled                 Code = "canceled"
	RateLimited              Code = "rate_limited"
	PaymentsUndecided        Code = "payments_undecided"
	IssuePaused              Code = "issue_paused"
	TopupPaused              Code = "topup_paused"
	EsimPaused               Code = "esim_paused"
	BINUnavailable           Code = "bin_unavailable"
	CardBINUnavailable       Code = "card_bin_unavailable"
	FloatUnavailable         Code = "float_unavailable"
	FloatReserved            Code = "float_reserved"
	TreasuryUnreconciled     Code = "treasury_unreconciled"
	WorkersUnavailable       Code = "workers_unavailable"
	SettlementUnknown        Code = "settlement_unknown"
	DependencyDown           Code = "dependency_down"
	NotReady                 Code = "not_ready"
	Internal                 Code = "internal"
)

var catalogue = index(
	Kind{SchemaInvalid, http.StatusBadRequest,
		"The request does not match the documented shape.", false, false, FixRequest},
	Kind{IdempotencyKeyMissing, http.StatusBadRequest, "The Idempotency-Key header is missing.", false, false, FixRequest},
	Kind{PaymentMalformed, http.StatusBadRequest,
		"The PAYMENT-SIGNATURE header cannot be read.", false, false, FixRequest},
	Kind{EventRejected, http.StatusBadRequest, "The event is not one that may be stored.", false, false, FixRequest},

	Kind{SignatureInvalid, http.StatusUnauthorized, "The signature does not prove the wallet.", false, false, SignIn},
	Kind{SessionInvalid, http.StatusUnauthorized, "The session is missing, expired or revoked.", false, false, SignIn},
	Kind{ChallengeInvalid, http.StatusUnauthorized,
		"The challenge is unknown, expired, used, or not signed by its wallet.", false, false, SignIn},
	Kind{OperatorTokenInvalid, http.StatusUnauthorized, "The operator token is missing or invalid.", false, false,
		FixRequest},

	Kind{WebhookRejected, http.StatusUnauthorized,
		"The request is not signed as an event of the provider.", false, false, FixRequest},
	Kind{PaymentRequired, http.StatusPaymentRequired, "Payment is required.", false, true, SignNewPayment},
	Kind{PaymentRejected, http.StatusPaymentRequired,
		"The payment was not accepted and no money moved.", false, true, SignNewPayment},
	Kind{WrongPayer, http.StatusPaymentRequired,
		"The order belongs to another wallet, which alone can pay it. No money moved.", false, true, SignNewPayment},
	Kind{PaymentUnclaimed, http.StatusPaymentRequired,
		"The money of this payment has arrived, and whoever sends it here is not proven to be its payer. " +
			"Sign again: the new payment is not sent, the money that arrived pays.", false, true, SignNewPayment},

	Kind{RouteNotFound, http.StatusNotFound, "There is nothing at this path.", false, false, FixRequest},
	Kind{OrderNotFound, http.StatusNotFound, "There is no such order.", false, false, FixRequest},
	Kind{CardNotFound, http.StatusNotFound, "There is no such card.", false, false, FixRequest},
	Kind{JobNotFound, http.StatusNotFound, "There is no such job.", false, false, FixRequest},
	Kind{ReportNotFound, http.StatusNotFound, "There is no report yet.", true, false, WaitAndRetry},
	Kind{TransferNotFound, http.StatusNotFound, "There is no such transfer without an order.", false, false, FixRequest},
	Kind{FindingNotFound, http.StatusNotFound, "There is no such finding.", false, false, FixRequest},
	Kind{TokenNotFound, http.StatusNotFound, "There is no such token.", false, false, FixRequest},
	Kind{ApprovalNotFound, http.StatusNotFound, "There is no such decision.", false, false, FixRequest},
	Kind{MethodNotAllowed, http.StatusMethodNotAllowed, "The path does not take this method.", false, false, FixRequest},
	Kind{BodyTooLarge, http.StatusRequestEntityTooLarge, "The request body is too large.", false, false, FixRequest},
	Kind{MediaTypeUnsupported, http.StatusUnsupportedMediaType,
		"The request body must be application/json.", false, false, FixRequest},

	Kind{PayerNotAccepted, http.StatusForbidden,
		"Payments from this wallet are not accepted.", false, false, ContactSupport},
	Kind{PayerKindNotAccepted, http.StatusForbidden,
		"Payments from accounts of this kind are not accepted; another signature of it is none, too.", false, false,
		FixRequest},

	Kind{OperatorRoleMissing, http.StatusForbidden,
		"The operator's role does not allow this.", false, false, ContactSupport},
	Kind{SecondOperatorRequired, http.StatusForbidden,
		"Another operator has to decide this.", false, false, ContactSupport},

	Kind{CardAlreadyExists, http.StatusConflict, "The wallet already has a card.", false, false, FixRequest},
	Kind{CardNotActive, http.StatusConflict, "The card is not active.", true, false, WaitAndRetry},
	Kind{ActiveCardMissing, http.StatusConflict, "The wallet has no active card.", false, true, FixRequest},
	Kind{FeeOutstanding, http.StatusConflict,
		"The platform fee of the wallet's card is outstanding.", true, true, ContactSupport},
	Kind{TermsChanged, http.StatusConflict, "The quoted terms can no longer be honoured.", false, true, SignNewPayment},
	Kind{OrderNotPayable, http.StatusConflict, "The order can no longer be paid.", false, false, FixRequest},
	Kind{OrderNotFulfilled, http.StatusConflict, "The order is not fulfilled.", true, false, PollOrder},
	Kind{IdempotencyKeyReused, http.StatusConflict,
		"The idempotency key was used for another request.", false, false, FixRequest},
	Kind{AuthorizationAlreadyUsed, http.StatusConflict,
		"The payment authorization belongs to another request.", false, false, FixRequest},
	Kind{PaidIssueRequired, http.StatusConflict,
		"A card has to be bought; this route never issues one.", false, true, SignNewPayment},

	Kind{CardBINUnavailable, http.StatusConflict,
		"The issuer has no card range available to order a card from.", true, false, WaitAndRetry},

	Kind{FailureUnconfirmed, http.StatusConflict,
		"The provider has not confirmed a failure.", false, false, ContactSupport},
	Kind{OrderNotInReview, http.StatusConflict, "The order does not wait for an operator.", false, false, FixRequest},
	Kind{RefundUnavailable, http.StatusConflict, "Nothing can be refunded.", false, false, ContactSupport},
	Kind{OrderOnlyRefunded, http.StatusConflict,
		"The order was made only to bring its payment back: nothing is delivered for it.", false, false, FixRequest},
	Kind{TransferResolved, http.StatusConflict, "The transfer has been resolved.", false, false, FixRequest},
	Kind{FindingResolved, http.StatusConflict, "The finding has been resolved.", false, false, FixRequest},
	Kind{VersionChanged, http.StatusConflict, "It has changed since the version that was read.", false, false, FixRequest},
	Kind{ApprovalPending, http.StatusConflict,
		"A decision about this waits for a second operator.", false, false, FixRequest},
	Kind{ApprovalClosed, http.StatusConflict,
		"The decision waits for nobody: it was approved or rejected, or has expired.", false, false, FixRequest},
	Kind{JobNotStopped, http.StatusConflict,
		"The job has not stopped, or goes on by another operation.", false, false, FixRequest},

	Kind{CardLocked, http.StatusConflict, "The card is locked by its issuer, or is being closed.", false, false,
		ContactSupport},
	Kind{CardControlMissing, http.StatusConflict,
		"The card's issuer does not offer this to owners.", false, false, FixRequest},
	Kind{SealingMissing, http.StatusConflict,
		"The card's issuer shows card numbers on a page only.", false, false, FixRequest},
	Kind{EsimControlMissing, http.StatusConflict,
		"The eSIM's supplier does not offer this to owners.", false, false, FixRequest},
	Kind{EsimInstalled, http.StatusConflict, "The eSIM was installed.", false, false, FixRequest},
	Kind{EsimCancelled, http.StatusConflict, "The eSIM was cancelled.", false, false, FixRequest},
	Kind{EsimFinished, http.StatusConflict, "The eSIM takes no more data.", false, false, FixRequest},
	Kind{EsimToppedUp, http.StatusConflict, "More data was bought for the eSIM.", false, false, FixRequest},
	Kind{TransferUnproven, http.StatusConflict,
		"The chain does not show the payment's transfer in this transaction.", true, false, FixRequest},
	Kind{PayerBlacklisted, http.StatusConflict,
		"The token's issuer blocks the payer's account.", false, false, FixRequest},

	// The ends of a caller's own wait are no 5xx: no caller may bring about what the service is judged by.
	Kind{DeadlineExceeded, http.StatusRequestTimeout,
		"The caller's deadline passed before the answer was there.", true, false, RetrySameRequest},
	Kind{Canceled, statusClientClosed,
		"The caller stopped waiting before the answer was there.", true, false, RetrySameRequest},

	Kind{RateLimited, http.StatusTooManyRequests, "There are too many requests.", true, false, WaitAndRetry},
	Kind{PaymentsUndecided, http.StatusTooManyRequests,
		"The wallet has as many undecided payments as it may have. This one was not taken.", true, false, RetrySameRequest},

	Kind{IssuePaused, http.StatusServiceUnavailable, "Issuing cards is paused.", true, false, WaitAndRetry},
	Kind{TopupPaused, http.StatusServiceUnavailable, "Topping cards up is paused.", true, false, WaitAndRetry},
	Kind{EsimPaused, http.StatusServiceUnavailable, "Selling eSIMs is paused.", true, false, WaitAndRetry},
	Kind{BINUnavailable, http.StatusServiceUnavailable,
		"The issuer has no card range available.", true, false, WaitAndRetry},
	Kind{FloatUnavailable, http.StatusServiceUnavailable,
		"The provider's float is not enough for it.", true, false, WaitAndRetry},
	Kind{FloatReserved, http.StatusServiceUnavailable,
		"What may be reserved for payments that are not settled yet is reserved. " +
			"This one was not taken.", true, false, RetrySameRequest},
	Kind{TreasuryUnreconciled, http.StatusServiceUnavailable,
		"The treasury is not known to be reconciled.", true, false, WaitAndRetry},
	Kind{WorkersUnavailable, http.StatusServiceUnavailable, "No worker is there to deliver.", true, false, WaitAndRetry},
	Kind{SettlementUnknown, http.StatusServiceUnavailable,
		"The payment's outcome is not known yet. " +
			"Repeat the same request; do not sign another payment.", true, false, RetrySameRequest},
	Kind{DependencyDown, http.StatusServiceUnavailable,
		"Something the service depends on does not answer.", true, false, WaitAndRetry},
	Kind{TokenPaused, http.StatusServiceUnavailable,
		"The token's issuer has paused it. " +
			"Repeat the same request later; the same signature will do.", true, false, RetrySameRequest},
	Kind{AccountBlocked, http.StatusServiceUnavailable,
		"The token's issuer blocks an account of this service.", true, false, RetrySameRequest},
	Kind{FacilitatorDown, http.StatusServiceUnavailable,
		"The facilitator that settles payments fails. " +
			"Repeat the same request later; the same signature will do.", true, false, RetrySameRequest},
	Kind{ChainUnsettled, http.StatusServiceUnavailable,
		"The chain is not settled. " +
			"Repeat the same request later; the same signature will do.", true, false, RetrySameRequest},
	Kind{NotReady, http.StatusServiceUnavailable, "The service is not ready.", true, false, WaitAndRetry},

	Kind{Internal, http.StatusInternalServerError, "Something went wrong on our side.", true, false, RetrySameRequest},
)

// statusClientClosed is what proxies log for a caller that has gone, who never sees it.
const statusClientClosed = 499

func index(kinds ...Kind) map[Code]Kind {
	m := make(map[Code]Kind, len(kinds))
	for _, k := range kinds {
		if _, twice := m[k.Code]; twice {
			panic("fault: code twice in the catalogue: " + string(k.Code))
		}
		m[k.Code] = k
	}
	return m
}

// Lookup finds the kind of a code.
func Lookup(code Code) (Kind, bool) {
	k, ok := catalogue[code]
	return k, ok
}

// Catalogue lists every kind, by code.
func Catalogue() []Kind {
	kinds := make([]Kind, 0, len(catalogue))
	for _, k := range catalogue {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return kinds
}
