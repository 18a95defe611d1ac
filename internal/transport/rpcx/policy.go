package rpcx

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// HeaderIdempotencyKey is the header of the key on the routes that do not take it in the body.
const HeaderIdempotencyKey = "Idempotency-Key"

// PrivateNoStore is the Cache-Control of an answer that nothing between us and the caller may keep.
const PrivateNoStore = "private, no-store"

// HeaderDeliveryToken is the header of the delivery token of an eSIM order.
const HeaderDeliveryToken = "X-Esim-Delivery-Token"

// HeaderWatchToken is the header of the token that watches one order.
const HeaderWatchToken = "X-Order-Watch-Token"

// Callers tells who sends a request, by its headers.
type Callers interface {
	// Authenticate is the wallet of a session, or a session_invalid.
	Authenticate(ctx context.Context, authorization string) (auth.Caller, error)
	// AuthenticateRequest is the wallet that signed in for this request alone, by its header SIGN-IN-WITH-X, which is used
	// up; or a signature_invalid, or a *limit.Refusal.
	AuthenticateRequest(ctx context.Context, signIn string) (auth.Caller, error)
	// Operator is an operator by name, or an operator_token_invalid.
	Operator(ctx context.Context, authorization string) (auth.Caller, error)
}

// Refusals records that an operator's role did not allow a request.
type Refusals interface {
	Refused(ctx context.Context, who auth.Caller, method string, needed auth.Role) error
}

// Deliveries checks delivery tokens. Open returns the order with the id when the token is valid for it, and is an
// order_not_found when it is not. A text that is no delivery token is a session_invalid.
type Deliveries interface {
	Open(ctx context.Context, id order.ID, token secret.Text) (order.Order, error)
}

// Watches checks watch tokens. OpenWatchToken is the order that a token is for and its owner, or a session_invalid.
type Watches interface {
	OpenWatchToken(token secret.Text) (order.ID, x402.Address, error)
}

// PolicyOf reads a method's policy: who may call it and how often. A method without one is not served.
func PolicyOf(m protoreflect.MethodDescriptor) (*roamcardv1.Policy, error) {
	p, ok := proto.GetExtension(m.Options(), roamcardv1.E_Policy).(*roamcardv1.Policy)
	if !ok || p.GetAccess() == roamcardv1.Access_ACCESS_UNSPECIFIED {
		return nil, fmt.Errorf("%s has no policy", m.FullName())
	}
	return p, checkRoles(m, p)
}

// RateOf is the rate class under which the edge counts a method's requests by address.
func RateOf(p *roamcardv1.Policy) limit.Class {
	switch {
	case p.GetRate() == string(limit.Reveal), p.GetRate() == string(limit.Control):
		return limit.Poll // counted once it is known who asks, see auth.Reveal and throttle
	case p.GetRate() != "":
		return limit.Class(p.GetRate())
	case p.GetPaid():
		return limit.Unpaid
	}
	return limit.Poll // operators are counted by name, see throttle
}

// operatorsName tells an operator from an address in the class of operators.
const operatorsName = "operator "

// guessed counts a token that is no operator's by address, so that nobody tries many. It returns err, or the refusal.
func guessed(ctx context.Context, l *limit.Limiter, err error) error {
	if fault.Of(err) != fault.OperatorTokenInvalid {
		return err
	}
	if _, _, refused := l.Take(limit.Operator, limit.Address(ctx)); refused != nil {
		return refused
	}
	return err
}

// throttle counts a wallet's and an operator's requests from all addresses. Those of operators who watch are cheap, and
// counted by address only.
func throttle(l *limit.Limiter, p *roamcardv1.Policy, who auth.Caller) error {
	switch {
	case who.Kind == auth.KindOperator && p.GetRate() == "":
		_, _, err := l.Take(limit.Operator, operatorsName+who.Name)
		return err
	case who.Kind != auth.KindWallet:
		return nil
	}
	_, _, err := l.Take(limit.Poll, who.Wallet.Lower())
	if err == nil && p.GetRate() == string(limit.Control) {
		_, _, err = l.Take(limit.Control, who.Wallet.Lower())
	}
	return err
}

// usedFor says what a method's calls of vendors are for: an owner may ask without end, and a sale goes first.
func usedFor(ctx context.Context, p *roamcardv1.Policy) context.Context {
	switch p.GetAccess() {
	case roamcardv1.Access_ACCESS_SESSION, roamcardv1.Access_ACCESS_DELIVERY, roamcardv1.Access_ACCESS_WATCH:
		return limit.WithUse(ctx, limit.ForOwner)
	default:
		return ctx
	}
}

// Policies enforces the policy of every unary method before its handler runs: who may call and how often, the
// idempotency header, and no-store.
func Policies(c Config) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			method, ok := req.Spec().Schema.(protoreflect.MethodDescriptor)
			if !ok {
				return nil, fmt.Errorf("%s has no schema", req.Spec().Procedure)
			}
			p, err := PolicyOf(method)
			if err != nil {
				return nil, err
			}
			if p.GetAccess() == roamcardv1.Access_ACCESS_DELIVERY {
				ctx, err = checkDelivery(ctx, c, p, req)
			} else {
				ctx, err = checkAccess(ctx, c.Callers, p, req.Header())
			}
			if err == nil {
				err = checkRole(ctx, c, method, p, req.Any())
			}
			if err != nil {
				return nil, guessed(ctx, c.Limits, err)
			}
			if err := throttle(c.Limits, p, Caller(ctx)); err != nil {
				return nil, err
			}
			res, err := next(usedFor(ctx, p), req)
			if err == nil && p.GetNoStore() {
				res.Header().Set("Cache-Control", PrivateNoStore)
			}
			return res, err
		}
	}
}

// checkAccess authenticates the caller as the policy requires, and adds it to the context.
func checkAccess(ctx context.Context, a Callers, p *roamcardv1.Policy, h http.Header) (context.Context, error) {
	switch p.GetAccess() {
	case roamcardv1.Access_ACCESS_PUBLIC, roamcardv1.Access_ACCESS_PAYER:
	case roamcardv1.Access_ACCESS_SESSION, roamcardv1.Access_ACCESS_DELIVERY, roamcardv1.Access_ACCESS_WATCH:
		who, err := walletOf(ctx, a, h)
		if err != nil {
			return ctx, err
		}
		if s := auth.Scope(p.GetScope()); s != "" && !who.Has(s) {
			return ctx, fault.Newf(fault.SessionInvalid, "The session lacks the scope %s.", s)
		}
		ctx = auth.WithCaller(ctx, who)
	case roamcardv1.Access_ACCESS_OPERATOR:
		who, err := a.Operator(ctx, h.Get("Authorization"))
		if err != nil {
			return ctx, err
		}
		ctx = auth.WithCaller(ctx, who)
	default:
		return ctx, fmt.Errorf("access %s is not served", p.GetAccess())
	}
	return ctx, checkKey(p.GetIdempotencyHeader(), h.Values(HeaderIdempotencyKey))
}

// walletOf is the wallet of a request's session, or else the one that signed in for this request alone.
func walletOf(ctx context.Context, a Callers, h http.Header) (auth.Caller, error) {
	if len(h.Values("Authorization")) == 0 && len(h.Values(x402.HeaderSignIn)) > 0 {
		return a.AuthenticateRequest(ctx, h.Get(x402.HeaderSignIn))
	}
	return a.Authenticate(ctx, h.Get("Authorization"))
}

// checkDelivery authenticates the holder of the order's delivery token, who may do what its owner may, or else the
// owner by session. A revoked token next to a session is ignored; a text that is no token is refused.
func checkDelivery(
	ctx context.Context, c Config, p *roamcardv1.Policy, req connect.AnyRequest,
) (context.Context, error) {
	h := req.Header()
	named, ok := req.Any().(interface{ GetOrderId() string })
	if !ok || c.Deliveries == nil {
		return ctx, fmt.Errorf("%s names no order", req.Spec().Procedure)
	}
	if len(h.Values(HeaderDeliveryToken)) == 0 {
		return checkAccess(ctx, c.Callers, p, h)
	}
	o, err := c.Deliveries.Open(ctx, order.ID(named.GetOrderId()), secret.New(h.Get(HeaderDeliveryToken)))
	if err != nil && h.Get("Authorization") != "" && fault.Of(err) == fault.OrderNotFound {
		return checkAccess(ctx, c.Callers, p, h)
	}
	if err != nil {
		return ctx, err
	}
	return auth.WithCaller(ctx, auth.Caller{Kind: auth.KindDelivery, Wallet: o.Owner}), nil
}

// checkWatch authenticates the holder of a watch token, or else the owner by session.
func checkWatch(ctx context.Context, c Config, p *roamcardv1.Policy, h http.Header) (context.Context, error) {
	if c.Watches == nil || len(h.Values(HeaderWatchToken)) == 0 {
		return checkAccess(ctx, c.Callers, p, h)
	}
	id, owner, err := c.Watches.OpenWatchToken(secret.New(h.Get(HeaderWatchToken)))
	if err != nil {
		return ctx, err
	}
	return auth.WithCaller(ctx, auth.Caller{Kind: auth.KindWatch, Wallet: owner, Order: string(id)}), nil
}

// MaxIdempotencyKey is how many characters a key may have.
const MaxIdempotencyKey = 200

func checkKey(rule roamcardv1.IdempotencyHeader, keys []string) error {
	switch {
	case rule == roamcardv1.IdempotencyHeader_IDEMPOTENCY_HEADER_UNSPECIFIED:
		return nil
	case len(keys) == 0 && rule == roamcardv1.IdempotencyHeader_IDEMPOTENCY_HEADER_REQUIRED:
		return fault.Newf(fault.IdempotencyKeyMissing, "Send %s with 1 to %d characters.", HeaderIdempotencyKey,
			MaxIdempotencyKey)
	case len(keys) == 0:
		return nil
	case len(keys) > 1, keys[0] == "", !utf8.ValidString(keys[0]), utf8.RuneCountInString(keys[0]) > MaxIdempotencyKey:
		return Invalid(HeaderIdempotencyKey, "header", fmt.Sprintf("must be one value of 1 to %d characters",
			MaxIdempotencyKey))
	}
	return nil
}
