package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/recent"
	"github.com/roamcard/roamcard/internal/x402"
)

// Signed is a payment to our payee that its payer has signed. Only Authentic makes one, and for smart accounts Again
// and Proves: recovering a signer is the most expensive part of checking a payment, and is done once.
type Signed struct {
	x402.Payment
	// BySmartAccount says that the payer has code. Its signature holds as long as its owner does, and other bytes may say
	// the same.
	BySmartAccount bool
}

// Again is a smart account's payment that comes byte for byte as it was claimed, when it was authentic: its owner may
// have been removed since, or the chain not answer. ok is false for any other payment.
func (p Payment) Again(sent x402.Payment) (s Signed, ok bool) {
	same := sent.Signature.IsOfAccount() && sent.Signature == p.Signature && sent.Authorization == p.Authorization
	return Signed{sent, true}, same
}

// Proves is a smart account's payment that was settled byte for byte as it comes: its payer has authorized it then,
// whoever owns the account now. ok is false for any other payment.
func (c Carried) Proves(sent x402.Payment) (s Signed, ok bool) {
	same := sent.Signature.IsOfAccount() && sent.Signature == c.Signature && sent.Authorization == c.Authorization
	return Signed{sent, true}, same
}

// Carried is what a transaction moved a payment with. It is zero for one that does something else.
type Carried struct {
	Authorization x402.Authorization
	Signature     x402.Signature
}

// SmartAccounts tells what accounts with code have signed.
type SmartAccounts interface {
	// SignedBy reports whether a smart account signed a digest. The error is an *x402.PayerKindError when the account is
	// none of an accepted kind, curve.ErrNotSigned when none of its owners did, and else means that the chain did not
	// answer.
	SignedBy(ctx context.Context, account x402.Address, digest x402.Hash, s x402.Signature) error
	// Carried reads a transaction. An error means that the chain did not answer, or has no such transaction.
	Carried(ctx context.Context, transaction x402.Hash) (Carried, error)
}

// Decode reads a payment, with a smart account's signature where those are taken.
func (t Terms) Decode(header string) (x402.Payment, error) {
	if t.SmartAccounts == nil {
		return x402.DecodePayment(header)
	}
	return x402.DecodeAnyPayment(header)
}

// verified is a key's signature over an EIP-712 digest, which has the domain and every member of the authorization. One
// that holds once holds always.
type verified struct {
	digest    x402.Hash
	signature x402.Signature
}

// mostVerified bounds the signatures that are remembered; each takes about 250 bytes.
const mostVerified = 8_192

// Remembering is the same terms for whom clients send the same bytes until they know: a key's signature is verified
// when it comes first.
func (t Terms) Remembering() Terms {
	t.verified = &recent.Map[verified, struct{}]{Most: mostVerified}
	return t
}

// isSignedByKey reports whether the payer's key signed the authorization.
func (t Terms) isSignedByKey(p x402.Payment) bool {
	if t.verified == nil {
		return curve.Verify(t.Domain, p.Authorization, p.Signature) == nil
	}
	of := verified{t.Domain.Digest(p.Authorization), p.Signature}
	if _, known := t.verified.Get(of); known {
		return true
	}
	if curve.Verify(t.Domain, p.Authorization, p.Signature) != nil {
		return false
	}
	t.verified.Put(of, struct{}{})
	return true
}

// Authentic reports whether the payment was signed by its payer, to our payee. It does not check price or time, so it
// also recognises the payer of a spent payment. Only for a smart account's signature it asks the chain. The error is a
// *Rejection, or one of SmartAccounts.
func (t Terms) Authentic(ctx context.Context, p x402.Payment) (Signed, error) {
	if p.Authorization.To != t.PayTo {
		return Signed{}, reject(x402.ReasonRecipient, "authorization.to must be %s", t.PayTo)
	}
	err := curve.ErrNotSigned
	switch from := p.Authorization.From; {
	case reserved(from):
	case p.Signature.IsOfKey() && t.isSignedByKey(p):
		return Signed{p, false}, nil
	case t.SmartAccounts != nil:
		p.Signature = p.Signature.OfAccount()
		err = t.SmartAccounts.SignedBy(ctx, from, t.Domain.Digest(p.Authorization), p.Signature)
	}
	if errors.Is(err, curve.ErrNotSigned) {
		of := "; what only an account's code would take is not accepted here"
		if t.SmartAccounts != nil {
			of = "; a smart account's is its owners', in the encoding of its kind, by passkeys or keys of accounts without code"
		}
		return Signed{}, reject(x402.ReasonSignature, "the signature is not authorization.from's over the EIP-712 domain "+
			"%s, version %s, chain %d, contract %s%s",
			t.Domain.Name, t.Domain.Version, t.Domain.ChainID, t.Domain.Contract, of)
	}
	if err != nil {
		return Signed{}, fmt.Errorf("check the signature: %w", err)
	}
	return Signed{p, true}, nil
}
