package store

import (
	"context"
	"fmt"
	"time"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	entattempt "github.com/roamcard/roamcard/ent/attempt"
	"github.com/roamcard/roamcard/ent/schema"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// Attempts keeps the relayers' transactions. It implements payment.Attempts.
type Attempts struct {
	s *Store
	// stored restricts attempts to stored payments and refunds.
	stored bool
}

// Attempts is the part of the store that the relayer uses.
func (s *Store) Attempts() Attempts { return Attempts{s: s} }

// OfStored makes attempts only for stored payments and refunds. A process must not send a payment that its database has
// lost, because the buyer may have paid again.
func (a Attempts) OfStored() Attempts { return Attempts{a.s, true} }

const storedSQL = `SELECT 1 FROM payments WHERE id = $1 UNION ALL SELECT 1 FROM refunds WHERE id = $1`

// Prepare implements payment.Attempts. The relayer's lock makes its account nonces contiguous.
func (a Attempts) Prepare(
	ctx context.Context, id uuid.UUID, relayer x402.Address, floor uint64,
	sign func(nonce uint64) (payment.Transaction, error),
) (payment.Attempt, error) {
	var got payment.Attempt
	err := a.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if a.stored {
			touchOne(tx, fmt.Errorf("payment %s is not stored", id), storedSQL, id)
		}
		lock(tx, "relayer/"+relayer.Lower())
		open, err := tx.Attempt.Query().Where(entattempt.PaymentID(id), entattempt.StatusEQ(entattempt.StatusOpen)).Only(ctx)
		if err == nil {
			got, err = attemptOf(open)
			return err
		}
		if !ent.IsNotFound(err) {
			return err
		}
		nonce := floor
		last, err := tx.Attempt.Query().Where(entattempt.Relayer(relayer.Lower())).Order(entattempt.ByNonce(sql.OrderDesc())).
			First(ctx)
		if err != nil && !ent.IsNotFound(err) {
			return err
		}
		if err == nil {
			nonce = max(nonce, uint64(last.Nonce)+1)
		}
		signed, err := sign(nonce)
		if err != nil {
			return fmt.Errorf("sign the transaction: %w", err)
		}
		got = payment.Attempt{
			ID: uuid.Must(uuid.NewV7()), Payment: id, Relayer: relayer, Nonce: nonce,
			Variants: []payment.Transaction{signed}, Status: payment.AttemptOpen, CreatedAt: a.s.stamp(),
		}
		err = tx.Attempt.Create().SetID(got.ID).SetPaymentID(id).SetRelayer(relayer.Lower()).SetNonce(int64(nonce)).
			SetVariants(variantRows(got.Variants)).SetStatus(entattempt.StatusOpen).SetCreatedAt(got.CreatedAt).Exec(ctx)
		if err != nil {
			return err
		}
		return faultpoint.Fail("attempt.before_commit")
	})
	if violates(err, "attempts_open") {
		// A process with another relayer has made the payment's attempt concurrently.
		row, err := a.s.ent.Attempt.Query().
			Where(entattempt.PaymentID(id), entattempt.StatusEQ(entattempt.StatusOpen)).Only(ctx)
		if err != nil {
			return payment.Attempt{}, mapError(err)
		}
		return attemptOf(row)
	}
	return got, err
}

// Replace implements payment.Attempts.
func (a Attempts) Replace(ctx context.Context, id uuid.UUID, t payment.Transaction) error {
	return a.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err := tx.Attempt.Query().Where(entattempt.ID(id)).ForUpdate().Only(ctx)
		if err != nil {
			return err
		}
		if row.Status != entattempt.StatusOpen {
			return fmt.Errorf("attempt %s is %s: %w", id, row.Status, payment.ErrAttemptClosed)
		}
		variants := append(row.Variants, variantRows([]payment.Transaction{t})...)
		return tx.Attempt.UpdateOneID(id).SetVariants(variants).Exec(ctx)
	})
}

// Open implements payment.Attempts.
func (a Attempts) Open(ctx context.Context, relayer x402.Address) ([]payment.Attempt, error) {
	rows, err := a.s.ent.Attempt.Query().
		Where(entattempt.Relayer(relayer.Lower()), entattempt.StatusEQ(entattempt.StatusOpen)).
		Order(entattempt.ByNonce()).All(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	out := make([]payment.Attempt, len(rows))
	for i, row := range rows {
		if out[i], err = attemptOf(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ByPayment implements payment.Attempts. The unique index on open attempts answers it.
func (a Attempts) ByPayment(ctx context.Context, id uuid.UUID) (payment.Attempt, bool, error) {
	row, err := a.s.ent.Attempt.Query().
		Where(entattempt.PaymentID(id), entattempt.StatusEQ(entattempt.StatusOpen)).Only(ctx)
	if ent.IsNotFound(err) {
		return payment.Attempt{}, false, nil
	}
	if err != nil {
		return payment.Attempt{}, false, mapError(err)
	}
	found, err := attemptOf(row)
	return found, err == nil, err
}

// Last implements payment.Attempts.
func (a Attempts) Last(ctx context.Context, relayer x402.Address) (uint64, bool, error) {
	row, err := a.s.ent.Attempt.Query().Where(entattempt.Relayer(relayer.Lower())).
		Order(entattempt.ByNonce(sql.OrderDesc())).First(ctx)
	if ent.IsNotFound(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, mapError(err)
	}
	return uint64(row.Nonce), true, nil
}

// Relayers implements payment.Attempts.
func (a Attempts) Relayers(ctx context.Context) ([]x402.Address, error) {
	rows, err := a.s.ent.Attempt.Query().Where(entattempt.StatusEQ(entattempt.StatusOpen)).
		Order(entattempt.ByRelayer()).GroupBy(entattempt.FieldRelayer).Strings(ctx)
	if err != nil {
		return nil, mapError(err)
	}
	var relayers []x402.Address
	for _, text := range rows {
		address, err := x402.ParseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("relayer of an open attempt: %w", err)
		}
		relayers = append(relayers, address)
	}
	return relayers, nil
}

// Close implements payment.Attempts.
func (a Attempts) Close(ctx context.Context, id uuid.UUID, status payment.AttemptStatus, spent int64) error {
	err := a.s.ent.Attempt.Update().Where(entattempt.ID(id), entattempt.StatusEQ(entattempt.StatusOpen)).
		SetStatus(entattempt.Status(status)).SetSpentWei(spent).Exec(ctx)
	return mapError(err)
}

// lostSQL sums the cost of reverted transactions: of one authorization, of its payer since a time, and of all. A
// transaction whose nonce another one took cost nothing. A sum of bigints is numeric; one that overflows a bigint
// counts as the largest bigint.
const lostSQL = `
	SELECT
		(SELECT count(*) FROM attempts WHERE payment_id = $1 AND created_at >= $2 AND status = 'reverted' AND spent_wei > 0),
		(SELECT least(coalesce(sum(a.spent_wei), 0), 9223372036854775807)::bigint
			FROM payments p JOIN attempts a ON a.payment_id = p.id
			WHERE p.network = $3 AND p.asset = $4 AND p.owner = $5 AND a.created_at >= $6 AND a.status = 'reverted'),
		(SELECT least(coalesce(sum(spent_wei), 0), 9223372036854775807)::bigint FROM attempts
			WHERE status = 'reverted' AND created_at >= $6)`

// Lost implements payment.Attempts. It counts over all processes, and over restarts.
func (a Attempts) Lost(ctx context.Context, p payment.Payment, since time.Time) (lost payment.Losses, err error) {
	err = a.s.pool.QueryRow(ctx, lostSQL, p.ID, p.CreatedAt.Add(-payment.ClockSkew), p.Network, p.Asset.Lower(),
		p.Authorization.From.Lower(), since).Scan(&lost.Reverts, &lost.Payer, &lost.All)
	return lost, mapError(err)
}

// The newest attempt of each relayer stays, because its next nonce follows from it.
const pruneAttemptsSQL = `
	DELETE FROM attempts WHERE id IN (
		SELECT id FROM attempts a
		WHERE status IN ('reverted', 'closed') AND created_at < $1
			AND nonce < (SELECT max(nonce) FROM attempts newest WHERE newest.relayer = a.relayer)
		LIMIT $2 FOR UPDATE SKIP LOCKED)`

// Prune deletes up to limit attempts that ended and were made before a time.
func (a Attempts) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tag, err := a.s.pool.Exec(ctx, pruneAttemptsSQL, before, limit)
	if err != nil {
		return 0, fmt.Errorf("prune attempts: %w", mapError(err))
	}
	if err := faultpoint.Fail("attempts.pruned"); err != nil {
		return 0, err
	}
	return int(tag.RowsAffected()), nil
}

func variantRows(txs []payment.Transaction) []schema.Variant {
	rows := make([]schema.Variant, len(txs))
	for i, t := range txs {
		rows[i] = schema.Variant{Hash: t.Hash.String(), Raw: t.Raw, SignedAt: t.SignedAt}
	}
	return rows
}

func attemptOf(row *ent.Attempt) (payment.Attempt, error) {
	relayer, err := x402.ParseAddress(row.Relayer)
	if err != nil {
		return payment.Attempt{}, fmt.Errorf("attempt %s: relayer: %w", row.ID, err)
	}
	a := payment.Attempt{
		ID: row.ID, Payment: row.PaymentID, Relayer: relayer, Nonce: uint64(row.Nonce),
		Status: payment.AttemptStatus(row.Status), CreatedAt: row.CreatedAt.UTC(),
	}
	for _, v := range row.Variants {
		hash, err := x402.ParseHash(v.Hash)
		if err != nil {
			return payment.Attempt{}, fmt.Errorf("attempt %s: hash: %w", row.ID, err)
		}
		a.Variants = append(a.Variants, payment.Transaction{Hash: hash, Raw: v.Raw, SignedAt: v.SignedAt})
	}
	return a, nil
}
