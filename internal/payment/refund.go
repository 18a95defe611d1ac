package payment

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// RefundStatus is how far a refund has come.
type RefundStatus string

// The statuses. A dead refund may be signed again; nothing else follows paid.
const (
	// RefundSigned: the authorization is stored; it may have been sent, and anyone who has it may send it.
	RefundSigned RefundStatus = "signed"
	RefundPaid   RefundStatus = "paid"
	// RefundDead: the authorization can never make the transfer.
	RefundDead RefundStatus = "dead"
)

// Refund is a transfer of a payment back to its payer: an authorization in the other direction, signed by the treasury.
// An order has at most one. Its nonce is derived from the payment, so the token itself refuses a second transfer, even
// after data loss.
type Refund struct {
	ID            uuid.UUID
	Order         order.ID
	Status        RefundStatus
	Network       string
	Asset         x402.Address
	Authorization x402.Authorization
	Signature     x402.Signature
	// Receipt is set once the refund is paid.
	Receipt   *Receipt
	CreatedAt time.Time
	// SignedAt is when the current validity window was signed, or when a refund was paid that our record had lost.
	SignedAt time.Time
}

// Found reports that our record had lost the refund, and the chain has shown it. There is no signature to send.
func (r Refund) Found() bool { return r.Signature == "" }

// Payment is the refund as a payment, for collectors and settlers.
func (r Refund) Payment() Payment {
	return Payment{
		ID: r.ID, Order: r.Order, Status: Claimed, Network: r.Network, Asset: r.Asset,
		Authorization: r.Authorization, Signature: r.Signature, CreatedAt: r.SignedAt,
	}
}

// Since is the time from which the chain is searched for the refund's transfer in its current window.
func (r Refund) Since() time.Time { return r.SignedAt.Add(-lookback) }

// Postings are the ledger postings of a paid refund.
func (r Refund) Postings() []ledger.Posting {
	return []ledger.Posting{ledger.Refunded(string(r.Order), r.Authorization.Value)}
}

// Return is an amount that goes back to the payer of an order that was delivered. It is the order's refund, so there is
// at most one, and an order that was refunded has none.
type Return struct {
	Order  order.ID
	Amount money.USDC
	// Next are the arguments of the job, and Postings what is posted, once it is paid.
	Next     job.Args
	Postings []ledger.Posting
}

// RefundNonce is the nonce of a payment's refund. Whatever our record has lost, the token executes one refund of a
// payment at most, and one of each: after a restore, an order can be paid again whose lost payment was refunded.
func RefundNonce(paid x402.Authorization) x402.Hash {
	return sha256.Sum256(slices.Concat([]byte("roamcard refund v2"), paid.From[:], paid.Nonce[:]))
}

// TreasuryConfig is what a Treasury is made of.
type TreasuryConfig struct {
	// Signer has the key of new refunds.
	Signer Signer
	// Retired are former ones, which sign again what they have begun. Former are those whose key is gone.
	Retired []Signer
	Former  []x402.Address
	Domain  x402.Domain
	// Window is how long an authorization lives.
	Window time.Duration
	Now    func() time.Time
}

// Treasury signs refunds. A refund that an earlier account has begun is signed again by that account, as long as its
// key is here: then both authorizations have one nonce of one payer, and the token executes one of them at most.
type Treasury struct {
	account *Account
	retired []*Account
	former  []x402.Address
	domain  x402.Domain
	window  time.Duration
}

// NewTreasury makes a treasury.
func NewTreasury(c TreasuryConfig) *Treasury {
	account := func(s Signer) *Account { return NewAccount(s, c.Domain.ChainID, c.Now) }
	t := &Treasury{account: account(c.Signer), former: slices.Clone(c.Former), domain: c.Domain, window: c.Window}
	for _, s := range c.Retired {
		t.retired = append(t.retired, account(s))
		t.former = append(t.former, s.Address())
	}
	return t
}

// Address is the account that new refunds are paid from.
func (t *Treasury) Address() x402.Address { return t.account.Address() }

// Ready fails while refunds cannot be signed.
func (t *Treasury) Ready(ctx context.Context) error { return t.account.Ready(ctx) }

// Accounts are all that a refund may have been paid from: the one in use, and those before it.
func (t *Treasury) Accounts() []x402.Address { return append([]x402.Address{t.Address()}, t.former...) }

// Unsigned is the refund of a payment as an account makes it, without its signature. The chain tells whether it was
// made, whatever our record says. It keeps the identity and the amount of the earlier one, if there is one.
func (t *Treasury) Unsigned(from x402.Address, p Payment, earlier *Refund, now time.Time) Refund {
	r := Refund{
		ID: uuid.Must(uuid.NewV7()), Order: p.Order, Network: p.Network, Asset: p.Asset, CreatedAt: now,
		Authorization: x402.Authorization{Value: p.Authorization.Value, Nonce: RefundNonce(p.Authorization)},
	}
	if earlier != nil {
		r = *earlier
	}
	if r.Status != RefundPaid {
		r.Status = RefundSigned
	}
	r.SignedAt, r.Signature = now, ""
	r.Authorization = x402.Authorization{
		From: from, To: p.Authorization.From, Value: r.Authorization.Value, Nonce: r.Authorization.Nonce,
		ValidBefore: uint64(now.Add(t.window).Unix()),
	}
	return r
}

// Signs reports whether the key of an account is here.
func (t *Treasury) Signs(of x402.Address) bool { return t.by(of) != nil }

// by is the account of an address, or nil when its key is not here.
func (t *Treasury) by(of x402.Address) *Account {
	for _, a := range append([]*Account{t.account}, t.retired...) {
		if a.Address() == of {
			return a
		}
	}
	return nil
}

// Refund signs the refund of a payment from an account, see Signs. earlier is the order's refund, if it has one: it
// keeps its identity and its amount, and gets a new window. The caller has checked that the earlier authorization is
// dead.
func (t *Treasury) Refund(
	ctx context.Context, from x402.Address, p Payment, earlier *Refund, now time.Time,
) (Refund, error) {
	by := t.by(from)
	if by == nil {
		return Refund{}, fmt.Errorf("sign the refund: the key of %s is not here", from)
	}
	r := t.Unsigned(from, p, earlier, now)
	var err error
	if r.Signature, err = by.SignAuthorization(ctx, t.domain, r.Authorization); err != nil {
		return Refund{}, fmt.Errorf("sign the refund: %w", err)
	}
	return r, nil
}

// RefundSettler is the Settler of refunds, with fault points of its own.
type RefundSettler struct{ Settler }

// Submit implements Settler.
func (o RefundSettler) Submit(ctx context.Context, p Payment) error {
	faultpoint.Reach("refund.before_send")
	err := o.Settler.Submit(ctx, p)
	if err == nil {
		faultpoint.Reach("refund.sent")
	}
	return err
}
