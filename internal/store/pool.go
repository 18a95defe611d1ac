package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/internal/fault"
)

// conns is the pool as this package uses it. A caller's end is felt only while it waits for a connection, when nothing
// was begun; a statement that was sent runs to its end in a context of the store's own, see detached. So a connection
// is never closed because somebody stopped waiting, and a statement's error is never a caller's. What the database does
// not answer is ErrUnavailable here already, with its fault, whatever the caller of this does with errors.
type conns struct{ *pgxpool.Pool }

var _ pgxRunner = conns{}

// callTimeout bounds every call of the store. Its end is the store's own timeout, whoever called.
const callTimeout = 10 * time.Second

// callerKey is the key of the caller's context in one that is detached.
type callerKey struct{}

// detached is a context of the store's own, for one call: pgx closes the connection of a query whose context ends, and
// neither a disconnect nor a short deadline may cost a connection or interrupt a change.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return fault.Outlive(context.WithValue(ctx, callerKey{}, ctx), timeoutOf(ctx))
}

// owned is ctx, detached unless it is already: a statement whose method has forgotten it ends in time, too.
func owned(ctx context.Context) (context.Context, context.CancelFunc) {
	if isOwned(ctx) {
		return ctx, func() {}
	}
	return detached(ctx)
}

func isOwned(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	_, ok := ctx.Value(callerKey{}).(context.Context)
	return ok && bounded
}

// timeoutKey is the key of another callTimeout, in tests.
type timeoutKey struct{}

func timeoutOf(ctx context.Context) time.Duration {
	if other, ok := ctx.Value(timeoutKey{}).(time.Duration); ok {
		return other
	}
	return callTimeout
}

// begun fails when the caller has gone before anything was begun.
func begun(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fault.Ended(ctx, fmt.Errorf("begin: %w", ctx.Err()))
}

// Acquire waits for a connection as long as the caller does, at most until ctx ends.
func (p conns) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	caller, ok := ctx.Value(callerKey{}).(context.Context)
	if !ok || caller.Done() == nil {
		conn, err := p.Pool.Acquire(ctx)
		return conn, mapError(err)
	}
	if err := begun(caller); err != nil {
		return nil, err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(caller, stop)()
	conn, err := p.Pool.Acquire(waiting)
	if err != nil && ctx.Err() == nil {
		err = fault.Ended(caller, err)
	}
	return conn, mapError(err)
}

// BeginTx begins a transaction that reads, unless the caller has gone.
func (p conns) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	if caller, ok := ctx.Value(callerKey{}).(context.Context); ok {
		if err := begun(caller); err != nil {
			return nil, err
		}
	}
	tx, err := p.Pool.BeginTx(ctx, o)
	return tx, unavailableError(err)
}

// Exec implements pgxRunner.
func (p conns) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := owned(ctx)
	defer cancel()
	conn, err := p.Acquire(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer conn.Release()
	tag, err := conn.Exec(ctx, sql, args...)
	return tag, unavailableError(err)
}

// Query implements pgxRunner. The rows have to be closed, or read to their end.
func (p conns) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := owned(ctx)
	conn, err := p.Acquire(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		conn.Release()
		cancel()
		return nil, unavailableError(err)
	}
	return &connRows{Rows: rows, conn: conn, cancel: cancel}, nil
}

// QueryRow implements pgxRunner.
func (p conns) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return oneRow{rows, err}
}

// connRows give their connection back when they end.
type connRows struct {
	pgx.Rows
	conn   *pgxpool.Conn
	cancel context.CancelFunc
}

// Close implements pgx.Rows.
func (r *connRows) Close() {
	r.Rows.Close()
	if r.conn != nil {
		r.conn.Release()
		r.cancel()
		r.conn = nil
	}
}

// Err implements pgx.Rows.
func (r *connRows) Err() error { return unavailableError(r.Rows.Err()) }

// Next implements pgx.Rows.
func (r *connRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Scan implements pgx.Rows.
func (r *connRows) Scan(into ...any) error {
	err := r.Rows.Scan(into...)
	if err != nil {
		r.Close()
	}
	return unavailableError(err)
}
