package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/fault"
)

// noSpace is the code of PostgreSQL's error when its disk is full.
const noSpace = "53100"

// noteNoSpace notes when the server has no space, whatever it was asked for.
func noteNoSpace(config *pgx.ConnConfig, full *atomic.Bool) {
	goOn := config.OnPgError
	config.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == noSpace {
			full.Store(true)
		}
		return goOn(conn, err)
	}
}

// hasSpace tries whether a table can grow again, by one of its own that is gone at once. Where the role may make none,
// the next change has to show it.
func (s *Store) hasSpace(ctx context.Context) error {
	const grow = `CREATE TEMPORARY TABLE space ON COMMIT DROP AS
		SELECT string_agg(md5(n::text), '') AS filled FROM generate_series(1, 4096) AS n`
	_, err := s.pool.Exec(ctx, grow, pgx.QueryExecModeExec)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == noSpace {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable,
			fault.New(fault.DependencyDown, "The database takes no changes: it has no space left."), err)
	}
	s.full.Store(false)
	return nil
}
