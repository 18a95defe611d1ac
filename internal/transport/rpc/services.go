package rpc

import (
	"net/http"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// OperatorPath is where the procedures of operators are; no page of another origin has business there.
const OperatorPath = "/" + roamcardv1connect.OperatorServiceName + "/"

// Handler is one service as the edge mounts it: under its path for Connect, gRPC and gRPC-Web, and
// under its routes for REST.
type Handler struct {
	Path    string
	Handler http.Handler
}

// Handlers makes the services with everything that stands before their methods: errors, strict
// JSON, policy, validation. Every method's rules are compiled here, so that a wrong one fails at
// the start and not on a request.
func Handlers(c Config) ([]Handler, error) {
	opts, err := rpcx.HandlerOptions(rpcx.Config{Auth: c.Auth, Deliveries: c.Esims, Limits: c.Limits})
	if err != nil {
		return nil, err
	}
	var all []Handler
	for _, add := range []func() (string, http.Handler){
		func() (string, http.Handler) { return roamcardv1connect.NewCardServiceHandler(CardService{c}, opts...) },
		func() (string, http.Handler) {
			return roamcardv1connect.NewOrderServiceHandler(OrderService{c}, opts...)
		},
		func() (string, http.Handler) { return roamcardv1connect.NewEsimServiceHandler(EsimService{c}, opts...) },
		func() (string, http.Handler) { return roamcardv1connect.NewAuthServiceHandler(AuthService{c}, opts...) },
		func() (string, http.Handler) {
			return roamcardv1connect.NewRuntimeServiceHandler(RuntimeService{c}, opts...)
		},
		func() (string, http.Handler) {
			return roamcardv1connect.NewOperatorServiceHandler(OperatorService{c}, opts...)
		},
		func() (string, http.Handler) {
			return roamcardv1connect.NewActivityServiceHandler(ActivityService{c}, opts...)
		},
	} {
		path, handler := add()
		all = append(all, Handler{path, handler})
	}
	return all, nil
}
