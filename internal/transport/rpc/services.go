// Package rpc is the Connect services: message to domain call, answer to message, and no rule of its own.
//
// The interceptors of every method are in rpcx. Each service declares what it calls; package app makes them.
package rpc

import (
	"connectrpc.com/connect/v2"

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

// Register adds the services of buyers to one server and that of operators to another, both of rpcx.Servers.
func (s Services) Register(buyers, operators *connect.Server) {
	roamcardv1connect.RegisterCardServiceHandler(buyers, s.Cards)
	roamcardv1connect.RegisterOrderServiceHandler(buyers, s.Orders)
	roamcardv1connect.RegisterEsimServiceHandler(buyers, s.Esims)
	roamcardv1connect.RegisterAuthServiceHandler(buyers, s.Auth)
	roamcardv1connect.RegisterRuntimeServiceHandler(buyers, s.Runtime)
	roamcardv1connect.RegisterActivityServiceHandler(buyers, s.Activity)
	roamcardv1connect.RegisterOperatorServiceHandler(operators, s.Operator)
}
