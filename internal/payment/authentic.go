package payment

import "github.com/roamcard/roamcard/internal/x402"

// Authentic reports whether the payment was signed by its payer, in favour of our payee. It says
// nothing of price, time or chain, so it recognises the payer of a purchase whose payment is spent. The
// error is a *Rejection.
func (t Terms) Authentic(p x402.Payment) error {
	if p.Authorization.To != t.PayTo {
		return reject(x402.ReasonRecipient, "authorization.to must be %s", t.PayTo)
	}
	if reserved(p.Authorization.From) || t.Domain.Verify(p.Authorization, p.Signature) != nil {
		return reject(x402.ReasonSignature, "the signature is not authorization.from's over the EIP-712 domain %s, version %s, chain %d, contract %s",
			t.Domain.Name, t.Domain.Version, t.Domain.ChainID, t.Domain.Contract)
	}
	return nil
}
