package store

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/fault"
)

var (
	// ErrNotFound says that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrDuplicate says that a unique row is there already.
	ErrDuplicate = errors.New("already there")
	// ErrUnavailable says that the database cannot serve at the moment.
	ErrUnavailable = errors.New("database unavailable")
	// ErrUnknownCommit says that the connection was lost while committing: the change may be there or not.
	ErrUnknownCommit = errors.New("commit outcome unknown")
	// ErrSchemaBehind says that migrations are missing.
	ErrSchemaBehind = errors.New("database schema behind this program")
)

// mapError is the one place that knows the errors of ent and PostgreSQL. The original stays in the chain.
func mapError(err error) error {
	if err == nil || errors.Is(err, ErrUnknownCommit) {
		return err
	}
	if ent.IsNotFound(err) || errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pgErr.Code == "23505":
			return fmt.Errorf("%w: %w", ErrDuplicate, err)
		case unavailable(pgErr.Code):
			return down(err)
		}
		return err
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) || cut(err) {
		return down(err)
	}
	return err
}

// down is what a caller may be told of a database that cannot serve.
func down(err error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, fault.New(fault.DependencyDown, "The database does not answer."), err)
}

// cut says that the connection broke: what was not committed by then is undone.
func cut(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// unavailable lists by SQLSTATE what passes: no connection (08), no resources (53), limits of lock and
// statement (55P03, 57014), shutdown and start (57P), a standby (25006), and giving way (40).
func unavailable(code string) bool {
	switch code[:2] {
	case "08", "53":
		return true
	}
	switch code {
	case "55P03", "57014", "57P01", "57P02", "57P03", "25006", "40001", "40P01":
		return true
	}
	return false
}

// violates says that err is the violation of a constraint or unique index of that name.
func violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}
