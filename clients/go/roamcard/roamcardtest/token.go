package roamcardtest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

const unitsPerCent = 10_000

// Transfer is one payment that the token moved.
type Transfer struct {
	Payer, PayTo string
	// Amount is in USDC's atomic units.
	Amount int64
	// Nonce is the authorization's, and Transaction made up of it.
	Nonce, Transaction string
	At                 time.Time
}

// Token is the fake's USDC. It is safe for concurrent use.
type Token struct {
	domain   x402.Domain
	now      func() time.Time
	starting int64

	mu        sync.Mutex
	balances  map[x402.Address]int64
	used      map[usedNonce]bool
	transfers []Transfer
}

type usedNonce struct {
	payer x402.Address
	nonce x402.Hash
}

// Transfers are the payments that were taken, oldest first.
func (t *Token) Transfers() []Transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.transfers)
}

// SetBalance gives a wallet so much; without it, a wallet has Config.Balance.
func (t *Token) SetBalance(wallet string, cents roamcard.Cents) error {
	address, err := x402.ParseAddress(wallet)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.balances[address] = int64(cents) * unitsPerCent
	return nil
}

// Take moves the money of a PAYMENT-SIGNATURE header, as anybody who has one can. It gives the reason of x402 why
// it does not; empty when the money moved.
func (t *Token) Take(header string) (reason string) {
	p, err := x402.DecodePayment(header)
	if err != nil {
		return "invalid_payload"
	}
	_, reason = t.take(p)
	return reason
}

func (t *Token) take(p x402.Payment) (moved Transfer, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, now := p.Authorization, t.now()
	nonce := usedNonce{a.From, a.Nonce}
	balance, known := t.balances[a.From]
	if !known {
		balance = t.starting
	}
	switch {
	case uint64(now.Unix()) <= a.ValidAfter:
		return Transfer{}, x402.ReasonValidAfter
	case uint64(now.Unix()) >= a.ValidBefore:
		return Transfer{}, x402.ReasonValidBefore
	case curve.Verify(t.domain, a, p.Signature) != nil:
		return Transfer{}, x402.ReasonSignature
	case t.used[nonce]:
		return Transfer{}, x402.ReasonNonceUsed
	case balance < int64(a.Value):
		return Transfer{}, x402.ReasonBalance
	}
	t.used[nonce], t.balances[a.From] = true, balance-int64(a.Value)
	hash := sha256.Sum256(append(a.From[:], a.Nonce[:]...))
	moved = Transfer{
		Payer: a.From.String(), PayTo: a.To.String(), Amount: int64(a.Value), Nonce: a.Nonce.String(),
		Transaction: "0x" + hex.EncodeToString(hash[:]), At: now,
	}
	t.transfers = append(t.transfers, moved)
	return moved, ""
}
