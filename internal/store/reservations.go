package store

import (
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
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// shards is how many claims may reserve of one resource at once. A claim in one shard does not see what those in the
// others reserve at this moment, and leaves room for the most that they can reserve: one claim in each. Only when that
// does not fit any more, a claim locks all shards, and sees everything.
const shards = 8

// errCrowded says that a claim may not fit in addition to those in other shards.
var errCrowded = errors.New("no room in addition to the other shards")

// takeReservations queues the reservations of an order, under locks, so that two orders never reserve the same. When
// one does not fit, the transaction fails with an *order.Shortage, or, unless it is alone, with errCrowded; when the
// payer has too many undecided payments, with checkout.ErrUndecided. It comes last, because the locks are held from
// here to the commit.
func takeReservations(tx *ent.Tx, p checkout.ClaimRequest, now time.Time, alone bool) {
	var locks []string
	if p.Undecided > 0 {
		locks = append(locks, bucket("payer/"+p.Payment.Authorization.From.Lower()))
	}
	for _, h := range p.Reservations {
		locks = append(locks, locksOf(h, alone)...)
	}
	// Always in the same order, or two claims could wait for each other.
	slices.Sort(locks)
	for _, name := range slices.Compact(locks) {
		lock(tx, name)
	}
	if p.Undecided > 0 {
		within(tx, checkout.ErrUndecided, "SELECT count(*) FROM payments WHERE status = 'claimed' AND owner = $2",
			p.Undecided, p.Payment.Authorization.From.Lower())
	}
	for _, h := range p.Reservations {
		limit, short := h.Limit, error(&order.Shortage{Reservation: h})
		if inShard(h, alone) {
			limit, short = limit-(shards-1)*h.Most, errCrowded
		}
		pgxOf(tx).later(reviewItem{
			sql: takeReservationSQL,
			args: []any{
				h.Resource, h.AsOf, uuid.Must(uuid.NewV7()), p.Order.ID, h.Units, limit, now, p.Order.Owner.Lower(),
			},
			refused: func(err *pgconn.PgError) error { return refusedReservation(short, err) },
		})
		boundUnsettled(tx, h, alone)
	}
}

// boundUnsettled queues the check that unpaid orders, with this one, reserve no more of a resource than they may. A
// claim in one shard leaves room for those in the others here too.
func boundUnsettled(tx *ent.Tx, h order.Reservation, alone bool) {
	if h.Unsettled == 0 {
		return
	}
	reserved := h
	reserved.Refusal = fault.FloatReserved
	reserved.Detail = "Too much is reserved for payments that are not settled yet. " +
		"Nothing was claimed; repeat the same request."
	limit, short := h.Unsettled, error(&order.Shortage{Reservation: reserved})
	if inShard(h, alone) && h.Most > 0 {
		limit, short = limit-(shards-1)*h.Most, errCrowded
	}
	within(tx, short, unsettledSQL, limit, h.Resource)
}

const unsettledSQL = `
	SELECT coalesce(sum(units), 0) FROM reservations
	WHERE resource = $2 AND released_at IS NULL AND settled_at IS NULL`

// within queues a count that must not be above most, its $1. Above it divides by zero: so the server itself undoes
// the transaction, which fails with otherwise.
func within(tx *ent.Tx, otherwise error, count string, most any, args ...any) {
	pgxOf(tx).later(reviewItem{
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
		WHERE order_id = $1 AND owner = $2 AND suspended_at IS NOT NULL`

	settleReservationsSQL = `UPDATE reservations SET settled_at = $3
		WHERE order_id = $1 AND owner = $2 AND released_at IS NULL`
)

// settleReservations queues that what an order of the owner has reserved is paid. What was suspended is reserved again,
// even if others have reserved since: it is paid for like theirs, and new claims see that there is less.
func settleReservations(tx *ent.Tx, id order.ID, owner x402.Address, now time.Time) {
	later(tx, resumeReservationsSQL, id, owner.Lower())
	later(tx, settleReservationsSQL, id, owner.Lower(), now)
}

// inShard says that a reservation is made in one shard. What is larger than others allow for is not.
func inShard(h order.Reservation, alone bool) bool { return h.Units <= h.Most && !alone }

// locksOf names what is locked to reserve: the resource, or shards of it.
func locksOf(h order.Reservation, alone bool) []string {
	switch {
	case h.Most == 0:
		return []string{bucket(h.Resource)}
	case inShard(h, alone):
		return []string{shard(h, rand.IntN(shards))}
	}
	all := make([]string, shards)
	for i := range all {
		all[i] = shard(h, i)
	}
	return all
}

// bucket is the lock that a resource shares with others of its kind. One for each wallet would be a row more for every
// purchase, and stay for ever.
func bucket(resource string) string {
	sort, _, _ := strings.Cut(resource, "/")
	h := fnv.New32a()
	_, _ = h.Write([]byte(resource)) // never fails
	return fmt.Sprintf("%s#%d", sort, h.Sum32()%512)
}

func shard(h order.Reservation, n int) string { return fmt.Sprintf("%s#%d", h.Resource, n) }

// reservedSQL is what is reserved of a resource, with what was released after a time: a limit read then does not show
// yet what became of it. In one condition the two would be looked for among all that was ever reserved.
const reservedSQL = `
	(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = $1 AND released_at IS NULL) +
	(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = $1 AND released_at > $2)`

// What does not fit is inserted without units, which the table refuses: so the server itself undoes the
// transaction, and nobody waits for its answer under the lock.
const takeReservationSQL = `
	INSERT INTO reservations (resource, id, order_id, owner, units, created_at)
	SELECT $1::varchar, $3, $4, $8,
		CASE WHEN ` + reservedSQL + ` + $5::bigint <= $6::bigint THEN $5::bigint ELSE 0 END, $7`

func refusedReservation(short error, err *pgconn.PgError) error {
	if err.ConstraintName != "reservations_units" {
		return err
	}
	return fmt.Errorf("%w: %w", short, err)
}

// mostSuspended is about how many reservations are suspended at once. They come back when their orders are paid, so
// without a bound claims that are left unpaid could let in any number of payers, who all pay at the same time.
const mostSuspended = 100

// suspendReservations queues that what an unpaid order has reserved of floats is released until it is paid, while there
// are not too many of those.
func suspendReservations(tx *ent.Tx, id order.ID, now time.Time) {
	later(tx, `UPDATE reservations SET released_at = $2, suspended_at = $2
		WHERE order_id = $1 AND released_at IS NULL AND settled_at IS NULL AND resource LIKE 'float/%'
			AND (SELECT count(*) FROM reservations WHERE suspended_at IS NOT NULL) < $3`, id, now, mostSuspended)
}

func releaseReservations(tx *ent.Tx, id order.ID, now time.Time) {
	later(tx, "UPDATE reservations SET suspended_at = NULL WHERE order_id = $1 AND suspended_at IS NOT NULL", id)
	later(tx, "UPDATE reservations SET released_at = $2 WHERE order_id = $1 AND released_at IS NULL", id, now)
}

// lock locks the row of that name until the transaction ends.
func lock(tx *ent.Tx, name string) {
	// A row that is there already is locked before it is found that nothing of it is to be updated.
	later(tx, "INSERT INTO locks (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE false", name)
}
