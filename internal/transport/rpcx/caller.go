package rpcx

import (
	"context"
	"net/http"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// Wallet is the caller's.
func Wallet(ctx context.Context) x402.Address { return Caller(ctx).Wallet }

// singletons are the headers with one value that decide who calls, what is done once, and how. With two of them it is
// unclear which one was meant, and a proxy may have meant the other.
var singletons = []string{
	"Authorization", x402.HeaderSignIn, HeaderDeliveryToken, HeaderWatchToken, HeaderIdempotencyKey, "Origin",
	"Connect-Timeout-Ms", "Connect-Protocol-Version", "Grpc-Timeout", "Mcp-Protocol-Version",
}

// Doubled refuses a request with two of a header that has one value. Payments are not among these headers: a wrong
// one is a fault of its own.
func Doubled(h http.Header) *fault.Fault {
	var fields []fault.Field
	for _, name := range singletons {
		if len(h.Values(name)) > 1 {
			fields = append(fields, fault.Field{Path: name, Rule: "header.single", Message: "must be sent once"})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return Malformed(fields...)
}

// SessionOf reports whether the call of a context has a session of the wallet with the scope orders.
func SessionOf(a Callers) func(ctx context.Context, wallet x402.Address) bool {
	return func(ctx context.Context, wallet x402.Address) bool {
		call, ok := connect.CallInfoForServerContext(ctx)
		if !ok || call.RequestHeader().Get("Authorization") == "" {
			return false
		}
		who, err := a.Authenticate(ctx, call.RequestHeader().Get("Authorization"))
		return err == nil && who.Wallet == wallet && who.Has(auth.ScopeOrders)
	}
}
