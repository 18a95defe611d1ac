package rpc

import (
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// reader notes for what a sign-in is read.
type reader struct{ header, uri string }

func (r *reader) ReadRequestSignIn(header, uri string) (*auth.RequestSignIn, error) {
	r.header, r.uri = header, uri
	if header == "bad" {
		return nil, fault.New(fault.SignatureInvalid, "")
	}
	return &auth.RequestSignIn{}, nil
}

// signedBy is a request's headers with a sign-in, unless it is empty.
func signedBy(signIn string) *connect.Header {
	h := &connect.Header{}
	if signIn != "" {
		h.Set(x402.HeaderSignIn, signIn)
	}
	return h
}

// TestSignInIsReadForThePurchaseItComesWith: a payment proves the wallet by itself, and has nothing to fear from it.
func TestSignInIsReadForThePurchaseItComesWith(t *testing.T) {
	unpaid := checkout.Purchase{Resource: x402.Resource{URL: "https://shop.example/api/card/purchase?a=b"}}
	paid := unpaid
	paid.Payment = "e30="
	for _, tt := range []struct {
		name     string
		header   string
		purchase checkout.Purchase
		read     bool
		want     fault.Code
	}{
		{"no header", "", unpaid, false, ""},
		{"one that is good", "good", unpaid, true, ""},
		{"one that is bad", "bad", unpaid, false, fault.SignatureInvalid},
		{"a payment and one that is bad", "bad", paid, false, ""},
	} {
		signIns := &reader{}
		got, err := Sales{SignIns: signIns}.signIn(signedBy(tt.header), tt.purchase)
		if fault.Of(err) != tt.want || (got != nil) != tt.read {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
		if tt.read && signIns.uri != "https://shop.example/api/card/purchase" {
			t.Errorf("%s: read for %q", tt.name, signIns.uri)
		}
	}
	if got, err := (Sales{}).signIn(signedBy("bad"), unpaid); got != nil || err != nil {
		t.Errorf("where nobody signs in so: %v, %v", got, err)
	}
}
