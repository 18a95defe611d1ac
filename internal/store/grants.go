package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// What a role may do with a table, beyond reading it, where that is less than all. The tables' triggers say the same of
// whoever owns them; a table of a distributed database has none, so there only this says it.
var rights = map[string][]string{
	// Rows are only added.
	"ledger_postings": {"INSERT"}, "ledger_entries": {"INSERT"}, "transfers": {"INSERT"},
	"transfer_resolutions": {"INSERT"},
	// Some of them are deleted after a while.
	"audit": {"INSERT", "DELETE"}, "timeline": {"INSERT", "DELETE"},
	// Who minted and who decided stays on record.
	"operator_approvals": {"INSERT", "UPDATE"}, "operator_tokens": {"INSERT", "UPDATE"},
	// What was migrated is the owner's to say.
	"goose_db_version": {},
}

// CheckRole is an error for a role to which Grant grants nothing: one that there is not, or that could take more than
// it is given.
func CheckRole(ctx context.Context, url, role string) error {
	return asOwner(ctx, url, func(conn *pgx.Conn) error { return mayServe(ctx, conn, role) })
}

// Grant lets a role run the service on the tables of the database's owner, as whom url connects, and nothing else: the
// role owns nothing, so it changes no table, function or trigger. What it had of these tables before is taken away.
// It is called after Migrate, and may be again.
func Grant(ctx context.Context, url, role string) error {
	return asOwner(ctx, url, func(conn *pgx.Conn) error {
		if err := mayServe(ctx, conn, role); err != nil {
			return err
		}
		if err := grant(ctx, conn, role); err != nil {
			return fmt.Errorf("grant the role %s its rights: %w", role, err)
		}
		return nil
	})
}

func asOwner(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect as the owner: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	return do(conn)
}

func grant(ctx context.Context, conn *pgx.Conn, role string) error {
	rows, err := conn.Query(ctx, `SELECT c.relname::text FROM pg_class c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
			AND pg_has_role(c.relowner, 'USAGE') ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	var schema string
	if err := conn.QueryRow(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	to := pgx.Identifier{role}.Sanitize()
	statements := []string{fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", pgx.Identifier{schema}.Sanitize(), to)}
	for _, table := range tables {
		may, less := rights[table]
		if !less {
			may = []string{"INSERT", "UPDATE", "DELETE"}
		}
		name := pgx.Identifier{schema, table}.Sanitize()
		statements = append(statements, fmt.Sprintf("REVOKE ALL ON %s FROM %s", name, to),
			fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(append([]string{"SELECT"}, may...), ", "), name, to))
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, strings.Join(statements, ";\n"))
		return err
	})
}

// mayServe is an error for a role that there is not, or that could give itself more than it is granted.
func mayServe(ctx context.Context, conn *pgx.Conn, role string) error {
	var super, owner, creates bool
	err := conn.QueryRow(ctx, `SELECT rolsuper, pg_has_role(oid, current_user, 'MEMBER'),
			has_schema_privilege(oid, current_schema()::regnamespace::oid, 'CREATE')
		FROM pg_roles WHERE rolname = $1`, role).Scan(&super, &owner, &creates)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("there is no role %s: make it with CREATE ROLE %s LOGIN PASSWORD '…'", role,
			pgx.Identifier{role}.Sanitize())
	case err != nil:
		return fmt.Errorf("read the role: %w", err)
	case super:
		return fmt.Errorf("the role %s is a superuser, whom nothing is refused", role)
	case owner:
		return fmt.Errorf("the role %s is the owner, or a member of it", role)
	case creates:
		return fmt.Errorf("the role %s may make tables of its own next to ours: REVOKE CREATE ON SCHEMA … FROM PUBLIC", role)
	}
	return nil
}

// Owned are the tables that the role of the pool owns, or could act for the owner of: none for a role that Grant has
// prepared.
func (s *Store) Owned(ctx context.Context) (tables []string, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT c.relname::text FROM pg_class c
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
			AND pg_has_role(c.relowner, 'MEMBER') ORDER BY 1`)
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", mapError(err))
	}
	tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return tables, mapError(err)
}
