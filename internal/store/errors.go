package store

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/fault"
)

var (
	// ErrNotFound says that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrDuplicate says that a unique row exists already.
	ErrDuplicate = errors.New("already there")
	// ErrUnavailable says that the database cannot serve at the moment.
	ErrUnavailable = errors.New("database unavailable")
	// ErrUnknownCommit says that the connection was lost during the commit, which may have succeeded.
	ErrUnknownCommit = errors.New("commit outcome unknown")
	// ErrSchemaBehind says that migrations are missing.
	ErrSchemaBehind = errors.New("database schema behind this program")
)

// mapError is the only place that knows the errors of ent and PostgreSQL. The original error stays wrapped. What is no
// answer of the database has a fault, which a buyer may see.
func mapError(err error) error {
	if err == nil || settledError(err) {
		return err
	}
	if ent.IsNotFound(err) || errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "23505" {
		return fmt.Errorf("%w: %w", ErrDuplicate, err)
	}
	return unavailableError(err)
}

// settledError reports an error that says already whose it is: a commit without an answer, a database without one, or
// a caller that has gone. errors.Is would take each of them for what is below it.
func settledError(err error) bool {
	if errors.Is(err, ErrUnknownCommit) || errors.Is(err, ErrUnavailable) {
		return true
	}
	f, ok := fault.As(err)
	return ok && f.OfCaller()
}

// unavailableError makes ErrUnavailable of the error of a database that cannot serve. Statements run in contexts of the
// store's own, so a timeout among them is the store's.
func unavailableError(err error) error {
	if err == nil || settledError(err) {
		return err
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return down(err) // whatever refuses the connection, such as a password that was changed: nothing was asked for
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		if unavailable(pgErr.Code) {
			return down(err)
		}
		return err
	}
	if pgconn.SafeToRetry(err) || cut(err) {
		return down(err)
	}
	return err
}

// down is the fault of an unavailable database.
func down(err error) error {
	return fmt.Errorf("%w: %w: %w", ErrUnavailable, fault.New(fault.DependencyDown, "The database does not answer."), err)
}

// unknown is the error of a commit that the database did not confirm. Whoever asked for the change asks for the same
// again: each is looked up by its key, or changes nothing the second time.
func unknown(err error) error {
	told := fault.New(fault.DependencyDown,
		"The database did not confirm the change, which may have been made. Send the same request again.")
	return fmt.Errorf("%w: %w: %w", ErrUnknownCommit, told.Then(fault.RetrySameRequest), err)
}

// cut reports whether the connection broke, which rolls back what was not committed.
func cut(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// unavailable lists the SQLSTATEs of transient errors: no connection (08), no resources (53), lock and statement
// timeouts (55P03, 57014), shutdown and start-up (57P), a standby (25006), and serialization failures (40).
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

// violates reports whether err is a violation of the constraint or unique index of that name.
func violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && constraintOf(pgErr) == constraint
}

// constraintOf is the name of the constraint that an error is about. The coordinator of a distributed database tells
// that of a shard in the message only, with the shard's number.
func constraintOf(err *pgconn.PgError) string {
	if err.ConstraintName != "" {
		return err.ConstraintName
	}
	if found := shardConstraint.FindStringSubmatch(err.Message); found != nil {
		return found[1]
	}
	return ""
}

var shardConstraint = regexp.MustCompile(`constraint "(\w+)_\d{6,}"`)
