package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"

	"entgo.io/ent/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgxTx implements ent's transaction. A statement whose result is not needed is queued, and sent with the next
// statement whose result is needed, or with the commit; BEGIN is sent with the first one. So a transaction costs a
// round trip for each result it needs, and one for the commit. The error of a queued statement is returned by the call
// that sends it.
type pgxTx struct {
	// ctx is the store's own: ent begins transactions by itself, with the context of the caller.
	ctx    context.Context
	cancel context.CancelFunc
	// pool provides the connection when the first statement is sent.
	pool   conns
	shards *ownerShards
	conn   *pgxpool.Conn
	queue  []statement
	// batch sets the limits of a batch.
	batch bool
	ended bool
	wakes []subject
	// failed is why the transaction must not be committed, known before anything was sent.
	failed error
}

var (
	_ dialect.Tx = (*pgxTx)(nil)
	_ driver.Tx  = (*pgxTx)(nil)
)

// statement is a queued statement. read and refused may be nil.
type statement struct {
	sql  string
	args []any
	// read reads the answer.
	read func(pgx.BatchResults) error
	// refused explains the server's refusal of the statement, and wraps it.
	refused func(*pgconn.PgError) error
}

func (q statement) answer(from pgx.BatchResults) (err error) {
	if q.read != nil {
		err = q.read(from)
	} else {
		_, err = from.Exec()
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && q.refused != nil {
		return q.refused(pgErr)
	}
	return err
}

const (
	beginSQL  = "begin"
	commitSQL = "commit"
	// limitsSQL sets the timeouts of a transaction. They are local to it, so that a pooler can share the connection.
	limitsSQL = "SELECT set_config('statement_timeout', '5s', true), set_config('lock_timeout', '3s', true), " +
		"set_config('idle_in_transaction_session_timeout', '10s', true)"
	// batchLimitsSQL sets those of a batch. Its plans are made while tables are small and kept while they grow, so they
	// use indexes from the beginning.
	batchLimitsSQL = "SELECT set_config('statement_timeout', '5s', true), set_config('lock_timeout', $1 || 'ms', true), " +
		"set_config('idle_in_transaction_session_timeout', '10s', true), set_config('enable_seqscan', 'off', true)"
)

// later queues a statement.
func (t *pgxTx) later(q statement) { t.queue = append(t.queue, q) }

// Exec implements dialect.Tx. ent passes no v where it does not need the result.
func (t *pgxTx) Exec(ctx context.Context, query string, args, v any) error {
	if v != nil {
		return exec(ctx, awaited{t}, query, args, v)
	}
	values, ok := args.([]any)
	if !ok {
		return fmt.Errorf("arguments of type %T", args)
	}
	t.later(statement{sql: query, args: values})
	return nil
}

// Query implements dialect.Tx.
func (t *pgxTx) Query(ctx context.Context, query string, args, v any) error {
	return runQuery(ctx, awaited{t}, query, args, v)
}

// send sends the queued statements and then last, and reads the answers of the former. The caller reads the answer of
// last, and closes the batch before it sends anything else.
func (t *pgxTx) send(ctx context.Context, last ...statement) (pgx.BatchResults, error) {
	if !isOwned(ctx) {
		ctx = t.ctx
	}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	var batch pgx.Batch
	waiting := t.queue
	t.queue = nil
	for _, q := range append(waiting[:len(waiting):len(waiting)], last...) {
		batch.Queue(q.sql, q.args...)
	}
	answers := t.conn.SendBatch(ctx, &batch)
	for _, q := range waiting {
		if err := q.answer(answers); err != nil {
			_ = answers.Close() // err broke it, and says why
			return nil, err
		}
	}
	return answers, nil
}

// open acquires a connection and queues BEGIN first, unless that has been done.
func (t *pgxTx) open(ctx context.Context) error {
	if t.ended {
		return pgx.ErrTxClosed
	}
	if t.failed != nil {
		return t.failed
	}
	if t.conn != nil {
		return nil
	}
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire a connection: %w", err)
	}
	t.conn = conn
	limits := statement{sql: limitsSQL}
	if t.batch {
		limits = statement{sql: batchLimitsSQL, args: []any{strconv.FormatInt(lockWait.Milliseconds(), 10)}}
	}
	t.queue = append([]statement{{sql: beginSQL}, limits}, t.queue...)
	return nil
}

// flush sends the queued statements.
func (t *pgxTx) flush(ctx context.Context) error {
	if len(t.queue) == 0 {
		return nil
	}
	answers, err := t.send(ctx)
	if err != nil {
		return err
	}
	return answers.Close()
}

// Commit implements dialect.Tx. An error is ErrUnknownCommit, unless the server reported that it did not commit, or the
// commit could not be sent. pgconn.SafeToRetry does not distinguish these: when the answer is lost, it reports an error
// of a closed connection, as if nothing had been sent.
func (t *pgxTx) Commit() error {
	if t.ended {
		return pgx.ErrTxClosed
	}
	defer func() { _ = t.Rollback() }() // after a commit there is nothing to roll back
	if t.conn == nil && len(t.queue) == 0 && t.failed == nil {
		return nil
	}
	if err := t.open(t.ctx); err != nil {
		return err
	}
	if t.conn.Conn().IsClosed() {
		return down(errors.New("connection lost before the commit"))
	}
	err := t.commit()
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Severity == "ERROR" && pgErr.Code != "40003" {
		return err
	}
	return unknown(err)
}

func (t *pgxTx) commit() error {
	answers, err := t.send(t.ctx, statement{sql: commitSQL})
	if err != nil {
		return err
	}
	tag, err := answers.Exec()
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	if closed := answers.Close(); err == nil {
		err = closed
	}
	return err
}

// Rollback implements dialect.Tx. It ends the transaction in any state.
func (t *pgxTx) Rollback() error {
	if t.ended {
		return nil
	}
	t.ended = true
	defer t.cancel()
	if t.conn == nil {
		return nil
	}
	// A connection that is still in a transaction is closed by the release, which rolls back too.
	defer t.conn.Release()
	if t.conn.Conn().IsClosed() || t.conn.Conn().PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Second)
	defer cancel()
	_, err := t.conn.Exec(ctx, "rollback")
	return err
}

// awaited runs statements whose results are needed, after the queued ones.
type awaited struct{ *pgxTx }

var _ pgxRunner = awaited{}

// Exec implements pgxRunner.
func (t awaited) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	answers, err := t.send(ctx, statement{sql: sql, args: args})
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := answers.Exec()
	if closed := answers.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query implements pgxRunner. The rows have to be closed before the next statement.
func (t awaited) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	answers, err := t.send(ctx, statement{sql: sql, args: args})
	if err != nil {
		return nil, err
	}
	rows, err := answers.Query()
	if err != nil {
		_ = answers.Close() // err broke it, and says why
		return nil, err
	}
	return awaitedRows{rows, answers}, nil
}

// QueryRow implements pgxRunner.
func (t awaited) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, sql, args...)
	return oneRow{rows, err}
}

// awaitedRows are the last answer of a batch, and close it.
type awaitedRows struct {
	pgx.Rows
	batch pgx.BatchResults
}

// Close implements pgx.Rows.
func (r awaitedRows) Close() {
	r.Rows.Close()
	_ = r.batch.Close() // Err has the error
}

// oneRow is the first row of a result.
type oneRow struct {
	rows pgx.Rows
	err  error
}

// Scan implements pgx.Row.
func (r oneRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
