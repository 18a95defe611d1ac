package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// FeeJob is the kind of the job that withdraws the platform fee from an ACTIVE card.
const FeeJob job.Kind = "card_issue_fee"

// FeeArgs are the arguments of a fee job. Version is the retry version, not the row's lock version: each version has
// its own reference at the issuer.
type FeeArgs struct {
	Card    uuid.UUID `json:"card"`
	Order   string    `json:"order"`
	Account string    `json:"account"`
	// Provider is the name of the card's issuer.
	Provider string      `json:"provider,omitempty"`
	Amount   money.Cents `json:"amountUsdCents"`
	Version  int         `json:"version"`
	// Since is when an operator has asked for this version; the zero time is when the job was made.
	Since time.Time `json:"since,omitzero"`
	// Opening is the reference of the card's opening; empty for jobs that are older than this field.
	Opening string `json:"opening,omitempty"`
	// Kept says that the card was opened without the fee, so that taking it is a posting only.
	Kept bool `json:"kept,omitempty"`
	// Owed says that the balance was too low for a withdrawal, WrittenOff that an operator has written the fee off.
	Owed       bool `json:"owed,omitempty"`
	WrittenOff bool `json:"writtenOff,omitempty"`
}

// Outstanding reports whether the fee is owed and not written off.
func (a FeeArgs) Outstanding(status job.Status) bool {
	return a.Owed && !a.WrittenOff && status != job.Succeeded
}

// Postings are the ledger postings of a fee job in a status.
func (a FeeArgs) Postings(status job.Status) []ledger.Posting {
	card := a.Card.String()
	var all []ledger.Posting
	if a.Owed {
		all = append(all, ledger.FeeOwed(a.Order, card, a.Amount))
	}
	if a.WrittenOff {
		all = append(all, ledger.FeeWrittenOff(a.Order, card, a.Amount))
	}
	debt := ledger.Receivable(card)
	if a.WrittenOff {
		debt = ledger.IssueFeeCost
	}
	switch {
	case status != job.Succeeded:
	case a.Kept:
		all = append(all, ledger.FeeKept(a.Order, a.Amount))
	case a.Owed:
		all = append(all, ledger.FeeCollected(a.Order, card, a.Amount, debt))
	default:
		all = append(all, ledger.FeeWithdrawn(a.Order, card, a.Amount))
	}
	return all
}

// begun is since when the issuer may be asked for this version.
func (a FeeArgs) begun(row job.Row) time.Time {
	if a.Since.IsZero() {
		return row.CreatedAt
	}
	return a.Since
}

// Kind implements job.Args.
func (FeeArgs) Kind() job.Kind { return FeeJob }

// Ref is the reference of this version's withdrawal. It is derived from the card's opening, so that a card whose row
// was lost is not charged again.
func (a FeeArgs) Ref() fulfilment.Ref {
	of := a.Opening
	if of == "" {
		of = a.Card.String()
	}
	return fulfilment.DeriveRef(references, fmt.Sprintf("fee/%s/%d", of, a.Version))
}

func feeJob(c Card, o order.Order) job.New {
	return job.New{
		Args: FeeArgs{
			Card: c.ID, Order: string(c.Order), Account: c.Account, Provider: c.Provider, Amount: Fee, Version: 1,
			Opening: c.Ref.String(), Kept: c.Load < o.Price,
		},
		UniqueKey: c.ID.String(), Class: job.Deliver,
	}
}

// WithdrawFee handles a fee job: it asks the issuer once for the withdrawal of this version, and reads it back until
// its outcome is known.
func (c *Cards) WithdrawFee(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[FeeArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the fee job: %w", err)
	}
	faultpoint.Reach("fee.leased")
	if a.Kept {
		if err := c.Store.FeeTaken(ctx, l.Fence(), a.Postings(job.Succeeded)); err != nil {
			return job.Outcome{}, fmt.Errorf("record the kept fee: %w", err)
		}
		return job.Recorded(), nil
	}
	at, err := c.at(a.Provider)
	if errors.Is(err, errNotConfigured) {
		elsewhere := c.anyProvider().Elsewhere(a.Provider, a.begun(l.Row()))
		if elsewhere.State == order.Waiting {
			return job.Snooze(elsewhere.After), nil
		}
		return job.Review(elsewhere.Reason), nil
	}
	switch _, err := c.Store.TakeTurn(ctx, l.Fence(), MovementLock{Card: a.Card, FeeJob: l.Row().ID, Ref: a.Ref()}); {
	case errors.Is(err, ErrBusy):
		// Nothing is sent, so no time of the issuer's runs.
		return job.Snooze(c.Poll), nil
	case err != nil:
		return job.Outcome{}, fmt.Errorf("take the card: %w", err)
	}
	faultpoint.Reach("fee.turn")
	took, err := fulfilment.Make(ctx, l, c.provider(at), fulfilment.Call[MovementRecord]{
		Step: fmt.Sprintf("withdraw/%d", a.Version),
		Send: func(ctx context.Context) (MovementRecord, error) {
			if err := faultpoint.Fail("fee.before_withdraw"); err != nil {
				return MovementRecord{}, err
			}
			m, err := at.Issuer.Move(ctx, Movement{
				Ref: a.Ref(), Account: a.Account, Direction: Withdrawal, Amount: a.Amount,
			})
			return m, errors.Join(err, faultpoint.Fail("fee.after_withdraw"))
		},
		Read: func(ctx context.Context) (MovementRecord, error) { return at.Issuer.Moved(ctx, a.Account, a.Ref()) },
	})
	c.balances.Delete(a.Card)
	if err != nil {
		return job.Outcome{}, fmt.Errorf("withdraw the fee: %w", err)
	}
	switch took.Kind {
	case fulfilment.Refused:
		return c.feeRefused(ctx, l, a, took.Refusal)
	case fulfilment.Untraceable:
		return job.Review("the issuer shows no trace of the withdrawal"), nil
	case fulfilment.Known:
		switch m := took.Record; m.State {
		case MoveSucceeded:
			faultpoint.Reach("fee.taken")
			if err := c.Store.FeeTaken(ctx, l.Fence(), a.Postings(job.Succeeded)); err != nil {
				return job.Outcome{}, fmt.Errorf("record the fee: %w", err)
			}
			return job.Recorded(), nil
		case MoveFailed:
			return c.feeRefused(ctx, l, a, m.Refusal)
		case MovePending:
		}
	case fulfilment.Unknown:
	}
	after, ok := c.provider(at).Wait(a.begun(l.Row()))
	if !ok {
		return job.Review("the issuer left the withdrawal undecided for too long"), nil
	}
	return job.Snooze(after), nil
}

// feeRefused ends a job whose withdrawal the issuer refused. If the holder has spent the money, the fee is owed.
func (c *Cards) feeRefused(
	ctx context.Context, l *job.Lease, a FeeArgs, refusal *fulfilment.Refusal,
) (job.Outcome, error) {
	refusal = refusal.Stated()
	if refusal.Code != RefusedFunds {
		return job.Fail(refusal.Code), nil
	}
	a.Owed = true
	if err := c.Store.FeeOwed(ctx, l.Fence(), a.Postings(job.Failed)); err != nil {
		return job.Outcome{}, fmt.Errorf("record the owed fee: %w", err)
	}
	faultpoint.Reach("owe.committed")
	return job.Recorded(), nil
}
