package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"entgo.io/ent/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgxTx is a transaction as ent wants it. A statement whose result nobody waits for is queued, and goes out
// together with the next one whose result is asked for, or with the commit; the first to go takes BEGIN
// along. So a transaction costs a round trip for each question it asks and one to commit. The error of a
// queued statement is that of the call it goes out with.
type pgxTx struct {
	ctx context.Context
	// pool is where the connection comes from, once the first statement goes out.
	pool  *pgxpool.Pool
	conn  *pgxpool.Conn
	queue []reviewItem
	ended bool
	wakes []subject
}

var (
	_ dialect.Tx = (*pgxTx)(nil)
	_ driver.Tx  = (*pgxTx)(nil)
)

// reviewItem is a statement on its way. What to do with its answer may be left out.
type reviewItem struct {
	sql  string
	args []any
	// read reads the answer.
	read func(pgx.BatchResults) error
	// refused explains the server's refusal of the statement, and wraps it.
	refused func(*pgconn.PgError) error
}

func (q reviewItem) answer(from pgx.BatchResults) (err error) {
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
	// limitsSQL bounds a transaction. The limits are local to it, so that a connection can be shared through
	// a pooler.
	limitsSQL = "SELECT set_config('statement_timeout', '5s', true), set_config('lock_timeout', '3s', true), " +
		"set_config('idle_in_transaction_session_timeout', '10s', true)"
)

// later queues a statement.
func (t *pgxTx) later(q reviewItem) { t.queue = append(t.queue, q) }

// Exec implements dialect.Tx. ent gives no v where it does not want the result.
func (t *pgxTx) Exec(ctx context.Context, query string, args, v any) error {
	if v != nil {
		return exec(ctx, asked{t}, query, args, v)
	}
	values, ok := args.([]any)
	if !ok {
		return fmt.Errorf("arguments of type %T", args)
	}
	t.later(reviewItem{sql: query, args: values})
	return nil
}

// Query implements dialect.Tx.
func (t *pgxTx) Query(ctx context.Context, query string, args, v any) error {
	return runQuery(ctx, asked{t}, query, args, v)
}

// send sends what is queued and last behind it, and reads the answers of the former. The caller reads the
// answer of last, and closes the batch before it sends anything else.
func (t *pgxTx) send(ctx context.Context, last ...reviewItem) (pgx.BatchResults, error) {
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

// open takes a connection and puts BEGIN before what is queued, unless that has been done.
func (t *pgxTx) open(ctx context.Context) error {
	if t.ended {
		return pgx.ErrTxClosed
	}
	if t.conn != nil {
		return nil
	}
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("take a connection: %w", err)
	}
	t.conn = conn
	t.queue = append([]reviewItem{{sql: beginSQL}, {sql: limitsSQL}}, t.queue...)
	return nil
}

// flush sends what is queued.
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

// Commit implements dialect.Tx. Unless the server said that it did not commit, or could not be asked, an
// error is ErrUnknownCommit. pgconn.SafeToRetry does not tell the two apart: when the answer is lost, the
// error is that of reading from a closed connection, which claims that nothing was sent.
func (t *pgxTx) Commit() error {
	if t.ended {
		return pgx.ErrTxClosed
	}
	defer func() { _ = t.Rollback() }() // after a commit there is nothing to roll back
	if t.conn == nil && len(t.queue) == 0 {
		return nil
	}
	if err := t.open(t.ctx); err != nil {
		return err
	}
	if t.conn.Conn().IsClosed() {
		return fmt.Errorf("%w: connection lost before the commit", ErrUnavailable)
	}
	err := t.commit()
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Severity == "ERROR" && pgErr.Code != "40003" {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownCommit, err)
}

func (t *pgxTx) commit() error {
	answers, err := t.send(t.ctx, reviewItem{sql: commitSQL})
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

// Rollback implements dialect.Tx. It ends the transaction whatever became of it.
func (t *pgxTx) Rollback() error {
	if t.ended {
		return nil
	}
	t.ended = true
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

// asked runs statements whose answers are waited for, behind what is queued.
type asked struct{ *pgxTx }

var _ pgxRunner = asked{}

// Exec implements pgxRunner.
func (t asked) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	answers, err := t.send(ctx, reviewItem{sql: sql, args: args})
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := answers.Exec()
	if closed := answers.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query implements pgxRunner. The rows have to be closed before anything else is asked.
func (t asked) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	answers, err := t.send(ctx, reviewItem{sql: sql, args: args})
	if err != nil {
		return nil, err
	}
	rows, err := answers.Query()
	if err != nil {
		_ = answers.Close() // err broke it, and says why
		return nil, err
	}
	return askedRows{rows, answers}, nil
}

// QueryRow implements pgxRunner.
func (t asked) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := t.Query(ctx, sql, args...)
	return oneRow{rows, err}
}

// askedRows are the last answer of a batch, and close it.
type askedRows struct {
	pgx.Rows
	batch pgx.BatchResults
}

// Close implements pgx.Rows.
func (r askedRows) Close() {
	r.Rows.Close()
	_ = r.batch.Close() // Err has the error
}

// oneRow is the first of some rows.
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
