package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/order"
)

// In a distributed database each shard has a part of a float, half of it for all together. A claim that fits in the
// part of its owner's shard counts what is reserved in that shard, and nothing else. Any other one holds the locks of
// all shards, counts in all, and leaves to each what is left of its part. So the sum over the shards of what is
// reserved there, or of the part where that is more, never exceeds the limit. When an order would only fit in what
// others leave unused, the float is gathered: until there is plenty again, each claim counts in all shards.

// stranded says that an order fits only in what shards leave unused of their parts of a resource.
type stranded struct{ resource string }

// Error implements error.
func (e *stranded) Error() string { return "the rest of " + e.resource + " is in parts of shards" }

const (
	// The row is there while the float is gathered.
	gatheredSQL = `SELECT count(*) FROM progress WHERE id = $2`
	gatherSQL   = `INSERT INTO progress (id, at) VALUES ($1, now()) ON CONFLICT (id) DO NOTHING`
	scatterSQL  = `DELETE FROM progress WHERE id = $1`

	inShardSQL = `
		SELECT $2::bigint + (SELECT coalesce(sum(units), 0) FROM reservations
				WHERE resource = $3 AND shard = $4 AND released_at IS NULL)
			+ (SELECT coalesce(sum(units), 0) FROM reservations
				WHERE resource = $3 AND shard = $4 AND released_at >= $5 AND suspended_at IS NULL)`

	// All that an owner reserves is in its shard.
	unsettledOfOwnerSQL = `
		SELECT $2::bigint + (SELECT coalesce(sum(units), 0) FROM reservations
			WHERE resource = $3 AND owner = $4 AND shard = $5 AND released_at IS NULL AND settled_at IS NULL)`

	byShardSQL = `
		SELECT shard, coalesce(sum(units), 0)::bigint FROM reservations
		WHERE resource = $1 AND (released_at IS NULL OR released_at >= $2 AND suspended_at IS NULL) GROUP BY shard`

	reserveShardedSQL = `
		INSERT INTO reservations (id, order_id, owner, resource, units, created_at, shard)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

func gathering(resource string) string { return "gathered/" + resource }

// part is what a shard has of a resource of which orders reserve at most as much as most; nothing when that is too
// little for one.
func (s *ownerShards) part(limit, most int64) int64 {
	part := limit / 2 / int64(len(s.keys))
	if part < most {
		return 0
	}
	return part
}

// reserve reserves of a resource for an order, after lockReservations, as takeReservation does.
func (s *ownerShards) reserve(
	ctx context.Context, tx *ent.Tx, o order.Order, h order.Reservation, now time.Time, alone bool,
) error {
	owner := o.Owner.Lower()
	key := s.key(owner)
	switch {
	case strings.HasSuffix(h.Resource, "/"+owner):
		within(tx, &order.Shortage{Reservation: h}, inShardSQL, h.Limit, h.Units, h.Resource, key, h.AsOf)
	case inShard(h, alone):
		within(tx, errContended, gatheredSQL, 0, gathering(h.Resource))
		within(tx, errContended, inShardSQL, s.part(h.Limit, h.Most), h.Units, h.Resource, key, h.AsOf)
	default:
		if err := s.fits(ctx, tx, h, key); err != nil {
			return err
		}
	}
	if h.Unsettled > 0 {
		within(tx, tooMuchUnsettled(h), unsettledOfOwnerSQL, h.Unsettled, h.Units, h.Resource, owner, key)
	}
	later(tx, reserveShardedSQL, uuid.Must(uuid.NewV7()), o.ID, owner, h.Resource, h.Units, now, key)
	return nil
}

// fits checks whether a reservation fits, by what is reserved in all shards. Their locks are held.
func (s *ownerShards) fits(ctx context.Context, tx *ent.Tx, h order.Reservation, key string) error {
	rows, err := raw(tx).Query(ctx, byShardSQL, h.Resource, h.AsOf)
	if err != nil {
		return err
	}
	reserved, all := map[string]int64{}, h.Units
	var of string
	var units int64
	if _, err := pgx.ForEachRow(rows, []any{&of, &units}, func() error {
		reserved[of], all = units, all+units
		return nil
	}); err != nil {
		return err
	}
	if all > h.Limit {
		return &order.Shortage{Reservation: h}
	}
	reserved[key] += h.Units
	part, claimed := s.part(h.Limit, h.Most), int64(0)
	for _, k := range s.keys {
		claimed += max(part, reserved[k])
	}
	switch fits := claimed <= h.Limit; {
	case fits && all <= h.Limit/4:
		later(tx, scatterSQL, gathering(h.Resource))
	case !fits:
		return s.whenGathered(ctx, tx, h.Resource)
	}
	return nil
}

// whenGathered fails with stranded unless a float is gathered.
func (s *ownerShards) whenGathered(ctx context.Context, tx *ent.Tx, resource string) error {
	var gathered int
	err := raw(tx).QueryRow(ctx, "SELECT count(*) FROM progress WHERE id = $1", gathering(resource)).Scan(&gathered)
	if err == nil && gathered == 0 {
		err = &stranded{resource}
	}
	return err
}

// gather lets all claims of a resource count in all shards. It is stored before one that depends on it: the claims of
// all shards wait for the locks, and see it.
func (s *Store) gather(ctx context.Context, resource string) error {
	err := s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		lockAll(tx, locksOf(order.Reservation{Resource: resource, Most: 1, Units: 2}, 0, true))
		later(tx, gatherSQL, gathering(resource))
		return nil
	})
	if err != nil && !errors.Is(err, ErrUnknownCommit) {
		return fmt.Errorf("gather a float: %w", err)
	}
	return err
}
