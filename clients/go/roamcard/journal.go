package roamcard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour
	// reservation is how long a budget stays taken by a program that died before it signed.
	reservation = 15 * time.Minute
	// turnFor is how long a turn to sign lasts unless it is held; holdEvery is how often it is.
	turnFor   = 10 * time.Second
	holdEvery = 3 * time.Second
)

// journal is the rules of a book: what is signed is kept before it is sent, and counts until the chain says
// otherwise.
type journal struct {
	Store
	now func() time.Time
}

// find gives a purchase that has a payment to send; ok is false when there is none.
func (j journal) find(ctx context.Context, c call) (e Entry, ok bool, err error) {
	b, err := j.Read(ctx)
	if err != nil {
		return Entry{}, false, err
	}
	e, ok = b.Purchases[c.id]
	if !ok || !e.sendable(j.now()) {
		return Entry{}, false, nil
	}
	return e, true, fits(e, c)
}

// named is the plan that the journal has for a purchase.
func (j journal) named(ctx context.Context, id string) (planID string, ok bool, err error) {
	b, err := j.Read(ctx)
	if err != nil {
		return "", false, err
	}
	var request struct {
		PlanID string `json:"planId"`
	}
	e, known := b.Purchases[id]
	if !known || json.Unmarshal(e.Request, &request) != nil || request.PlanID == "" {
		return "", false, nil
	}
	return request.PlanID, true, nil
}

// sendable says that the purchase has a payment whose bytes are the only ones to send: one that may have been
// taken, or that the chain could still take.
func (e Entry) sendable(now time.Time) bool {
	switch e.State {
	case Signed, Settled:
		return true
	case Refused:
		return e.Header != "" && !e.liveUntil(now).IsZero()
	}
	return false
}

// fits says that a key is used for the request it belongs to.
func fits(e Entry, c call) error {
	if digest(e.Request) != digest(c.asked) {
		return denied(ErrKeyConflict, "%q belongs to another request; use a new key for a new purchase", c.idempotencyKey)
	}
	return nil
}

// turn is what a purchase is given: to sign, or the payment that is signed already; neither while another
// program has the turn.
type turn struct {
	sign    bool
	payment *Entry
	attempt int
}

// reserve takes the turn to sign a purchase, and its budget; the cap of a day is checked and taken in one step.
func (j journal) reserve(ctx context.Context, c call, wanted Entry, limit Cents) (given turn, err error) {
	err = j.Update(ctx, func(b *Book) error {
		now := j.now()
		known, ok := b.Purchases[c.id]
		switch {
		case ok && known.sendable(now):
			given = turn{payment: &known}
			return fits(known, c)
		case ok && known.State == Reserved && known.Holder != wanted.Holder && known.HeldUntil >= now.Unix():
			given = turn{}
			return nil
		}
		if spent := b.spentWith(c, known, wanted.Amount, now); limit > 0 && spent > units(limit) {
			return denied(ErrPolicyDenied, "with it, %s USD would be signed for in a day, and the cap is %s", inDollars(spent),
				limit)
		}
		e := wanted
		e.State, e.At, e.HeldUntil = Reserved, now.Unix(), now.Add(turnFor).Unix()
		e.Attempt, e.OrderID = known.Attempt, known.OrderID
		e.Authorizations = append([]SignedAuthorization{}, known.Authorizations...) // the schema knows no null
		b.Purchases[c.id] = e
		given = turn{sign: true, attempt: e.Attempt}
		return nil
	})
	return given, err
}

// spentWith is what counts for the last day, with an amount that is to be signed for a purchase.
func (b Book) spentWith(c call, known Entry, amount int64, now time.Time) int64 {
	spent := known.taken(now, c.nonce(known.Attempt), amount)
	for id, other := range b.Purchases {
		if id == c.id {
			continue
		}
		spent += other.spent(now)
	}
	return spent
}

// spent is what a purchase takes of the budget of the last day.
func (e Entry) spent(now time.Time) int64 {
	if e.State == Reserved && now.Sub(time.Unix(e.At, 0)) < reservation {
		return e.taken(now, "", 0) + e.Amount
	}
	return e.taken(now, "", 0)
}

// taken is what the authorizations of a purchase could take, one more of the nonce and amount included: the
// token takes a nonce once, so of those that share one only the largest counts.
func (e Entry) taken(now time.Time, nonce string, amount int64) (sum int64) {
	most := map[string]int64{}
	if amount > 0 {
		most[nonce] = amount
	}
	for _, a := range e.Authorizations {
		if a.counts(now) {
			most[a.Nonce] = max(most[a.Nonce], a.Amount)
		}
	}
	for _, units := range most {
		sum += units
	}
	return sum
}

// counts says whether an authorization takes part of the budget of the last day. Only the chain frees it: a
// service that says no money moved may still have taken it.
func (a SignedAuthorization) counts(now time.Time) bool {
	return a.Void == "" && (a.live(now) || now.Sub(time.Unix(a.SignedAt, 0)) < day)
}

// hold keeps a turn, for as long as a person or a wallet takes.
func (j journal) hold(ctx context.Context, id, holder string) error {
	return j.change(ctx, id, func(e *Entry) {
		if e.State == Reserved && e.Holder == holder {
			e.At, e.HeldUntil = j.now().Unix(), j.now().Add(turnFor).Unix()
		}
	})
}

// sign keeps a signed payment.
func (j journal) sign(ctx context.Context, id, holder, header string, a SignedAuthorization) (signed Entry, err error) {
	err = j.Update(ctx, func(b *Book) error {
		e, ok := b.Purchases[id]
		if !ok || e.State != Reserved || e.Holder != holder {
			// The turn was lost, as by a store that was moved away: what is signed now must not be sent.
			return errors.New("the journal was changed meanwhile")
		}
		e.State, e.Header, e.At, e.Holder, e.HeldUntil = Signed, header, a.SignedAt, "", 0
		e.Authorizations = append(e.Authorizations, a)
		b.Purchases[id], signed = e, e
		return nil
	})
	return signed, err
}

// release gives a budget back that was taken for nothing. What was signed before is kept.
func (j journal) release(ctx context.Context, id, holder string) error {
	return j.Update(context.WithoutCancel(ctx), func(b *Book) error {
		e, ok := b.Purchases[id]
		switch {
		case !ok || e.State != Reserved || e.Holder != holder:
		case len(e.Authorizations) > 0:
			e.State, e.Holder, e.HeldUntil = Refused, "", 0
			b.Purchases[id] = e
		default:
			delete(b.Purchases, id)
		}
		return nil
	})
}

func (j journal) settle(ctx context.Context, id, order string) error {
	return j.change(ctx, id, func(e *Entry) { e.State, e.OrderID = Settled, order })
}

// refuse keeps that the service says it took no money. told says that it had taken the payment up and calls it
// dead, now or to a repeat: the next one needs a nonce of its own, once the chain can no longer take this one.
func (j journal) refuse(ctx context.Context, c call, header string, told bool) error {
	return j.change(ctx, c.id, func(e *Entry) {
		// What is paid stays paid, whatever a repeat of it is told.
		if e.State != Signed && e.State != Refused || e.Header != header {
			return
		}
		e.State = Refused
		// However often it is told, it counts once: then the attempt is no longer that of the last nonce.
		if last, ok := e.last(); told && ok && last.Nonce == c.nonce(e.Attempt) {
			e.Attempt++
		}
	})
}

// void keeps what the chain says of an authorization.
func (j journal) void(ctx context.Context, id string, voids map[int]string) error {
	return j.change(ctx, id, func(e *Entry) {
		for i, reason := range voids {
			e.Authorizations[i].Void = reason
		}
	})
}

// change changes a purchase, also for a caller who has gone: what was answered is worth keeping.
func (j journal) change(ctx context.Context, id string, change func(*Entry)) error {
	return j.Update(context.WithoutCancel(ctx), func(b *Book) error {
		if e, ok := b.Purchases[id]; ok {
			change(&e)
			b.Purchases[id] = e
		}
		return nil
	})
}

// pin keeps the payee of an origin when it is first seen, and refuses another one ever after.
func (j journal) pin(ctx context.Context, origin, payTo string) error {
	b, err := j.Read(ctx)
	if err != nil {
		return err
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
		err = denied(ErrTermsMismatch, "the payee of %s was %s and now is %s; set Policy.PayTo to the right one", origin,
			pinned, payTo)
	}
	return err
}

// unitsPerCent is how many atomic units of USDC a cent has.
const unitsPerCent = 10_000

func units(c Cents) int64 { return int64(c) * unitsPerCent }

// inDollars shows atomic units as dollars, rounded up to a cent.
func inDollars(units int64) string {
	return fmt.Sprint(Cents((units + unitsPerCent - 1) / unitsPerCent))
}
