package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/jitter"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// shards is how many claims may reserve of one resource concurrently. A claim in one shard does not see the uncommitted
// reservations of the others, and leaves room for the largest possible one in each. When that does not fit, a claim
// locks all shards, and sees everything.
const shards = 8

// errContended says that a claim may not fit in addition to those in other shards.
var errContended = errors.New("no room in addition to the other shards")

// lockReservations queues the locks of what an order reserves, so that two orders never reserve the same units.
func lockReservations(tx *ent.Tx, p checkout.ClaimRequest, alone bool) {
	// The claims of one payer come one after the other: they are limited by what it has claimed.
	locks := []string{payerLock(p.Order.Owner)}
	of := jitter.IntN(shards)
	if s := shardsOf(tx); s != nil {
		of = s.of(p.Order.Owner.Lower()) % shards
	}
	for _, h := range p.Reservations {
		locks = append(locks, locksOf(h, of, alone)...)
	}
	lockAll(tx, locks)
}

// payerLock is the lock under which claims of a payer are made.
func payerLock(owner x402.Address) string { return bucket("payer/" + owner.Lower()) }

// takeReservations queues the reservations of an order, after lockReservations. When one does not fit, the transaction
// fails with an *order.Shortage or, unless alone, with errContended; when the payer has too many undecided payments,
// with checkout.ErrUndecided, when its money is promised to them, with checkout.ErrUncovered, and when too many of them
// may be in flight, with a *limit.Refusal.
func takeReservations(ctx context.Context, tx *ent.Tx, p checkout.ClaimRequest, now time.Time, alone bool) error {
	boundUndecided(tx, p)
	if s := shardsOf(tx); s != nil {
		for _, h := range p.Reservations {
			if err := s.reserve(ctx, tx, p.Order, h, now, alone); err != nil {
				return err
			}
		}
		return nil
	}
	for _, h := range p.Reservations {
		takeReservation(tx, p.Order, h, now, alone)
	}
	return nil
}

// boundUndecided queues the checks of which payments of its payer a claim, which is stored already, may be added to.
func boundUndecided(tx *ent.Tx, p checkout.ClaimRequest) {
	if p.MaxUndecided > 0 {
		within(tx, checkout.ErrUndecided, "SELECT count(*) FROM payments WHERE status = 'claimed' AND owner = $2",
			p.MaxUndecided, p.Payment.Authorization.From.Lower())
	}
	if p.MaxInFlight > 0 {
		within(tx, limit.Busy(p.MaxInFlight),
			"SELECT count(*) FROM payments WHERE status = 'claimed' AND owner = $2 AND created_at > $3",
			p.MaxInFlight, p.Payment.Authorization.From.Lower(), p.InFlightSince)
	}
	if p.Payment.ArrivedAt == nil {
		within(tx, checkout.ErrUncovered, promisedSQL, int64(p.Funds), p.Payment.Authorization.From.Lower())
	}
}

// promisedSQL is what the undecided payments of a payer take together, if they are several. Money that has arrived is
// not in the payer's balance any more.
const promisedSQL = `
	SELECT CASE WHEN count(*) > 1 THEN sum(value) ELSE 0 END
	FROM payments WHERE status = 'claimed' AND owner = $2 AND arrived_at IS NULL`

// takeReservation queues one reservation of an order.
func takeReservation(tx *ent.Tx, o order.Order, h order.Reservation, now time.Time, alone bool) {
	limit, short := h.Limit, error(&order.Shortage{Reservation: h})
	if inShard(h, alone) {
		limit, short = room(limit, h.Most, 1), errContended
	}
	pgxOf(tx).later(statement{
		sql:     takeReservationSQL,
		args:    []any{h.Resource, h.AsOf, uuid.Must(uuid.NewV7()), o.ID, h.Units, limit, now, o.Owner.Lower()},
		refused: func(err *pgconn.PgError) error { return refusedReservation(short, err) },
	})
	boundUnsettled(tx, h, o.Owner.Lower())
}

// boundUnsettled queues the check that an owner's unpaid orders, including this one, stay within the owner's share of a
// resource. Those of others do not count: nobody is refused for what strangers have not paid, while there is enough.
func boundUnsettled(tx *ent.Tx, h order.Reservation, owner string) {
	if h.Unsettled > 0 {
		within(tx, tooMuchUnsettled(h), unsettledSQL, h.Unsettled, h.Resource, owner)
	}
}

func tooMuchUnsettled(h order.Reservation) *order.Shortage {
	h.Refusal = fault.FloatReserved
	h.Detail = "Too much is reserved for payments of this wallet that are not settled yet. " +
		"Nothing was claimed; repeat the same request."
	return &order.Shortage{Reservation: h}
}

// An owner has few undecided payments, and reservations_order finds what is reserved for each.
const unsettledSQL = `
	SELECT coalesce(sum(r.units), 0) FROM payments p
	JOIN reservations r ON r.order_id = p.order_id AND r.owner = p.owner AND r.released_at IS NULL
	WHERE p.status = 'claimed' AND p.owner = $3 AND r.resource = $2 AND r.settled_at IS NULL`

// unpaidSQL is what live orders have reserved of a resource that are not paid, of all owners.
const unpaidSQL = `SELECT coalesce(sum(units), 0)::bigint FROM reservations
	WHERE resource = $1 AND released_at IS NULL AND settled_at IS NULL`

// unpaid is how much of a resource live orders have reserved that are not paid.
func (s *Store) unpaid(ctx context.Context, resource string) (units int64, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, unpaidSQL, resource).Scan(&units)
	return units, mapError(err)
}

// awaited is a shortage that a claim has met, as it is told: whether payments that are not settled yet are its cause.
func (s *Store) awaited(ctx context.Context, short *order.Shortage) *order.Shortage {
	h := short.Reservation
	if !strings.HasPrefix(h.Resource, "float/") || h.Refusal == fault.FloatReserved {
		return short
	}
	held, err := s.reserved(ctx, h.Resource, h.AsOf)
	if err != nil {
		return short // it is refused either way
	}
	unpaid, err := s.unpaid(ctx, h.Resource)
	if err == nil && held-unpaid+h.Units <= h.Limit {
		return short.Awaited()
	}
	return short
}

// within queues a count that must not exceed most, its $1. Above it the statement divides by zero, so that the server
// rolls the transaction back, which fails with otherwise.
func within(tx *ent.Tx, otherwise error, count string, most any, args ...any) {
	pgxOf(tx).later(statement{
		sql:  "SELECT 1 / (CASE WHEN (" + count + ") > $1::bigint THEN 0 ELSE 1 END)",
		args: append([]any{most}, args...),
		refused: func(err *pgconn.PgError) error {
			if err.Code != "22012" {
				return err
			}
			return fmt.Errorf("%w: %w", otherwise, err)
		},
	})
}

const (
	suspendedSQL = `SELECT resource, units FROM reservations
		WHERE order_id = $1 AND owner = $2 AND suspended_at IS NOT NULL AND %s`

	anySuspendedSQL = `SELECT count(*) FROM reservations
		WHERE order_id = $2 AND owner = $3 AND suspended_at IS NOT NULL`

	resumeReservationsSQL = `UPDATE reservations SET released_at = NULL, suspended_at = NULL, settled_at = $4
		WHERE order_id = $1 AND owner = $2 AND resource = $3 AND suspended_at IS NOT NULL AND %s`

	// It counts what was just resumed, too.
	overReservedSQL = `SELECT
		(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = $2 AND released_at IS NULL) +
		(SELECT coalesce(sum(units), 0) FROM reservations
			WHERE resource = $2 AND released_at >= $3 AND suspended_at IS NULL)`

	settleReservationsSQL = `UPDATE reservations SET settled_at = $3
		WHERE order_id = $1 AND owner = $2 AND released_at IS NULL AND %s`
)

// settleReservations queues the update of a paid order's reservations. Suspended ones are left: others may have
// reserved since. The order is not delivered before they are resumed, see checkReserved.
func settleReservations(tx *ent.Tx, id order.ID, owner x402.Address, now time.Time) {
	changeReservations(tx, owner.Lower())(settleReservationsSQL, id, owner.Lower(), now)
}

// checkReserved queues the check that what a paid order reserves was not suspended. It fails with order.ErrSuspended.
func checkReserved(tx *ent.Tx, id order.ID, owner string) {
	if s := shardsOf(tx); s != nil {
		within(tx, order.ErrSuspended, anySuspendedSQL+" AND shard = $4", 0, id, owner, s.key(owner))
		return
	}
	within(tx, order.ErrSuspended, anySuspendedSQL, 0, id, owner)
}

// Suspended implements settlement.Store.
func (o Orders) Suspended(ctx context.Context, of order.Order) ([]order.Reservation, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	inShard := o.s.shards.inShard(of.Owner.Lower(), suspendedSQL, of.ID, of.Owner.Lower())
	rows, err := o.s.pool.Query(ctx, inShard.sql, inShard.args...)
	if err != nil {
		return nil, mapError(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h order.Reservation, err error) {
		err = row.Scan(&h.Resource, &h.Units)
		return h, err
	})
	return all, mapError(err)
}

// Resume implements settlement.Store. It holds the locks of all shards, so it sees what all claims have reserved.
func (o Orders) Resume(ctx context.Context, f job.Fence, of order.Order, all []order.Reservation) error {
	err := o.resume(ctx, f, of, all)
	if gather, ok := errors.AsType[*stranded](err); ok {
		if err := o.s.gather(ctx, gather.resource); err != nil {
			return err
		}
		err = o.resume(ctx, f, of, all)
	}
	return err
}

func (o Orders) resume(ctx context.Context, f job.Fence, of order.Order, all []order.Reservation) error {
	owner := of.Owner.Lower()
	return o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		var locks []string
		for _, h := range all {
			locks = append(locks, locksOf(h, 0, true)...)
		}
		lockAll(tx, locks)
		fence(tx, f)
		for _, h := range all {
			s := shardsOf(tx)
			if s != nil {
				if err := s.fits(ctx, tx, h, s.key(owner)); err != nil {
					return err
				}
			}
			changeReservations(tx, owner)(resumeReservationsSQL, of.ID, owner, h.Resource, o.s.stamp())
			if s == nil {
				within(tx, &order.Shortage{Reservation: h}, overReservedSQL, h.Limit, h.Resource, h.AsOf)
			}
		}
		return faultpoint.Fail("resume.before_commit")
	})
}

// changeReservations queues statements on the reservations of an owner.
func changeReservations(tx *ent.Tx, owner string) func(sql string, args ...any) {
	return func(sql string, args ...any) { pgxOf(tx).later(shardsOf(tx).inShard(owner, sql, args...)) }
}

// A suspended reservation is taken again when its order is paid.
const pruneReservationsSQL = `
	WITH old AS (
		SELECT id FROM reservations WHERE released_at < $1 AND suspended_at IS NULL AND %s
		LIMIT $2 FOR UPDATE SKIP LOCKED)
	DELETE FROM reservations WHERE id IN (SELECT id FROM old) AND %s`

// PruneReservations deletes up to limit reservations that were released before a time, and returns how many.
func (s *Store) PruneReservations(ctx context.Context, before time.Time, limit int) (int, error) {
	if s.shards == nil {
		return s.pruneRows(ctx, everywhere(pruneReservationsSQL), before, limit)
	}
	pruned := 0
	for _, key := range s.shards.keys {
		n, err := s.pruneRows(ctx, strings.ReplaceAll(pruneReservationsSQL, "%s", "shard = $3"), before, limit-pruned, key)
		if pruned += n; err != nil || pruned == limit {
			return pruned, err
		}
	}
	return pruned, nil
}

// room is how much of a resource may be reserved in some of its shards, so that the most that those in the others can
// take fits too.
func room(limit, most int64, held int) int64 { return limit - int64(shards-held)*most }

// inShard reports whether a reservation is made in one shard. One that is larger than the others leave room for is not.
func inShard(h order.Reservation, alone bool) bool { return h.Units <= h.Most && !alone }

// locksOf are the names of the locks of a reservation: of the resource, of one of its shards, or of all.
func locksOf(h order.Reservation, of int, alone bool) []string {
	switch {
	case h.Most == 0:
		return []string{bucket(h.Resource)}
	case inShard(h, alone):
		return []string{shard(h.Resource, of)}
	}
	all := make([]string, shards)
	for i := range all {
		all[i] = shard(h.Resource, i)
	}
	return all
}

// bucket is the lock that a resource shares with others of its kind. A lock per wallet would add a row with each
// purchase, which would never be removed.
func bucket(resource string) string {
	sort, _, _ := strings.Cut(resource, "/")
	h := fnv.New32a()
	_, _ = h.Write([]byte(resource)) // never fails
	return fmt.Sprintf("%s#%d", sort, h.Sum32()%512)
}

func shard(resource string, n int) string { return fmt.Sprintf("%s#%d", resource, n) }

// reservedSQL sums the reservations of a resource, including those released at a time or later: a limit that was read
// then does not reflect their use yet. Suspended ones have none. The two parts are separate, because one condition
// would scan all reservations ever made.
const reservedSQL = `
	(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = $1 AND released_at IS NULL) +
	(SELECT coalesce(sum(units), 0) FROM reservations
		WHERE resource = $1 AND released_at >= $2 AND suspended_at IS NULL)`

// A reservation that does not fit is inserted without units, which violates a constraint: the server rolls the
// transaction back without a round trip under the lock.
const takeReservationSQL = `
	INSERT INTO reservations (resource, id, order_id, owner, units, created_at)
	SELECT $1::varchar, $3, $4, $8,
		CASE WHEN ` + reservedSQL + ` + $5::bigint <= $6::bigint THEN $5::bigint ELSE 0 END, $7`

func refusedReservation(short error, err *pgconn.PgError) error {
	if constraintOf(err) != "reservations_units" {
		return err
	}
	return fmt.Errorf("%w: %w", short, err)
}

// suspendReservations queues the release of an unpaid order's reservations of floats until it is paid. However many are
// suspended, they promise nothing: an order that is paid after all reserves again, or is refunded.
func suspendReservations(tx *ent.Tx, id order.ID, owner string, now time.Time) {
	changeReservations(tx, owner)(suspendReservationsSQL, id, owner, now)
}

const (
	suspendReservationsSQL = `UPDATE reservations SET released_at = $3, suspended_at = $3
		WHERE order_id = $1 AND owner = $2 AND resource LIKE 'float/%'
			AND released_at IS NULL AND settled_at IS NULL AND %s`

	clearSuspensionSQL = `UPDATE reservations SET suspended_at = NULL
		WHERE order_id = $1 AND owner = $2 AND suspended_at IS NOT NULL AND %s`

	releaseReservationsSQL = `UPDATE reservations SET released_at = $3
		WHERE order_id = $1 AND owner = $2 AND released_at IS NULL AND %s`

	forgetReservationsSQL = `UPDATE reservations SET released_at = 'epoch', suspended_at = NULL
		WHERE order_id = $1 AND owner = $2 AND (released_at IS NULL OR suspended_at IS NOT NULL) AND %s`
)

func releaseReservations(tx *ent.Tx, id order.ID, owner string, now time.Time) {
	change := changeReservations(tx, owner)
	change(clearSuspensionSQL, id, owner)
	change(releaseReservationsSQL, id, owner, now)
}

// forgetReservations releases those of an order whose payment is dead, as if long ago: nothing was taken of what they
// held, so no limit that was read before has to leave room for them.
func forgetReservations(tx *ent.Tx, id order.ID, owner string) {
	changeReservations(tx, owner)(forgetReservationsSQL, id, owner)
}

// lock locks the row of that name until the transaction ends.
func lock(tx *ent.Tx, name string) { lockAll(tx, []string{name}) }

// lockAll is lock for several rows, always in the same order, to avoid deadlocks.
func lockAll(tx *ent.Tx, names []string) {
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	// On conflict the existing row is locked, even though nothing is updated.
	later(tx, `INSERT INTO locks (id) SELECT unnest($1::varchar[])
		ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE false`, slices.Compact(names))
}
