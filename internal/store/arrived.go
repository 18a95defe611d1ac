package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// A reorganisation may have moved the transfer, so its authorization identifies it.
	reportTransferSQL = `
		INSERT INTO reported_transfers (network, asset, pay_to, payer, value, nonce, valid_after, valid_before,
			transaction, log_index, block, block_hash, settled_at, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (network, asset, payer, nonce) DO UPDATE SET
			transaction = excluded.transaction, log_index = excluded.log_index, block = excluded.block,
			block_hash = excluded.block_hash, settled_at = excluded.settled_at`

	// Reported transfers, and those read by reconciliation; the oldest one is used first.
	unmatchedSQL = `
		SELECT nonce, valid_after, valid_before, transaction, log_index, block, block_hash, settled_at FROM (
			SELECT nonce, valid_after, valid_before, transaction, log_index, block, block_hash, settled_at
			FROM reported_transfers
			WHERE network = $1 AND asset = $2 AND pay_to = $3 AND payer = $4 AND value = $5
			UNION ALL
			SELECT nonce, 0, 0, transaction, log_index, block, '', NULL FROM transfers
			WHERE asset = $2 AND pay_to = $3 AND sender = $4 AND value = $5 AND nonce <> ''
		) t
		WHERE NOT EXISTS (SELECT FROM payments p
				WHERE p.network = $1 AND p.asset = $2 AND p.owner = $4 AND p.nonce = t.nonce)
			AND NOT EXISTS (SELECT FROM payments p
				WHERE p.transaction = t.transaction AND p.log_index = t.log_index AND p.owner = $4)
			AND NOT EXISTS (` + resolvedAuthorizationSQL + ` AND a.nonce = t.nonce)
			AND t.nonce <> ALL ($6)
		ORDER BY block, log_index, settled_at NULLS LAST LIMIT 1`

	resolvedAuthorizationSQL = `SELECT FROM transfers a
		JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $2 AND a.sender = $4 AND a.nonce <> ''`

	resolvedSQL = `SELECT EXISTS (SELECT FROM transfers a
		JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $1 AND a.sender = $2 AND a.nonce <> '' AND a.nonce = $3)`

	claimedSQL = `SELECT EXISTS (SELECT FROM payments
		WHERE asset = $1 AND pay_to = $2 AND owner = $3 AND nonce = $4 AND status <> 'dead')`
)

// Arrive implements checkout.ArrivedStore.
func (o Orders) Arrive(ctx context.Context, a payment.Arrived) error {
	return o.s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		auth, r := a.Authorization, a.Receipt
		later(tx, reportTransferSQL, a.Network, a.Asset.Lower(), auth.To.Lower(), auth.From.Lower(), int64(auth.Value),
			auth.Nonce.String(), int64(auth.ValidAfter), int64(auth.ValidBefore), r.Transaction.String(),
			int64(r.LogIndex), int64(r.Block), r.BlockHash.String(), r.SettledAt, o.s.stamp())
		return faultpoint.Fail("arrive.before_commit")
	})
}

// Unmatched implements checkout.ArrivedStore.
func (o Orders) Unmatched(ctx context.Context, q checkout.UnmatchedQuery) (payment.Arrived, error) {
	a := payment.Arrived{Network: q.Network, Asset: q.Asset,
		Authorization: x402.Authorization{From: q.Payer, To: q.PayTo, Value: q.Value}}
	var nonce, transaction, block string
	var after, before, index, number int64
	var at *time.Time
	except := make([]string, len(q.Except))
	for i, n := range q.Except {
		except[i] = n.String()
	}
	row := o.s.pool.QueryRow(ctx, unmatchedSQL,
		q.Network, q.Asset.Lower(), q.PayTo.Lower(), q.Payer.Lower(), int64(q.Value), except)
	err := row.Scan(&nonce, &after, &before, &transaction, &index, &number, &block, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, order.ErrNotFound
	}
	if err != nil {
		return a, mapError(err)
	}
	a.Authorization.ValidAfter, a.Authorization.ValidBefore = uint64(after), uint64(before)
	a.Receipt = payment.Receipt{
		Block: uint64(number), LogIndex: uint(index), Payer: q.Payer, PayTo: q.PayTo, Amount: q.Value,
	}
	if at != nil {
		a.Receipt.SettledAt = at.UTC()
	}
	var err1, err2, err3 error
	a.Authorization.Nonce, err1 = x402.ParseHash(nonce)
	a.Receipt.Transaction, err2 = x402.ParseHash(transaction)
	if block != "" {
		a.Receipt.BlockHash, err3 = x402.ParseHash(block)
	}
	return a, errors.Join(err1, err2, err3)
}

// Refund reports whether the authorization of an account is that of an order's refund. A plain transfer has none.
func (o Orders) Refund(ctx context.Context, from x402.Address, nonce x402.Hash) (known bool, err error) {
	const query = "SELECT EXISTS (SELECT FROM refunds WHERE treasury = $1 AND nonce = $2)"
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

// claimArrived fails when an operator has resolved the transfer of a payment. The payment's unique row ensures that no
// other order has claimed it.
func claimArrived(ctx context.Context, tx *ent.Tx, p payment.Payment) error {
	asset, payer, nonce := p.Asset.Lower(), p.Authorization.From.Lower(), p.Authorization.Nonce.String()
	lockAuthorization(tx, asset, payer, nonce)
	var resolved bool
	if err := raw(tx).QueryRow(ctx, resolvedSQL, asset, payer, nonce).Scan(&resolved); err != nil {
		return err
	}
	if resolved {
		return errResolved
	}
	return nil
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
