package store

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgxDriver runs ent's statements directly on pgx: database/sql in between costs a third of the throughput and hides
// the transaction that raw statements need.
type pgxDriver struct {
	pool   conns
	shards *ownerShards
}

var _ dialect.Driver = (*pgxDriver)(nil)

// Dialect implements dialect.Driver.
func (d *pgxDriver) Dialect() string { return dialect.Postgres }

// Close implements dialect.Driver. The store closes the pool.
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

// BeginTx is called by ent's client to set an isolation level.
func (d *pgxDriver) BeginTx(ctx context.Context, opts *stdsql.TxOptions) (dialect.Tx, error) {
	if opts != nil && *opts != (stdsql.TxOptions{}) {
		return nil, errors.New("only default transactions are supported")
	}
	ctx, cancel := owned(ctx)
	return &pgxTx{ctx: ctx, cancel: cancel, pool: d.pool, shards: d.shards}, nil
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
