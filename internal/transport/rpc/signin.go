package rpc

import (
	"strings"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/x402"
)

// RequestSignIns reads sign-ins for one request.
type RequestSignIns interface {
	// ReadRequestSignIn is auth.Auth.ReadRequestSignIn.
	ReadRequestSignIn(header, uri string) (*auth.RequestSignIn, error)
}

// signIn is the sign-in for one request that comes with a purchase; nil without one, and with a payment, which proves
// the wallet by itself. It has to be for the purchase's own resource.
func (s Sales) signIn(h *connect.Header, p checkout.Purchase) (checkout.SignIn, error) {
	if s.SignIns == nil || p.Payment != "" || len(h.Values(x402.HeaderSignIn)) == 0 {
		return nil, nil
	}
	at, _, _ := strings.Cut(p.Resource.URL, "?")
	signIn, err := s.SignIns.ReadRequestSignIn(h.Get(x402.HeaderSignIn), at)
	if err != nil {
		return nil, err
	}
	return signIn, nil
}
