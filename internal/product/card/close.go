package card

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
)

// Closer is what an issuer does to end a card, as far as Capabilities say so.
type Closer interface {
	// Remainder reads what is left on a card. A card that is frozen shows what nobody can spend any more.
	Remainder(ctx context.Context, account string) (Remainder, error)
	// Close ends a card for good. Asked twice it changes nothing more. It answers with the card's state then; a
	// *fulfilment.Refusal says that the issuer does not allow it.
	Close(ctx context.Context, account string) (AccountState, error)
}

// Remainder is what is left on a card.
type Remainder struct {
	// Available can be withdrawn now. It is never negative.
	Available money.Cents
	// Held says that a merchant holds an amount which it may take or release: what is available is not all that is left.
	Held bool
}

// CloseJob is the kind of the job that closes a card.
const CloseJob job.Kind = "card_close"

// Stage is how far the closing of a card is. The stored stage alone decides the next step.
type Stage string

// The stages, in their order. A card without a remainder goes from StageLocking to StageEnding.
const (
	// StageLocking: the card is being locked at the issuer; merchants' holds and other movements are waited for.
	StageLocking Stage = "locking"
	// StageWithdrawing: the remainder is known, and its withdrawal is, or may have been, asked for.
	StageWithdrawing Stage = "withdrawing"
	// StageRefunding: the issuer has confirmed the withdrawal; the remainder is owed to the owner.
	StageRefunding Stage = "refunding"
	// StageEnding: the owner has the remainder, and the card is being closed at the issuer.
	StageEnding Stage = "ending"
	// StageClosed: the issuer has closed the card.
	StageClosed Stage = "closed"
)

// CloseArgs are the arguments of the job that closes a card, with how far that is.
type CloseArgs struct {
	Card  uuid.UUID `json:"card"`
	Order string    `json:"order"`
	// Account is the issuer's ID of the card, and Opening the reference that it was opened with.
	Account string `json:"account"`
	Opening string `json:"opening"`
	// Provider is the name of the card's issuer.
	Provider string `json:"provider,omitempty"`
	Stage    Stage  `json:"stage"`
	// Since is when the stage began, or an operator asked to go on with it.
	Since time.Time `json:"since"`
	// After is when the remainder may be read: an owner's unfreezing that was under way has ended by then.
	After time.Time `json:"after"`
	// Version counts the withdrawals: each has its own reference, and follows one that the issuer confirmed as failed.
	Version int `json:"version"`
	// Remainder is the amount of the withdrawal from StageWithdrawing on, and Target the limit that it leaves at an
	// issuer with limits.
	Remainder money.Cents `json:"remainderUsdCents"`
	Target    money.Cents `json:"targetUsdCents"`
	// Reference is that of the withdrawal, as books have it.
	Reference string `json:"reference,omitempty"`
	// Earlier are the amounts of the versions before, which the issuer confirmed as failed. Short is the last of them, if
	// too little was on the card for it.
	Earlier []money.Cents `json:"earlierUsdCents,omitempty"`
	Short   money.Cents   `json:"shortUsdCents,omitempty"`
	// ByHand is the transaction that refunded the remainder, where an operator did it by hand.
	ByHand string `json:"byHand,omitempty"`
}

// Kind implements job.Args.
func (CloseArgs) Kind() job.Kind { return CloseJob }

// Ref is the reference of this version's withdrawal. It follows from the card's opening, so that a closing whose job
// was lost finds its withdrawal.
func (a CloseArgs) Ref() fulfilment.Ref { return a.ref(a.Version) }

func (a CloseArgs) ref(version int) fulfilment.Ref {
	return fulfilment.DeriveRef(references, fmt.Sprintf("close/%s/%d", a.Opening, version))
}

// Withdrawn reports whether the issuer has confirmed the withdrawal of a remainder.
func (a CloseArgs) Withdrawn() bool {
	return a.Remainder > 0 && (a.Stage == StageRefunding || a.Returned())
}

// Returned reports whether the owner has got a remainder back.
func (a CloseArgs) Returned() bool {
	return a.Remainder > 0 && (a.Stage == StageEnding || a.Stage == StageClosed)
}

// Postings are the ledger postings of a closing.
func (a CloseArgs) Postings() (all []ledger.Posting) {
	if a.Withdrawn() {
		all = append(all, ledger.Remainder(a.Order, a.Card.String(), a.Remainder))
	}
	if a.Returned() {
		all = append(all, a.Return())
	}
	return all
}

// Return is the posting of the refund of a remainder.
func (a CloseArgs) Return() ledger.Posting { return ledger.Returned(a.Order, a.Remainder.USDC()) }

// at is the closing as it begins a stage.
func (a CloseArgs) at(stage Stage, now time.Time) CloseArgs {
	a.Stage, a.Since = stage, now
	return a
}

// Closings closes cards:
//
//	locking ─► withdrawing ─► refunding ─► ending ─► closed
//	   │            │ refused for funds       ▲
//	   │◄───────────┘                         │
//	   └─ nothing is left ────────────────────┘
//
// What cannot go on waits for an operator, with its stage.
type Closings struct {
	Cards   *Cards
	Store   CloseStore
	Refunds Refunds
	// LongestHold is how long a merchant's hold is waited for; 32 days if zero. Merchants of hotels and rented cars hold
	// up to 30.
	LongestHold time.Duration
}

// CloseStore keeps closings. Its writes have the fence of the closing's job.
type CloseStore interface {
	// SaveClosing stores how far a closing is, and adds the postings, in one transaction.
	SaveClosing(ctx context.Context, f job.Fence, a CloseArgs, postings ...ledger.Posting) error
}

// Refunds pay what was withdrawn from a card back to its owner.
type Refunds interface {
	// Return takes one step in paying an amount back to the payer of a delivered order. It may be called any number of
	// times, and never pays twice. Once the payment is proven, it stores the job's next arguments and the postings in the
	// same transaction, and the progress is Delivered.
	Return(ctx context.Context, l *job.Lease, r payment.Return) (order.Progress, error)
}

// Jobs are the closings.
func (c *Closings) Jobs() []job.Work {
	return []job.Work{{Kind: CloseJob, Handler: c.Close, Resume: "admin cards"}}
}

const longestHold = 32 * 24 * time.Hour

// seldom is how often a closing is looked at that waits for what may take weeks, at least.
const seldom = time.Hour

// Close handles a closing: it takes every step that is possible now.
func (c *Closings) Close(ctx context.Context, l *job.Lease) (job.Outcome, error) {
	a, err := job.Decode[CloseArgs](l.Row())
	if err != nil {
		return job.Outcome{}, fmt.Errorf("read the closing: %w", err)
	}
	faultpoint.Reach("close.leased")
	for {
		next, wait, err := c.step(ctx, l, a)
		if err != nil || wait != nil {
			return deref(wait), err
		}
		if next.Stage == StageClosed {
			return job.Done(), nil
		}
		a = next
	}
}

func deref(o *job.Outcome) job.Outcome {
	if o == nil {
		return job.Outcome{}
	}
	return *o
}

// step takes the step of a closing's stage. It returns the closing as it is stored then, or how the job ends for now.
func (c *Closings) step(ctx context.Context, l *job.Lease, a CloseArgs) (CloseArgs, *job.Outcome, error) {
	if a.Stage == StageRefunding {
		return c.refund(ctx, l, a)
	}
	at, err := c.Cards.at(a.Provider)
	if err != nil {
		return a, nil, err
	}
	switch a.Stage {
	case StageLocking:
		return c.lock(ctx, at, l, a)
	case StageWithdrawing:
		return c.withdraw(ctx, at, l, a)
	case StageEnding:
		return c.end(ctx, at, l, a)
	case StageRefunding, StageClosed:
		return a, nil, nil
	}
	return a, nil, fmt.Errorf("the closing of card %s is in the unknown stage %q", a.Card, a.Stage)
}

// pending waits for the issuer, or leaves the closing to an operator once its deadline has passed.
func (c *Closings) pending(at *provider, a CloseArgs, tooLong string) (CloseArgs, *job.Outcome, error) {
	after, ok := c.Cards.provider(at).Wait(a.Since)
	if !ok {
		return review(a, tooLong)
	}
	return snooze(a, after)
}

func snooze(a CloseArgs, after time.Duration) (CloseArgs, *job.Outcome, error) {
	o := job.Snooze(after)
	return a, &o, nil
}

func review(a CloseArgs, why string) (CloseArgs, *job.Outcome, error) {
	o := job.Review(why)
	return a, &o, nil
}

func (c *Closings) save(
	ctx context.Context, l *job.Lease, a CloseArgs, postings ...ledger.Posting,
) (CloseArgs, *job.Outcome, error) {
	if err := c.Store.SaveClosing(ctx, l.Fence(), a, postings...); err != nil {
		return a, nil, fmt.Errorf("store the closing: %w", err)
	}
	faultpoint.Reach("close.committed")
	return a, nil, nil
}

// lock makes the card unspendable, and then finds out what is left on it. From here on nobody loads or spends.
func (c *Closings) lock(ctx context.Context, at *provider, l *job.Lease, a CloseArgs) (CloseArgs, *job.Outcome, error) {
	call, cancel := fault.Within(ctx, c.Cards.CallTimeout)
	defer cancel()
	state, err := at.Controls.SetFrozen(call, a.Account, true)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		return review(a, "the issuer does not lock the card: "+no.Stated().Code)
	}
	switch {
	case err != nil, state == AccountPending:
		c.unclear(ctx, a, "lock the card", err)
		return c.pending(at, a, "the issuer left the lock undecided for too long")
	case state != AccountFrozen:
		return review(a, "the card is "+string(state)+" at the issuer")
	}
	if err := c.observe(ctx, a, Frozen); err != nil {
		return a, nil, err
	}
	faultpoint.Reach("close.locked")
	books, err := c.Cards.Store.TakeTurn(ctx, l.Fence(), MovementLock{
		Card: a.Card, FeeJob: l.Row().ID, Ref: a.Ref(), Held: true, Closing: true,
	})
	switch {
	case errors.Is(err, ErrBusy):
		// A top-up that the issuer may have been asked for is on the card, or is refunded, before the remainder is read. An
		// operator may have to decide about it.
		return snooze(a, min(c.Cards.provider(at).Pace(a.Since), seldom))
	case err != nil:
		return a, nil, fmt.Errorf("take the card: %w", err)
	}
	if left := a.After.Sub(c.Cards.Now()); left > 0 {
		return snooze(a, left)
	}
	return c.measure(ctx, at, l, a, books)
}

// measure reads the remainder of a locked card. books is what is on the card by our books, before its holder spends.
func (c *Closings) measure(
	ctx context.Context, at *provider, l *job.Lease, a CloseArgs, books money.Cents,
) (CloseArgs, *job.Outcome, error) {
	call, cancel := fault.Within(ctx, c.Cards.CallTimeout)
	defer cancel()
	now := c.Cards.Now()
	// A closing that our data has lost may have withdrawn the remainder already.
	switch made, err := at.Issuer.Moved(call, a.Account, a.Ref()); {
	case err == nil && made.State == MoveFailed:
		a.Remainder = made.Amount
		return c.refused(ctx, l, a, made.Refusal)
	case err == nil && made.Direction == Withdrawal && made.Amount > 0 && made.Amount <= books:
		return c.withdrawing(ctx, at, l, a, made.Amount, books)
	case err == nil:
		return review(a, "the issuer has another movement under the reference of the withdrawal")
	case !errors.Is(err, fulfilment.ErrNoRef):
		c.unclear(ctx, a, "look for the withdrawal", err)
		return c.pending(at, a, "the issuer does not say whether the remainder was withdrawn")
	}
	left, err := at.Closer.Remainder(call, a.Account)
	switch {
	case err != nil:
		c.unclear(ctx, a, "read the remainder", err)
		return c.pending(at, a, "the issuer does not say what is left on the card")
	case left.Held && now.Sub(a.Since) > cmp.Or(c.LongestHold, longestHold):
		return review(a, "a merchant holds a part of the card's balance for too long")
	case left.Held:
		return snooze(a, min(c.Cards.provider(at).Pace(a.Since), seldom))
	case left.Available > books:
		return review(a, fmt.Sprintf("%s is left on the card, and our books have only put %s on it", left.Available, books))
	case left.Available > 0 && left.Available == a.Short:
		return review(a, "the issuer refused the withdrawal: "+RefusedFunds)
	case left.Available <= 0:
		return c.save(ctx, l, a.at(StageEnding, now))
	}
	return c.withdrawing(ctx, at, l, a, left.Available, books)
}

func (c *Closings) withdrawing(
	ctx context.Context, at *provider, l *job.Lease, a CloseArgs, amount, books money.Cents,
) (CloseArgs, *job.Outcome, error) {
	a = a.at(StageWithdrawing, c.Cards.Now())
	a.Remainder, a.Reference = amount, a.Ref().String()
	if at.Capabilities.Funding == Limit {
		a.Target = books - amount
	}
	return c.save(ctx, l, a)
}

// withdraw takes the remainder from the card, once. Only the issuer's own record of it lets the closing go on.
func (c *Closings) withdraw(
	ctx context.Context, at *provider, l *job.Lease, a CloseArgs,
) (CloseArgs, *job.Outcome, error) {
	took, err := fulfilment.Make(ctx, l, c.Cards.provider(at), fulfilment.Call[MovementRecord]{
		Step: fmt.Sprintf("close/%d", a.Version),
		Send: func(ctx context.Context) (MovementRecord, error) {
			if err := faultpoint.Fail("close.before_withdraw"); err != nil {
				return MovementRecord{}, err
			}
			m, err := at.Issuer.Move(ctx, Movement{
				Ref: a.Ref(), Account: a.Account, Direction: Withdrawal, Amount: a.Remainder, Target: a.Target,
			})
			return m, errors.Join(err, faultpoint.Fail("close.after_withdraw"))
		},
		Read: func(ctx context.Context) (MovementRecord, error) { return at.Issuer.Moved(ctx, a.Account, a.Ref()) },
	})
	c.Cards.balances.Delete(a.Card)
	if err != nil {
		return a, nil, fmt.Errorf("withdraw the remainder: %w", err)
	}
	switch took.Kind {
	case fulfilment.Refused:
		return c.refused(ctx, l, a, took.Refusal)
	case fulfilment.Untraceable:
		return review(a, "the issuer shows no trace of the withdrawal")
	case fulfilment.Known:
		switch m := took.Record; m.State {
		case MoveSucceeded:
			if m.Amount != a.Remainder || m.Direction != Withdrawal || (m.Target != 0 && m.Target != a.Target) {
				return review(a, "the issuer made another withdrawal")
			}
			faultpoint.Reach("close.withdrawn")
			a = a.at(StageRefunding, c.Cards.Now())
			return c.save(ctx, l, a, a.Postings()...)
		case MoveFailed:
			return c.refused(ctx, l, a, m.Refusal)
		case MovePending:
		}
	case fulfilment.Unknown:
	}
	return c.pending(at, a, "the issuer left the withdrawal undecided for too long")
}

// refused goes on after a withdrawal that the issuer confirmed as failed: the next has another reference. Too little
// was on the card when a merchant took something after all; then what is left is read again.
func (c *Closings) refused(
	ctx context.Context, l *job.Lease, a CloseArgs, refusal *fulfilment.Refusal,
) (CloseArgs, *job.Outcome, error) {
	code := refusal.Stated().Code
	again := a.at(StageLocking, c.Cards.Now())
	again.Version++
	again.Earlier = append(slices.Clone(a.Earlier), a.Remainder)
	again.Remainder, again.Target, again.Reference, again.Short = 0, 0, "", 0
	if code == RefusedFunds {
		again.Short = a.Remainder
	}
	again, wait, err := c.save(ctx, l, again)
	if err != nil || wait != nil || code == RefusedFunds {
		return again, wait, err
	}
	return review(again, "the issuer refused the withdrawal: "+code)
}

// refund pays the withdrawn remainder back to the owner.
func (c *Closings) refund(ctx context.Context, l *job.Lease, a CloseArgs) (CloseArgs, *job.Outcome, error) {
	next := a.at(StageEnding, c.Cards.Now())
	at, err := c.Refunds.Return(ctx, l, payment.Return{
		Order: order.ID(a.Order), Amount: a.Remainder.USDC(), Next: next,
		Postings: []ledger.Posting{a.Return()},
	})
	if err != nil {
		return a, nil, fmt.Errorf("refund the remainder: %w", err)
	}
	switch at.State {
	case order.Delivered:
		return next, nil, nil
	case order.Waiting:
		return snooze(a, at.After)
	case order.Refused, order.Doubtful:
	}
	return review(a, at.Reason)
}

// end closes the empty card at its issuer.
func (c *Closings) end(ctx context.Context, at *provider, l *job.Lease, a CloseArgs) (CloseArgs, *job.Outcome, error) {
	call, cancel := fault.Within(ctx, c.Cards.CallTimeout)
	defer cancel()
	faultpoint.Reach("close.before_end")
	state, err := at.Closer.Close(call, a.Account)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		return review(a, "the issuer does not close the card: "+no.Stated().Code)
	}
	if err != nil || state != AccountClosed {
		c.unclear(ctx, a, "close the card", err)
		return c.pending(at, a, "the issuer left the closing undecided for too long")
	}
	faultpoint.Reach("close.ended")
	if err := c.observe(ctx, a, Closed); err != nil {
		return a, nil, err
	}
	return c.save(ctx, l, a.at(StageClosed, c.Cards.Now()))
}

// observe stores the card's status, of which the issuer has just told.
func (c *Closings) observe(ctx context.Context, a CloseArgs, status Status) error {
	opening, err := uuid.Parse(a.Opening)
	if err != nil {
		return fmt.Errorf("read the opening's reference: %w", err)
	}
	return c.Cards.observe(ctx, Seen{Ref: fulfilment.Ref(opening), Status: status, Provider: a.Provider})
}

func (c *Closings) unclear(ctx context.Context, a CloseArgs, what string, err error) {
	c.Cards.Log.WarnContext(ctx, "closing waits for the issuer", slog.String("card", a.Card.String()),
		slog.String("step", what), slog.Any("error", err))
}
