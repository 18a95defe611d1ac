package rpcx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// Errors turns every error of a method into what the caller may see of it, see Show, and records the call and its
// outcome for the request's log line. Put it outside everything else.
func Errors() connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			ctx, info := withCallInfo(ctx)
			call := telemetry.Call{Procedure: spec.Procedure}
			wire, onWire := connect.CallInfoForServerContext(ctx)
			if onWire {
				call.Protocol = wire.Protocol
			}
			err := next(ctx, spec, stream)
			if err == nil {
				telemetry.Called(ctx, call)
				return nil
			}
			if excess := limit.Excess(ctx); excess != nil {
				// The payment proves nothing, and there were too many such calls: that comes before any other error.
				err = excess
			}
			shown := Show(ctx, err)
			info.problem = shown.Problem
			if onWire {
				to := wire.ResponseHeader()
				if spec.StreamType != connect.StreamTypeUnary || strings.HasPrefix(wire.Protocol, connect.ProtocolNameGRPC) {
					to = wire.ResponseTrailer() // where a stream, and gRPC, has what belongs to an error
				}
				for name, values := range shown.Headers {
					to.SetValues(name, values)
				}
			}
			call.Code, call.Problem = shown.Code.String(), shown.Problem.GetCode()
			call.Ended = ended(fault.Code(call.Problem))
			if shown.Problem.GetStatus() >= http.StatusInternalServerError || call.Ended {
				// The log has the cause when the failure is the service's or a dependency's, or the caller did not wait.
				call.Err = err
			}
			telemetry.Called(ctx, call)
			return shown.error(info.WritesProblem)
		}
	}
}

// Shown is what a caller may see of an error.
type Shown struct {
	Code    connect.Code
	Problem *roamcardv1.Problem
	// Headers are those of the answer.
	Headers http.Header
	cause   error
}

// Show is what the caller may see of an error, with the headers of any error of the chain that has a method
// Headers() http.Header. An error that is not a fault is ours and shows as internal.
func Show(ctx context.Context, err error) Shown {
	f, code := asFault(ctx, err)
	shown := Shown{Code: code, Problem: ProblemOf(ctx, f), Headers: http.Header{}, cause: err}
	if f.RetryAfter > 0 {
		shown.Headers.Set("Retry-After", RetryAfterSeconds(f.RetryAfter))
	}
	if carrier, ok := errors.AsType[interface {
		error
		Headers() http.Header
	}](err); ok {
		maps.Copy(shown.Headers, carrier.Headers())
	}
	return shown
}

// Error is the error in connect's protocols, with the problem as its detail.
func (s Shown) Error() *connect.Error { return s.error(false) }

func (s Shown) error(bare bool) *connect.Error {
	err := connect.NewError(s.Code, s.Problem.GetDetail()).WithCause(s.cause)
	if bare {
		return err
	}
	// A message without a map or an Any always marshals.
	if detail, detailErr := connectproto.NewErrorDetail(s.Problem); detailErr == nil {
		return err.WithDetail(detail)
	}
	return err
}

// asFault chooses the fault that the caller sees, and its code. An error of a context is the caller's when the call's
// own context has ended; any other is one of ours, which leaves the outcome unknown.
func asFault(ctx context.Context, err error) (*fault.Fault, connect.Code) {
	err = fault.Ended(ctx, err)
	if f, ok := fault.As(err); ok {
		return f, codeOf(f)
	}
	if connectErr, ok := errors.AsType[*connect.Error](err); ok {
		return FaultOfCode(connectErr.Code()), connectErr.Code()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return FaultOfCode(connect.CodeUnavailable), connect.CodeUnavailable
	}
	return fault.New(fault.Internal, ""), connect.CodeInternal
}

// ended reports the codes of calls whose caller stopped waiting.
func ended(code fault.Code) bool { return (&fault.Fault{Kind: fault.Kind{Code: code}}).OfCaller() }

// codeOf chooses the Connect code of a fault; no other file chooses codes. FailedPrecondition means "do not
// retry until something changes"; Unavailable and ResourceExhausted invite a retry.
func codeOf(f *fault.Fault) connect.Code {
	switch f.Code {
	case fault.DeadlineExceeded:
		return connect.CodeDeadlineExceeded
	case fault.Canceled:
		return connect.CodeCanceled
	}
	switch f.Status {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return connect.CodeInvalidArgument
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusPaymentRequired:
		return connect.CodeFailedPrecondition
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusNotFound:
		if f.Code == fault.RouteNotFound {
			return connect.CodeUnimplemented
		}
		return connect.CodeNotFound
	case http.StatusMethodNotAllowed:
		return connect.CodeUnimplemented
	case http.StatusConflict:
		if f.Retryable {
			return connect.CodeAborted
		}
		return connect.CodeFailedPrecondition
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	case http.StatusServiceUnavailable:
		return connect.CodeUnavailable
	default:
		return connect.CodeInternal
	}
}

// Invalid is the fault of one member, or header, that breaks a rule.
func Invalid(path, rule, message string) *fault.Fault {
	return fault.Newf(fault.SchemaInvalid, "%s %s.", path, message).With(fault.Field{Path: path, Rule: rule,
		Message: message})
}

// FaultOfCode is the fault of an error that connect itself made, without our handlers.
func FaultOfCode(code connect.Code) *fault.Fault {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return fault.New(fault.SchemaInvalid, "The request cannot be read.")
	case connect.CodeUnauthenticated:
		return fault.New(fault.SessionInvalid, "")
	case connect.CodeNotFound, connect.CodeUnimplemented:
		return fault.New(fault.RouteNotFound, "")
	case connect.CodeResourceExhausted:
		// Our own limits are faults; this one is the size limit of a message.
		return fault.New(fault.BodyTooLarge, "")
	case connect.CodeDeadlineExceeded:
		return fault.New(fault.DeadlineExceeded, "")
	case connect.CodeCanceled:
		return fault.New(fault.Canceled, "")
	case connect.CodeUnavailable:
		return fault.New(fault.DependencyDown, "The request ended before it was answered; its outcome is not known.")
	default:
		return fault.New(fault.Internal, "")
	}
}

// ProblemOf is the wire form of a fault.
func ProblemOf(ctx context.Context, f *fault.Fault) *roamcardv1.Problem {
	problem := &roamcardv1.Problem{
		Type:           f.Code.Path(),
		Title:          f.Title,
		Status:         uint32(f.Status),
		Detail:         sentence(f),
		Code:           string(f.Code),
		Retryable:      f.Retryable,
		SafeToPayAgain: f.SafeToPayAgain,
		NextAction:     string(f.NextAction),
		RequestId:      telemetry.RequestID(ctx),
		Fields:         wireFields(f.Fields),
	}
	if f.OrderID != "" {
		problem.OrderId = &f.OrderID
	}
	return problem
}

// RetryAfterSeconds is the value of a Retry-After header, rounded up: a caller must not retry early.
func RetryAfterSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// sentence is the detail of a fault, or its title when it has none.
func sentence(f *fault.Fault) string {
	if f.Detail == "" {
		return f.Title
	}
	return f.Detail
}

// ViolationFields lists the members that break a rule by their JSON paths. Without the message's descriptor
// JSON names are derived from proto names.
func ViolationFields(violations *validate.Violations, message protoreflect.MessageDescriptor) []fault.Field {
	fields := make([]fault.Field, 0, len(violations.GetViolations()))
	for _, v := range violations.GetViolations() {
		path := v.GetField().GetElements()
		fields = append(fields, fault.Field{
			Path:    jsonPath(path, message),
			Rule:    v.GetRuleId(),
			Message: violationText(v, last(path, message)),
		})
	}
	return fields
}

// violationText is a rule's message about a value. Patterns are for programs, which have them from the OpenAPI
// document: people are told the field's form.
func violationText(v *validate.Violation, field protoreflect.FieldDescriptor) string {
	if v.GetRuleId() != "string.pattern" {
		return v.GetMessage()
	}
	if field != nil {
		if form, _ := proto.GetExtension(field.Options(), roamcardv1.E_Form).(string); form != "" {
			return "must be " + form
		}
	}
	return "does not match the documented pattern"
}

// last is the field that a path ends with, or nil.
func last(path []*validate.FieldPathElement, message protoreflect.MessageDescriptor) (f protoreflect.FieldDescriptor) {
	for _, element := range path {
		if message == nil {
			return nil
		}
		f = message.Fields().ByName(protoreflect.Name(element.GetFieldName()))
		message = below(element.GetFieldName(), message)
	}
	return f
}

func jsonPath(elements []*validate.FieldPathElement, message protoreflect.MessageDescriptor) string {
	var b strings.Builder
	for _, element := range elements {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(jsonName(element.GetFieldName(), message))
		switch key := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			fmt.Fprintf(&b, "[%d]", key.Index)
		case *validate.FieldPathElement_StringKey:
			b.WriteString("." + Clip(key.StringKey, maxPath))
		}
		message = below(element.GetFieldName(), message)
	}
	return b.String()
}

func jsonName(name string, message protoreflect.MessageDescriptor) string {
	if message != nil {
		if field := message.Fields().ByName(protoreflect.Name(name)); field != nil {
			return field.JSONName()
		}
	}
	head, tail, more := strings.Cut(name, "_")
	for more {
		var word string
		word, tail, more = strings.Cut(tail, "_")
		if word != "" {
			head += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return head
}

// below is the message type of a field, or nil.
func below(name string, message protoreflect.MessageDescriptor) protoreflect.MessageDescriptor {
	if message == nil {
		return nil
	}
	field := message.Fields().ByName(protoreflect.Name(name))
	switch {
	case field == nil:
		return nil
	case field.IsMap():
		return field.MapValue().Message()
	default:
		return field.Message()
	}
}

func wireFields(fields []fault.Field) []*roamcardv1.FieldProblem {
	wire := make([]*roamcardv1.FieldProblem, 0, len(fields))
	for _, f := range fields {
		wire = append(wire, &roamcardv1.FieldProblem{Path: f.Path, Rule: f.Rule, Message: f.Message})
	}
	return wire
}
