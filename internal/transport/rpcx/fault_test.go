package rpcx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/telemetry"
)

func TestEveryFaultShowsByItsCode(t *testing.T) {
	want := map[int]connect.Code{
		400: connect.CodeInvalidArgument, 401: connect.CodeUnauthenticated, 402: connect.CodeFailedPrecondition,
		403: connect.CodePermissionDenied,
		404: connect.CodeNotFound, 405: connect.CodeUnimplemented, 409: connect.CodeFailedPrecondition,
		408: connect.CodeDeadlineExceeded, 499: connect.CodeCanceled,
		413: connect.CodeResourceExhausted, 415: connect.CodeInvalidArgument, 429: connect.CodeResourceExhausted,
		500: connect.CodeInternal, 503: connect.CodeUnavailable,
	}
	for _, kind := range fault.Catalogue() {
		code := want[kind.Status]
		switch {
		case kind.Code == fault.RouteNotFound:
			code = connect.CodeUnimplemented
		case kind.Status == 409 && kind.Retryable:
			code = connect.CodeAborted
		}
		var info CallInfo
		err := failing(WithCallInfo(context.Background(), &info), fmt.Errorf("wrapped: %w", fault.New(kind.Code, "why")))
		problem := problemOf(t, err)
		if err.Code() != code || info.Problem().GetStatus() != uint32(kind.Status) ||
			problem.GetCode() != string(kind.Code) || err.Message() != "why" {
			t.Errorf("%s: code %v, status %d, message %q, problem %v; want code %v", kind.Code, err.Code(),
				info.Problem().GetStatus(), err.Message(), problem, code)
		}
	}
}

func TestProblemHasEveryMemberOfFault(t *testing.T) {
	ctx := telemetry.WithRequestID(context.Background(), "req-1")
	f := fault.New(fault.SettlementUnknown, "").About("ord_1").After(1500 * time.Millisecond)
	shown := Show(ctx, f)
	want := &roamcardv1.Problem{
		Type: "/problems/settlement_unknown", Title: f.Title, Status: 503, Detail: f.Title, Code: "settlement_unknown",
		Retryable: true, SafeToPayAgain: false, NextAction: "retry_same_request", RequestId: "req-1",
		OrderId: proto.String("ord_1"),
	}
	if diff := cmp.Diff(want, problemOf(t, shown.Error()), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if got := shown.Headers.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After = %q, want 2", got)
	}
}

// challenge is a fault with headers, like those of payments.
type challenge struct{ *fault.Fault }

func (c challenge) Headers() http.Header { return http.Header{"Payment-Required": {"eyJ4Ijoy"}} }

func (c challenge) Unwrap() error { return c.Fault }

func TestHeadersOfAnErrorAreShown(t *testing.T) {
	shown := Show(context.Background(), fmt.Errorf("buy: %w", challenge{fault.New(fault.PaymentRequired, "")}))
	if got := shown.Headers.Get("Payment-Required"); got != "eyJ4Ijoy" {
		t.Errorf("Payment-Required = %q", got)
	}
	if shown.Problem.GetCode() != "payment_required" {
		t.Error("the fault behind the headers is lost")
	}
}

func TestErrorsThatAreNoFaultAreHidden(t *testing.T) {
	secret := errors.New("password authentication failed for user roam")
	err := failing(context.Background(), fmt.Errorf("read order: %w", secret))
	if err.Code() != connect.CodeInternal || strings.Contains(err.Error(), "password") {
		t.Errorf("shown: %v", err)
	}
	if problem := problemOf(t, err); problem.GetCode() != "internal" || strings.Contains(problem.String(), "password") {
		t.Errorf("shown: %v", problem)
	}
	if !errors.Is(err, secret) {
		t.Errorf("%v has lost its cause", err)
	}
}

// An error is judged by whose context ended: the same error is the caller's end, or a failure of ours.
func TestErrorIsJudgedByWhoseContextEnded(t *testing.T) {
	live := t.Context()
	gone, leave := context.WithCancel(live)
	leave()
	late, done := context.WithDeadline(live, time.Now().Add(-time.Second))
	defer done()
	own, end := fault.Within(live, 0)
	defer end()
	down := func(err error) error { return errors.Join(fault.New(fault.DependencyDown, "It does not answer."), err) }
	claimed := fault.New(fault.SettlementUnknown, "").About("ord_1")
	type judged struct {
		ctx  context.Context
		err  error
		code fault.Code
		is   connect.Code
	}
	for name, c := range map[string]judged{
		"a disconnect": {gone, context.Canceled, fault.Canceled, connect.CodeCanceled},
		"a deadline":   {late, context.DeadlineExceeded, fault.DeadlineExceeded, connect.CodeDeadlineExceeded},
		"a deadline in what fails": {
			late, down(context.DeadlineExceeded), fault.DeadlineExceeded, connect.CodeDeadlineExceeded,
		},
		"a disconnect after the claim": {
			gone, errors.Join(context.Canceled, claimed), fault.SettlementUnknown, connect.CodeUnavailable,
		},
		"a failure after the claim": {
			live, errors.Join(down(context.DeadlineExceeded), claimed), fault.SettlementUnknown, connect.CodeUnavailable,
		},
		"our own timeout":        {own, context.DeadlineExceeded, fault.DependencyDown, connect.CodeUnavailable},
		"a timeout further down": {live, context.DeadlineExceeded, fault.DependencyDown, connect.CodeUnavailable},
		"a cancellation of ours": {live, context.Canceled, fault.DependencyDown, connect.CodeUnavailable},
		"a refusal for who left": {
			gone, errors.Join(fault.New(fault.CardNotFound, ""), context.Canceled), fault.CardNotFound, connect.CodeNotFound,
		},
		"a bug while they leave":    {gone, errors.New("nil pointer"), fault.Internal, connect.CodeInternal},
		"no answer while they stay": {live, down(errors.New("EOF")), fault.DependencyDown, connect.CodeUnavailable},
	} {
		var calls telemetry.Calls
		shown := failing(telemetry.WithCalls(c.ctx, &calls), fmt.Errorf("act: %w", c.err))
		problem := problemOf(t, shown)
		if problem.GetCode() != string(c.code) || connect.CodeOf(shown) != c.is || problem.GetSafeToPayAgain() {
			t.Errorf("%s: %v %v", name, shown, problem)
		}
		ofCaller := c.code == fault.Canceled || c.code == fault.DeadlineExceeded
		ours := problem.GetStatus() >= 500
		if call := calls.Last(); (call.Level() == slog.LevelError) != ours || ofCaller && (ours || call.Err == nil) {
			t.Errorf("%s: status %d is logged as %s, %v", name, problem.GetStatus(), call.Level(), call.Err)
		}
	}
}

func TestFaultIsPreferredToCancellation(t *testing.T) {
	err := failing(context.Background(), errors.Join(context.Canceled, fault.New(fault.SettlementUnknown, "")))
	if err.Code() != connect.CodeUnavailable {
		t.Errorf("code = %v", err.Code())
	}
}

func TestViolationsNameJSONMembers(t *testing.T) {
	_, err := calling(serve(t, &signIn{})).CreateChallenge(context.Background(),
		&roamcardv1.CreateChallengeRequest{PreferredMessageSchemes: []string{"eip191", "rsa"}})
	want := []string{"address string.min_len", "preferredMessageSchemes[1] string.in"}
	if diff := cmp.Diff(want, rules(problemOf(t, err))); diff != "" {
		t.Error(diff)
	}
}

func TestFieldPathsAreJSONPaths(t *testing.T) {
	element := func(name string) *validate.FieldPathElement {
		return validate.FieldPathElement_builder{FieldName: &name}.Build()
	}
	indexed := element("orders")
	indexed.SetIndex(3)
	path := []*validate.FieldPathElement{indexed, element("payable_url")}
	descriptor := (&roamcardv1.ListOrdersResponse{}).ProtoReflect().Descriptor()
	if got := jsonPath(path, descriptor); got != "orders[3].payable_url" {
		t.Errorf("with the descriptor: %s", got)
	}
	if got := jsonPath(path, nil); got != "orders[3].payableUrl" {
		t.Errorf("without: %s", got)
	}
}

// asking is a call whose request is a message.
type asking struct {
	connect.ServerStream
	request proto.Message
}

func (a asking) Receive(message any) error {
	proto.Merge(message.(proto.Message), a.request)
	return nil
}
func (asking) Send(any) error { return nil }

func TestPreviewIsNotValidated(t *testing.T) {
	impl := &signIn{err: fault.New(fault.PaymentRequired, "")}
	newServer, err := Servers(Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := newServer()
	roamcardv1connect.RegisterAuthServiceHandler(server, impl)
	for _, preview := range []bool{true, false} {
		impl.seen = nil
		err := server.Call(WithCallInfo(t.Context(), &CallInfo{Preview: preview}),
			roamcardv1connect.AuthServiceCreateChallengeProcedure, nil, asking{request: &roamcardv1.CreateChallengeRequest{}})
		if err == nil || (len(impl.seen) == 1) != preview {
			t.Errorf("preview %v: reached %d times, %v", preview, len(impl.seen), err)
		}
	}
}
