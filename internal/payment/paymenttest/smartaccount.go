package paymenttest

import (
	"context"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// accountMark ends the signature of a smart account of a Chain, behind its owner's.
const accountMark = "by its owner"

// OfAccount is a smart account's signature: its owner's of the same digest.
func OfAccount(owners x402.Signature) x402.Signature { return owners + accountMark }

// Own makes an account a smart account, with one owner; the zero address leaves it without one.
func (c *Chain) Own(account, owner x402.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owners[account] = owner
}

// SignedBy implements payment.SmartAccounts.
func (c *Chain) SignedBy(_ context.Context, account x402.Address, digest x402.Hash, s x402.Signature) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return ErrDown
	}
	if _, owned := c.owners[account]; !owned && s.IsKeySized() {
		return curve.ErrNotSigned
	} else if !owned {
		return &x402.PayerKindError{RejectedError: x402.RejectedError{
			Reason: x402.ReasonSignature, Detail: "not a smart account",
		}}
	}
	return c.signedBy(account, digest, s)
}

// Carried implements payment.SmartAccounts.
func (c *Chain) Carried(_ context.Context, transaction x402.Hash) (payment.Carried, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return payment.Carried{}, ErrDown
	}
	for k, u := range c.used {
		if u.receipt != nil && u.receipt.Transaction == transaction {
			return payment.Carried{Authorization: u.authorization, Signature: c.sent[k]}, nil
		}
	}
	return payment.Carried{}, nil
}

// signedBy reports whether an account, or its owner, made a signature.
func (c *Chain) signedBy(account x402.Address, digest x402.Hash, s x402.Signature) error {
	if owner, owned := c.owners[account]; owned && s.IsOfAccount() {
		account, s = owner, s[:len(s)-len(accountMark)]
	}
	if signer, err := curve.Recover(digest, s); err != nil || signer != account {
		return curve.ErrNotSigned
	}
	return nil
}
