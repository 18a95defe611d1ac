package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Fundable is an owner's card that can be topped up, and the name of its issuer: ACTIVE there, of an owner without an
// outstanding fee, while operators have not closed the sale over the issuer.
func (c *Cards) Fundable(
	ctx context.Context, owner x402.Address, within time.Duration,
) (id uuid.UUID, provider string, err error) {
	on, err := c.live(ctx, owner, within)
	switch {
	case errors.Is(err, ErrNotFound):
		return uuid.Nil, "", fault.New(fault.ActiveCardMissing,
			"Only a wallet with an ACTIVE card can top it up. Buy a card first.")
	case err != nil:
		return uuid.Nil, "", err
	case on.Status == Frozen && on.OwnerFrozen:
		return uuid.Nil, "", fault.New(fault.ActiveCardMissing, "The wallet's card is FROZEN. Unfreeze it first.")
	case on.Status != Active:
		return uuid.Nil, "", fault.Newf(fault.ActiveCardMissing,
			"The wallet's card is %s. Wait until it is ACTIVE.", on.Status)
	}
	owed, err := c.Store.Owes(ctx, owner)
	if err != nil {
		return uuid.Nil, "", fmt.Errorf("sum the owed fees: %w", err)
	}
	if owed > 0 {
		return uuid.Nil, "", fault.Newf(fault.FeeOutstanding, "The platform fee of %s USD could not be withdrawn from the "+
			"wallet's card. Top-ups are closed until an operator has decided about it.", owed)
	}
	return on.ID, on.Provider, c.Switches.Sells(ctx, on.Provider, fault.TopupPaused)
}

// Load loads an amount onto an owner's card: one load, confirmed by the issuer's record of it and then by the balance.
func (c *Cards) Load(ctx context.Context, l *job.Lease, o order.Order, load order.Call) (order.Progress, error) {
	on, err := c.Store.Card(ctx, load.Card, o.Owner)
	if errors.Is(err, ErrNotFound) {
		// The order was claimed by who had read the card before the database was put back.
		return order.Progress{
			State: order.Doubtful, Reason: "the card is not there", Evidence: map[string]string{"card": load.Card.String()},
		}, nil
	}
	if err != nil {
		return order.Progress{}, fmt.Errorf("find the card: %w", err)
	}
	at, err := c.at(on.Provider)
	if errors.Is(err, errNotConfigured) {
		return c.anyProvider().Elsewhere(on.Provider, o.UpdatedAt), nil
	}
	ref := fulfilment.Ref(load.Reference)
	attempt := fulfilment.Attempt{
		Provider: c.provider(at), Since: o.UpdatedAt,
		Evidence: map[string]string{"card": on.ID.String(), "reference": ref.String()},
		NoTrace:  "the issuer shows no trace of the load",
		TooLong:  "the issuer left the load undecided for too long",
	}
	target, err := c.Store.TakeTurn(ctx, l.Fence(), MovementLock{
		Card: on.ID, Order: o.ID, Ref: ref, Load: load.Amount, Held: at.Capabilities.Funding == Limit,
		Begun: l.Step() == load.Step,
	})
	if errors.Is(err, ErrClosing) {
		return c.closing(ctx, at, attempt, on, ref), nil
	}
	if errors.Is(err, ErrBusy) {
		attempt.TooLong = "another movement of the card is undecided for too long"
		return attempt.Pending(), nil
	}
	if err != nil {
		return order.Progress{}, fmt.Errorf("take the card: %w", err)
	}
	faultpoint.Reach("load.taken")
	loaded, err := fulfilment.Make(ctx, l, c.provider(at), fulfilment.Call[MovementRecord]{
		Step: load.Step,
		Send: func(ctx context.Context) (MovementRecord, error) {
			if err := faultpoint.Fail("load.before_send"); err != nil {
				return MovementRecord{}, err
			}
			m, err := at.Issuer.Move(ctx, Movement{
				Ref: ref, Account: on.Account, Direction: Load, Amount: load.Amount, Target: target,
			})
			return m, errors.Join(err, faultpoint.Fail("load.after_send"))
		},
		Read: func(ctx context.Context) (MovementRecord, error) { return at.Issuer.Moved(ctx, on.Account, ref) },
	})
	c.balances.Delete(on.ID)
	if err != nil {
		return order.Progress{}, fmt.Errorf("load the card: %w", err)
	}
	switch loaded.Kind {
	case fulfilment.Refused:
		return attempt.Refused(loaded.Refusal), nil
	case fulfilment.Untraceable:
		return attempt.Untraceable(), nil
	case fulfilment.Known:
		switch m := loaded.Record; m.State {
		case MoveSucceeded:
			if m.Amount != load.Amount || m.Direction != Load {
				// It was made before, for an order of the same key that asked for another sum and was lost.
				return attempt.Doubtful("the issuer made another load under this reference"), nil
			}
			if m.Target != 0 && m.Target != target {
				// It was made before, when the card had been loaded with another sum: a later limit may be without it.
				return attempt.Doubtful("the issuer made the load with another limit"), nil
			}
			return c.confirm(ctx, at, attempt, on), nil
		case MoveFailed:
			return attempt.Refused(m.Refusal), nil
		case MovePending:
		}
	case fulfilment.Unknown:
	}
	return attempt.Pending(), nil
}

// closing is a load onto a card that is being closed. What the issuer was never asked for is refunded; what it has
// made, by a job that our data has lost, is for an operator.
func (c *Cards) closing(
	ctx context.Context, at *provider, attempt fulfilment.Attempt, on Card, ref fulfilment.Ref,
) order.Progress {
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	switch _, err := at.Issuer.Moved(ctx, on.Account, ref); {
	case errors.Is(err, fulfilment.ErrNoRef):
		return attempt.Refused(&fulfilment.Refusal{Code: RefusedState, Message: "the card is being closed"})
	case err == nil:
		return attempt.Doubtful("the issuer has the load, and the card is being closed")
	}
	return attempt.Pending()
}

// confirm reads the balance, which completes a load that the issuer reports as made.
func (c *Cards) confirm(ctx context.Context, at *provider, attempt fulfilment.Attempt, on Card) order.Progress {
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	b, err := at.Vault.Balance(ctx, on.Account)
	if err != nil {
		// The load is made; only its confirmation is pending.
		return attempt.Pending()
	}
	attempt.Evidence["balance_usd_cents"] = fmt.Sprint(int64(b.Available))
	return attempt.Delivered("credit confirmed")
}
