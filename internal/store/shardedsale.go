package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// A distributed database sends a statement to a shard as it is only when it inserts by itself. These are the statements
// of a sale that insert on the way, each in parts.
const (
	// It divides by zero when the order is in another status, so that the server rolls the transaction back.
	moveShardedSQL = `
		WITH moved AS (
			UPDATE orders SET status = $3, version = version + 1, updated_at = $4,
				delivery_attempt = delivery_attempt + $5
			WHERE id = $1 AND owner = $6 AND status = $2 RETURNING *
		), checked AS (
			SELECT 1 / count(*) AS ok FROM moved
		)
		SELECT ` + ent.OrderColumns + ` FROM checked LEFT JOIN moved ON true WHERE checked.ok = 1`

	tellMoveSQL = `
		INSERT INTO timeline (id, order_id, owner, version, at, from_status, to_status, actor, reason, evidence,
			request_id)
		SELECT $3::uuid, id, owner, version, $4::timestamptz, $5::varchar, $6::varchar, $7::varchar, $8::text, $9::jsonb,
			$10::varchar
		FROM orders WHERE id = $1 AND owner = $2`

	postedSQL = `SELECT EXISTS (SELECT 1 FROM ledger_postings WHERE id = $1)`

	// A posting that was there has its entries.
	enterShardedSQL = `
		INSERT INTO ledger_entries (posting_id, owner, account, amount)
		SELECT p.id, p.owner, e.account, e.amount
		FROM ledger_postings p, unnest($3::varchar[], $4::bigint[]) AS e (account, amount)
		WHERE p.id = $1 AND p.owner = $2
			AND NOT EXISTS (SELECT 1 FROM ledger_entries x WHERE x.posting_id = p.id AND x.owner = p.owner)`

	findReservedCardSQL = `SELECT ` + ent.CardColumns + ` FROM cards WHERE order_id = $1 AND owner = $2 AND reference = $3`
)

var (
	insertCardSQL  = ent.CardTable.Insert() + ` ON CONFLICT (reference, owner) DO NOTHING`
	postShardedSQL = ent.LedgerPostingTable.Insert() + ` ON CONFLICT (id, owner) DO NOTHING`
)

// moveSharded is moveOrder in a distributed database.
func moveSharded(tx *ent.Tx, m order.Move, now time.Time, refused int, moved *order.Order) {
	owner := m.Owner.Lower()
	pgxOf(tx).later(statement{
		sql:  moveShardedSQL,
		args: []any{m.Order, m.From, m.To, now, refused, owner},
		read: func(answers pgx.BatchResults) (err error) {
			*moved, err = scanOrder(answers.QueryRow())
			return err
		},
		refused: func(err *pgconn.PgError) error {
			if err.Code != divisionByZero {
				return err
			}
			return fmt.Errorf("order %s is no longer %s: %w", m.Order, m.From, err)
		},
	})
	later(tx, tellMoveSQL, m.Order, owner, uuid.Must(uuid.NewV7()), now, m.From, m.To, m.Actor, m.Reason, m.Evidence,
		requestOfMove(pgxOf(tx).ctx, m))
	endMove(tx, m, now)
}

// errUnbalanced fails a transaction with a posting whose entries do not add up to zero.
var errUnbalanced = errors.New("not balanced")

// postSharded queues a posting in a distributed database. There are no triggers, so the balance is checked here. The
// owner of an order that the caller does not know is read first.
func postSharded(
	tx *ent.Tx, now time.Time, owner *string, p ledger.Posting, accounts []string, amounts []int64,
) error {
	if owner == nil {
		found, err := ownerOf(pgxOf(tx).ctx, raw(tx), ownerOfOrderSQL, p.Order)
		if err != nil {
			return err
		}
		owner = &found
	}
	var sum int64
	for _, amount := range amounts {
		sum += amount
	}
	if sum != 0 {
		return fmt.Errorf("posting %s: %w", p.ID, errUnbalanced)
	}
	if p.Undoes != "" {
		// What is reversed may have another owner.
		var posted bool
		if err := raw(tx).QueryRow(pgxOf(tx).ctx, postedSQL, p.Undoes).Scan(&posted); err != nil || !posted {
			return err
		}
	}
	later(tx, postShardedSQL, ent.LedgerPostingTable.Values(postingRow(p, *owner, now))...)
	later(tx, enterShardedSQL, p.ID, *owner, accounts, amounts)
	return nil
}

// expireSharded is Expire in a distributed database: a transaction for the owners of each shard.
func (o Orders) expireSharded(ctx context.Context, m order.Move, limit int) (n int, err error) {
	groups, err := o.s.dueOwners(ctx, dueExpirySQL, m.From, o.s.stamp(), limit)
	if err != nil {
		return 0, fmt.Errorf("expire orders: %w", err)
	}
	for _, owners := range groups {
		var expired []order.Order
		err := o.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) (err error) {
			expired, err = o.expireOf(ctx, tx, m, owners, limit-n)
			return err
		})
		if n += len(expired); err != nil {
			return n, fmt.Errorf("expire orders: %w", err)
		}
	}
	return n, nil
}

const (
	dueExpirySQL = `SELECT owner FROM orders WHERE status = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3`

	expireOfSQL = `
		WITH due AS (
			SELECT id FROM orders WHERE status = $1 AND expires_at <= $2 AND owner = ANY($5::varchar[])
			ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED)
		UPDATE orders SET status = $4, version = version + 1, updated_at = $2
		WHERE id IN (SELECT id FROM due) AND owner = ANY($5::varchar[]) RETURNING ` + ent.OrderColumns
)

func (o Orders) expireOf(
	ctx context.Context, tx *ent.Tx, m order.Move, owners []string, limit int,
) ([]order.Order, error) {
	now := o.s.stamp()
	rows, err := raw(tx).Query(ctx, expireOfSQL, m.From, now, limit, m.To, owners)
	if err != nil {
		return nil, err
	}
	expired, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (order.Order, error) { return scanOrder(row) })
	if err != nil {
		return nil, err
	}
	for _, e := range expired {
		m.Order, m.Owner = e.ID, e.Owner
		insert(tx, ent.TimelineTable, moveRow(ctx, m, e.Version, now))
	}
	return expired, nil
}

const (
	walkOrdersSQL = `SELECT id, owner, status = ANY($5), updated_at FROM orders
		WHERE updated_at >= $1 AND (updated_at > $1 OR updated_at = $1 AND id > $2) AND updated_at < $3
		ORDER BY updated_at, id LIMIT $4`

	pruneLinesSQL = `
		DELETE FROM timeline t USING orders o
		WHERE t.owner = ANY($1::varchar[]) AND o.owner = ANY($1::varchar[]) AND o.owner = t.owner AND o.id = t.order_id
			AND t.order_id = ANY($2::varchar[]) AND t.version < o.version AND t.actor NOT LIKE 'operator:%'
			AND t.at < now() - interval '1 day'`

	walkedSQL = `UPDATE progress SET at = $2, place = $3 WHERE id = $1`
)

// pruneTimelineSharded walks through the next orders in a distributed database, and deletes old lines of the final
// ones, for each shard in a transaction of its own. What a walk that is broken off has deleted, the next one does not
// find.
func (o Orders) pruneTimelineSharded(
	ctx context.Context, tx *ent.Tx, at time.Time, place string, before time.Time, limit int,
) (walked int, err error) {
	rows, err := raw(tx).Query(ctx, walkOrdersSQL, at, place, before, limit, finalStatuses())
	if err != nil {
		return 0, err
	}
	var owners, final []string
	var owner string
	var over bool
	if _, err := pgx.ForEachRow(rows, []any{&place, &owner, &over, &at}, func() error {
		if walked++; over {
			owners, final = append(owners, owner), append(final, place)
		}
		return nil
	}); err != nil || walked == 0 {
		return 0, err
	}
	for _, some := range o.s.shards.groups(owners) {
		if _, err := o.s.pool.Exec(ctx, pruneLinesSQL, some, final); err != nil {
			return 0, err
		}
	}
	later(tx, walkedSQL, walkTimeline, at, place)
	return walked, nil
}

const (
	seenCardsSQL = `SELECT owner FROM cards WHERE reference = ANY($1)`

	// observeOfSQL is observeSQL for owners of one shard.
	observeOfSQL = `
	WITH seen AS (
		SELECT c.id, s.status FROM cards c
		JOIN unnest($1::uuid[], $2::text[], $6::text[], $7::timestamptz[]) AS s (reference, status, provider, as_of)
			ON c.reference = s.reference AND c.provider = s.provider AND c.updated_at <= s.as_of
		LEFT JOIN unnest($3::text[], $4::text[]) AS m (from_status, to_status)
			ON c.status = m.from_status AND s.status = m.to_status
		WHERE c.owner = ANY($8::varchar[]) AND (m.to_status IS NOT NULL
			OR c.owner_frozen AND c.status = 'ACTIVE' AND s.status = 'ACTIVE' AND c.changing_until <= least(s.as_of, $5))
		ORDER BY c.id FOR UPDATE OF c)
	UPDATE cards SET status = seen.status, updated_at = $5,
		owner_frozen = owner_frozen AND (seen.status <> 'ACTIVE' OR coalesce(changing_until > $5, false))
	FROM seen WHERE cards.id = seen.id AND cards.owner = ANY($8::varchar[])
	RETURNING cards.id, cards.order_id, cards.status`
)
