package reconcile

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// run is one comparison.
type run struct {
	*Reconciler
	progress Progress
	began    time.Time
	checked  Checked
	// done are the orders that it has compared, as far as it remembers.
	done map[Unit]bool
}

const (
	// batch is how many units are compared at once: what a comparison holds in memory.
	batch = 1_000
	// part is how many units of each list a comparison takes from the round through everything.
	part = 10 * batch
	// remembered bounds what a comparison remembers of its own work.
	remembered = 100 * batch
	// sweptPages is how many pages of the issuer's books are read again by one comparison.
	sweptPages = 10
)

// all compares what changed since the last time, what differs still, and a part of everything else.
func (r *run) all(ctx context.Context) error {
	if err := r.feed(ctx); err != nil {
		return err
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	p := &r.progress
	since := p.Since
	if since.IsZero() { // what was there before the first comparison comes with the rounds
		since = r.began
	}
	since = since.Add(-lateness)
	if err := r.some(ctx, Standing, &p.Standing); err != nil {
		return err
	}
	for _, l := range []List{OrdersChanged, OrdersPosted, PostingsChanged, LinesChanged} {
		if _, err := r.list(ctx, l, since, "", math.MaxInt); err != nil {
			return err
		}
	}
	if err := r.arrived(ctx); err != nil {
		return err
	}
	for _, round := range []struct {
		list List
		at   *Round
	}{{AllOrders, &p.Orders}, {AllArrivals, &p.Transfers}, {AllPostings, &p.Postings}} {
		if err := r.some(ctx, round.list, round.at); err != nil {
			return err
		}
	}
	p.Since = r.began
	return nil
}

// feed copies what changed in the issuer's books.
func (r *run) feed(ctx context.Context) error {
	p := &r.progress
	whole := p.Feed == ""
	if whole {
		p.Issuer.begin(r.began)
	}
	next, _, err := card.EachLine(ctx, r.Issuer, p.Feed, math.MaxInt, r.enter(ctx))
	if err != nil {
		return err
	}
	if p.Feed = next; whole && p.Issuer.After == "" {
		p.Issuer.reach("", true)
	}
	return nil
}

// sweep reads a part of the issuer's books once more, for what no change told of.
func (r *run) sweep(ctx context.Context) error {
	round := &r.progress.Issuer
	round.begin(r.began)
	next, ended, err := card.EachLine(ctx, r.Issuer, round.After, sweptPages, r.enter(ctx))
	if err != nil {
		return err
	}
	round.reach(next, ended)
	return nil
}

func (r *run) enter(ctx context.Context) func([]card.Line) error {
	return func(lines []card.Line) error {
		if err := r.Books.Enter(ctx, lines, r.progress.Issuer.Number+1); err != nil {
			return fmt.Errorf("copy the issuer's books: %w", err)
		}
		return nil
	}
}

// some compares the next part of a list.
func (r *run) some(ctx context.Context, l List, round *Round) error {
	round.begin(r.began)
	next, err := r.list(ctx, l, time.Time{}, round.After, part)
	if err == nil {
		round.reach(next, next == "")
	}
	return err
}

// list compares units of a list, so many at most, and returns the cursor after them; it is empty at the end of the
// list.
func (r *run) list(ctx context.Context, l List, since time.Time, after string, most int) (next string, err error) {
	for n := 0; n < most; n += batch {
		var units []Unit
		if units, after, err = r.Books.Page(ctx, l, since, after, batch); err != nil {
			return "", fmt.Errorf("list what is to be compared: %w", err)
		}
		if err := r.units(ctx, units); err != nil {
			return "", err
		}
		if after == "" {
			return "", nil
		}
	}
	return after, nil
}

// arrived compares the transfers that arrived since the last time, and the orders whose payments they are. What had
// arrived before the first comparison comes with the rounds.
func (r *run) arrived(ctx context.Context) error {
	mark, first := &r.progress.Arrived, r.progress.Since.IsZero()
	mark.pass(r.began)
	after, last := strconv.FormatInt(mark.Done, 10), mark.Done
	for {
		units, next, err := r.Books.Page(ctx, NewArrivals, time.Time{}, after, batch)
		if err != nil {
			return fmt.Errorf("list the arrivals: %w", err)
		}
		if !first {
			paid, err := r.transfers(ctx, units)
			if err != nil {
				return err
			}
			if err := r.units(ctx, paid); err != nil {
				return err
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	if n, err := strconv.ParseInt(after, 10, 64); err == nil {
		last = n
	}
	mark.see(last, r.began)
	return nil
}

// units compares some units.
func (r *run) units(ctx context.Context, units []Unit) error {
	var orders []order.ID
	var lines []string
	var transfers []Unit
	for _, u := range units {
		switch u.sort() {
		case sortOrder:
			if r.done[u] {
				continue
			}
			if len(r.done) < remembered {
				r.done[u] = true
			}
			orders = append(orders, order.ID(u.Name()))
		case sortLine:
			lines = append(lines, u.Name())
		case sortTransfer, sortPosting:
			transfers = append(transfers, u)
		}
	}
	if _, err := r.transfers(ctx, transfers); err != nil {
		return err
	}
	if len(orders)+len(lines) == 0 {
		return nil
	}
	return r.orders(ctx, orders, lines)
}

// transfers compares transfers and postings without an order. They are of books that are read at one moment, so one
// look is enough. It returns the orders whose payments are among them.
func (r *run) transfers(ctx context.Context, units []Unit) (paid []Unit, err error) {
	if len(units) == 0 {
		return nil, nil
	}
	all := slices.Clone(units)
	var subjects, postings []string
	for _, u := range units {
		subject, ok := u.Name(), u.sort() == sortTransfer
		if u.sort() == sortPosting {
			if subject, ok = u.transfer(); ok {
				all = append(all, unitOf(sortTransfer, subject))
			}
		}
		if ok {
			subjects = append(subjects, subject)
		} else {
			postings = append(postings, u.Name())
		}
	}
	records, err := r.Books.OfTransfers(ctx, subjects, postings)
	if err != nil {
		return nil, fmt.Errorf("read the transfers: %w", err)
	}
	c := compareTransfers(records)
	r.checked.plus(c.checked)
	if err := r.conclude(ctx, Conclusion{Units: all, Found: c.found, Postings: c.unposted}); err != nil {
		return nil, err
	}
	for _, p := range records.Payments {
		paid = append(paid, OrderUnit(p.Order))
	}
	return paid, nil
}

// orders compares orders, and lines of the issuer with the orders that may explain them. The books are read one after
// the other, and things happen meanwhile: what differs for that reason does not differ a second time.
func (r *run) orders(ctx context.Context, ids []order.ID, lines []string) error {
	first, units, err := r.look(ctx, ids, lines)
	if err != nil {
		return err
	}
	r.checked.plus(first.checked)
	c := Conclusion{Units: units, Found: first.found, Postings: first.unposted, Lines: first.lines}
	known, err := r.Books.Open(ctx, first.found)
	if err != nil {
		return fmt.Errorf("look for what is found already: %w", err)
	}
	if doubtful := without(first.found, seen(known)); len(doubtful) > 0 {
		second, err := r.again(ctx, doubtful)
		if err != nil {
			return err
		}
		twice := seen(known, second.found)
		c.Found = slices.DeleteFunc(slices.Clone(first.found), func(f Finding) bool { return !twice[f.key()] })
		c.Lines = append(c.Lines, second.lines...)
	}
	return r.conclude(ctx, c)
}

// without are the findings that are not among others.
func without(all []Finding, others map[key]bool) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return others[f.key()] })
}

// again looks a second time at what differs, and at the issuer's books before.
func (r *run) again(ctx context.Context, found []Finding) (*comparison, error) {
	if err := r.feed(ctx); err != nil {
		return nil, err
	}
	var ids []order.ID
	var lines []string
	for _, f := range found {
		switch f.Unit.sort() {
		case sortOrder:
			ids = append(ids, order.ID(f.Unit.Name()))
		case sortLine:
			lines = append(lines, f.Unit.Name())
		}
	}
	second, _, err := r.look(ctx, ids, lines)
	return second, err
}

// look reads orders and lines, and compares them. The units are all that it looked at.
func (r *run) look(ctx context.Context, ids []order.ID, lines []string) (c *comparison, units []Unit, err error) {
	if len(lines) > 0 {
		more, err := r.Books.OrdersOfLines(ctx, lines)
		if err != nil {
			return nil, nil, fmt.Errorf("find the orders of the issuer's lines: %w", err)
		}
		ids = append(slices.Clone(ids), more...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	records, err := r.Books.OfOrders(ctx, ids, lines)
	if err != nil {
		return nil, nil, fmt.Errorf("read our books: %w", err)
	}
	records.Epoch = r.progress.Issuer.Number
	for _, id := range ids {
		units = append(units, OrderUnit(id))
	}
	for _, l := range records.Lines {
		units = append(units, LineUnit(l.ID))
	}
	for _, l := range lines {
		units = append(units, LineUnit(l))
	}
	return compareOrders(records), units, nil
}

func (r *run) conclude(ctx context.Context, c Conclusion) error {
	slices.Sort(c.Units)
	c.Units = slices.Compact(c.Units)
	if err := r.Books.Conclude(ctx, c); err != nil {
		return fmt.Errorf("store what was found: %w", err)
	}
	return nil
}
