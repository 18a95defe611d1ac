package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
)

// Deliver implements settlement.Product: one look at how far the card of a paid order has come, and one
// step further where that is possible. It may be called any number of times.
func (c *Cards) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	now := c.Now()
	card, err := c.Store.Reserve(ctx, l.Fence(), Card{
		ID: uuid.Must(uuid.NewV7()), Order: o.ID, Owner: o.Owner, Status: Pending, Ref: openingRef(o),
		Load: c.opening(o), CreatedAt: now, UpdatedAt: now,
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("reserve the card: %w", err)
	}
	faultpoint.Reach("card.reserved")
	switch card.Status {
	case Active, Frozen, Closed:
		return delivered(card), nil
	case Failed:
		return order.Progress{State: order.Refused, Reason: "the issuer refused the card", Evidence: evidence(card)}, nil
	case Pending:
	}
	opened, err := mutate(ctx, c, l, mutation[Account]{
		step: numbered(OpeningStep, o.Delivery),
		send: func(ctx context.Context) (Account, error) {
			if err := faultpoint.Fail("issuer.before_open"); err != nil {
				return Account{}, err
			}
			a, err := c.Issuer.Open(ctx, Opening{
				Ref: card.Ref, Load: card.Load, Limit: card.Load < o.Price, Buyer: order.BuyerOf(o.Owner),
			})
			return a, errors.Join(err, faultpoint.Fail("issuer.after_open"))
		},
		read: func(ctx context.Context) (Account, error) { return c.Issuer.Account(ctx, card.Ref) },
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("open the card: %w", err)
	}
	switch opened.knowledge {
	case job.Known:
		return c.opened(ctx, l, o, card, opened.record)
	case job.Refused:
		return c.refuse(ctx, l, card, opened.refusal)
	case job.Untraceable:
		return order.Progress{State: order.Doubtful, Reason: "the issuer shows no trace of the opening", Evidence: evidence(card)}, nil
	case job.Unknown:
	}
	return c.wait(o, card), nil
}

// Postings implements settlement.Product. A card is posted when it becomes ACTIVE, which may be after an operator has
// delivered it by hand, and its fee when the fee's job ends.
func (c *Cards) Postings(order.Order) ([]ledger.Posting, error) { return nil, nil }

// opening is what a card is opened with. Where the issuer has limits nobody can spend the fee: it never is on
// the card.
func (c *Cards) opening(o order.Order) money.Cents {
	if c.Capabilities.SpendLimit {
		return o.Price - Fee
	}
	return o.Price
}

// opened acts on the issuer's record of the card.
func (c *Cards) opened(ctx context.Context, l *job.Lease, o order.Order, card Card, a Account) (order.Progress, error) {
	card.Account, card.Last4 = a.ID, a.Last4
	switch a.State {
	case AccountActive, AccountFrozen:
		if err := c.Store.Activate(ctx, l.Fence(), card, card.Postings(), feeJob(card, o)); err != nil {
			return order.Progress{}, fmt.Errorf("activate the card: %w", err)
		}
		faultpoint.Reach("card.activated")
		return delivered(card), nil
	case AccountRejected:
		return c.refuse(ctx, l, card, a.Refusal)
	case AccountClosed:
		// Opened and closed again before anyone saw it active: only a person can say what was lost.
		return order.Progress{State: order.Doubtful, Reason: "the issuer closed the card before it was active", Evidence: evidence(card)}, nil
	case AccountPending:
	}
	return c.wait(o, card), nil
}

// wait goes on looking until the issuer's time is up.
func (c *Cards) wait(o order.Order, card Card) order.Progress {
	// Since the delivery began: an operator's retry gives the issuer its time again.
	if c.Now().Sub(o.UpdatedAt) > c.Deadline {
		return order.Progress{State: order.Doubtful, Reason: "the issuer left the card pending for too long", Evidence: evidence(card)}
	}
	return order.Progress{State: order.Waiting, After: c.pace(o)}
}

func (c *Cards) pace(o order.Order) time.Duration { return job.Pace(c.Poll, c.Now().Sub(o.UpdatedAt)) }

func (c *Cards) refuse(ctx context.Context, l *job.Lease, card Card, no *Refusal) (order.Progress, error) {
	if err := c.Store.Fail(ctx, l.Fence(), card.ID); err != nil {
		return order.Progress{}, fmt.Errorf("fail the card: %w", err)
	}
	if no == nil {
		no = &Refusal{Code: RefusedUnstated}
	}
	ev := evidence(card)
	ev["refusal"], ev["issuer_message"] = no.Code, no.Message
	return order.Progress{State: order.Refused, Reason: no.Code, Evidence: ev}, nil
}

func delivered(card Card) order.Progress {
	return order.Progress{State: order.Delivered, Reason: "card active", Evidence: evidence(card)}
}

func evidence(card Card) map[string]string {
	return map[string]string{"card": card.ID.String(), "reference": card.Ref.String()}
}
