package card

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// Deliver implements settlement.Product: it takes the next possible step in the delivery of a card. It may be called
// any number of times.
func (c *Cards) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	of, err := readItem(o.Item)
	if err != nil {
		return order.Progress{}, err
	}
	// The provider that the order names, not what the routing says now: the card may have been opened there.
	at, err := c.at(of.Provider)
	if errors.Is(err, errNotConfigured) {
		return c.anyProvider().Elsewhere(of.Provider, o.UpdatedAt), nil
	}
	now := c.Now()
	card, err := c.Store.Reserve(ctx, l.Fence(), Card{
		ID: uuid.Must(uuid.NewV7()), Order: o.ID, Owner: o.Owner, Status: Pending, Ref: openingRef(o),
		Provider: at.Name, Programme: at.Programme, Holder: at.Capabilities.Holder, Load: at.opening(o),
		CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("reserve the card: %w", err)
	}
	faultpoint.Reach("card.reserved")
	attempt := c.attempt(at, o, card)
	switch card.Status {
	case Active, Frozen, Closed:
		return attempt.Delivered(active), nil
	case Failed:
		return order.Progress{
			State: order.Refused, Reason: "the issuer refused the card", Evidence: attempt.Evidence,
		}, nil
	case Pending:
	}
	opened, err := fulfilment.Make(ctx, l, c.provider(at), fulfilment.Call[Account]{
		Step: openings.Marker(o.Delivery),
		Send: func(ctx context.Context) (Account, error) {
			if err := faultpoint.Fail("issuer.before_open"); err != nil {
				return Account{}, err
			}
			a, err := at.Issuer.Open(ctx, Opening{
				Ref: card.Ref, Load: card.Load, Limit: card.Load < o.Price, Buyer: order.BuyerOf(o.Owner),
			})
			return a, errors.Join(err, faultpoint.Fail("issuer.after_open"))
		},
		Read: func(ctx context.Context) (Account, error) { return at.Issuer.Account(ctx, card.Ref) },
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("open the card: %w", err)
	}
	switch opened.Kind {
	case fulfilment.Known:
		return c.opened(ctx, l, o, card, attempt, opened.Record)
	case fulfilment.Refused:
		return c.refuse(ctx, l, attempt, card, opened.Refusal)
	case fulfilment.Untraceable:
		return attempt.Untraceable(), nil
	case fulfilment.Unknown:
	}
	return attempt.Pending(), nil
}

// Postings implements settlement.Product. A card is posted when it becomes ACTIVE, which may be after an operator has
// delivered it by hand, and its fee when the fee's job ends.
func (c *Cards) Postings(order.Order) ([]ledger.Posting, error) { return nil, nil }

// opening is the amount that a card is opened with. At an issuer with spending limits, the fee is never on the card, so
// nobody can spend it.
func (p *provider) opening(o order.Order) money.Cents {
	if p.Capabilities.Funding == Limit {
		return o.Price - Fee
	}
	return o.Price
}

// opened acts on the issuer's record of the card.
func (c *Cards) opened(
	ctx context.Context, l *job.Lease, o order.Order, card Card, attempt fulfilment.Attempt, a Account,
) (order.Progress, error) {
	card.Account, card.Last4 = a.ID, a.Last4
	switch a.State {
	case AccountActive, AccountFrozen:
		if err := c.Store.Activate(ctx, l.Fence(), card, card.Postings(), feeJob(card, o)); err != nil {
			return order.Progress{}, fmt.Errorf("activate the card: %w", err)
		}
		faultpoint.Reach("card.activated")
		return attempt.Delivered(active), nil
	case AccountRejected:
		return c.refuse(ctx, l, attempt, card, a.Refusal)
	case AccountClosed:
		// It was opened and closed again before it was seen active. An operator has to find out what was lost.
		return attempt.Doubtful("the issuer closed the card before it was active"), nil
	case AccountPending:
	}
	return attempt.Pending(), nil
}

const active = "card active"

// attempt is the current attempt at the delivery of a card.
func (c *Cards) attempt(at *provider, o order.Order, card Card) fulfilment.Attempt {
	return fulfilment.Attempt{
		Provider: c.provider(at), Since: o.UpdatedAt,
		Evidence: map[string]string{"card": card.ID.String(), "reference": card.Ref.String()},
		NoTrace:  "the issuer shows no trace of the opening",
		TooLong:  "for too long the issuer did not say that the card is there",
	}
}

func (c *Cards) refuse(
	ctx context.Context, l *job.Lease, attempt fulfilment.Attempt, card Card, refusal *fulfilment.Refusal,
) (order.Progress, error) {
	if err := c.Store.Fail(ctx, l.Fence(), card.ID); err != nil {
		return order.Progress{}, fmt.Errorf("fail the card: %w", err)
	}
	return attempt.Refused(refusal), nil
}
