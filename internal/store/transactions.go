package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/schema"
	"github.com/roamcard/roamcard/ent/transaction"
	"github.com/roamcard/roamcard/ent/transactionmember"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Transactions keeps the relayers' transactions. It implements payment.Transactions.
type Transactions struct {
	s *Store
	// stored restricts transactions to stored payments and refunds.
	stored bool
}

// Transactions is the part of the store that the relayer uses.
func (s *Store) Transactions() Transactions { return Transactions{s: s} }

// OfStored makes transactions only for stored payments and refunds. A process must not send a payment that its database
// has lost, because the buyer may have paid again.
func (t Transactions) OfStored() Transactions { return Transactions{t.s, true} }

const storedSQL = `
	SELECT 1 WHERE (SELECT count(*) FROM payments WHERE id = ANY($1::uuid[])) +
		(SELECT count(*) FROM refunds WHERE id = ANY($1::uuid[])) =
		(SELECT count(DISTINCT id) FROM unnest($1::uuid[]) AS wanted (id))`

// Prepare implements payment.Transactions. The relayer's lock makes its account nonces contiguous.
func (t Transactions) Prepare(
	ctx context.Context, payments []uuid.UUID, relayer x402.Address, w payment.Window, sign payment.SignBatch,
) (prepared []payment.Transaction, err error) {
	const reruns = 3
	for run := 0; ; run++ {
		err = t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) (err error) {
			prepared, err = t.prepare(ctx, tx, payments, relayer, w, sign)
			return err
		})
		// A process with another relayer has prepared one of the payments concurrently: it is seen next time.
		if !violates(err, "transaction_members_open") || run == reruns {
			return prepared, err
		}
	}
}

func (t Transactions) prepare(
	ctx context.Context, tx *ent.Tx, payments []uuid.UUID, relayer x402.Address, w payment.Window, sign payment.SignBatch,
) ([]payment.Transaction, error) {
	if t.stored {
		mustAffectOne(tx, payment.ErrNotStored, storedSQL, payments)
	}
	lock(tx, "relayer/"+relayer.Lower())
	open, err := tx.TransactionMember.Query().
		Where(transactionmember.PaymentIDIn(payments...), transactionmember.StatusEQ(transactionmember.StatusOpen)).All(ctx)
	if err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(payments), func(id uuid.UUID) bool {
		return slices.ContainsFunc(open, func(m *ent.TransactionMember) bool { return m.PaymentID == id })
	})
	var prepared []payment.Transaction
	if len(open) > 0 {
		ids := make([]uuid.UUID, len(open))
		for i, m := range open {
			ids[i] = m.TransactionID
		}
		rows, err := tx.Transaction.Query().Where(transaction.IDIn(ids...)).Order(transaction.ByNonce()).All(ctx)
		if err != nil {
			return nil, err
		}
		if prepared, err = withMembers(ctx, tx.TransactionMember, rows); err != nil {
			return nil, err
		}
	}
	if len(rest) == 0 {
		return prepared, nil
	}
	nonce := w.First
	last, err := tx.Transaction.Query().Where(transaction.Relayer(relayer.Lower())).
		Order(transaction.ByNonce(sql.OrderDesc())).First(ctx)
	if err != nil && !ent.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		nonce = max(nonce, uint64(last.Nonce)+1)
	}
	if !w.Has(nonce) {
		return nil, payment.ErrNoRoom
	}
	signed, err := sign(nonce, rest)
	if err != nil {
		return nil, fmt.Errorf("sign the transaction: %w", err)
	}
	made := payment.Transaction{
		ID: uuid.Must(uuid.NewV7()), Payments: rest, Relayer: relayer, Nonce: nonce, Variants: []payment.Variant{signed},
		Status: payment.TransactionOpen, CreatedAt: t.s.stamp(),
	}
	insert(tx, ent.TransactionTable, &ent.Transaction{
		ID: made.ID, Relayer: relayer.Lower(), Nonce: int64(nonce), Variants: variantRows(made.Variants),
		Status: transaction.StatusOpen, CreatedAt: made.CreatedAt,
	})
	for i, id := range rest {
		insert(tx, ent.TransactionMemberTable, &ent.TransactionMember{
			ID: uuid.Must(uuid.NewV7()), TransactionID: made.ID, PaymentID: id, Place: i,
			Status: transactionmember.StatusOpen, CreatedAt: made.CreatedAt,
		})
	}
	return append(prepared, made), faultpoint.Fail("transaction.before_commit")
}

// Replace implements payment.Transactions.
func (t Transactions) Replace(ctx context.Context, id uuid.UUID, v payment.Variant) error {
	return t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err := tx.Transaction.Query().Where(transaction.ID(id)).ForUpdate().Only(ctx)
		if err != nil {
			return err
		}
		if row.Status != transaction.StatusOpen {
			return fmt.Errorf("transaction %s is %s: %w", id, row.Status, payment.ErrTransactionClosed)
		}
		variants := append(row.Variants, variantRows([]payment.Variant{v})...)
		return tx.Transaction.UpdateOneID(id).SetVariants(variants).Exec(ctx)
	})
}

// Open implements payment.Transactions.
func (t Transactions) Open(ctx context.Context, relayer x402.Address, from uint64) ([]payment.Transaction, error) {
	rows, err := t.s.ent.Transaction.Query().
		Where(transaction.Relayer(relayer.Lower()), transaction.NonceGTE(int64(from)),
			transaction.StatusEQ(transaction.StatusOpen)).
		Order(transaction.ByNonce()).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	open, err := withMembers(ctx, t.s.ent.TransactionMember, rows)
	return open, mapError(err)
}

// ByPayment implements payment.Transactions. The unique index on open members answers it.
func (t Transactions) ByPayment(ctx context.Context, id uuid.UUID) (payment.Transaction, bool, error) {
	member, err := t.s.ent.TransactionMember.Query().
		Where(transactionmember.PaymentID(id), transactionmember.StatusEQ(transactionmember.StatusOpen)).Only(ctx)
	if ent.IsNotFound(err) {
		return payment.Transaction{}, false, nil
	}
	if err != nil {
		return payment.Transaction{}, false, mapError(err)
	}
	row, err := t.s.ent.Transaction.Get(ctx, member.TransactionID)
	if err != nil {
		return payment.Transaction{}, false, mapError(err)
	}
	found, err := withMembers(ctx, t.s.ent.TransactionMember, []*ent.Transaction{row})
	if err != nil {
		return payment.Transaction{}, false, mapError(err)
	}
	return found[0], true, nil
}

// Last implements payment.Transactions.
func (t Transactions) Last(ctx context.Context, relayer x402.Address) (uint64, bool, error) {
	row, err := t.s.ent.Transaction.Query().Where(transaction.Relayer(relayer.Lower())).
		Order(transaction.ByNonce(sql.OrderDesc())).First(ctx)
	if ent.IsNotFound(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, mapError(err)
	}
	return uint64(row.Nonce), true, nil
}

// Relayers implements payment.Transactions.
func (t Transactions) Relayers(ctx context.Context) ([]x402.Address, error) {
	rows, err := t.s.ent.Transaction.Query().Where(transaction.StatusEQ(transaction.StatusOpen)).
		Order(transaction.ByRelayer()).GroupBy(transaction.FieldRelayer).Strings(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	var relayers []x402.Address
	for _, text := range rows {
		address, err := x402.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("relayer of an open transaction: %w", err)
		}
		relayers = append(relayers, address)
	}
	return relayers, nil
}

// endSQL ends an open transaction and its members. Each reverted member has lost its share of the cost.
const endSQL = `
	WITH ended AS (
		UPDATE transactions SET status = $2, spent_wei = $3 WHERE id = $1 AND status = 'open' RETURNING id)
	UPDATE transaction_members m SET
		status = CASE WHEN m.payment_id = ANY ($4::uuid[]) THEN 'reverted' ELSE $2 END,
		lost_wei = CASE WHEN $2 = 'reverted' OR m.payment_id = ANY ($4::uuid[])
			THEN $3::bigint / (SELECT count(*) FROM transaction_members of WHERE of.transaction_id = $1) ELSE 0 END
	FROM ended WHERE m.transaction_id = ended.id`

// Close implements payment.Transactions.
func (t Transactions) Close(
	ctx context.Context, id uuid.UUID, status payment.TransactionStatus, spent int64, unmoved []uuid.UUID,
) error {
	if unmoved == nil {
		unmoved = []uuid.UUID{}
	}
	_, err := t.s.pool.Exec(ctx, endSQL, id, string(status), spent, unmoved)
	return mapError(err)
}

// lostSQL sums what reverted members have cost: of one authorization, of those of its payer that are not paid, since a
// time, and of all. One whose nonce another transaction took cost nothing. A sum of bigints is numeric; one that
// overflows a bigint counts as the largest bigint.
const lostSQL = `
	SELECT
		(SELECT count(*) FROM transaction_members
			WHERE payment_id = $1 AND created_at >= $2 AND status = 'reverted' AND lost_wei > 0),
		(SELECT least(coalesce(sum(m.lost_wei), 0), 9223372036854775807)::bigint
			FROM payments p JOIN transaction_members m ON m.payment_id = p.id
			WHERE p.network = $3 AND p.asset = $4 AND p.owner = $5 AND p.status <> 'paid' AND m.created_at >= $6
				AND m.status = 'reverted'),
		(SELECT least(coalesce(sum(lost_wei), 0), 9223372036854775807)::bigint FROM transaction_members
			WHERE status = 'reverted' AND created_at >= $6)`

// Lost implements payment.Transactions. It counts over all processes, and over restarts.
func (t Transactions) Lost(
	ctx context.Context, p payment.Payment, since time.Time,
) (lost payment.Losses, err error) {
	err = t.s.pool.QueryRow(ctx, t.s.shards.read(lostSQL), p.ID, p.CreatedAt.Add(-payment.ClockSkew), p.Network,
		p.Asset.Lower(), p.Authorization.From.Lower(), since).Scan(&lost.Reverts, &lost.Payer, &lost.All)
	return lost, mapError(err)
}

// relayerSpentSQL sums what ended transactions have cost; like lostSQL's, a sum that overflows counts as the largest.
const relayerSpentSQL = `
	SELECT least(coalesce(sum(spent_wei), 0), 9223372036854775807)::bigint FROM transactions
	WHERE relayer = ANY ($1) AND created_at >= $2 AND status IN ('reverted', 'closed')`

// Spent implements chain.Transactions. It counts over all processes, and over restarts.
func (t Transactions) Spent(ctx context.Context, relayers []x402.Address, since time.Time) (wei int64, err error) {
	err = t.s.pool.QueryRow(ctx, t.s.shards.read(relayerSpentSQL), lowered(relayers), since).Scan(&wei)
	return wei, mapError(err)
}

// The newest transaction of each relayer stays, because its next nonce follows from it.
const pruneTransactionsSQL = `
	WITH ended AS (
		DELETE FROM transactions WHERE id IN (
			SELECT id FROM transactions t
			WHERE status IN ('reverted', 'closed') AND created_at < $1
				AND nonce < (SELECT max(nonce) FROM transactions newest WHERE newest.relayer = t.relayer)
			LIMIT $2 FOR UPDATE SKIP LOCKED)
		RETURNING id),
	members AS (DELETE FROM transaction_members m USING ended WHERE m.transaction_id = ended.id)
	SELECT count(*) FROM ended`

// Prune deletes up to limit transactions that ended and were made before a time.
func (t Transactions) Prune(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := t.s.pool.QueryRow(ctx, pruneTransactionsSQL, plannedAnew, before, limit).Scan(&pruned); err != nil {
		return 0, fmt.Errorf("prune transactions: %w", mapError(err))
	}
	if err := faultpoint.Fail("transactions.pruned"); err != nil {
		return 0, err
	}
	return pruned, nil
}

func variantRows(variants []payment.Variant) []schema.Variant {
	rows := make([]schema.Variant, len(variants))
	for i, v := range variants {
		rows[i] = schema.Variant{Hash: v.Hash.String(), Raw: v.Raw, SignedAt: v.SignedAt}
	}
	return rows
}

// withMembers reads the members of transactions.
func withMembers(
	ctx context.Context, from *ent.TransactionMemberClient, rows []*ent.Transaction,
) ([]payment.Transaction, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	members, err := from.Query().Where(transactionmember.TransactionIDIn(ids...)).Order(transactionmember.ByPlace()).
		All(ctx)
	if err != nil {
		return nil, err
	}
	of := map[uuid.UUID][]uuid.UUID{}
	for _, m := range members {
		of[m.TransactionID] = append(of[m.TransactionID], m.PaymentID)
	}
	out := make([]payment.Transaction, len(rows))
	for i, row := range rows {
		if out[i], err = transactionOf(row, of[row.ID]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func transactionOf(row *ent.Transaction, payments []uuid.UUID) (payment.Transaction, error) {
	relayer, err := x402.ParseAddress(row.Relayer)
	if err != nil {
		return payment.Transaction{}, fmt.Errorf("transaction %s: relayer: %w", row.ID, err)
	}
	t := payment.Transaction{
		ID: row.ID, Payments: payments, Relayer: relayer, Nonce: uint64(row.Nonce),
		Status: payment.TransactionStatus(row.Status), CreatedAt: row.CreatedAt.UTC(),
	}
	for _, v := range row.Variants {
		hash, err := x402.ParseHash(v.Hash)
		if err != nil {
			return payment.Transaction{}, fmt.Errorf("transaction %s: hash: %w", row.ID, err)
		}
		t.Variants = append(t.Variants, payment.Variant{Hash: hash, Raw: v.Raw, SignedAt: v.SignedAt})
	}
	return t, nil
}
