package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// The operators' actions on unmatched transfers, as the audit trail names them.
const (
	actTransfers = "transfers.list"
	actResolve   = "transfer.resolve"
)

const (
	// A comparison posts the transfers that it finds unmatched.
	unmatchedColumns = `a.id, a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce, a.seen_at, r.resolution,
		r.reason, r.actor, r.at
		FROM transfers a JOIN ledger_postings p ON p.id = 'unmatched/' || a.transaction || '/' || a.log_index
			LEFT JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $1 AND a.pay_to = $2 AND NOT EXISTS (SELECT 1 FROM ledger_postings m WHERE m.id = 'matched/' ||
		a.transaction || '/' || a.log_index)`

	unmatchedListSQL = `SELECT ` + unmatchedColumns + ` AND (r.id IS NOT NULL) = $3
		AND ($4::bigint = 0 OR a.id < $4) ORDER BY a.id DESC LIMIT $5`

	unmatchedTransferSQL = `SELECT ` + unmatchedColumns + ` AND a.transaction = $3 AND a.log_index = $4`

	resolveSQL = `INSERT INTO transfer_resolutions (id, resolution, reason, actor, at) VALUES ($1, $2, $3, $4, $5)`
)

// ListUnmatched implements reconcile.UnmatchedTransfers.
func (t Treasury) ListUnmatched(
	ctx context.Context, q reconcile.UnmatchedQuery, act order.OperatorContext,
) ([]reconcile.UnmatchedTransfer, error) {
	var page []reconcile.UnmatchedTransfer
	err := t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		rows, err := raw(tx).Query(ctx, shardsOf(tx).read(unmatchedListSQL), t.asset, t.payTo, q.Resolved, q.Before, q.Limit)
		if err != nil {
			return err
		}
		if page, err = pgx.CollectRows(rows, scanUnmatchedTransfer); err != nil {
			return err
		}
		places := make([]string, len(page))
		for i, one := range page {
			places[i] = one.Place().String()
		}
		waiting, err := waitingFor(ctx, tx.Client(), t.s.stamp(), places...)
		if err != nil {
			return err
		}
		for i, place := range places {
			if a, ok := waiting[place]; ok {
				page[i].Pending = &a
			}
		}
		return t.s.record(ctx, tx, act, actTransfers, t.payTo, nil, nil)
	})
	return page, err
}

// resolved is the audit record of a resolution.
type resolved struct {
	Resolution reconcile.Resolution `json:"resolution"`
}

// Resolve implements reconcile.UnmatchedTransfers.
func (t Treasury) Resolve(
	ctx context.Context, at reconcile.Place, as reconcile.Resolution, act order.OperatorContext,
) (reconcile.UnmatchedTransfer, error) {
	var unmatched reconcile.UnmatchedTransfer
	err := t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) (err error) {
		unmatched, err = t.resolve(ctx, tx, at, as, act, true)
		return err
	})
	return unmatched, err
}

// resolve is Resolve in a transaction. With mayWait, a resolution that needs a second operator is stored for one
// instead.
func (t Treasury) resolve(
	ctx context.Context, tx *ent.Tx, at reconcile.Place, as reconcile.Resolution, act order.OperatorContext, mayWait bool,
) (unmatched reconcile.UnmatchedTransfer, err error) {
	lock(tx, "transfer/"+at.String())
	repeated, err := t.s.repeats(ctx, tx, act, actResolve, at.String(), resolved{as})
	if err != nil {
		return unmatched, err
	}
	if unmatched, err = t.unmatchedAt(ctx, tx, at); err != nil || repeated {
		return unmatched, err
	}
	if err := atVersion(act, unmatched.Version()); err != nil {
		return unmatched, err
	}
	if unmatched.Resolved != nil {
		return unmatched, reconcile.ErrResolved
	}
	if claimed, err := t.claimed(ctx, tx, unmatched.Transfer); err != nil {
		return unmatched, err
	} else if claimed {
		return unmatched, reconcile.ErrNoUnmatched
	}
	if mayWait {
		unmatched.Pending, err = t.s.requestApproval(ctx, tx, approval.Asked{
			Action: approval.ResolveTransfer, Subject: at.String(), Amount: centsUp(unmatched.Value), Resolution: string(as),
		}, act)
		if err != nil || unmatched.Pending != nil {
			return unmatched, err
		}
	}
	now := t.s.stamp()
	unmatched.Resolved = &reconcile.Resolved{Place: at, As: as, Reason: act.Reason, Operator: act.Operator, At: now}
	later(tx, resolveSQL, at.String(), as, act.Reason, act.Operator, now)
	later(tx, transferFindingSQL, t.id(), string(reconcile.TransferUnit(at)), now, as, act.Operator, act.Reason)
	post(tx, now, as.Postings(unmatched.Transfer)...)
	return unmatched, t.s.record(ctx, tx, act, actResolve, at.String(), nil, resolved{as})
}

// unmatchedAt reads one transfer. reconcile.ErrNoUnmatched when no comparison has found it.
func (t Treasury) unmatchedAt(
	ctx context.Context, tx *ent.Tx, at reconcile.Place,
) (unmatched reconcile.UnmatchedTransfer, err error) {
	rows, err := raw(tx).Query(ctx, shardsOf(tx).read(unmatchedTransferSQL), t.asset, t.payTo, at.Transaction.String(),
		int64(at.LogIndex))
	if err != nil {
		return unmatched, err
	}
	unmatched, err = pgx.CollectExactlyOneRow(rows, scanUnmatchedTransfer)
	if errors.Is(err, pgx.ErrNoRows) {
		err = reconcile.ErrNoUnmatched
	}
	return unmatched, err
}

// atVersion refuses an action whose operator has seen its subject at another version.
func atVersion(act order.OperatorContext, version int) error {
	if at(act, int64(version)) != nil {
		return reconcile.ErrChanged
	}
	return nil
}

func scanUnmatchedTransfer(row pgx.CollectableRow) (s reconcile.UnmatchedTransfer, err error) {
	var transaction, sender, nonce string
	var index, block int64
	var as, reason, operator *string
	var at *time.Time
	if err := row.Scan(&s.Row, &transaction, &index, &block, &sender, (*int64)(&s.Value), &nonce, &s.SeenAt, &as, &reason,
		&operator, &at); err != nil {
		return s, err
	}
	if err := setTransfer(&s.Transfer, transaction, sender, nonce, index, block); err != nil {
		return s, err
	}
	s.SeenAt = s.SeenAt.UTC()
	if as != nil {
		s.Resolved = &reconcile.Resolved{Place: s.Place(), As: reconcile.Resolution(*as), Reason: *reason,
			Operator: *operator, At: at.UTC()}
	}
	return s, nil
}

func scanResolved(row pgx.CollectableRow) (r reconcile.Resolved, err error) {
	var id string
	if err := row.Scan(&id, &r.As, &r.Reason, &r.Operator, &r.At); err != nil {
		return r, err
	}
	r.At = r.At.UTC()
	r.Place, err = reconcile.ParsePlace(id)
	return r, err
}
