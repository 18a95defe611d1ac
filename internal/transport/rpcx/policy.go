package rpcx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect/v2"
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

// defaultMaxBody bounds the body of a method whose policy does not.
const defaultMaxBody = 16 << 10

// MaxBody is how many bytes a request of a method may have: its body, or its message.
func MaxBody(p *roamcardv1.Policy) int { return cmp.Or(int(p.GetMaxBodyBytes()), defaultMaxBody) }

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

// Policies lets no message reach a method that its policy does not admit: who may call and how often, the idempotency
// header, and the rules of the message. A method reads its message first, so that is where all of it is checked.
func Policies(c Config, rules protovalidate.Validator) connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			method, ok := spec.Schema.(protoreflect.MethodDescriptor)
			if !ok || spec.StreamType&connect.StreamTypeClient != 0 {
				return fmt.Errorf("%s is not one message of a method", spec.Procedure)
			}
			p, err := PolicyOf(method)
			if err != nil {
				return err
			}
			call, ok := connect.CallInfoForServerContext(ctx)
			if !ok {
				return fmt.Errorf("%s is called outside of a server", spec.Procedure)
			}
			ctx, info := withCallInfo(ctx)
			a := &admission{
				ServerStream: stream, Config: c, rules: rules, ctx: ctx, method: method, policy: p, headers: call.RequestHeader(),
				info: info,
			}
			defer func() {
				if a.leave != nil {
					a.leave()
				}
			}()
			return next(usedFor(ctx, p), spec, a)
		}
	}
}

// admission is the stream of a call whose message has to be admitted.
type admission struct {
	connect.ServerStream
	Config
	rules   protovalidate.Validator
	ctx     context.Context
	method  protoreflect.MethodDescriptor
	policy  *roamcardv1.Policy
	headers *connect.Header
	info    *CallInfo
	// leave ends what a stream holds; nil holds nothing.
	leave func()
}

// Receive implements connect.ServerStream.
func (a *admission) Receive(message any) error {
	if err := a.ServerStream.Receive(message); err != nil {
		return unread(err)
	}
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", message)
	}
	return a.admit(m)
}

// unread is the error of a message that does not arrive, which is the caller's: connect says of some that it does not
// know what they are.
func unread(err error) error {
	if _, told := fault.As(err); !told && connect.CodeOf(err) == connect.CodeUnknown {
		return errors.Join(fault.New(fault.SchemaInvalid, "The message cannot be read to its end."), err)
	}
	return err
}

func (a *admission) admit(message proto.Message) error {
	who, err := a.caller(message)
	if err == nil {
		err = checkKey(a.policy.GetIdempotencyHeader(), a.headers.Values(HeaderIdempotencyKey))
	}
	if err == nil {
		err = checkRole(a.ctx, a.Config, a.method, a.policy, who, message)
	}
	if err != nil {
		return guessed(a.ctx, a.Limits, err)
	}
	if err := throttle(a.Limits, a.policy, who); err != nil {
		return err
	}
	if a.method.IsStreamingServer() {
		if a.leave, err = a.Limits.Enter(limit.Streams, who.Wallet.Lower()); err != nil {
			return err
		}
	}
	a.info.caller = who
	if a.info.Preview {
		return nil // its message is empty, see CallInfo
	}
	err = a.rules.Validate(message)
	if broken, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		return Malformed(ViolationFields(broken.ToProto(), a.method.Input())...)
	}
	return err
}

// caller authenticates who calls, as the policy requires.
func (a *admission) caller(message proto.Message) (auth.Caller, error) {
	switch a.policy.GetAccess() {
	case roamcardv1.Access_ACCESS_PUBLIC, roamcardv1.Access_ACCESS_PAYER:
		return auth.Caller{}, nil
	case roamcardv1.Access_ACCESS_SESSION:
		return a.wallet()
	case roamcardv1.Access_ACCESS_DELIVERY:
		return a.holder(message)
	case roamcardv1.Access_ACCESS_WATCH:
		return a.watcher()
	case roamcardv1.Access_ACCESS_OPERATOR:
		return a.Callers.Operator(a.ctx, a.headers.Get("Authorization"))
	default:
		return auth.Caller{}, fmt.Errorf("access %s is not served", a.policy.GetAccess())
	}
}

// wallet is the wallet of a request's session, or else the one that signed in for this request alone: not for a reveal,
// which is bound to a session, and not for what is about the session itself and has no scope.
func (a *admission) wallet() (who auth.Caller, err error) {
	scope := auth.Scope(a.policy.GetScope())
	signs := scope != "" && scope != auth.ScopeReveal
	if signs && len(a.headers.Values("Authorization")) == 0 && len(a.headers.Values(x402.HeaderSignIn)) > 0 {
		who, err = a.Callers.AuthenticateRequest(a.ctx, a.headers.Get(x402.HeaderSignIn))
	} else {
		who, err = a.Callers.Authenticate(a.ctx, a.headers.Get("Authorization"))
	}
	if err == nil && scope != "" && !who.Has(scope) {
		err = fault.Newf(fault.SessionInvalid, "The session lacks the scope %s.", scope)
	}
	return who, err
}

// holder is the holder of the order's delivery token, who may do what its owner may, or else the
// owner by session. A revoked token next to a session is ignored; a text that is no token is refused.
func (a *admission) holder(message proto.Message) (auth.Caller, error) {
	named, ok := message.(interface{ GetOrderId() string })
	if !ok || a.Deliveries == nil {
		return auth.Caller{}, fmt.Errorf("%s names no order", a.method.FullName())
	}
	if len(a.headers.Values(HeaderDeliveryToken)) == 0 {
		return a.wallet()
	}
	o, err := a.Deliveries.Open(a.ctx, order.ID(named.GetOrderId()), secret.New(a.headers.Get(HeaderDeliveryToken)))
	if err != nil && a.headers.Get("Authorization") != "" && fault.Of(err) == fault.OrderNotFound {
		return a.wallet()
	}
	if err != nil {
		return auth.Caller{}, err
	}
	return auth.Caller{Kind: auth.KindDelivery, Wallet: o.Owner}, nil
}

// watcher is the holder of a watch token, or else the owner by session.
func (a *admission) watcher() (auth.Caller, error) {
	if a.Watches == nil || len(a.headers.Values(HeaderWatchToken)) == 0 {
		return a.wallet()
	}
	id, owner, err := a.Watches.OpenWatchToken(secret.New(a.headers.Get(HeaderWatchToken)))
	if err != nil {
		return auth.Caller{}, err
	}
	return auth.Caller{Kind: auth.KindWatch, Wallet: owner, Order: string(id)}, nil
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
