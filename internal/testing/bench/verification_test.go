package bench

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// BenchmarkVerification is what a payment costs before a chain is asked. Run it with one core, with and
// without cgo.
func BenchmarkVerification(b *testing.B) {
	one := paidHeader(b)
	pay, err := x402.DecodePayment(one)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	each := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
	each("decode", func() error { _, err := x402.DecodePayment(one); return err })
	each("recover", func() error {
		_, err := curve.Recover(domain().Digest(pay.Authorization), pay.Signature)
		return err
	})
	check := func(p x402.Payment) error {
		signed, err := terms().Authentic(b.Context(), p)
		if err != nil {
			return err
		}
		return terms().Check(signed, card.Price.USDC(), now)
	}
	each("check", func() error { return check(pay) })
	each("header", func() error {
		p, err := x402.DecodePayment(one)
		if err != nil {
			return err
		}
		return check(p)
	})
}

// paidHeader is a payment header as clients send it.
func paidHeader(b *testing.B) string {
	b.Helper()
	return signed(b, paymenttest.NewChain(domain(), time.Now), "key").Payment
}
