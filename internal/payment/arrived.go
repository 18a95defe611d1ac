package payment

import (
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Arrived is money that reached the payee by an authorization, whoever sent it: proven by the chain, whatever our books say. It is
// public. Who shows it has not proven to be its payer.
type Arrived struct {
	Network string
	Asset   x402.Address
	// Authorization has no validity when only the chain's logs are known: they do not tell it.
	Authorization x402.Authorization
	// Receipt says where the transfer stands. Its block hash and its time are unset for a transfer that was read for the books.
	Receipt Receipt
}

// Bounded is the authorization with the end that it has at most, where that is not known: validity after it was used.
func (a Arrived) Bounded(validity time.Duration) x402.Authorization {
	bounded := a.Authorization
	if bounded.ValidBefore == 0 {
		bounded.ValidBefore = uint64(a.Receipt.SettledAt.Add(validity).Unix())
	}
	return bounded
}

// Claim makes the payment of an order of it. Nobody signed it for us, so it is never sent for: it is paid when the chain still
// shows the transfer. One that a reorganisation took out is dead once the authorization has expired; validity bounds when that is,
// where it is not known.
func (a Arrived) Claim(id uuid.UUID, of order.ID, validity time.Duration, now time.Time) Payment {
	at := a.Receipt.SettledAt
	return Payment{
		ID: id, Order: of, Status: Claimed, Network: a.Network, Asset: a.Asset, Authorization: a.Bounded(validity),
		CreatedAt: now, ArrivedAt: &at,
	}
}
