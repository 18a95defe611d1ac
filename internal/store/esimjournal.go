package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// SupplierJournal keeps what was sent to one supplier. It implements esim.Journal.
type SupplierJournal struct {
	s        *Store
	provider string
}

var _ esim.Journal = SupplierJournal{}

// SupplierJournal is the journal of a supplier, by its name. Suppliers see nothing of each other's.
func (s *Store) SupplierJournal(provider string) SupplierJournal { return SupplierJournal{s, provider} }

const (
	beginSentSQL = `INSERT INTO supplier_orders (id, provider, reference, owner, code, cost_micros, sent_at, account, onto)
		VALUES ($1, $2, $3, coalesce((SELECT owner FROM esim_profiles WHERE reference = $3
			UNION ALL SELECT owner FROM esim_topups WHERE reference = $3 LIMIT 1), ''), $4, $5, $6, '', $7)
		ON CONFLICT (provider, reference) DO NOTHING`
	// In a distributed database the owner is read first.
	ownerOfSentSQL = `SELECT owner FROM esim_profiles WHERE reference = $1
		UNION ALL SELECT owner FROM esim_topups WHERE reference = $1 LIMIT 1`
	beginSentForSQL = `
		INSERT INTO supplier_orders (id, provider, reference, owner, code, cost_micros, sent_at, account, onto)
		VALUES ($1, $2, $3, $8, $4, $5, $6, '', $7) ON CONFLICT (provider, reference) DO NOTHING`
	nameSentSQL = `UPDATE supplier_orders SET account = $3
		WHERE provider = $1 AND reference = $2 AND account IN ('', $3)`
	sentSQL = `SELECT reference, code, cost_micros, sent_at, account, onto
		FROM supplier_orders WHERE provider = $1 AND `
	sentByRefSQL   = sentSQL + `reference = $2`
	sentBetweenSQL = sentSQL + `code = $2 AND sent_at BETWEEN $3 AND $4 ORDER BY sent_at, id`
	sentNamedSQL   = sentSQL + `account <> '' AND account = ANY ($2::varchar[])`
)

// Begin implements esim.Journal.
func (j SupplierJournal) Begin(ctx context.Context, s esim.Sent) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	sql, args := beginSentSQL, []any{
		uuid.Must(uuid.NewV7()), j.provider, uuid.UUID(s.Ref), s.Code, int64(s.Cost), s.At.UTC(), s.Onto,
	}
	if j.s.shards != nil {
		owner, err := ownerOf(ctx, j.s.pool, ownerOfSentSQL, uuid.UUID(s.Ref))
		if err != nil {
			return err
		}
		sql, args = beginSentForSQL, append(args, owner)
	}
	tag, err := j.s.pool.Exec(ctx, sql, args...)
	switch {
	case err != nil:
		return mapError(err)
	case tag.RowsAffected() == 0:
		return esim.ErrSent
	}
	return nil
}

// Name implements esim.Journal.
func (j SupplierJournal) Name(ctx context.Context, ref fulfilment.Ref, account string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	tag, err := j.s.pool.Exec(ctx, nameSentSQL, j.provider, uuid.UUID(ref), account)
	switch {
	case violates(err, "supplier_orders_account"):
		return esim.ErrTaken
	case err != nil:
		return mapError(err)
	case tag.RowsAffected() > 0:
		return nil
	}
	// A name that is known never changes.
	if _, err := j.Sent(ctx, ref); err != nil {
		return fmt.Errorf("name %s: %w", ref, err)
	}
	return esim.ErrTaken
}

// Sent implements esim.Journal.
func (j SupplierJournal) Sent(ctx context.Context, ref fulfilment.Ref) (esim.Sent, error) {
	all, err := j.read(ctx, sentByRefSQL, uuid.UUID(ref))
	if err != nil {
		return esim.Sent{}, err
	}
	if len(all) == 0 {
		return esim.Sent{}, fulfilment.ErrNoRef
	}
	return all[0], nil
}

// SentBetween implements esim.Journal.
func (j SupplierJournal) SentBetween(ctx context.Context, code string, from, to time.Time) ([]esim.Sent, error) {
	return j.read(ctx, sentBetweenSQL, code, from.UTC(), to.UTC())
}

// Named implements esim.Journal.
func (j SupplierJournal) Named(ctx context.Context, accounts []string) (map[string]esim.Sent, error) {
	named, err := j.read(ctx, sentNamedSQL, accounts)
	if err != nil {
		return nil, err
	}
	all := map[string]esim.Sent{}
	for _, s := range named {
		all[s.Account] = s
	}
	return all, nil
}

func (j SupplierJournal) read(ctx context.Context, sql string, args ...any) ([]esim.Sent, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := j.s.pool.Query(ctx, sql, append([]any{j.provider}, args...)...)
	if err != nil {
		return nil, mapError(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s esim.Sent, err error) {
		var ref uuid.UUID
		err = row.Scan(&ref, &s.Code, (*int64)(&s.Cost), &s.At, &s.Account, &s.Onto)
		s.Ref, s.At = fulfilment.Ref(ref), s.At.UTC()
		return s, err
	})
	return all, mapError(err)
}
