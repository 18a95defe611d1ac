package roamcard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// The errors of a payment that was not made. Nothing was signed, or what was signed did not leave.
var (
	// ErrTermsMismatch says that the service asks for something else than it publishes or than was pinned.
	ErrTermsMismatch = errors.New("the terms are not as published")
	// ErrPolicyDenied says that the policy does not allow the payment.
	ErrPolicyDenied = errors.New("the policy does not allow this payment")
	// ErrApprovalDenied says that whoever was asked said no.
	ErrApprovalDenied = errors.New("the payment was not approved")
	// ErrKeyReused says that the journal knows the idempotency key with another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
)

// AmbiguousPaymentError says that a payment was sent and its outcome is not known. Calling again with the
// same key, now or after a restart, is safe and resumes it; another key may pay a second time.
type AmbiguousPaymentError struct {
	// IdempotencyKey is the key to call again with.
	IdempotencyKey string
	// Err is what the last attempt met.
	Err error
}

// Error implements error.
func (e *AmbiguousPaymentError) Error() string {
	return fmt.Sprintf("the outcome of the payment is not known yet; call again with the idempotency key %q, which cannot pay twice: %v", e.IdempotencyKey, e.Err)
}

// Unwrap gives what the last attempt met.
func (e *AmbiguousPaymentError) Unwrap() error { return e.Err }

// APIError is an answer of the service that is no success: the problem it told (RFC 9457).
type APIError struct {
	// Status is the HTTP status that stands for the failure.
	Status int
	// Code is one of the service's catalogue, for example "card_already_exists".
	Code   string
	Title  string
	Detail string
	// Retryable says that the same request may succeed later; SafeToPayAgain that a new payment cannot be a
	// second one.
	Retryable, SafeToPayAgain bool
	// NextAction is what the service advises, for example "retry_same_request".
	NextAction string
	RequestID  string
	OrderID    string
	cause      *connect.Error
}

// Error implements error.
func (e *APIError) Error() string {
	text := fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Detail)
	if e.OrderID != "" {
		text += " (order " + e.OrderID + ")"
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Unwrap gives the Connect error, when there is one.
func (e *APIError) Unwrap() error {
	if e.cause == nil {
		return nil // not a nil pointer in an error
	}
	return e.cause
}

// Is makes errors.Is(err, &APIError{Code: "card_already_exists"}) compare by code.
func (e *APIError) Is(target error) bool {
	other, ok := target.(*APIError)
	return ok && other.Code == e.Code
}

// explained turns what the Connect client says into what this package promises: an *APIError for an answer
// of the service, and the payment's own error when the payer stopped the call.
func explained(err error) error {
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	for _, ours := range []error{ErrTermsMismatch, ErrPolicyDenied, ErrApprovalDenied, ErrKeyReused, ErrEntry} {
		if errors.Is(err, ours) {
			return unwrapped(err)
		}
	}
	if unclear, ok := errors.AsType[*AmbiguousPaymentError](err); ok {
		return unclear
	}
	for _, d := range ce.Details() {
		msg, err := d.Value()
		if p, ok := msg.(*roamcardv1.Problem); err == nil && ok {
			return problemError(p, ce)
		}
	}
	if connect.IsWireError(err) {
		return &APIError{Code: ce.Code().String(), Title: http.StatusText(http.StatusInternalServerError), Detail: ce.Message(), cause: ce}
	}
	return err
}

// unwrapped takes away what the transports on the way put around an error of the payer.
func unwrapped(err error) error {
	for {
		switch outer := err.(type) {
		case *connect.Error:
			err = outer.Unwrap()
		case *url.Error:
			err = outer.Err
		default:
			return err
		}
	}
}

func problemError(p *roamcardv1.Problem, cause *connect.Error) *APIError {
	return &APIError{
		Status: int(p.GetStatus()), Code: p.GetCode(), Title: p.GetTitle(), Detail: p.GetDetail(), Retryable: p.GetRetryable(),
		SafeToPayAgain: p.GetSafeToPayAgain(), NextAction: p.GetNextAction(), RequestID: p.GetRequestId(), OrderID: p.GetOrderId(), cause: cause,
	}
}
