package facilitator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Refusal is a facilitator's negative answer. It decides nothing: reference implementations give it for payments that
// somebody else has settled, and for transactions that are still pending.
type Refusal struct {
	// Reason is the errorReason, one of an open list, "unreadable", or empty.
	Reason string
}

// Error implements error.
func (r *Refusal) Error() string {
	return "the facilitator refuses: " + cmp.Or(r.Reason, "no reason given")
}

// screenedOut reports a refusal of a payer by Coinbase's facilitator, whose reasons for that end so.
func screenedOut(err error) bool {
	r, refused := errors.AsType[*Refusal](err)
	return refused && strings.HasSuffix(r.Reason, "_kyt")
}

// outcome is an answer to /settle, reduced to what may be logged and traced.
type outcome struct {
	state state
	// reason is the errorReason, and transaction a hash; either may be empty.
	reason, transaction string
}

type state int

// The states of an outcome.
const (
	unknown state = iota
	claimed
	pending
	refused
)

func (o outcome) String() string {
	return [...]string{"unknown", "claimed", "pending", "refused"}[o.state]
}

// settled reads an answer to /settle. The error is nil for a claimed or a pending settlement, a *Refusal for a negative
// answer, and otherwise the reason why the answer decides nothing.
func settled(got answer, p payment.Payment) (outcome, error) {
	var s struct {
		x402.Settlement
		// Success shadows the field above: an answer without it is unreadable.
		Success *bool `json:"success"`
	}
	if err := json.Unmarshal(got.body, &s); err != nil || s.Success == nil {
		return outcome{}, got.unclear("no settlement in it")
	}
	o := outcome{state: refused, reason: reason(s.ErrorReason)}
	if hash, err := x402.ParseHash(s.Transaction); err == nil {
		o.transaction = hash.String()
	}
	switch {
	case *s.Success && aboutAnother(s.Settlement, p):
		return outcome{}, got.unclear("it is about another payment")
	case s.ErrorReason == x402.ReasonSettlementPending && !*s.Success:
		// Some facilitators send it with HTTP 500. The money may move, so it is not a failure.
		o.state = pending
		return o, nil
	case !*s.Success:
		return o, &Refusal{Reason: o.reason}
	case got.status/100 != 2 || o.transaction == "":
		return outcome{}, got.unclear("it claims success without a transaction")
	}
	o.state = claimed
	return o, nil
}

func aboutAnother(s x402.Settlement, p payment.Payment) bool {
	if s.Network != "" && s.Network != p.Network {
		return true
	}
	if s.Payer == "" {
		return false
	}
	payer, err := x402.ParseAddress(s.Payer)
	return err != nil || payer != p.Authorization.From
}

// reason returns a text that has the form of an errorReason, and drops what a facilitator could quote from the payment:
// no part may be as long as a key or a signature.
func reason(text string) string {
	const longest, longestPart = 96, 24
	for part := range strings.SplitSeq(text, "_") {
		if len(text) > longest || len(part) > longestPart || strings.Trim(part, letters) != "" {
			return "unreadable"
		}
	}
	return text
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// verified reads an answer to /verify. A *Refusal is its no.
func verified(got answer) error {
	var v struct {
		IsValid *bool  `json:"isValid"`
		Reason  string `json:"invalidReason"`
	}
	if err := json.Unmarshal(got.body, &v); err != nil || v.IsValid == nil {
		return got.unclear("no verification in it")
	}
	if !*v.IsValid {
		return &Refusal{Reason: reason(v.Reason)}
	}
	return nil
}

// supports reads an answer to /supported.
func supports(got answer) error {
	var s x402.Supported
	if err := json.Unmarshal(got.body, &s); err != nil || got.status != http.StatusOK {
		return got.unclear("no list of kinds in it")
	}
	for _, k := range s.Kinds {
		if k == (x402.Kind{X402Version: x402.Version, Scheme: x402.Scheme, Network: x402.NetworkID}) {
			return nil
		}
	}
	return fmt.Errorf("the facilitator does not settle %s on %s", x402.Scheme, x402.NetworkID)
}

// unclearError is a missing answer, or one that decides nothing.
type unclearError struct {
	status int
	why    string
}

func (e *unclearError) Error() string {
	if e.status == 0 {
		return e.why
	}
	return fmt.Sprintf("the facilitator answers HTTP %d, %s", e.status, e.why)
}

func (a answer) unclear(why string) error { return &unclearError{status: a.status, why: why} }

// isOutage reports an error of the facilitator as a whole, not of one payment.
func isOutage(err error) bool {
	if err == nil {
		return false
	}
	if _, refused := errors.AsType[*Refusal](err); refused {
		return false
	}
	e, ok := errors.AsType[*unclearError](err)
	return !ok || e.status == 0 || e.status >= http.StatusInternalServerError || e.status == http.StatusTooManyRequests ||
		IsDenied(err)
}

// IsDenied reports whether the facilitator refused the caller and not a payment: HTTP 401 or 403.
func IsDenied(err error) bool {
	e, ok := errors.AsType[*unclearError](err)
	return ok && (e.status == http.StatusUnauthorized || e.status == http.StatusForbidden)
}
