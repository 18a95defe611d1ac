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

// pgxTx is a transaction as ent wants it. Statements whose result nobody waits for are queued, and go out
// together with the next one whose result is asked for, or with the commit; the first to go takes BEGIN
// along. So a transaction takes a round trip for each question it asks, and one more to commit. The
// errors of queued statements come with what they went out with.
type pgxTx struct {
	ctx   context.Context
	pool  *pgxpool.Pool
	conn  *pgxpool.Conn // nil until the first statement goes out
	queue []queued
	ended bool
	wakes []subject
}

// queued is a statement that waits. When result is set, it judges what came of it, before the commit.
type queued struct {
	sql    string
	args   []any
	result func(pgx.BatchResults) error
	// refused explains an error of the statement.
	refused func(error) error
}

var (
	_ dialect.Tx = (*pgxTx)(nil)
	_ driver.Tx  = (*pgxTx)(nil)
	_ pgxRunner  = pipelined{}
)

// limitsSQL bounds a transaction. The limits are local to it, so that a connection can be shared through a
// pooler.
const limitsSQL = "SELECT set_config('statement_timeout', '5s', true), set_config('lock_timeout', '3s', true), " +
	"set_config('idle_in_transaction_session_timeout', '10s', true)"

const commitSQL = "commit"

// Exec implements dialect.Tx. ent passes no v where it does not need the result.
func (t *pgxTx) Exec(ctx context.Context, query string, args, v any) error {
	if v == nil {
		values, ok := args.([]any)
		if !ok {
			return fmt.Errorf("arguments of type %T", args)
		}
		t.later(queued{sql: query, args: values})
		return nil
	}
	return exec(ctx, pipelined{t}, query, args, v)
}

// Query implements dialect.Tx.
func (t *pgxTx) Query(ctx context.Context, query string, args, v any) error {
	return runQuery(ctx, pipelined{t}, query, args, v)
}

func (t *pgxTx) later(q queued) { t.queue = append(t.queue, q) }

// send puts what is queued on the way, and last behind it. The results of the queued statements are read;
// the caller reads those of last and then closes the batch, before anything else is sent.
func (t *pgxTx) send(ctx context.Context, last ...queued) (pgx.BatchResults, error) {
	if t.ended {
		return nil, pgx.ErrTxClosed
	}
	batch, waiting := &pgx.Batch{}, t.queue
	t.queue = nil
	if t.conn == nil {
		conn, err := t.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		t.conn = conn
		waiting = append([]queued{{sql: "begin"}, {sql: limitsSQL}}, waiting...)
	}
	for _, q := range append(waiting, last...) {
		batch.Queue(q.sql, q.args...)
	}
	results := t.conn.SendBatch(ctx, batch)
	for _, q := range waiting {
		if err := q.read(results); err != nil {
			return nil, errors.Join(err, ignored(results.Close()))
		}
	}
	return results, nil
}

// ignored stands for the error of closing a batch, which repeats the one that broke it.
func ignored(error) error { return nil }

func (q queued) read(from pgx.BatchResults) (err error) {
	if q.result != nil {
		err = q.result(from)
	} else {
		_, err = from.Exec()
	}
	if err != nil && q.refused != nil {
		return q.refused(err)
	}
	return err
}

// flush sends what is queued and reads what came of it.
func (t *pgxTx) flush(ctx context.Context) error {
	if len(t.queue) == 0 {
		return nil
	}
	results, err := t.send(ctx)
	if err != nil {
		return err
	}
	return results.Close()
}

// Commit implements dialect.Tx. Unless the server said that it did not commit, or could not be asked, an
// error is ErrUnknownCommit. pgconn.SafeToRetry does not tell the two apart: when the answer is lost, the
// error is that of reading from a closed connection, which claims that nothing was sent.
func (t *pgxTx) Commit() error {
	if t.ended {
		return pgx.ErrTxClosed
	}
	for _, q := range t.queue {
		if q.result != nil { // which may refuse, so it has to be known first
			if err := t.flush(t.ctx); err != nil {
				return errors.Join(err, t.Rollback())
			}
			break
		}
	}
	if t.conn == nil && len(t.queue) == 0 {
		t.ended = true
		return nil
	}
	if t.conn == nil {
		conn, err := t.pool.Acquire(t.ctx)
		if err != nil {
			return err
		}
	}
	if t.conn.Conn().IsClosed() {
		t.end()
		return fmt.Errorf("%w: connection lost before the commit", ErrUnavailable)
	}
	results, err := t.send(t.ctx, queued{sql: commitSQL})
	if err == nil {
		var tag pgconn.CommandTag
		tag, err = results.Exec()
		if err == nil && tag.String() == "ROLLBACK" {
			err = pgx.ErrTxCommitRollback
		}
		if closeErr := results.Close(); err == nil {
			err = closeErr
		}
	}
	return nil
}
