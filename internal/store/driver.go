package store

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgxDriver runs ent's statements on pgx itself: database/sql in between costs a third of the speed and
// hides the transaction that raw statements need.
type pgxDriver struct{ pool *pgxpool.Pool }

var _ dialect.Driver = (*pgxDriver)(nil)

// Dialect implements dialect.Driver.
func (d *pgxDriver) Dialect() string { return dialect.Postgres }

// Close implements dialect.Driver. The pool is the store's to close.
func (d *pgxDriver) Close() error { return nil }

// Exec implements dialect.Driver.
func (d *pgxDriver) Exec(ctx context.Context, query string, args, v any) error {
	return exec(ctx, d.pool, query, args, v)
}

// Query implements dialect.Driver.
func (d *pgxDriver) Query(ctx context.Context, query string, args, v any) error {
	return runQuery(ctx, d.pool, query, args, v)
}

// Tx implements dialect.Driver.
func (d *pgxDriver) Tx(ctx context.Context) (dialect.Tx, error) { return d.BeginTx(ctx, nil) }

// beginReadCommitted sets the limits of a transaction in the round trip that begins it. They are local
// to it, so that a connection can be shared through a pooler.
const beginReadCommitted = "begin; set local statement_timeout = '5s'; set local lock_timeout = '3s'; " +
	"set local idle_in_transaction_session_timeout = '10s'"

// BeginTx is what ent's client asks for to set an isolation level.
func (d *pgxDriver) BeginTx(ctx context.Context, opts *stdsql.TxOptions) (dialect.Tx, error) {
	if opts != nil && *opts != (stdsql.TxOptions{}) {
		return nil, errors.New("only default transactions are supported")
	}
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginReadCommitted})
	if err != nil {
		return nil, err
	}
	return &pgxTx{ctx: ctx, Tx: tx}, nil
}

// pgxTx is a transaction as ent wants it, with pgx's own inside.
type pgxTx struct {
	pgx.Tx
	ctx   context.Context
	wakes []subject
}

var (
	_ dialect.Tx = (*pgxTx)(nil)
	_ driver.Tx  = (*pgxTx)(nil)
)

// Exec implements dialect.Tx.
func (t *pgxTx) Exec(ctx context.Context, query string, args, v any) error {
	return exec(ctx, t.Tx, query, args, v)
}

// Query implements dialect.Tx.
func (t *pgxTx) Query(ctx context.Context, query string, args, v any) error {
	return runQuery(ctx, t.Tx, query, args, v)
}

// Commit implements dialect.Tx. Unless the server said that it did not commit, or could not be asked, an
// error is ErrUnknownCommit. pgconn.SafeToRetry does not tell the two apart: when the answer is lost, the
// error is that of reading from a closed connection, which claims that nothing was sent.
func (t *pgxTx) Commit() error {
	if t.Conn().IsClosed() {
		return fmt.Errorf("%w: connection lost before the commit", ErrUnavailable)
	}
	err := t.Tx.Commit(t.ctx)
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Severity == "ERROR" && pgErr.Code != "40003" {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownCommit, err)
}

// Rollback implements dialect.Tx.
func (t *pgxTx) Rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Second)
	defer cancel()
	return t.Tx.Rollback(ctx)
}

// pgxRunner is the pool or a transaction.
type pgxRunner interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func exec(ctx context.Context, on pgxRunner, query string, args, v any) error {
	values, ok := args.([]any)
	if !ok {
		return fmt.Errorf("arguments of type %T", args)
	}
	tag, err := on.Exec(ctx, query, values...)
	if err != nil {
		return err
	}
	switch result := v.(type) {
	case nil:
		return nil
	case *stdsql.Result:
		*result = driver.RowsAffected(tag.RowsAffected())
		return nil
	default:
		return fmt.Errorf("result of type %T", v)
	}
}

func runQuery(ctx context.Context, on pgxRunner, query string, args, v any) error {
	values, ok := args.([]any)
	if !ok {
		return fmt.Errorf("arguments of type %T", args)
	}
	result, ok := v.(*entsql.Rows)
	if !ok {
		return fmt.Errorf("result of type %T", v)
	}
	rows, err := on.Query(ctx, query, values...)
	if err != nil {
		return err
	}
	result.ColumnScanner = scanner{rows}
	return nil
}

// scanner makes pgx's rows look like database/sql's.
type scanner struct{ pgx.Rows }

var _ entsql.ColumnScanner = scanner{}

// Close implements entsql.ColumnScanner.
func (s scanner) Close() error {
	s.Rows.Close()
	return s.Err()
}

// Columns implements entsql.ColumnScanner.
func (s scanner) Columns() ([]string, error) {
	fields := s.FieldDescriptions()
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Name
	}
	return names, nil
}

// ColumnTypes implements entsql.ColumnScanner.
func (s scanner) ColumnTypes() ([]*stdsql.ColumnType, error) {
	return nil, errors.New("column types are not supported")
}

// NextResultSet implements entsql.ColumnScanner.
func (s scanner) NextResultSet() bool { return false }
