package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// shards is how many claims may reserve of one resource concurrently. A claim in one shard does not see the uncommitted
// reservations of the others, and leaves room for the largest possible one in each. When that does not fit, a claim
// locks all shards, and sees everything.
const shards = 8

// errCrowded says that a claim may not fit in addition to those in other shards.
var errCrowded = errors.New("no room in addition to the other shards")

// lockReservations queues the locks of what an order reserves, so that two orders never reserve the same units.
func lockReservations(tx *ent.Tx, p checkout.ClaimRequest, alone bool) {
	var locks []string
	if countsPayments(p) {
		locks = append(locks, bucket("payer/"+p.Payment.Authorization.From.Lower()))
	}
	of := rand.IntN(shards)
	if s := spreadOf(tx); s != nil {
		of = s.of(p.Order.Owner.Lower()) % shards
	}
	for _, h := range p.Reservations {
		locks = append(locks, locksOf(h, of, alone)...)
	}
	lockAll(tx, locks)
}

// countsPayments reports whether a claim is limited by the payments that its payer has claimed, so that the claims of
// one payer come one after the other.
func countsPayments(p checkout.ClaimRequest) bool { return p.MaxUndecided > 0 || p.MaxInFlight > 0 }

// takeReservations queues the reservations of an order, after lockReservations. When one does not fit, the transaction
// fails with an *order.Shortage or, unless alone, with errCrowded; when the payer has too many undecided payments, with
// checkout.ErrUndecided, and when too many of them may be in flight, with a *limit.Refusal.
func takeReservations(ctx context.Context, tx *ent.Tx, p checkout.ClaimRequest, now time.Time, alone bool) error {
	boundUndecided(tx, p)
	if s := spreadOf(tx); s != nil {
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

// boundUndecided queues the checks of how many payments of its payer a claim may be added to.
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
}

// takeReservation queues one reservation of an order.
func takeReservation(tx *ent.Tx, o order.Order, h order.Reservation, now time.Time, alone bool) {
	limit, short := h.Limit, error(&order.Shortage{Reservation: h})
	if inShard(h, alone) {
		limit, short = room(limit, h.Most, 1), errCrowded
	}
	pgxOf(tx).later(statement{
		sql:     takeReservationSQL,
		args:    []any{h.Resource, h.AsOf, uuid.Must(uuid.NewV7()), o.ID, h.Units, limit, now, o.Owner.Lower()},
		refused: func(err *pgconn.PgError) error { return refusedReservation(short, err) },
	})
	boundUnsettled(tx, h, alone)
}

// boundUnsettled queues the check that unpaid orders, including this one, stay within their share of a resource. Here,
// too, a claim in one shard leaves room for those in the others.
func boundUnsettled(tx *ent.Tx, h order.Reservation, alone bool) {
	if h.Unsettled == 0 {
		return
	}
	limit, short := h.Unsettled, error(tooMuchUnsettled(h))
	if inShard(h, alone) && h.Most > 0 {
		limit, short = room(limit, h.Most, 1), errCrowded
	}
	within(tx, short, unsettledSQL, limit, h.Resource)
}

func tooMuchUnsettled(h order.Reservation) *order.Shortage {
	h.Refusal = fault.FloatReserved
	h.Detail = "Too much is reserved for payments that are not settled yet. " +
		"Nothing was claimed; repeat the same request."
	return &order.Shortage{Reservation: h}
}

const unsettledSQL = `
	SELECT coalesce(sum(units), 0) FROM reservations
	WHERE resource = $2 AND released_at IS NULL AND settled_at IS NULL`

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
	resumeReservationsSQL = `UPDATE reservations SET released_at = NULL, suspended_at = NULL
		WHERE order_id = $1 AND owner = $2 AND suspended_at IS NOT NULL AND %s`

	settleReservationsSQL = `UPDATE reservations SET settled_at = $3
		WHERE order_id = $1 AND owner = $2 AND released_at IS NULL AND %s`
)

// settleReservations queues the update of a paid order's reservations. Suspended ones are reserved again, even if
// others have reserved since: the order is paid, and new claims see that less is left.
func settleReservations(tx *ent.Tx, id order.ID, owner x402.Address, now time.Time) {
	change := changeReservations(tx, owner.Lower())
	change(resumeReservationsSQL, id, owner.Lower())
	change(settleReservationsSQL, id, owner.Lower(), now)
}

// changeReservations queues statements on the reservations of an owner.
func changeReservations(tx *ent.Tx, owner string) func(sql string, args ...any) {
	return func(sql string, args ...any) { pgxOf(tx).later(spreadOf(tx).inShard(owner, sql, args...)) }
}

// A suspended reservation is taken again when its order is paid.
const pruneReservationsSQL = `
	WITH old AS (
		SELECT id FROM reservations WHERE released_at < $1 AND suspended_at IS NULL AND %s
		LIMIT $2 FOR UPDATE SKIP LOCKED)
	DELETE FROM reservations WHERE id IN (SELECT id FROM old) AND %s`

// PruneReservations deletes up to limit reservations that were released before a time, and returns how many.
func (s *Store) PruneReservations(ctx context.Context, before time.Time, limit int) (int, error) {
	if s.spread == nil {
		return s.pruneRows(ctx, everywhere(pruneReservationsSQL), before, limit)
	}
	pruned := 0
	for _, key := range s.spread.keys {
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

// reservedSQL sums the reservations of a resource, including those released after a time: a limit that was read then
// does not reflect their use yet. The two parts are separate, because one condition would scan all reservations ever
// made.
const reservedSQL = `
	(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = $1 AND released_at IS NULL) +
	(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = $1 AND released_at > $2)`

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

// mostSuspended bounds, approximately, the suspended reservations. They are reserved again when their orders are paid,
// so without a bound any number of payers could claim, and then all pay at the same time.
const mostSuspended = 100

// suspendReservations queues the release of an unpaid order's reservations of floats until it is paid, within
// mostSuspended.
func suspendReservations(tx *ent.Tx, id order.ID, owner string, now time.Time) {
	changeReservations(tx, owner)(suspendReservationsSQL, id, owner, now, mostSuspended)
}

const (
	suspendReservationsSQL = `UPDATE reservations SET released_at = $3, suspended_at = $3
		WHERE order_id = $1 AND owner = $2 AND released_at IS NULL AND settled_at IS NULL AND resource LIKE 'float/%'
			AND (SELECT count(*) FROM reservations WHERE suspended_at IS NOT NULL AND %s) < $4 AND %s`

	clearSuspensionSQL = `UPDATE reservations SET suspended_at = NULL
		WHERE order_id = $1 AND owner = $2 AND suspended_at IS NOT NULL AND %s`

	releaseReservationsSQL = `UPDATE reservations SET released_at = $3
		WHERE order_id = $1 AND owner = $2 AND released_at IS NULL AND %s`
)

func releaseReservations(tx *ent.Tx, id order.ID, owner string, now time.Time) {
	change := changeReservations(tx, owner)
	change(clearSuspensionSQL, id, owner)
	change(releaseReservationsSQL, id, owner, now)
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
