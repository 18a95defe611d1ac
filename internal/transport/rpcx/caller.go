package rpcx

import (
	"context"

	"connectrpc.com/connect"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/x402"
)

// Caller is who the policy let in.
func Caller(ctx context.Context) auth.Caller {
	c, _ := auth.CallerFrom(ctx)
	return c
}

// Wallet is the caller's.
func Wallet(ctx context.Context) x402.Address { return Caller(ctx).Wallet }

// SessionOf reports whether a session of a wallet, good for orders, came with the call at hand.
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
