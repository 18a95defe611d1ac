package roamcard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/x402"
)

// The kinds of PaymentError. Unless it says otherwise, nothing was signed.
var (
	// ErrTermsMismatch says that the service asks for something else than it publishes or than was pinned.
	ErrTermsMismatch = errors.New("the terms are not as published")
	// ErrPolicyDenied says that the policy does not allow the payment.
	ErrPolicyDenied = errors.New("the policy does not allow this payment")
	// ErrApprovalDenied says that whoever was asked said no.
	ErrApprovalDenied = errors.New("the payment was not approved")
	// ErrInsufficientFunds says that the wallet holds less than the price. It was signed, and no money moved.
	ErrInsufficientFunds = errors.New("the wallet holds less USDC than the price")
	// ErrKeyConflict says that the journal knows the idempotency key with another request.
	ErrKeyConflict = errors.New("the idempotency key was used for another request")
	// ErrClock says that this computer's clock differs from the service's by more than a minute.
	ErrClock = errors.New("the clocks differ")
	// ErrNotDeployed says that the chain has no code for the smart account that is to pay, and that its signature does not
	// say how it is made. Nothing was sent.
	ErrNotDeployed = errors.New("the smart account is not deployed")
)

// The kinds of APIError, by its status: 409, 404, 401, and 429 or 5xx.
var (
	ErrConflict     = errors.New("the state of the service, or an earlier use of the key, forbids it")
	ErrNotFound     = errors.New("there is no such thing")
	ErrUnauthorized = errors.New("the session or a signature was not accepted")
	ErrUnavailable  = errors.New("not now")
)

// ErrAmbiguousPayment is what errors.Is finds in an AmbiguousPaymentError.
var ErrAmbiguousPayment = errors.New("the outcome of the payment is not known yet")

// PaymentError is a payment that was not made. errors.Is tells its kind, as in errors.Is(err, ErrPolicyDenied).
type PaymentError struct {
	// Kind is one of the kinds above.
	Kind error
	// Detail is fit to show.
	Detail string
	// IdempotencyKey is set when the payment had been signed: call again with it.
	IdempotencyKey string
	// Err is the answer of the service, when it was one.
	Err error
}

// Error implements error.
func (e *PaymentError) Error() string { return e.Kind.Error() + ": " + e.Detail }

// Unwrap gives the kind, and what else is known.
func (e *PaymentError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

func denied(kind error, format string, args ...any) error {
	return &PaymentError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// AmbiguousPaymentError says that a payment was sent and its outcome is not known. Calling again with the
// same key, now or after a restart, is safe and resumes it; another key may pay a second time.
type AmbiguousPaymentError struct {
	// IdempotencyKey is the key to call again with.
	IdempotencyKey string
	// OrderID is the order, when the service named it.
	OrderID string
	// Err is what the last attempt met.
	Err error
}

// Error implements error.
func (e *AmbiguousPaymentError) Error() string {
	return fmt.Sprintf("%v; call again with the idempotency key %q, which cannot pay twice: %v", ErrAmbiguousPayment,
		e.IdempotencyKey, e.Err)
}

// Unwrap gives the kind, and what the last attempt met.
func (e *AmbiguousPaymentError) Unwrap() []error { return []error{ErrAmbiguousPayment, e.Err} }

// APIError is an answer of the service that is no success: the problem it told (RFC 9457).
type APIError struct {
	// Status is the HTTP status that stands for the failure.
	Status int
	// Code is one of the service's catalogue, for example "card_already_exists".
	Code   string
	Title  string
	Detail string
	// Retryable says that the same request may succeed later, from RetryAt on where it is set; SafeToPayAgain that a
	// new payment cannot be a second one.
	Retryable, SafeToPayAgain bool
	// NextAction is what the service advises, for example "retry_same_request".
	NextAction string
	RequestID  string
	OrderID    string
	// IdempotencyKey is set when a payment had been signed: only a call with it is safe from paying twice. RetryAt is
	// when another payment may be signed for it, because the chain can no longer take the one before; zero is now.
	IdempotencyKey string
	RetryAt        time.Time
	// Fields are the wrong members of the request, as in "amountUsdCents: at least 2500".
	Fields []string
	cause  *connect.Error
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

// Is makes errors.Is(err, &APIError{Code: "card_already_exists"}) compare by code, and errors.Is(err,
// ErrConflict) by status.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrConflict:
		return e.Status == http.StatusConflict
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized
	case ErrUnavailable:
		return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
	}
	other, ok := target.(*APIError)
	return ok && other.Code == e.Code
}

// explained turns what the Connect client says into what this package promises: an *APIError for an answer
// of the service, and the payment's own error when the payer stopped the call. raw is what else was answered.
func explained(err error, raw RawResponse) error {
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	// The Connect client forgets the transport's error when the context has ended meanwhile.
	for _, err := range []error{err, raw.err} {
		if stopped, ok := errors.AsType[*PaymentError](err); ok {
			return stopped
		}
		if unclear, ok := errors.AsType[*AmbiguousPaymentError](err); ok {
			return unclear
		}
		if told, ok := errors.AsType[*APIError](err); ok {
			return told
		}
	}
	for _, d := range ce.Details() {
		msg, err := connectproto.UnmarshalErrorDetail(d)
		if p, ok := msg.(*roamcardv1.Problem); err == nil && ok {
			return poor(problemError(p, ce), raw.Header)
		}
	}
	if raw.Status < http.StatusMultipleChoices {
		return err // there was no answer
	}
	told := statusError(raw.Status)
	told.Detail, told.RequestID, told.cause = ce.Message(), raw.RequestID(), ce
	return told
}

// poor gives the one refusal that people can fix by themselves a kind of its own.
func poor(err *APIError, header http.Header) error {
	if err.Status != http.StatusPaymentRequired {
		return err
	}
	required, malformed := x402.DecodeRequired(header.Get(x402.HeaderRequired))
	if malformed != nil || !strings.Contains(required.Error, "insufficient_balance") &&
		!strings.Contains(required.Error, "insufficient_funds") {
		return err
	}
	return &PaymentError{Kind: ErrInsufficientFunds, Detail: "no money moved", Err: err}
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
	var fields []string
	for _, f := range p.GetFields() {
		fields = append(fields, f.GetPath()+": "+f.GetMessage())
	}
	return &APIError{
		Fields: fields,
		Status: int(p.GetStatus()), Code: p.GetCode(), Title: p.GetTitle(), Detail: p.GetDetail(),
		Retryable: p.GetRetryable(), SafeToPayAgain: p.GetSafeToPayAgain(), NextAction: p.GetNextAction(),
		RequestID: p.GetRequestId(),
		OrderID:   p.GetOrderId(), cause: cause,
	}
}
