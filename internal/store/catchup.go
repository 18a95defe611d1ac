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

// Watermarks keep the mark of this process in the database. They implement reconcile.Watermarks and reconcile.Sent.
type Watermarks struct{ Treasury }

var (
	_ reconcile.Watermarks = Watermarks{}
	_ reconcile.Sent       = Watermarks{}
)

// Watermarks is the part of the store that knows the database again.
func (s *Store) Watermarks(asset, payTo x402.Address) Watermarks {
	return Watermarks{s.Treasury(asset, payTo)}
}

// mark is what a claim asks the database for. With the zero id nothing is claimed.
type mark struct {
	id     uuid.UUID
	beat   int64
	server string
}

// The identity of the server behind a connection: the system identifier, the timeline, which changes when a standby is
// promoted, and the database. Where the first two are not readable, the database and the watermarks have to do.
const (
	serverSQL = `((SELECT system_identifier FROM pg_control_system()) || '/' ||
		substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || ` + databaseSQL + `)`
	databaseSQL = `(SELECT oid FROM pg_database WHERE datname = current_database())::text`
)

const (
	// A watermark that was not updated for a day belongs to a process that has ended.
	beginMarkSQL = `
		WITH gone AS (DELETE FROM chain_watermarks WHERE seen_at < now() - interval '1 day')
		INSERT INTO chain_watermarks (id, server, created_at, seen_at) SELECT $1, %s, now(), now()`

	// The answer to the last update may have been lost.
	keepMarkSQL = `
		UPDATE chain_watermarks SET heartbeat = $2::bigint + 1, last_block = $3, seen_at = now()
		WHERE id = $1 AND heartbeat IN ($2::bigint, $2::bigint + 1) AND server = %s`

	// The same watermark or a newer state of it, on the same server.
	hasMarkSQL = `SELECT 1 FROM chain_watermarks WHERE id = $1 AND heartbeat >= $2 AND server = %s`

	refundNoncesSQL = `SELECT nonce FROM refunds WHERE nonce = ANY($1) AND asset = $2`

	unclaimedSQL = `
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM (
			SELECT asset, pay_to, transaction, log_index, block, sender, value, nonce FROM transfers WHERE nonce <> ''
			UNION
			SELECT asset, pay_to, transaction, log_index, block, payer, value, nonce FROM reported_transfers
			WHERE network = $4
		) a
		WHERE a.asset = $1 AND a.pay_to = $2 AND a.sender = ANY($3)
			AND NOT EXISTS (SELECT 1 FROM payments p
				WHERE p.network = $4 AND p.asset = a.asset AND p.owner = a.sender AND p.nonce = a.nonce)
			AND NOT EXISTS (SELECT FROM transfer_resolutions r WHERE r.id = a.transaction || '/' || a.log_index)
		ORDER BY a.block, a.log_index`

	sentBackSQL = `
		SELECT a.sender, a.value, coalesce(CASE WHEN r.actor = $4
			THEN substring(r.reason FROM '0x[0-9a-f]{64}$') END, ''), r.at
		FROM transfer_resolutions r JOIN (
			SELECT asset, pay_to, transaction, log_index, sender, value FROM transfers
			UNION
			SELECT asset, pay_to, transaction, log_index, payer, value FROM reported_transfers WHERE network = $6
		) a ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $1 AND a.pay_to = $2 AND a.sender = ANY($3) AND r.resolution = $5
		ORDER BY r.at, r.id`
)

// Begin implements reconcile.Watermarks.
func (m Watermarks) Begin(ctx context.Context) (reconcile.ProcessWatermark, error) {
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
		return reconcile.ProcessWatermark{}, fmt.Errorf("leave a mark: %w", mapError(err))
	}
	m.s.mark.Store(&mark{server: server})
	return reconcile.ProcessWatermark{ID: id}, nil
}

func (m Watermarks) begin(ctx context.Context, id uuid.UUID, server string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := m.s.pool.Exec(ctx, fmt.Sprintf(beginMarkSQL, server), id)
	return err
}

// hidden reports whether a server lacks a function, or denies access to it.
func hidden(code string) bool {
	return code == "42501" || code == "42883" || code == "0A000"
}

// Keep implements reconcile.Watermarks.
func (m Watermarks) Keep(
	ctx context.Context, k reconcile.ProcessWatermark, head uint64,
) (reconcile.ProcessWatermark, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	now := m.s.mark.Load()
	tag, err := m.s.pool.Exec(ctx, fmt.Sprintf(keepMarkSQL, now.server), k.ID, k.Beat, int64(head))
	if err != nil {
		return k, fmt.Errorf("keep the mark: %w", mapError(err))
	}
	if tag.RowsAffected() == 0 {
		m.Revoke()
		return k, reconcile.ErrHistoryLost
	}
	k.Beat++
	m.s.mark.Store(&mark{k.ID, k.Beat, now.server})
	return k, nil
}

// Revoke implements reconcile.Watermarks.
func (m Watermarks) Revoke() {
	now := mark{server: databaseSQL}
	if before := m.s.mark.Load(); before != nil {
		now.server = before.server
	}
	m.s.mark.Store(&now)
}

// caughtUp queues the check of this process's watermark: a transaction that claims a payment must not commit to a
// database that was not compared with the chain. Without Watermarks there is no check.
func (s *Store) caughtUp(tx *ent.Tx) {
	if m := s.mark.Load(); m != nil {
		mustAffectOne(tx, checkout.ErrHistoryLost, fmt.Sprintf(hasMarkSQL, m.server), m.id, m.beat)
	}
}

// Refunds implements reconcile.Sent.
func (m Watermarks) Refunds(ctx context.Context, nonces []x402.Hash) ([]x402.Hash, error) {
	return m.known(ctx, refundNoncesSQL, nonces, m.asset)
}

const concludedByHandSQL = "SELECT payload->>'byHand' FROM jobs WHERE payload->>'byHand' = ANY($1) AND kind = ANY($2)"

// Concluded implements reconcile.Sent.
func (m Watermarks) Concluded(ctx context.Context, transactions []x402.Hash) ([]x402.Hash, error) {
	return m.known(ctx, concludedByHandSQL, transactions, m.s.returning())
}

// known are those of some hashes that a statement finds, which takes them first and then more.
func (m Watermarks) known(ctx context.Context, sql string, of []x402.Hash, more ...any) ([]x402.Hash, error) {
	texts := make([]string, len(of))
	for i, n := range of {
		texts[i] = n.String()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := m.s.pool.Query(ctx, sql, append([]any{texts}, more...)...)
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

// Unclaimed implements reconcile.Sent.
func (m Watermarks) Unclaimed(ctx context.Context, senders []x402.Address) ([]reconcile.Transfer, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := m.s.pool.Query(ctx, m.s.shards.read(unclaimedSQL), m.asset, m.payTo, lowered(senders), x402.NetworkID)
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, scanArrival)
	return found, mapError(err)
}

const claimedBySQL = `SELECT owner, nonce FROM payments WHERE network = $1 AND asset = $2 AND owner = ANY($3)`

// Claimed implements reconcile.Sent.
func (m Watermarks) Claimed(ctx context.Context, payers []x402.Address) ([]x402.Authorization, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := m.s.pool.Query(ctx, claimedBySQL, x402.NetworkID, m.asset, lowered(payers))
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a x402.Authorization, err error) {
		var owner, nonce string
		if err := row.Scan(&owner, &nonce); err != nil {
			return a, err
		}
		var wrongOwner, wrongNonce error
		a.From, wrongOwner = x402.ParseAddress(owner)
		a.Nonce, wrongNonce = x402.ParseHash(nonce)
		return a, errors.Join(wrongOwner, wrongNonce)
	})
	return found, mapError(err)
}

// SentBack implements reconcile.Sent.
func (m Watermarks) SentBack(ctx context.Context, senders []x402.Address) ([]reconcile.SentBack, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := m.s.pool.Query(ctx, sentBackSQL, m.asset, m.payTo, lowered(senders), catchUpActor,
		reconcile.RefundedByHand, x402.NetworkID)
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b reconcile.SentBack, err error) {
		var to, in string
		if err := row.Scan(&to, (*int64)(&b.Value), &in, &b.At); err != nil {
			return b, err
		}
		if b.To, err = x402.ParseAddress(to); err == nil && in != "" {
			b.In, err = x402.ParseHash(in)
		}
		return b, err
	})
	return found, mapError(err)
}

func lowered(addresses []x402.Address) []string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.Lower()
	}
	return texts
}

// catchUpActor is the actor of resolutions of refunded transfers. Their reason ends with the transaction that has sent
// the money back.
const catchUpActor = "catch-up"

// ResolveRefunded implements reconcile.Sent.
func (m Watermarks) ResolveRefunded(ctx context.Context, back []reconcile.RefundedTransfer) error {
	return m.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		now := m.s.stamp()
		for _, b := range back {
			// Reconciliation may not have read it yet, and an order may have claimed it meanwhile.
			if claimed, err := m.claimed(ctx, tx, b.Arrived); err != nil {
				return err
			} else if claimed {
				continue
			}
			at := b.Arrived.Place()
			m.arrive(tx, now, []reconcile.Transfer{b.Arrived})
			// Its place in the block may change with the block: what is read up to the head may be reorganised.
			reason := "the chain shows that the money was sent back, in " + b.Back.Transaction.String()
			tag, err := raw(tx).Exec(ctx, resolveSQL+" ON CONFLICT (id) DO NOTHING", at.String(), reconcile.RefundedByHand,
				reason, catchUpActor, now)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				continue
			}
			post(tx, now, b.Postings()...)
			act := order.OperatorContext{Operator: catchUpActor, Reason: reason}
			if err := m.s.record(ctx, tx, act, actResolve, at.String(), nil, resolved{reconcile.RefundedByHand}); err != nil {
				return err
			}
		}
		return nil
	})
}
