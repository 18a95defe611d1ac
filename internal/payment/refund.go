package payment

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
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
// An order has at most one. Its nonce is derived from the order, so the token itself refuses a second transfer, even
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
	// SignedAt is when the current validity window was signed.
	SignedAt time.Time
}

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

// RefundNonce is the nonce of an order's refund.
func RefundNonce(id order.ID) x402.Hash {
	return sha256.Sum256([]byte("roamcard refund v1" + string(id)))
}

// Treasury signs refunds.
type Treasury struct {
	key     *ecdsa.PrivateKey
	address x402.Address
	domain  x402.Domain
	window  time.Duration
}

// NewTreasury makes a treasury whose authorizations live for a window.
func NewTreasury(key *ecdsa.PrivateKey, domain x402.Domain, window time.Duration) *Treasury {
	return &Treasury{key: key, address: curve.AddressOf(key), domain: domain, window: window}
}

// Address is the account that refunds are paid from.
func (t *Treasury) Address() x402.Address { return t.address }

// Refund signs the refund of a payment. earlier is the order's refund, if it has one: it keeps its identity and its
// amount, and gets a new window. The caller has checked that the earlier authorization is dead.
func (t *Treasury) Refund(p Payment, earlier *Refund, now time.Time) (Refund, error) {
	r := Refund{ID: uuid.Must(uuid.NewV7()), Order: p.Order, Network: p.Network, Asset: p.Asset, CreatedAt: now}
	if earlier != nil {
		r = *earlier
	}
	if r.Status != RefundPaid {
		r.Status = RefundSigned
	}
	value := p.Authorization.Value
	if earlier != nil {
		value = earlier.Authorization.Value
	}
	r.SignedAt = now
	r.Authorization = x402.Authorization{
		From: t.address, To: p.Authorization.From, Value: value,
		ValidBefore: uint64(now.Add(t.window).Unix()), Nonce: RefundNonce(p.Order),
	}
	var err error
	if r.Signature, err = curve.Sign(t.domain, r.Authorization, t.key); err != nil {
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
