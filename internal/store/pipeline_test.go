package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

const lockInsert = "INSERT INTO locks (id) VALUES ($1)"

func lockRows(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM locks").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTransactionWithoutStatementsTakesNoConnection(t *testing.T) {
	s := storetest.New(t)
	before := s.Pool().Stat().AcquireCount()
	if err := s.Tx(t.Context(), func(context.Context, *ent.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	mine := errors.New("mine")
	err := s.Tx(t.Context(), func(_ context.Context, tx *ent.Tx) error {
		store.Later(tx, lockInsert, "a")
		return mine
	})
	if !errors.Is(err, mine) || s.Pool().Stat().AcquireCount() != before || lockRows(t, s) != 0 {
		t.Errorf("%v after %d connections", err, s.Pool().Stat().AcquireCount()-before)
	}
}

func TestQueuedStatementsPrecedeTheNextQuery(t *testing.T) {
	s := storetest.New(t)
	var seen int
	err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
		store.Later(tx, lockInsert, "a")
		store.Later(tx, lockInsert, "b")
		err := store.Raw(tx).QueryRow(ctx, "SELECT count(*) FROM locks").Scan(&seen)
		store.Later(tx, lockInsert, "c")
		return err
	})
	if err != nil || seen != 2 || lockRows(t, s) != 3 {
		t.Errorf("%v, saw %d and left %d", err, seen, lockRows(t, s))
	}
}

func TestRefusedQueuedStatementRollsAllBack(t *testing.T) {
	s := storetest.New(t)
	twice := func(tx *ent.Tx) {
		store.Later(tx, lockInsert, "a")
		store.Later(tx, lockInsert, "a")
	}
	for name, fn := range map[string]func(context.Context, *ent.Tx) error{
		"at the commit": func(_ context.Context, tx *ent.Tx) error { twice(tx); return nil },
		"at a question": func(ctx context.Context, tx *ent.Tx) error {
			twice(tx)
			return store.Raw(tx).QueryRow(ctx, "SELECT 1").Scan(new(int))
		},
		"after a question": func(ctx context.Context, tx *ent.Tx) error {
			err := store.Raw(tx).QueryRow(ctx, "SELECT 1").Scan(new(int))
			twice(tx)
			return err
		},
		"and is passed over": func(ctx context.Context, tx *ent.Tx) error {
			twice(tx)
			_ = store.Raw(tx).QueryRow(ctx, "SELECT 1").Scan(new(int))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Tx(t.Context(), fn)
			if err == nil || errors.Is(err, store.ErrUnknownCommit) || name != "and is passed over" &&
				!errors.Is(err, store.ErrDuplicate) {
				t.Errorf("got %v", err)
			}
			if lockRows(t, s) != 0 || s.Pool().Stat().AcquiredConns() != 0 {
				t.Error("it left its change or its connection")
			}
		})
	}
}

func TestLostLeaseForbidsTheCommit(t *testing.T) {
	s := storetest.New(t)
	err := s.Tx(t.Context(), func(_ context.Context, tx *ent.Tx) error {
		store.QueueFence(tx, job.Fence{Owner: "nobody", Attempt: 1})
		store.Later(tx, lockInsert, "a")
		return nil
	})
	if !errors.Is(err, job.ErrLeaseLost) || lockRows(t, s) != 0 || s.Pool().Stat().AcquiredConns() != 0 {
		t.Errorf("%v left %d rows", err, lockRows(t, s))
	}
}

// The limits of a transaction hold for what goes out together with its BEGIN.
func TestTransactionWaitsForALockWithinItsTimeout(t *testing.T) {
	s := storetest.New(t)
	err := s.Tx(t.Context(), func(ctx context.Context, holder *ent.Tx) error {
		if _, err := store.Raw(holder).Exec(ctx, lockInsert, "a"); err != nil {
			return err
		}
		return s.Tx(ctx, func(_ context.Context, waiter *ent.Tx) error {
			store.Later(waiter, lockInsert, "a")
			return nil
		})
	})
	// It is the server's lock_timeout that ends it, not the deadline of the call.
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "55P03" ||
		!errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want that the lock is not available", err)
	}
}
