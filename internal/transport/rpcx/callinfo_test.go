package rpcx

import (
	"context"
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/fault"
)

func TestCallInfoTravelsInContext(t *testing.T) {
	ctx := context.Background()
	if IsPreview(ctx) || Resource(ctx) != "" {
		t.Error("an empty context knows something")
	}
	info := CallInfo{Preview: true, Resource: "/pay/1?x=2", WritesProblem: true}
	ctx = WithCallInfo(ctx, &info)
	if !IsPreview(ctx) || Resource(ctx) != "/pay/1?x=2" || info.Problem() != nil {
		t.Errorf("preview %v, resource %q, problem %v", IsPreview(ctx), Resource(ctx), info.Problem())
	}
	err := failing(ctx, fault.New(fault.PaymentRequired, ""))
	if len(err.Details()) != 0 || info.Problem().GetStatus() != 402 {
		t.Errorf("a caller that writes the problem gets %d details and the problem %v", len(err.Details()),
			info.Problem())
	}
}

// failing is the error of a call whose method fails.
func failing(ctx context.Context, err error) *connect.Error {
	shown, _ := Errors()(func(context.Context, connect.Spec, connect.ServerStream) error { return err })(
		ctx, connect.Spec{}, nil).(*connect.Error)
	return shown
}
