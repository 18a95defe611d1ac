package payment

import (
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Arrived is a transfer to the payee by an authorization, proven by the chain, whoever sent the transaction. It is
// public, so a caller who presents it has not proven to be its payer.
type Arrived struct {
	Network string
	Asset   x402.Address
	// Authorization has no validity when it was read from the chain's logs, which do not contain it.
	Authorization x402.Authorization
	// Receipt is the transfer's place in the chain. Its block hash and its time are unset for a transfer that was read
	// for reconciliation.
	Receipt Receipt
}

// Bounded is the authorization with an upper bound for its end where that is not known: validity after it was used.
func (a Arrived) Bounded(validity time.Duration) x402.Authorization {
	bounded := a.Authorization
	if bounded.ValidBefore == 0 {
		bounded.ValidBefore = uint64(a.Receipt.SettledAt.Add(validity).Unix())
	}
	return bounded
}

// Claim makes an order's payment of the transfer. It has no signature and is never submitted: it is paid while the
// chain shows the transfer. After a reorganisation has removed the transfer, the payment is dead once the authorization
// has expired; validity bounds when that is, where it is not known.
func (a Arrived) Claim(id uuid.UUID, of order.ID, validity time.Duration, now time.Time) Payment {
	at := a.Receipt.SettledAt
	return Payment{
		ID: id, Order: of, Status: Claimed, Network: a.Network, Asset: a.Asset, Authorization: a.Bounded(validity),
		CreatedAt: now, ArrivedAt: &at,
	}
}
