package store

import (
	"context"
	"fmt"
)

// Totals are how many rows there may be of what anybody can have stored without paying. Rates bound how fast one
// address adds to them; these bound what all addresses together have stored, whatever is configured to be kept.
type Totals struct {
	// SignIns and Reveals are challenges. Strangers ask for the first, so that these displace none of the second.
	SignIns, Reveals int
	// Requests are sign-ins for one request that were used. Those that can still be signed for stay: without its row one
	// could be used again. auth counts them over all addresses.
	Requests int
	Sessions int
	// Counters are the callers whose rates are counted over all processes.
	Counters int
	// Unpaid are orders that wait to be paid, and Expired those that were not.
	Unpaid, Expired int
}

// DefaultTotals come to some hundred MB. The sign-ins are those of five minutes in which 333 are asked for each second.
func DefaultTotals() Totals {
	return Totals{
		SignIns: 100_000, Reveals: 100_000, Requests: 200_000, Sessions: 200_000, Counters: 200_000, Unpaid: 100_000,
		Expired: 100_000,
	}
}

// usedRequests are sign-ins for one request that no replica takes any more, however its clock goes.
const usedRequests = "purpose = 'request' AND expires_at < now() - interval '1 minute'"

const (
	excessSQL = `SELECT greatest(count(*) - $1::int, 0) FROM (SELECT FROM %s LIMIT $1::int + $2::int) counted`

	dropSQL = `
		WITH old AS (SELECT id FROM %s ORDER BY %s LIMIT $1 FOR UPDATE SKIP LOCKED)
		DELETE FROM %s WHERE id IN (SELECT id FROM old)`

	// An unpaid order ends as every order does that is not paid in time: only its time is up earlier.
	hastenSQL = `
		WITH old AS (
			SELECT id FROM orders WHERE status = 'payment_required' AND expires_at > $1 AND %s
			ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
		)
		UPDATE orders SET expires_at = $1 WHERE id IN (SELECT id FROM old) AND %s`
	firstToExpireSQL = `SELECT owner FROM orders WHERE status = 'payment_required' AND expires_at > $1
		ORDER BY expires_at LIMIT $2`
)

// Bound removes the oldest rows beyond the totals, at most limit of each kind, and returns how many: challenges and
// sessions that expire first, counters that are whole again first, unpaid orders that expire first, and those that have
// expired the longest ago.
func (s *Store) Bound(ctx context.Context, most Totals, limit int) (n int, err error) {
	orders := s.Orders()
	for _, of := range []struct {
		rows string
		most int
		drop func(context.Context, int) (int, error)
	}{
		{"challenges WHERE purpose = 'sign_in'", most.SignIns, s.drop("challenges", "purpose = 'sign_in'", "expires_at")},
		{"challenges WHERE purpose = 'reveal'", most.Reveals, s.drop("challenges", "purpose = 'reveal'", "expires_at")},
		{"challenges WHERE " + usedRequests, most.Requests, s.drop("challenges", usedRequests, "expires_at")},
		{"sessions", most.Sessions, s.drop("sessions", "true", "expires_at")},
		{"rate_limits", most.Counters, s.drop("rate_limits", "true", "resets_at")},
		{"orders WHERE status = 'payment_required'", most.Unpaid, orders.hasten},
		{"orders WHERE status = 'expired'", most.Expired, func(ctx context.Context, n int) (int, error) {
			return orders.PruneExpired(ctx, s.stamp(), n)
		}},
	} {
		excess, err := s.excess(ctx, of.rows, of.most, limit)
		if err != nil {
			return n, fmt.Errorf("count %s: %w", of.rows, err)
		}
		if excess == 0 {
			continue
		}
		dropped, err := of.drop(ctx, excess)
		if n += dropped; err != nil {
			return n, fmt.Errorf("bound %s: %w", of.rows, err)
		}
	}
	return n, nil
}

// excess counts the rows beyond the most there may be, and at most limit of them.
func (s *Store) excess(ctx context.Context, rows string, most, limit int) (n int, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, fmt.Sprintf(excessSQL, rows), plannedAnew, most, limit).Scan(&n)
	return n, mapError(err)
}

// drop deletes the first rows of a table in an order.
func (s *Store) drop(table, where, first string) func(context.Context, int) (int, error) {
	sql := fmt.Sprintf(dropSQL, table+" WHERE "+where, first, table)
	return func(ctx context.Context, n int) (int, error) { return s.pruneRows(ctx, sql, n) }
}

// hasten expires the unpaid orders that would expire first.
func (o Orders) hasten(ctx context.Context, n int) (int, error) {
	if _, err := o.s.sweep(ctx, firstToExpireSQL, hastenSQL, o.s.stamp(), n); err != nil {
		return 0, err
	}
	return o.Expire(ctx, n)
}
