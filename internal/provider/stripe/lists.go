package stripe

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	stripego "github.com/stripe/stripe-go/v85"
)

// pageSize is the most that the vendor lists at once.
const pageSize = 100

// span is a part of a list, the newest first.
type span struct {
	// since leaves out what was created before, in seconds since 1970.
	since int64
	// after is the last object that was read; before is the oldest of those that were, when reading towards the newest.
	after, before string
	// of leaves out what is not of this card; status what is in another state.
	of, status string
	// asked says that after is a cursor that somebody asks for: Stripe may refuse it.
	asked bool
}

func (s span) params() stripego.ListParams {
	p := stripego.ListParams{Limit: stripego.Int64(pageSize)}
	if s.after != "" {
		p.StartingAfter = stripego.String(s.after)
	}
	if s.before != "" {
		p.EndingBefore = stripego.String(s.before)
	}
	return p
}

func (s span) created() *stripego.RangeQueryParams {
	if s.since <= 0 {
		return nil
	}
	return &stripego.RangeQueryParams{GreaterThanOrEqual: s.since}
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// page is a page of a list; more says that there are others.
type page[T listed] struct {
	items []T
	more  bool
}

func (a *listAnswer[T]) page(s span) (p page[T], err error) {
	for _, one := range *a.Data {
		if one.created() < s.since || one.id() == s.after || one.id() == s.before {
			return p, unclear("the list in the answer is another one")
		}
	}
	return page[T]{items: *a.Data, more: bool(*a.More)}, nil
}

func (i *Issuer) listCards(ctx context.Context, s span) (page[*cardAnswer], error) {
	p := &stripego.IssuingCardListParams{ListParams: s.params(), CreatedRange: s.created()}
	var got listAnswer[*cardAnswer]
	err := i.send(ctx, request{
		op: "accounts", method: http.MethodGet, path: "/v1/issuing/cards", route: "/v1/issuing/cards", params: p,
		bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err != nil {
		return page[*cardAnswer]{}, err
	}
	return got.page(s)
}

func (i *Issuer) listTransactions(ctx context.Context, s span) (page[*transactionAnswer], error) {
	p := &stripego.IssuingTransactionListParams{
		ListParams: s.params(), CreatedRange: s.created(), Card: optional(s.of),
	}
	var got listAnswer[*transactionAnswer]
	err := i.send(ctx, request{
		op: "transactions", method: http.MethodGet, path: "/v1/issuing/transactions", route: "/v1/issuing/transactions",
		params: p, bind: func(ctx context.Context) { p.Context = ctx }, refusable: s.asked,
	}, &got)
	if err != nil {
		return page[*transactionAnswer]{}, err
	}
	return got.page(s)
}

func (i *Issuer) listAuthorizations(ctx context.Context, s span) (page[*authorizationAnswer], error) {
	p := &stripego.IssuingAuthorizationListParams{
		ListParams: s.params(), CreatedRange: s.created(), Card: optional(s.of), Status: optional(s.status),
	}
	var got listAnswer[*authorizationAnswer]
	err := i.send(ctx, request{
		op: "authorizations", method: http.MethodGet, path: "/v1/issuing/authorizations",
		route: "/v1/issuing/authorizations", params: p, bind: func(ctx context.Context) { p.Context = ctx },
		refusable: s.asked,
	}, &got)
	if err != nil {
		return page[*authorizationAnswer]{}, err
	}
	return got.page(s)
}

// lister reads a page of a list.
type lister[T listed] func(context.Context, span) (page[T], error)

// each reads a list to its end. An object that is listed twice is taken once.
func (l lister[T]) each(ctx context.Context, s span, take func(T) error) error {
	taken := map[string]bool{}
	for {
		p, err := l(ctx, s)
		if err != nil {
			return err
		}
		for _, one := range p.items {
			if taken[one.id()] {
				continue
			}
			taken[one.id()] = true
			if err := take(one); err != nil {
				return err
			}
		}
		if !p.more {
			return nil
		}
		s.after = p.items[len(p.items)-1].id()
	}
}

// turn lets one caller at a time do something, unless their time is up.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) leave() { <-t }

// overlap is how late an object may appear in a list, by its time of creation.
const overlap = 600

// follower follows a list of objects that never change in what is taken of them. The first time it reads the whole
// list, going on where an earlier call had to stop; then only what is new.
type follower[T listed] struct {
	list lister[T]
	// take is called once for each object.
	take func(T)
	turn turn
	// begun numbers the times that it was read.
	begun atomic.Int64

	// The others belong to whoever has the turn. read is the last time that it was read to its end.
	read int64
	// tail is where the first reading stopped; whole says that it came to the end.
	tail  string
	whole bool
	// newest is when the newest was created; overlapping are those that the next reading lists again.
	newest      int64
	overlapping map[string]int64
}

func newFollower[T listed](list lister[T], take func(T)) *follower[T] {
	return &follower[T]{list: list, take: take, turn: newTurn(), overlapping: map[string]int64{}}
}

// follow reads what there is. What was there when it was called has been taken when it returns. It leaves the turn to
// the caller, who gives it back by leave; not with an error.
func (f *follower[T]) follow(ctx context.Context) error {
	before := f.begun.Load()
	if err := f.turn.take(ctx); err != nil {
		return err
	}
	if f.read > before {
		return nil // somebody else began to read after this was called
	}
	number := f.begun.Add(1)
	if err := f.all(ctx); err != nil {
		f.turn.leave()
		return err
	}
	f.read = number
	return nil
}

func (f *follower[T]) leave() { f.turn.leave() }

func (f *follower[T]) all(ctx context.Context) error {
	for !f.whole {
		p, err := f.list(ctx, span{after: f.tail})
		if err != nil {
			return err
		}
		newest := f.newest
		for _, one := range p.items {
			f.note(one)
			newest = max(newest, one.created())
		}
		if f.tail == "" {
			f.newest = newest // what was created since then is read below
		}
		if len(p.items) > 0 {
			f.tail = p.items[len(p.items)-1].id()
		}
		f.whole = !p.more
	}
	newest := f.newest
	err := f.list.each(ctx, span{since: f.newest - overlap}, func(one T) error {
		f.note(one)
		newest = max(newest, one.created())
		return nil
	})
	if err != nil {
		return err
	}
	f.newest = newest
	for id, created := range f.overlapping {
		if created < newest-overlap {
			delete(f.overlapping, id)
		}
	}
	return nil
}

func (f *follower[T]) note(one T) {
	if _, known := f.overlapping[one.id()]; !known {
		f.overlapping[one.id()] = one.created()
		f.take(one)
	}
}

// towardsNewest is a page of a list from its oldest object on, the oldest first.
func (l lister[T]) towardsNewest(ctx context.Context, before string) (p page[T], err error) {
	p, err = l(ctx, span{before: before})
	slices.Reverse(p.items)
	return p, err
}
