package rpcx

import (
	"context"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/x402"
)

// Caller is who calls, as the policy authenticated it.
func Caller(ctx context.Context) auth.Caller {
	c, _ := auth.CallerFrom(ctx)
	return c
}

// Wallet is the caller's.
func Wallet(ctx context.Context) x402.Address { return Caller(ctx).Wallet }

// SessionOf reports whether the call of a context has a session of the wallet with the scope orders.
func SessionOf(a Callers) func(ctx context.Context, wallet x402.Address) bool {
	return func(ctx context.Context, wallet x402.Address) bool {
		call, ok := connect.CallInfoForHandlerContext(ctx)
		if !ok || call.RequestHeader().Get("Authorization") == "" {
			return false
		}
		who, err := a.Authenticate(ctx, call.RequestHeader().Get("Authorization"))
		return err == nil && who.Wallet == wallet && who.Has(auth.ScopeOrders)
	}
}
