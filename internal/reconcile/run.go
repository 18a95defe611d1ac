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
	// done are orders that it has compared, at most maxDone of them.
	done map[Unit]bool
	// silent are the issuers whose books could not be read, and why. None of them is asked again.
	silent map[string]error
}

const (
	// batch is how many units are compared at once, which bounds memory.
	batch = 1_000
	// part is how many units of each list one comparison takes from the full pass.
	part = 10 * batch
	// maxDone bounds the orders that a comparison skips because it has compared them.
	maxDone = 100 * batch
	// sweptPages is how many pages of the issuer's books one comparison reads again.
	sweptPages = 10
)

// all compares what changed since the last run, what differed then, and a part of everything else.
func (r *run) all(ctx context.Context) error {
	if err := r.feed(ctx); err != nil {
		return err
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	p := &r.progress
	since := p.Since
	if since.IsZero() { // the full pass compares what is older than the first comparison
		since = r.began
	}
	since = since.Add(-lateness)
	if err := r.comparePart(ctx, Standing, &p.Standing); err != nil {
		return err
	}
	for _, l := range []List{OrdersChanged, OrdersPosted, PostingsChanged, LinesChanged} {
		if _, err := r.compareList(ctx, l, since, "", math.MaxInt); err != nil {
			return err
		}
	}
	if err := r.compareArrivals(ctx); err != nil {
		return err
	}
	for _, round := range []struct {
		list List
		at   *Round
	}{{AllOrders, &p.Orders}, {AllArrivals, &p.Transfers}, {AllPostings, &p.Postings}} {
		if err := r.comparePart(ctx, round.list, round.at); err != nil {
			return err
		}
	}
	p.Since = r.began
	return r.concludeIssuers(ctx)
}

// feed copies the changes of the issuers' books.
func (r *run) feed(ctx context.Context) error {
	return r.each(ctx, func(at *BookProgress, read reader) error {
		whole := at.Feed == ""
		if whole {
			at.Round.begin(r.began)
		}
		next, _, err := read(at.Feed, math.MaxInt)
		if err != nil {
			return err
		}
		if at.Feed, at.Read = next, r.began; whole && at.Round.After == "" {
			at.Round.reach("", true)
		}
		return nil
	})
}

// sweep reads a part of the issuers' books again, for changes that the feed does not report.
func (r *run) sweep(ctx context.Context) error {
	return r.each(ctx, func(at *BookProgress, read reader) error {
		at.Round.begin(r.began)
		next, ended, err := read(at.Round.After, sweptPages)
		if err == nil {
			at.Round.reach(next, ended)
		}
		return err
	})
}

// reader copies lines of one issuer's books after a cursor, at most so many pages.
type reader func(after string, pages int) (next string, ended bool, err error)

// each reads the books of each issuer that has answered so far. One that does not answer keeps its progress, and is a
// finding, also when no other answers; what fails on our side ends the comparison.
func (r *run) each(ctx context.Context, read func(*BookProgress, reader) error) error {
	for _, of := range r.Issuers {
		if r.silent[of.Provider] != nil {
			continue
		}
		at, ours := r.progress.Issuers[of.Provider], error(nil)
		if at.Asked.IsZero() {
			at.Asked = r.began
		}
		before := at
		epoch := at.Round.Number + 1
		err := read(&at, func(after string, pages int) (string, bool, error) {
			return card.EachLine(ctx, of.Book, after, pages, func(lines []card.Line) error {
				if err := r.Books.Enter(ctx, lines, epoch); err != nil {
					ours = fmt.Errorf("copy the issuer's books: %w", err)
				}
				return ours
			})
		})
		switch {
		case ours != nil:
			return ours
		case ctx.Err() != nil:
			return fmt.Errorf("read the books of %s: %w", of.Provider, ctx.Err())
		case err != nil:
			r.silent[of.Provider], at = err, before
		}
		if r.progress.Issuers == nil {
			r.progress.Issuers = map[string]BookProgress{}
		}
		r.progress.Issuers[of.Provider] = at
	}
	return nil
}

// names are the names of the issuers.
func (r *run) names() (all []string) {
	for _, of := range r.Issuers {
		all = append(all, of.Provider)
	}
	return all
}

// concludeIssuers tells which issuers' books could not be read, and since when.
func (r *run) concludeIssuers(ctx context.Context) error {
	var c Conclusion
	for _, name := range r.names() {
		unit := ProviderUnit(name)
		c.Units = append(c.Units, unit)
		if r.silent[name] == nil {
			continue
		}
		detail := "the books of " + name + " have never been read"
		if read := r.progress.Issuers[name].Read; !read.IsZero() {
			detail = "the books of " + name + " were read last at " + read.UTC().Format(time.RFC3339)
		}
		c.Found = append(c.Found, Finding{Code: ProviderSilent, Unit: unit, Subject: name, Detail: detail, Evidence: detail})
	}
	return r.conclude(ctx, c)
}

// comparePart compares the next part of a list.
func (r *run) comparePart(ctx context.Context, l List, round *Round) error {
	round.begin(r.began)
	next, err := r.compareList(ctx, l, time.Time{}, round.After, part)
	if err == nil {
		round.reach(next, next == "")
	}
	return err
}

// compareList compares at most so many units of a list, and returns the cursor after them, or empty at the end of the
// list.
func (r *run) compareList(
	ctx context.Context, l List, since time.Time, after string, most int,
) (next string, err error) {
	for n := 0; n < most; n += batch {
		var units []Unit
		if units, after, err = r.Books.Page(ctx, l, since, after, batch); err != nil {
			return "", fmt.Errorf("list the units to compare: %w", err)
		}
		if err := r.compareUnits(ctx, units); err != nil {
			return "", err
		}
		if after == "" {
			return "", nil
		}
	}
	return after, nil
}

// compareArrivals compares the transfers that arrived since the last run, and the orders that they paid. The full pass
// compares those older than the first comparison.
func (r *run) compareArrivals(ctx context.Context) error {
	mark, first := &r.progress.Arrived, r.progress.Since.IsZero()
	mark.pass(r.began)
	after, last := strconv.FormatInt(mark.Done, 10), mark.Done
	for {
		units, next, err := r.Books.Page(ctx, NewArrivals, time.Time{}, after, batch)
		if err != nil {
			return fmt.Errorf("list the arrivals: %w", err)
		}
		if !first {
			paid, err := r.compareTransfers(ctx, units)
			if err != nil {
				return err
			}
			if err := r.compareUnits(ctx, paid); err != nil {
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

// compareUnits compares some units.
func (r *run) compareUnits(ctx context.Context, units []Unit) error {
	var orders []order.ID
	var lines []string
	var transfers []Unit
	for _, u := range units {
		switch u.sort() {
		case sortOrder:
			if r.done[u] {
				continue
			}
			if len(r.done) < maxDone {
				r.done[u] = true
			}
			orders = append(orders, order.ID(u.Name()))
		case sortLine:
			lines = append(lines, u.Name())
		case sortTransfer, sortPosting:
			transfers = append(transfers, u)
		}
	}
	if _, err := r.compareTransfers(ctx, transfers); err != nil {
		return err
	}
	if len(orders)+len(lines) == 0 {
		return nil
	}
	return r.compareOrders(ctx, orders, lines)
}

// compareTransfers compares transfers and postings without an order. Both are read in one snapshot, so they are
// compared only once. It returns the orders that the transfers paid.
func (r *run) compareTransfers(ctx context.Context, units []Unit) (paid []Unit, err error) {
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

// compareOrders compares orders, and lines of the issuer with the orders that may explain them. Our records and the
// issuer's are read one after the other and may change in between, so a difference counts only when a second comparison
// finds it again.
func (r *run) compareOrders(ctx context.Context, ids []order.ID, lines []string) error {
	first, units, err := r.compare(ctx, ids, lines)
	if err != nil {
		return err
	}
	r.checked.plus(first.checked)
	c := Conclusion{Units: units, Found: first.found, Postings: first.unposted, Lines: first.lines}
	known, err := r.Books.Open(ctx, first.found)
	if err != nil {
		return fmt.Errorf("read the stored findings: %w", err)
	}
	c.Found = slices.DeleteFunc(slices.Clone(first.found), func(f Finding) bool {
		return r.silent[f.Provider] != nil && !seen(known)[f.key()]
	})
	if doubtful := without(c.Found, seen(known)); len(doubtful) > 0 {
		second, err := r.compareAgain(ctx, doubtful)
		if err != nil {
			return err
		}
		twice := seen(known, second.found)
		c.Found = slices.DeleteFunc(c.Found, func(f Finding) bool { return !twice[f.key()] })
		c.Lines = append(c.Lines, second.lines...)
	}
	return r.conclude(ctx, c)
}

// without are the findings whose keys are not among others.
func without(all []Finding, others map[key]bool) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return others[f.key()] })
}

// compareAgain compares the units of some findings again, after reading the issuer's changes.
func (r *run) compareAgain(ctx context.Context, found []Finding) (*comparison, error) {
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
	second, _, err := r.compare(ctx, ids, lines)
	return second, err
}

// compare reads orders and lines, and compares them. units are all compared units.
func (r *run) compare(ctx context.Context, ids []order.ID, lines []string) (c *comparison, units []Unit, err error) {
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
		return nil, nil, fmt.Errorf("read our records: %w", err)
	}
	records.Epochs, records.Providers = map[string]int64{}, r.Providers
	for name, at := range r.progress.Issuers {
		records.Epochs[name] = at.Round.Number
	}
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
		return fmt.Errorf("store the findings: %w", err)
	}
	return nil
}
