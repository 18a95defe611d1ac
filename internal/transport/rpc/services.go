// Package rpc is the Connect services: message to domain call, answer to message, and no rule of its own.
//
// The interceptors of every method are in rpcx. Each service declares what it calls; package app makes them.
package rpc

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
)

// OperatorPath is the path of the operators' procedures, which no page of another origin may call.
const OperatorPath = "/" + roamcardv1connect.OperatorServiceName + "/"

// PayProcedure is the procedure that pays an order at its link.
const PayProcedure = roamcardv1connect.OrderServicePayOrderProcedure

// Services are all services of a process, each with what it needs.
type Services struct {
	Cards    CardService
	Orders   OrderService
	Esims    EsimService
	Auth     AuthService
	Runtime  RuntimeService
	Operator OperatorService
	Activity ActivityService
}

// Handler is one service as the edge mounts it: under its path for Connect, gRPC and gRPC-Web, and
// under its routes for REST.
type Handler struct {
	Path    string
	Handler http.Handler
}

// Handlers are the services with the options of rpcx.HandlerOptions.
func Handlers(s Services, opts ...connect.HandlerOption) []Handler {
	var all []Handler
	add := func(path string, handler http.Handler) { all = append(all, Handler{path, handler}) }
	add(roamcardv1connect.NewCardServiceHandler(s.Cards, opts...))
	add(roamcardv1connect.NewOrderServiceHandler(s.Orders, opts...))
	add(roamcardv1connect.NewEsimServiceHandler(s.Esims, opts...))
	add(roamcardv1connect.NewAuthServiceHandler(s.Auth, opts...))
	add(roamcardv1connect.NewRuntimeServiceHandler(s.Runtime, opts...))
	add(roamcardv1connect.NewOperatorServiceHandler(s.Operator, opts...))
	add(roamcardv1connect.NewActivityServiceHandler(s.Activity, opts...))
	return all
}
