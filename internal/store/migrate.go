package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/ent/migrate/migrations"
)

// Migrate applies the missing migrations to the database of url and returns their number. Several processes may call it
// concurrently. url reaches the server itself: one migration at a time is a lock of its session.
func Migrate(ctx context.Context, url string, log *slog.Logger) (applied int, err error) {
	limits := migrationLimits{lockTimeout: time.Second, within: 15 * time.Minute}
	return migrateWith(ctx, url, migrations.Files, log, limits)
}

//go:embed citus.sql
var citus string

// Distribute distributes a migrated, empty database by owner over the workers that its Citus knows.
func Distribute(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it did is committed
	if _, err := conn.Exec(ctx, citus); err != nil {
		return fmt.Errorf("distribute: %w", err)
	}
	return nil
}

// CheckSchema is ErrSchemaBehind while the database lacks a migration of this program. A newer schema is accepted,
// because a newer program may be replacing this one.
func (s *Store) CheckSchema(ctx context.Context) error {
	want, err := schemaVersion()
	if err != nil {
		return err
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	var have int64
	err = s.pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "42P01" {
		have, err = 0, nil // undefined table: never migrated
	}
	if err != nil {
		return fmt.Errorf("read schema version: %w", mapError(err))
	}
	if have < want {
		return fmt.Errorf("%w: at %d, needs %d", ErrSchemaBehind, have, want)
	}
	return nil
}

// schemaVersion is that of the last migration.
func schemaVersion() (int64, error) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("read migrations: %d files: %w", len(names), err)
	}
	number, _, _ := strings.Cut(path.Base(names[len(names)-1]), "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read migration version: %w", err)
	}
	return version, nil
}
