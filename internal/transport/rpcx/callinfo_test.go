package rpcx

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/internal/fault"
)

// inProcess calls a handler without a network, with a given context.
type inProcess struct {
	handler http.Handler
	ctx     context.Context
}

func (p inProcess) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r.WithContext(p.ctx))
	return w.Result(), nil
}

// refuseAll is an interceptor that refuses every call.
type refuseAll struct{ connect.Interceptor }

func (refuseAll) WrapUnary(connect.UnaryFunc) connect.UnaryFunc {
	return func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		return nil, fault.New(fault.SchemaInvalid, "")
	}
}

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
	if err := ToConnect(ctx, fault.New(fault.PaymentRequired, "")); len(err.Details()) != 0 ||
		info.Problem().GetStatus() != 402 {
		t.Errorf("a caller that writes the problem gets %d details and the problem %v", len(err.Details()),
			info.Problem())
	}
}
