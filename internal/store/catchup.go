package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// Marks keep the mark of this process in the database. They implement reconcile.Marks.
type Marks struct{ Treasury }

var _ reconcile.Marks = Marks{}

// Marks is the part of the store that knows the database again.
func (s *Store) Marks(asset, payTo x402.Address) Marks { return Marks{s.Treasury(asset, payTo)} }

// mark is what a claim asks the database for. With the zero id nothing is claimed.
type mark struct {
	id     uuid.UUID
	beat   int64
	server string
}

// What names the server behind a connection: its data's identity, its timeline, which a standby that takes over
// changes at once, and the database. A service that hides the first two leaves the last, and the marks.
const (
	serverSQL = `((SELECT system_identifier FROM pg_control_system()) || '/' ||
		substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || ` + databaseSQL + `)`
	databaseSQL = `(SELECT oid FROM pg_database WHERE datname = current_database())::text`
)

const (
	// A mark that nobody has kept for a day is one of a process that is gone.
	beginMarkSQL = `
		WITH gone AS (DELETE FROM chain_watermarks WHERE seen_at < now() - interval '1 day')
		INSERT INTO chain_watermarks (id, server, created_at, seen_at) SELECT $1, %s, now(), now()`

	// The answer to the last time may have been lost.
	keepMarkSQL = `
		UPDATE chain_watermarks SET heartbeat = $2::bigint + 1, last_block = $3, seen_at = now()
		WHERE id = $1 AND heartbeat IN ($2::bigint, $2::bigint + 1) AND server = %s`

	// Of the same mark or a newer state of it, on the server that it was left on.
	hasMarkSQL = `SELECT 1 FROM chain_watermarks WHERE id = $1 AND heartbeat >= $2 AND server = %s`

	refundNoncesSQL = `SELECT nonce FROM refunds WHERE asset = $1 AND nonce = ANY($2)`

	unclaimedSQL = `
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM (
			SELECT asset, pay_to, transaction, log_index, block, sender, value, nonce FROM transfers WHERE nonce <> ''
			UNION
			SELECT asset, pay_to, transaction, log_index, block, payer, value, nonce FROM reported_transfers
			WHERE network = $4
		) a
		WHERE a.asset = $1 AND a.pay_to = $2 AND a.sender = ANY($3)
			AND NOT EXISTS (SELECT FROM payments p
				WHERE p.network = $4 AND p.asset = a.asset AND p.owner = a.sender AND p.nonce = a.nonce)
			AND NOT EXISTS (SELECT FROM transfer_resolutions r WHERE r.id = a.transaction || '/' || a.log_index)
		ORDER BY a.block, a.log_index`
)

// Begin implements reconcile.Marks.
func (m Marks) Begin(ctx context.Context) (reconcile.Mark, error) {
	id := uuid.New()
	server := serverSQL
	err := m.begin(ctx, id, server)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && hidden(pgErr.Code) {
		m.s.log.WarnContext(ctx, "the database server does not tell its timeline: a change of it is known by the marks alone",
			slog.Any("cause", err))
		server = databaseSQL
		err = m.begin(ctx, id, server)
	}
	if err != nil {
		return reconcile.Mark{}, fmt.Errorf("leave a mark: %w", mapError(err))
	}
	m.s.mark.Store(&mark{server: server})
	return reconcile.Mark{ID: id}, nil
}

func (m Marks) begin(ctx context.Context, id uuid.UUID, server string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := m.s.pool.Exec(ctx, fmt.Sprintf(beginMarkSQL, server), id)
	return err
}

// hidden says that a server does not have a function, or does not show it.
func hidden(code string) bool {
	return code == "42501" || code == "42883" || code == "0A000"
}

// Keep implements reconcile.Marks.
func (m Marks) Keep(ctx context.Context, k reconcile.Mark, head uint64) (reconcile.Mark, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	now := m.s.mark.Load()
	tag, err := m.s.pool.Exec(ctx, fmt.Sprintf(keepMarkSQL, now.server), k.ID, k.Beat, int64(head))
	if err != nil {
		return k, fmt.Errorf("keep the mark: %w", mapError(err))
	}
	if tag.RowsAffected() == 0 {
		m.Prune()
		return k, reconcile.ErrHistoryLost
	}
	k.Beat++
	m.s.mark.Store(&mark{k.ID, k.Beat, now.server})
	return k, nil
}

// Prune implements reconcile.Marks.
func (m Marks) Prune() {
	now := mark{server: databaseSQL}
	if before := m.s.mark.Load(); before != nil {
		now.server = before.server
	}
	m.s.mark.Store(&now)
}

// caughtUp queues the question for this process's mark: a transaction that takes money must not commit to a history
// that the chain was not compared with. Without Marks nothing is asked.
func (s *Store) caughtUp(tx *ent.Tx) {
	if m := s.mark.Load(); m != nil {
		touchOne(tx, checkout.ErrHistoryLost, fmt.Sprintf(hasMarkSQL, m.server), m.id, m.beat)
	}
}

// Refunds implements reconcile.Marks.
func (m Marks) Refunds(ctx context.Context, nonces []x402.Hash) ([]x402.Hash, error) {
	texts := make([]string, len(nonces))
	for i, n := range nonces {
		texts[i] = n.String()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := m.s.pool.Query(ctx, refundNoncesSQL, m.asset, texts)
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n x402.Hash, err error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return n, err
		}
		return x402.ParseHash(text)
	})
	return found, mapError(err)
}

// Unclaimed implements reconcile.Marks.
func (m Marks) Unclaimed(ctx context.Context, senders []x402.Address) ([]reconcile.Transfer, error) {
	names := make([]string, len(senders))
	for i, a := range senders {
		names[i] = a.Lower()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := m.s.pool.Query(ctx, unclaimedSQL, m.asset, m.payTo, names, x402.NetworkID)
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, scanArrival)
	return found, mapError(err)
}

// catchUpActor is who resolves what the chain shows to have gone back.
const catchUpActor = "catch-up"

// SentBack implements reconcile.Marks.
func (m Marks) SentBack(ctx context.Context, back []reconcile.SentBack) error {
	return m.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		now := m.s.stamp()
		for _, b := range back {
			// It may not have been read for the books yet, and an order may have claimed it meanwhile.
			if claimed, err := m.claimed(ctx, tx, b.Arrived); err != nil {
				return err
			} else if claimed {
				continue
			}
			at := b.Arrived.Place()
			m.arrive(tx, now, []reconcile.Transfer{b.Arrived})
			reason := "the chain shows that the money was sent back, in " + b.Back.Place().String()
			tag, err := raw(tx).Exec(ctx, resolveSQL+" ON CONFLICT (id) DO NOTHING", at.String(), reconcile.RefundedByHand,
				reason, catchUpActor, now)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				continue
			}
			post(tx, now, b.Postings()...)
			act := order.Act{Operator: catchUpActor, Reason: reason}
			if err := m.s.record(ctx, tx, act, actResolve, at.String(), nil, resolved{reconcile.RefundedByHand}); err != nil {
				return err
			}
		}
		return nil
	})
}
