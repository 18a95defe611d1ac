package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// policy is roamcard.v1.Policy.
type policy struct {
	Access, Scope     string
	Paid              bool
	IdempotencyHeader string
	NoStore           bool
	MaxBodyBytes      int
	Problems          []string
	Price             *priceRange
	SuccessStatus     int
	Rate              string
	Role              string
	RoleWhen          []roleWhen
	// buys says that the method makes what it sells, where a link pays for what exists.
	buys bool
}

// roleWhen is roamcard.v1.RoleWhen.
type roleWhen struct{ Field, Equals, Role string }

// role is the name of a role as operators know it.
func role(value string) string { return strings.ToLower(strings.TrimPrefix(value, "ROLE_")) }

// priceRange is roamcard.v1.Price.
type priceRange struct{ MinUsdCents, MaxUsdCents int }

// show is the price as readers that compare offers take it.
func (p priceRange) show() object {
	dollars := func(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
	if p.MinUsdCents == p.MaxUsdCents {
		return object{"mode": "fixed", "currency": "USD", "amount": dollars(p.MinUsdCents)}
	}
	return object{"mode": "dynamic", "currency": "USD", "min": dollars(p.MinUsdCents), "max": dollars(p.MaxUsdCents)}
}

// everywhere are the problems any route may answer with.
var everywhere = []string{"schema_invalid", "body_too_large", "media_type_unsupported", "rate_limited", "internal"}

// signsIn reports whether a wallet may sign in for one request of the method: a reveal is bound to a session, and what
// has no scope is about the session itself.
func (p policy) signsIn() bool {
	return (p.Access == "ACCESS_SESSION" || p.Access == "ACCESS_DELIVERY") && p.Scope != "" && p.Scope != "reveal"
}

// security says what a caller must show. A payment is not among it: the first call of a purchase
// comes without one, and crawlers take a required scheme for an API key that they lack.
func (p policy) security() ([]object, error) {
	session := []object{{"walletSession": []string{}}}
	if p.signsIn() {
		session = append(session, object{"signInWithX": []string{}})
	}
	switch p.Access {
	case "ACCESS_PUBLIC", "ACCESS_PAYER":
		return []object{}, nil
	case "ACCESS_SESSION":
		return session, nil
	case "ACCESS_OPERATOR":
		if p.Role == "" {
			return nil, errors.New("its policy names no role")
		}
		return []object{{"operatorKey": []string{role(p.Role)}}}, nil
	case "ACCESS_DELIVERY":
		return append([]object{{"deliveryToken": []string{}}}, session...), nil
	}
	return nil, fmt.Errorf("the policy's access %q has no translation", p.Access)
}

// codes are the problems of a method: those of any route, those that follow from the rest of the
// policy, and those it names.
func (p policy) codes() []string {
	codes := append(slices.Clone(everywhere), p.Problems...)
	if p.Paid {
		codes = append(codes, "payment_required", "payment_malformed")
	}
	if p.buys || p.signsIn() {
		codes = append(codes, "signature_invalid")
	}
	if p.IdempotencyHeader == "IDEMPOTENCY_HEADER_REQUIRED" {
		codes = append(codes, "idempotency_key_missing")
	}
	switch p.Access {
	case "ACCESS_SESSION", "ACCESS_DELIVERY", "ACCESS_WATCH":
		codes = append(codes, "session_invalid")
	case "ACCESS_OPERATOR":
		codes = append(codes, "operator_token_invalid")
		if p.Role != "ROLE_VIEWER" {
			codes = append(codes, "operator_role_missing")
		}
	}
	return codes
}

// headers name the shared parameters that the policy adds.
func (p policy) headers() (names []string) {
	if p.Paid {
		names = append(names, "PaymentSignature")
	}
	if p.buys {
		names = append(names, "SignInWithX")
	}
	switch p.IdempotencyHeader {
	case "IDEMPOTENCY_HEADER_REQUIRED":
		names = append(names, "IdempotencyKey")
	case "IDEMPOTENCY_HEADER_OPTIONAL":
		names = append(names, "OptionalIdempotencyKey")
	}
	return names
}

// success is the HTTP status of success; policy.proto names the default.
func (p policy) success() string {
	if p.SuccessStatus > 0 {
		return strconv.Itoa(p.SuccessStatus)
	}
	return "200"
}

// settles says that a call of the method may take a payment, in a header or otherwise.
func (p policy) settles() bool { return p.Paid || slices.Contains(p.Problems, "payment_rejected") }

// bodyLimit is the largest request body in bytes; policy.proto names the default.
func (p policy) bodyLimit() int {
	if p.MaxBodyBytes > 0 {
		return p.MaxBodyBytes
	}
	return 16 << 10
}
