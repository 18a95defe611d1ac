package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

var (
	reportedTable = ent.ReportedTransferTable.But("id")

	// A reorganisation may have moved the transfer, so its authorization identifies it.
	reportTransferSQL = reportedTable.Insert() + `
		ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
			transaction = excluded.transaction, log_index = excluded.log_index, block = excluded.block,
			block_hash = excluded.block_hash, settled_at = excluded.settled_at`
)

const (
	// Reported transfers, and those read by reconciliation; the oldest one is used first.
	unmatchedSQL = unmatchedStart + unmatchedEnd
	// unmatchedExceptSQL leaves some out.
	unmatchedExceptSQL = unmatchedStart + ` AND t.nonce <> ALL ($6)` + unmatchedEnd

	unmatchedStart = `
		SELECT nonce, valid_after, valid_before, transaction, log_index, block, block_hash, settled_at FROM (
			SELECT nonce, valid_after, valid_before, transaction, log_index, block, block_hash, settled_at
			FROM reported_transfers
			WHERE network = $1 AND asset = $2 AND pay_to = $3 AND payer = $4 AND value = $5
			UNION ALL
			SELECT nonce, 0, 0, transaction, log_index, block, '', NULL FROM transfers
			WHERE asset = $2 AND pay_to = $3 AND sender = $4 AND value = $5 AND nonce <> ''
		) t
		WHERE NOT EXISTS (SELECT 1 FROM payments p
				WHERE p.network = $1 AND p.asset = $2 AND p.owner = $4 AND p.nonce = t.nonce)
			AND NOT EXISTS (SELECT 1 FROM payments p
				WHERE p.transaction = t.transaction AND p.log_index = t.log_index AND p.owner = $4)
			AND NOT EXISTS (` + resolvedAuthorizationSQL + ` AND a.nonce = t.nonce)`
	unmatchedEnd = ` ORDER BY block, log_index, settled_at NULLS LAST LIMIT 1`

	resolvedAuthorizationSQL = `SELECT FROM transfers a
		JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $2 AND a.sender = $4 AND a.nonce <> ''`

	resolvedSQL = `SELECT count(*) FROM transfers a
		JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $2 AND a.sender = $3 AND a.nonce <> '' AND a.nonce = $4`

	claimedSQL = `SELECT EXISTS (SELECT 1 FROM payments
		WHERE asset = $1 AND pay_to = $2 AND owner = $3 AND nonce = $4 AND status <> 'dead')`
)

// Arrive implements checkout.ArrivedStore.
func (o Orders) Arrive(ctx context.Context, a payment.Arrived) error {
	return o.s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		auth, r := a.Authorization, a.Receipt
		later(tx, reportTransferSQL, reportedTable.Values(&ent.ReportedTransfer{
			Network: a.Network, Asset: a.Asset.Lower(), PayTo: auth.To.Lower(), Payer: auth.From.Lower(),
			Value: int64(auth.Value), Nonce: auth.Nonce.String(), ValidAfter: int64(auth.ValidAfter),
			ValidBefore: int64(auth.ValidBefore), Transaction: r.Transaction.String(), LogIndex: int64(r.LogIndex),
			Block: int64(r.Block), BlockHash: r.BlockHash.String(), SettledAt: r.SettledAt, SeenAt: o.s.stamp(),
		})...)
		return faultpoint.Fail("arrive.before_commit")
	})
}

// Unmatched implements checkout.ArrivedStore.
func (o Orders) Unmatched(ctx context.Context, q checkout.UnmatchedQuery) (payment.Arrived, error) {
	a := payment.Arrived{Network: q.Network, Asset: q.Asset,
		Authorization: x402.Authorization{From: q.Payer, To: q.PayTo, Value: q.Value}}
	asset, payTo, payer := q.Asset.Lower(), q.PayTo.Lower(), q.Payer.Lower()
	var row unmatchedRow
	var err error
	switch {
	case o.s.shards != nil && len(q.Except) == 0:
		row, err = scanArrivedRow(o.s.pool.QueryRow(ctx, o.s.shards.read(unmatchedSQL), q.Network, asset, payTo, payer,
			int64(q.Value)))
	case len(q.Except) == 0:
		row, err = lookUp[unmatchedRow](ctx, o.s, unmatched, q.Network, asset, payTo, payer,
			strconv.FormatInt(int64(q.Value), 10))
	default:
		except := make([]string, len(q.Except))
		for i, n := range q.Except {
			except[i] = n.String()
		}
		row, err = scanArrivedRow(o.s.pool.QueryRow(ctx, o.s.shards.read(unmatchedExceptSQL), q.Network, asset, payTo, payer,
			int64(q.Value), except))
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return a, order.ErrNotFound
	}
	if err != nil {
		return a, mapError(err)
	}
	return a, row.into(&a)
}

// unmatched finds a transfer that no order has claimed.
var unmatched = newLookup(scanArrivedRow, unmatchedSQL, "varchar", "varchar", "varchar", "varchar", "bigint")

// unmatchedRow is a transfer as it is stored.
type unmatchedRow struct {
	nonce, transaction, block    string
	after, before, index, number int64
	at                           *time.Time
}

func scanArrivedRow(row pgx.Row) (r unmatchedRow, err error) {
	err = row.Scan(&r.nonce, &r.after, &r.before, &r.transaction, &r.index, &r.number, &r.block, &r.at)
	return r, err
}

// into adds what is stored of a transfer to what it was found by.
func (r unmatchedRow) into(a *payment.Arrived) (err error) {
	auth := &a.Authorization
	auth.ValidAfter, auth.ValidBefore = uint64(r.after), uint64(r.before)
	a.Receipt = payment.Receipt{
		Block: uint64(r.number), LogIndex: uint(r.index), Payer: auth.From, PayTo: auth.To, Amount: auth.Value,
	}
	if r.at != nil {
		a.Receipt.SettledAt = r.at.UTC()
	}
	var err1, err2, err3 error
	auth.Nonce, err1 = x402.ParseHash(r.nonce)
	a.Receipt.Transaction, err2 = x402.ParseHash(r.transaction)
	if r.block != "" {
		a.Receipt.BlockHash, err3 = x402.ParseHash(r.block)
	}
	return errors.Join(err1, err2, err3)
}

// Refund reports whether the authorization of an account is that of an order's refund. A plain transfer has none.
func (o Orders) Refund(ctx context.Context, from x402.Address, nonce x402.Hash) (known bool, err error) {
	const query = "SELECT EXISTS (SELECT 1 FROM refunds WHERE treasury = $1 AND nonce = $2)"
	err = o.s.pool.QueryRow(ctx, query, from.Lower(), nonce.String()).Scan(&known)
	return known, mapError(err)
}

// errResolved fails a claim of a transfer that an operator has resolved.
var errResolved = errors.New("an operator has resolved the transfer")

// lockAuthorization serializes the claim and the operator's resolution of a transfer, so that the second sees the
// first.
func lockAuthorization(tx *ent.Tx, asset, payer, nonce string) {
	lock(tx, "authorization/"+asset+"/"+payer+"/"+nonce)
}

// claimArrived queues the check that no operator has resolved the transfer of a payment; otherwise the transaction
// fails with errResolved. The payment's unique row ensures that no other order has claimed it.
func claimArrived(tx *ent.Tx, p payment.Payment) {
	asset, payer, nonce := p.Asset.Lower(), p.Authorization.From.Lower(), p.Authorization.Nonce.String()
	lockAuthorization(tx, asset, payer, nonce)
	within(tx, errResolved, resolvedSQL, 0, asset, payer, nonce)
}

// claimed reports whether an order has claimed a transfer that an operator resolves. Until tx ends, none can claim it.
func (t Treasury) claimed(ctx context.Context, tx *ent.Tx, of reconcile.Transfer) (bool, error) {
	if of.Nonce.IsZero() {
		return false, nil // a plain transfer pays for nothing
	}
	lockAuthorization(tx, t.asset, of.From.Lower(), of.Nonce.String())
	var claimed bool
	err := raw(tx).QueryRow(ctx, claimedSQL, t.asset, t.payTo, of.From.Lower(), of.Nonce.String()).Scan(&claimed)
	return claimed, err
}
