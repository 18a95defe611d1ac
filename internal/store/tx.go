package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/jitter"
)

// maxReruns bounds how often a transaction is rerun after serialization failures.
const maxReruns = 10

// tx runs fn in one transaction and commits it when fn returns nil. fn does only database work: it is run again after a
// serialization failure or a deadlock, so it sets its results again each time. The end of ctx interrupts neither fn nor
// the commit. After ErrUnknownCommit the commit may have happened: look the change up by a key.
func (s *Store) tx(ctx context.Context, fn func(ctx context.Context, tx *ent.Tx) error) error {
	if err := begun(ctx); err != nil {
		return err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	for run := 0; ; run++ {
		err := s.txOnce(ctx, fn)
		if err == nil || !mustRerun(err) || run == maxReruns {
			return mapError(err)
		}
		if err := backOff(ctx, run); err != nil {
			return err
		}
	}
}

func (s *Store) txOnce(ctx context.Context, fn func(ctx context.Context, tx *ent.Tx) error) error {
	tx, err := s.ent.Tx(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	ended := false
	defer func() {
		if !ended { // fn failed or panicked; a rollback that fails has closed the connection, which rolls back too
			_ = tx.Rollback()
		}
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	ended = true
	err = tx.Commit()
	if err == nil || errors.Is(err, ErrUnknownCommit) {
		for _, wake := range pgxOf(tx).wakes {
			s.Notify(wake.topic, wake.key)
		}
	}
	return err
}

// mustRerun reports whether the server rolled the transaction back in favour of another one.
func mustRerun(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "40001" || pgErr.Code == "40P01") && !errors.Is(err, ErrUnknownCommit)
}

// backOff waits for a random time of some milliseconds to a quarter of a second.
func backOff(ctx context.Context, run int) error {
	most := min(4*time.Millisecond<<run, 250*time.Millisecond)
	timer := time.NewTimer(most/4 + jitter.Below(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return down(fmt.Errorf("rerun transaction: %w", ctx.Err())) // of the store's own
	}
}

func pgxOf(tx *ent.Tx) *pgxTx { return tx.RawTx().(*pgxTx) }

// raw runs statements in tx that ent cannot express, and waits for their results.
func raw(tx *ent.Tx) pgxRunner { return awaited{pgxOf(tx)} }

// later queues a statement in tx whose result is not needed.
func later(tx *ent.Tx, sql string, args ...any) { pgxOf(tx).later(statement{sql: sql, args: args}) }

// insert queues the insertion of a row.
func insert[T any](tx *ent.Tx, into table.Of[T], row *T) {
	later(tx, into.Insert(), into.Values(row)...)
}

// divisionByZero is the error by which a queued statement makes the server roll its transaction back.
const divisionByZero = "22012"

// mustAffectOne queues a statement that locks or changes a row, and returns a value of it. Without such a row it
// divides by zero: the server rolls the transaction back, which fails with otherwise, without a round trip before the
// commit.
func mustAffectOne(tx *ent.Tx, otherwise error, sql string, args ...any) {
	pgxOf(tx).later(statement{
		sql: "WITH touched AS (" + sql + ") SELECT 1 / count(*) FROM touched", args: args,
		refused: func(err *pgconn.PgError) error {
			if err.Code != divisionByZero {
				return err
			}
			return fmt.Errorf("%w: %w", otherwise, err)
		},
	})
}

// touchInserted is mustAffectOne for an INSERT. A distributed database does not insert on the way, so there it costs a
// round trip.
func touchInserted(ctx context.Context, tx *ent.Tx, otherwise error, sql string, args ...any) error {
	if shardsOf(tx) == nil {
		mustAffectOne(tx, otherwise, sql, args...)
		return nil
	}
	tag, err := raw(tx).Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = otherwise
	}
	return err
}

// wakeOnCommit wakes the subscribers of topic and key after tx is committed: NOTIFY within a transaction would
// serialize all commits.
func wakeOnCommit(tx *ent.Tx, topic, key string) {
	t := pgxOf(tx)
	t.wakes = append(t.wakes, subject{topic, key})
}
