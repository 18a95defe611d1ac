package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
)

// inProcess calls a handler without a network, in a context of the test's choice.
type inProcess struct {
	handler http.Handler
	ctx     context.Context
}

func (p inProcess) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r.WithContext(p.ctx))
	return w.Result(), nil
}

// refuseAll is an interceptor that lets nothing through.
type refuseAll struct{ connect.Interceptor }

func (refuseAll) WrapUnary(connect.UnaryFunc) connect.UnaryFunc {
	return func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
		return nil, fault.New(fault.SchemaInvalid, "")
	}
}

func TestTheContextCarriesWhatTheFaceKnows(t *testing.T) {
	ctx := context.Background()
	if IsPreview(ctx) || Resource(ctx) != "" {
		t.Error("an empty context knows something")
	}
	if leave(ctx, &roamcardv1.Problem{Status: 402}) {
		t.Error("a problem is shown by nobody")
	}
	refusal := Refusal{Shown: true}
	ctx = WithRefusal(WithResource(WithPreview(ctx), "/pay/1?x=2"), &refusal)
	if !IsPreview(ctx) || Resource(ctx) != "/pay/1?x=2" || !leave(ctx, &roamcardv1.Problem{Status: 402}) || refusal.Problem().GetStatus() != 402 {
		t.Errorf("preview %v, resource %q, problem %v", IsPreview(ctx), Resource(ctx), refusal.Problem())
	}
}
