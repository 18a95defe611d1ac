package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
)

const (
	// unpruned is how many of the newest orders still have what is pruned after 30 days; that is 16,000 a day.
	unpruned = 500_000
	// kept is how many events there are: a thousand a day for 90 days, after which they are pruned.
	kept = 90_000
)

// bulk is for filling a database quickly, and without much more than it needs on the disk; careful undoes what would
// matter to what is measured.
var (
	bulk = []string{
		"SET session_replication_role = replica", "SET maintenance_work_mem = '1GB'",
		"ALTER SYSTEM SET max_wal_size = '256MB'", "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off",
		"ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()",
	}
	careful = []string{
		"VACUUM ANALYZE", "ALTER SYSTEM RESET fsync", "ALTER SYSTEM RESET full_page_writes", "ALTER SYSTEM RESET autovacuum",
		"SELECT pg_reload_conf()",
	}
)

// fill puts fulfilled orders into an empty database, with everything that their purchases leave behind and the program
// has not pruned.
func fill(ctx context.Context, conn *pgx.Conn, orders int) error {
	if err := execAll(ctx, conn, bulk); err != nil {
		return err
	}
	indexes, err := dropIndexes(ctx, conn)
	if err != nil {
		return err
	}
	pruned := max(0, orders-unpruned)
	for n := 1; n <= pruned; n += chunk {
		if err := kit.SellLongAgo(ctx, conn, n, min(n+chunk-1, pruned)); err != nil {
			return err
		}
	}
	for n := pruned + 1; n <= orders; n += chunk {
		if err := kit.Sell(ctx, conn, n, min(n+chunk-1, orders)); err != nil {
			return err
		}
		if err := kit.Leave(ctx, conn, n, min(n+chunk-1, orders)); err != nil {
			return err
		}
	}
	// Events came every day for at least a month.
	if err := kit.Look(ctx, conn, 1, min(max(orders, 30_000), kept)); err != nil {
		return err
	}
	if err := execAll(ctx, conn, indexes); err != nil {
		return err
	}
	return execAll(ctx, conn, careful)
}

func execAll(ctx context.Context, conn *pgx.Conn, statements []string) error {
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// dropIndexes drops the indexes of the tables that are filled, and returns the statements that make them again, the
// largest first while there is most room to sort it.
func dropIndexes(ctx context.Context, conn *pgx.Conn) (again []string, err error) {
	rows, err := conn.Query(ctx, `
		SELECT coalesce('ALTER TABLE ' || i.indrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(c.conname),
				'DROP INDEX ' || i.indexrelid::regclass),
			coalesce('ALTER TABLE ' || i.indrelid::regclass || ' ADD CONSTRAINT ' || quote_ident(c.conname) || ' ' ||
				pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid))
		FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
		WHERE i.indrelid::regclass::text = ANY ($1)
		ORDER BY array_position($1, i.indrelid::regclass::text), i.indnatts DESC`, []string{"ledger_entries",
		"ledger_postings", "payments", "cards", "orders", "transfers", "timeline", "issuer_lines", "jobs", "transactions",
		"transaction_members", "reservations"})
	if err != nil {
		return nil, err
	}
	drop, again, err := statements(rows)
	if err != nil {
		return nil, err
	}
	return again, execAll(ctx, conn, drop)
}

func statements(rows pgx.Rows) (first, second []string, err error) {
	defer rows.Close()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return nil, nil, err
		}
		first, second = append(first, a), append(second, b)
	}
	return first, second, rows.Err()
}
