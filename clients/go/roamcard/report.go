package roamcard

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ErrorReport is an error as programs read it. Its first eight members are always there.
type ErrorReport struct {
	// Code is of the service's catalogue, http_ and a status, or one of this client's own: terms_mismatch,
	// denied_by_local_policy, approval_declined, insufficient_funds, idempotency_key_reused, clock_differs,
	// account_not_deployed, payment_outcome_unknown, no_signer, no_terminal, journal_ and the reason, cancelled,
	// timed_out, or failed.
	Code string `json:"code"`
	// Detail is a sentence fit to show.
	Detail string `json:"detail"`
	// Status is the HTTP status of the service's answer; zero when there was none.
	Status    int    `json:"status"`
	RequestID string `json:"requestId"`
	// SafeToPayAgain says that a new payment cannot be a second one; null when the error is about no payment. It is
	// false for as long as the chain could still take what was signed, whatever the service says.
	SafeToPayAgain *bool `json:"safeToPayAgain"`
	// NextAction is the service's advice, or of this client's own: ask_owner, fund_wallet, set_clock, fix_journal.
	NextAction     string `json:"nextAction"`
	IdempotencyKey string `json:"idempotencyKey"`
	OrderID        string `json:"orderId"`
	// RetryAt is when another payment may be signed for the key; absent when that is now.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Fields are the wrong members of the request.
	Fields []string `json:"fields,omitempty"`
}

// ownCodes are what this client says itself of its errors, and what to do then.
var ownCodes = []struct {
	kind               error
	code, next         string
	payment, safeToPay bool
}{
	{ErrAmbiguousPayment, "payment_outcome_unknown", "retry_same_request", true, false},
	{ErrTermsMismatch, "terms_mismatch", "ask_owner", true, true},
	{ErrPolicyDenied, "denied_by_local_policy", "ask_owner", true, true},
	{ErrApprovalDenied, "approval_declined", "ask_owner", true, true},
	{ErrInsufficientFunds, "insufficient_funds", "fund_wallet", true, true},
	{ErrKeyConflict, "idempotency_key_reused", "fix_request", true, false},
	{ErrClock, "clock_differs", "set_clock", true, true},
	{ErrNotDeployed, "account_not_deployed", "ask_owner", true, true},
	{ErrEmpty, "arguments_invalid", "fix_request", false, false},
	{ErrNoSigner, "no_signer", "fix_request", false, false},
	{ErrNoTerminal, "no_terminal", "fix_request", false, false},
	{ErrNotFound, "not_found", "fix_request", false, false},
	{context.Canceled, "cancelled", "", false, false},
	{context.DeadlineExceeded, "timed_out", "", false, false},
}

// ReportOf describes any error.
func ReportOf(err error) ErrorReport {
	r := ErrorReport{Code: "failed", Detail: err.Error()}
	if told, ok := errors.AsType[*APIError](err); ok {
		r = told.report()
	}
	if journal, ok := errors.AsType[*JournalError](err); ok {
		no := false // what it would have known of is not known
		r.Code, r.NextAction, r.SafeToPayAgain, r.IdempotencyKey = "journal_"+string(journal.Reason), "fix_journal", &no,
			journal.IdempotencyKey
	}
	told := r.Status != 0
	for _, own := range ownCodes {
		// What the service told is more, but for the kinds that this client gave its answers.
		if !errors.Is(err, own.kind) || told && !own.payment || r.NextAction == "fix_journal" {
			continue
		}
		r.Code, r.NextAction = own.code, own.next
		if own.payment {
			safe := own.safeToPay
			if told && safe {
				safe = *r.SafeToPayAgain
			}
			r.SafeToPayAgain = &safe
		}
		break
	}
	if stopped, ok := errors.AsType[*PaymentError](err); ok && stopped.IdempotencyKey != "" {
		r.IdempotencyKey = stopped.IdempotencyKey
		if !told {
			no := false // it was signed before, and this call has not asked what became of that
			r.SafeToPayAgain = &no
		}
	}
	if unclear, ok := errors.AsType[*AmbiguousPaymentError](err); ok {
		r.IdempotencyKey = unclear.IdempotencyKey
		if unclear.OrderID != "" {
			r.OrderID = unclear.OrderID
		}
	}
	return r
}

func (e *APIError) report() ErrorReport {
	safe := e.SafeToPayAgain && e.RetryAt.IsZero()
	r := ErrorReport{
		Code: e.Code, Detail: e.Detail, Status: e.Status, RequestID: e.RequestID, SafeToPayAgain: &safe,
		NextAction:     e.NextAction,
		IdempotencyKey: e.IdempotencyKey, OrderID: e.OrderID, Fields: e.Fields,
	}
	if !e.RetryAt.IsZero() {
		at := e.RetryAt.UTC()
		r.RetryAt = &at
	}
	return r
}

// MarshalJSON implements json.Marshaler as an ErrorReport.
func (e *APIError) MarshalJSON() ([]byte, error) { return json.Marshal(ReportOf(e)) }

// MarshalJSON implements json.Marshaler as an ErrorReport.
func (e *PaymentError) MarshalJSON() ([]byte, error) { return json.Marshal(ReportOf(e)) }

// MarshalJSON implements json.Marshaler as an ErrorReport.
func (e *AmbiguousPaymentError) MarshalJSON() ([]byte, error) { return json.Marshal(ReportOf(e)) }

// MarshalJSON implements json.Marshaler as an ErrorReport.
func (e *JournalError) MarshalJSON() ([]byte, error) { return json.Marshal(ReportOf(e)) }

// reported is an error, or null, in JSON.
func reported(err error) *ErrorReport {
	if err == nil {
		return nil
	}
	r := ReportOf(err)
	return &r
}
