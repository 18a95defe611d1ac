package payment

import (
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// Signed is a payment that its payer has signed, in favour of our payee. Authentic alone makes one: recovering
// a signer is most of what checking a payment costs, and is done once.
type Signed struct{ x402.Payment }

// Authentic reports whether the payment was signed by its payer, in favour of our payee. It says
// nothing of price, time or chain, so it recognises the payer of a purchase whose payment is spent. The
// error is a *Rejection.
func (t Terms) Authentic(p x402.Payment) (Signed, error) {
	if p.Authorization.To != t.PayTo {
		return Signed{}, reject(x402.ReasonRecipient, "authorization.to must be %s", t.PayTo)
	}
	if reserved(p.Authorization.From) || curve.Verify(t.Domain, p.Authorization, p.Signature) != nil {
		return Signed{}, reject(x402.ReasonSignature, "the signature is not authorization.from's over the EIP-712 domain "+
			"%s, version %s, chain %d, contract %s",
			t.Domain.Name, t.Domain.Version, t.Domain.ChainID, t.Domain.Contract)
	}
	return Signed{p}, nil
}
