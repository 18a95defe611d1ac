package rpc

import (
	"encoding/hex"
	"strings"
	"testing"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestLogHasNoPayment(t *testing.T) {
	h := newHarness(t)
	ada := authtest.NewWallet(t, "ada")
	ctx, info := as(t, "")
	_, err := h.client.PurchaseCard(ctx, &roamcardv1.PurchaseCardRequest{IdempotencyKey: "ada-buys-a-card"})
	if p := problemOf(t, err); p.GetCode() != string(fault.PaymentRequired) {
		t.Fatalf("unpaid: %s", p.GetCode())
	}
	required, err := x402.DecodeRequired(info.ResponseHeader().Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	payTo, err := x402.ParseAddress(required.Accepts[0].PayTo)
	if err != nil {
		t.Fatal(err)
	}
	a := x402.Authorization{From: ada.Address(), To: payTo, Value: 25_000_000, ValidBefore: uint64(h.now.Unix()) + 100,
		Nonce: x402.Hash{31: 1}}
	signature, err := curve.Sign(x402.Domain{Name: "another token"}, a, ada.Key())
	if err != nil {
		t.Fatal(err)
	}
	header, err := x402.EncodePayment(x402.Payment{Accepted: required.Accepts[0], Authorization: a,
		Signature: signature})
	if err != nil {
		t.Fatal(err)
	}
	ctx, info = as(t, "")
	info.RequestHeader().Set(x402.HeaderSignature, header)
	_, err = h.client.PurchaseCard(ctx, &roamcardv1.PurchaseCardRequest{IdempotencyKey: "ada-buys-a-card"})
	if p := problemOf(t, err); p.GetCode() != string(fault.PaymentRejected) {
		t.Fatalf("signed for another token: %s", p.GetCode())
	}
	logged := h.log.String()
	if strings.Count(logged, "PurchaseCard") != 2 {
		t.Errorf("the log wants one line for each call:\n%s", logged)
	}
	for name, secret := range map[string]string{
		"the header": header[:40], "its middle": header[len(header)/2 : len(header)/2+40],
		"the signature":       hex.EncodeToString([]byte(signature[:8])),
		"the idempotency key": "ada-buys",
	} {
		if strings.Contains(logged, secret) {
			t.Errorf("%s is in the log:\n%s", name, logged)
		}
	}
}
