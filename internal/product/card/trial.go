package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
)

// TrialIssuer is an issuer as a trial needs it.
type TrialIssuer interface {
	Issuer
	Vault
	Stock
	Traits() fulfilment.Traits
	Capabilities() Capabilities
}

// The amounts of a trial: what a card opens with, what is loaded onto it, and what both need of the float.
const (
	trialOpening money.Cents = 200
	trialLoad    money.Cents = 100
	trialFloat   money.Cents = 500
)

// Try opens a card at an issuer's sandbox, loads it, empties it and freezes it, sends references again with the same
// body and with another, and compares what the issuer does with what cards are sold by. It must not meet an issuer
// whose money is real. The card stays, frozen where the issuer can do that.
func Try(ctx context.Context, at TrialIssuer, callTimeout time.Duration) []fulfilment.Observed {
	t := &trial{
		Trial:  fulfilment.Trial{CallTimeout: callTimeout, Deadline: at.Traits().VisibilityDelay + 2*time.Minute},
		issuer: at, can: at.Capabilities(), once: at.Traits().Deduplicates,
	}
	t.opening = Opening{Ref: fulfilment.NewTrialRef(), Load: trialOpening, Limit: t.can.Funding == Limit}
	if t.stock(ctx) && t.unknown(ctx) && t.open(ctx) {
		t.openAgain(ctx)
		if t.load(ctx) {
			t.loadAgain(ctx)
			t.empty(ctx)
		}
		t.controls(ctx)
	}
	return t.Found
}

const neverTwice = "it does not deduplicate, and is never asked twice"

// trial is one trial of an issuer.
type trial struct {
	fulfilment.Trial
	issuer TrialIssuer
	can    Capabilities
	// once: the issuer deduplicates. Nothing is sent twice to another.
	once    bool
	opening Opening
	account Account
	loading Movement
}

func (t *trial) stock(ctx context.Context) bool {
	stock, err := fulfilment.TrialCall(ctx, &t.Trial, t.issuer.Stock)
	if err == nil && stock.Float < trialFloat {
		t.Skip("opens a card", fmt.Sprintf("the float is %s, a trial needs %s", stock.Float.String(), trialFloat.String()))
		return false
	}
	return t.Saw("reads the float", stock.Float.String(), err)
}

// unknown reads a reference that nothing was sent under.
func (t *trial) unknown(ctx context.Context) bool {
	_, err := fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Account, error) {
		return t.issuer.Account(ctx, fulfilment.NewTrialRef())
	})
	return t.SawAbsent("knows no reference that was not sent", "no such reference", err, fulfilment.ErrNoRef)
}

func (t *trial) open(ctx context.Context) bool {
	const step = "opens a card"
	opened, err := fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (Account, error) {
		return t.issuer.Open(ctx, t.opening)
	})
	if err != nil {
		return t.Saw(step, "", err)
	}
	read := func(ctx context.Context) (Account, error) { return t.issuer.Account(ctx, t.opening.Ref) }
	account, took, err := fulfilment.TrialWait(ctx, &t.Trial, read,
		func(a Account) bool { return a.State != AccountPending })
	switch {
	case err != nil:
	case account.State != AccountActive:
		err = fmt.Errorf("the card is %s: %w", account.State, account.Refusal.Stated())
	case opened.ID != "" && account.ID != opened.ID:
		err = errors.New("its reference finds another card")
	case account.Loaded != t.opening.Load:
		err = fmt.Errorf("%s was asked for, and %s is on it", t.opening.Load.String(), account.Loaded.String())
	}
	t.account = account
	return t.Saw(step, fmt.Sprintf("active and found by its reference after %s", took), err)
}

// openAgain sends the reference of the card again, as it is sent after an answer that was lost.
func (t *trial) openAgain(ctx context.Context) {
	const same, other = "opens it once when asked twice", "refuses no lost opening"
	if !t.once {
		t.Skip(same, neverTwice)
		t.Skip(other, neverTwice)
		return
	}
	again := func(o Opening) (Account, error) {
		return fulfilment.TrialCall(ctx, &t.Trial,
			func(ctx context.Context) (Account, error) { return t.issuer.Open(ctx, o) })
	}
	got, err := again(t.opening)
	if err == nil && got.ID != t.account.ID {
		err = errors.New("it opens a second card")
	}
	t.Saw(same, "the same card", err)
	changed := t.opening
	changed.Load += trialLoad
	got, err = again(changed)
	detail := "with another body it is the same card"
	if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		err = fmt.Errorf("with another body it is refused, which would refund a card that is there: %w", err)
	} else if err != nil {
		detail, err = "with another body it is unclear: "+err.Error(), nil
	} else if got.ID != t.account.ID {
		err = errors.New("with another body it opens a second card")
	}
	t.Saw(other, detail, err)
}

// moved makes a movement, waits until it is decided, and reads the balance.
func (t *trial) moved(ctx context.Context, m Movement, want money.Cents) (detail string, err error) {
	send := func(ctx context.Context) (MovementRecord, error) { return t.issuer.Move(ctx, m) }
	_, err = fulfilment.TrialCall(ctx, &t.Trial, send)
	if err != nil {
		return "", err
	}
	read := func(ctx context.Context) (MovementRecord, error) { return t.issuer.Moved(ctx, m.Account, m.Ref) }
	decided := func(m MovementRecord) bool { return m.State != MovePending }
	got, took, err := fulfilment.TrialWait(ctx, &t.Trial, read, decided)
	if err != nil {
		return "", err
	}
	if got.State != MoveSucceeded {
		return "", got.Refusal.Stated()
	}
	balance := func(ctx context.Context) (Balance, error) { return t.issuer.Balance(ctx, m.Account) }
	has, shown, err := fulfilment.TrialWait(ctx, &t.Trial, balance, func(b Balance) bool { return b.Available == want })
	if err != nil {
		return "", fmt.Errorf("the balance is %s, not %s: %w", has.Available.String(), want.String(), err)
	}
	return fmt.Sprintf("found by its reference after %s, in the balance %s later", took, shown), nil
}

func (t *trial) load(ctx context.Context) bool {
	total := trialOpening + trialLoad
	t.loading = Movement{
		Ref: fulfilment.NewTrialRef(), Account: t.account.ID, Direction: Load, Amount: trialLoad, Target: total,
	}
	detail, err := t.moved(ctx, t.loading, total)
	return t.Saw("loads a card", detail, err)
}

func (t *trial) loadAgain(ctx context.Context) {
	const same, other = "loads once when asked twice", "refuses no lost load"
	if !t.once {
		t.Skip(same, neverTwice)
		t.Skip(other, neverTwice)
		return
	}
	total := trialOpening + trialLoad
	_, err := t.moved(ctx, t.loading, total)
	t.Saw(same, "the balance stays", err)
	changed := t.loading
	changed.Amount, changed.Target = changed.Amount+trialLoad, changed.Target+trialLoad
	_, err = fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (MovementRecord, error) {
		return t.issuer.Move(ctx, changed)
	})
	detail := "with another body it is the same load"
	if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		t.Saw(other, "", fmt.Errorf("with another body it is refused, which would refund a load that is there: %w", err))
		return
	} else if err != nil {
		detail = "with another body it is unclear: " + err.Error()
	}
	balance := func(ctx context.Context) (Balance, error) { return t.issuer.Balance(ctx, t.account.ID) }
	has, err := fulfilment.TrialCall(ctx, &t.Trial, balance)
	if err == nil && has.Available != total {
		err = fmt.Errorf("with another body it loads again: the balance is %s", has.Available.String())
	}
	t.Saw(other, detail, err)
}

// empty takes all off the card, and then more than there is.
func (t *trial) empty(ctx context.Context) {
	const step, more = "withdraws from a card", "refuses to withdraw what is not there"
	if t.can.Funding != Purse {
		t.Skip(step, "its cards have limits, and no money of their own")
		return
	}
	off := Movement{
		Ref: fulfilment.NewTrialRef(), Account: t.account.ID, Direction: Withdrawal, Amount: trialOpening + trialLoad,
	}
	detail, err := t.moved(ctx, off, 0)
	if !t.Saw(step, detail, err) {
		return
	}
	off.Ref, off.Amount = fulfilment.NewTrialRef(), trialLoad
	_, err = t.moved(ctx, off, 0)
	no, refused := errors.AsType[*fulfilment.Refusal](err)
	switch {
	case refused:
		t.Saw(more, "as "+no.Code, nil)
	case err == nil:
		t.Saw(more, "", errors.New("it takes a card below zero"))
	default:
		t.Saw(more, "not clearly: "+err.Error(), nil)
	}
}

// controls freezes the card, unfreezes it, and leaves it frozen.
func (t *trial) controls(ctx context.Context) {
	on, has := t.issuer.(Controls)
	if !has || !t.can.Freeze {
		t.Skip("freezes a card", "it is not declared")
	} else {
		var err error
		for _, frozen := range []bool{true, false, true} {
			want := AccountActive
			if frozen {
				want = AccountFrozen
			}
			state, call := fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) (AccountState, error) {
				return on.SetFrozen(ctx, t.account.ID, frozen)
			})
			if err = call; err == nil && state != want {
				err = fmt.Errorf("it is %s, not %s", state, want)
			}
			if err != nil {
				break
			}
		}
		t.Saw("freezes a card", "and unfreezes it; the card of this trial stays frozen", err)
	}
	if !has || !t.can.Transactions {
		t.Skip("lists transactions", "it is not declared")
		return
	}
	page, err := fulfilment.TrialCall(ctx, &t.Trial, func(ctx context.Context) ([]Transaction, error) {
		page, _, err := on.Transactions(ctx, t.account.ID, "", 10)
		return page, err
	})
	t.Saw("lists transactions", fmt.Sprintf("%d of a card that nobody used", len(page)), err)
}
