package roamcard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour
	// reservation is how long a budget stays taken by a program that died before it signed.
	reservation = 15 * time.Minute
)

// journal is the rules of a book: what is signed is kept before it is sent.
type journal struct {
	Store
	now func() time.Time
}

// find gives the payment of a purchase that is under way or settled; ok is false when there is none.
func (j journal) find(ctx context.Context, c call) (e Entry, ok bool, err error) {
	b, err := j.Read(ctx)
	if err != nil {
		return Entry{}, false, fmt.Errorf("look into the journal: %w", err)
	}
	e, ok = b.Entries[c.id]
	if !ok || e.State == Refused || e.State == Reserved {
		return Entry{}, false, nil
	}
	return e, true, fits(e, c)
}

// fits says that a key is used for the request it belongs to.
func fits(e Entry, c call) error {
	if e.Body != c.digest {
		return denied(ErrKeyConflict, "%q belongs to another request; use a new key for a new purchase", c.idempotencyKey)
	}
	return nil
}

// reserve takes the budget of a purchase, unless that would pass the cap of a day, and says how many
// authorizations of it are dead.
func (j journal) reserve(ctx context.Context, c call, e Entry, limit Cents) (attempt int, err error) {
	err = j.Update(ctx, func(b *Book) error {
		now := j.now()
		spent := e.Amount
		for id, other := range b.Entries {
			if id != c.id && other.counts(now) {
				spent += other.Amount
			}
		}
		if limit > 0 && spent > limit {
			return denied(ErrPolicyDenied, "with it, %s USD would be spent in a day, and the cap is %s", spent, limit)
		}
		attempt = b.Entries[c.id].Attempt
		e.State, e.At, e.Attempt = Reserved, now.UTC(), attempt
		b.Entries[c.id] = e
		return nil
	})
	return attempt, err
}

// counts says whether an entry takes part of the budget of the last day.
func (e Entry) counts(now time.Time) bool {
	switch {
	case !e.At.After(now.Add(-day)):
		return false
	case e.State == Reserved:
		return e.At.After(now.Add(-reservation))
	case e.State == Refused:
		return e.ValidBefore.After(now)
	}
	return true
}

// sign keeps a signed header.
func (j journal) sign(ctx context.Context, id, header string, validBefore time.Time) (signed Entry, err error) {
	err = j.Update(ctx, func(b *Book) error {
		e, ok := b.Entries[id]
		if !ok || e.State != Reserved {
			// The lock was lost, as by a store that was moved away: what is signed now must not be sent.
			return errors.New("the journal was changed meanwhile")
		}
		e.State, e.Header, e.ValidBefore, e.At = Signed, header, validBefore.UTC(), j.now().UTC()
		b.Entries[id], signed = e, e
		return nil
	})
	return signed, err
}

// release gives a budget back that was taken for nothing. How many authorizations died is kept.
func (j journal) release(ctx context.Context, id string) error {
	return j.Update(ctx, func(b *Book) error {
		e, ok := b.Entries[id]
		switch {
		case !ok || e.State != Reserved:
		case e.Attempt > 0:
			e.State = Refused
			b.Entries[id] = e
		default:
			delete(b.Entries, id)
		}
		return nil
	})
}

func (j journal) settle(ctx context.Context, id string) error {
	return j.end(ctx, id, func(e *Entry) { e.State = Settled })
}

// refuse keeps that the service took no money. Unless it also said that a new payment is safe, or proved this
// one dead, the budget stays taken until the authorization dies.
func (j journal) refuse(ctx context.Context, id, header string, safe, dead bool) error {
	return j.end(ctx, id, func(e *Entry) {
		// What is paid stays paid, whatever a repeat of it is told.
		if e.State != Signed || e.Header != header {
			return
		}
		e.State, e.Header = Refused, ""
		if dead {
			e.Attempt++
		}
		if safe || dead {
			e.ValidBefore = time.Time{}
		}
	})
}

func (j journal) end(ctx context.Context, id string, change func(*Entry)) error {
	// What was answered is worth keeping even for a caller who has gone.
	return j.Update(context.WithoutCancel(ctx), func(b *Book) error {
		if e, ok := b.Entries[id]; ok {
			change(&e)
			b.Entries[id] = e
		}
		return nil
	})
}

// pin keeps the payee of an origin when it is first seen, and refuses another one ever after.
func (j journal) pin(ctx context.Context, origin, payTo string) error {
	b, err := j.Read(ctx)
	if err != nil {
		return fmt.Errorf("look into the journal: %w", err)
	}
	pinned, known := b.Payees[origin]
	if !known {
		err = j.Update(ctx, func(b *Book) error {
			if pinned, known = b.Payees[origin]; !known {
				pinned, b.Payees[origin] = payTo, payTo
			}
			return nil
		})
	}
	if err == nil && !strings.EqualFold(pinned, payTo) {
		err = denied(ErrTermsMismatch, "the payee of %s was %s and now is %s; set Policy.PayTo to the right one", origin, pinned, payTo)
	}
	return err
}
