package payment

import (
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// Signed is a payment to our payee that its payer has signed. Only Authentic makes one: recovering a signer is the most
// expensive part of checking a payment, and is done once.
type Signed struct{ x402.Payment }

// Authentic reports whether the payment was signed by its payer, to our payee. It does not check price, time or chain,
// so it also recognises the payer of a spent payment. The error is a *Rejection.
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
