package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	sessionlock "github.com/pressly/goose/v3/lock"

	"github.com/roamcard/roamcard/internal/jitter"
)

// migrationLimits keep a migration from standing in the way of sales.
type migrationLimits struct {
	// lockTimeout is how long a statement may wait for a lock. Whoever comes after it for that table waits as well.
	lockTimeout time.Duration
	// within bounds the waiting for others of all migrations together.
	within time.Duration
}

const (
	migrationName       = "roamcard migrate"
	migrationRetryFirst = 500 * time.Millisecond
	migrationRetryLast  = 10 * time.Second
	// connectWithin bounds the connection to the server and what is asked of it first.
	connectWithin = time.Minute
	// watchEvery is how often a migration under way is looked at, and sayEvery how often the same is said of it.
	watchEvery, sayEvery = 200 * time.Millisecond, 30 * time.Second
	// noTransaction marks a file whose statements run one by one, such as CREATE INDEX CONCURRENTLY. These wait for every
	// older transaction, and nobody waits for them meanwhile: they get no lock timeout.
	noTransaction = "-- +goose NO TRANSACTION"
)

// migration applies files, one after the other.
type migration struct {
	config *pgx.ConnConfig
	files  fs.FS
	log    *slog.Logger
	limits migrationLimits
	// held has the lock that lets one process migrate at a time, and tells of the statement under way.
	held *pgx.Conn
}

func migrateWith(
	ctx context.Context, url string, files fs.FS, log *slog.Logger, limits migrationLimits,
) (applied int, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return 0, fmt.Errorf("read database URL: %w", err)
	}
	config.RuntimeParams["application_name"] = migrationName
	m := &migration{config: config, files: files, log: log, limits: limits}
	if err := m.connect(ctx); err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	defer m.unlock(ctx)
	deadline, cancel := context.WithTimeout(ctx, limits.within)
	defer cancel()
	if err := m.takeLock(ctx, deadline); err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	for {
		name, err := m.next(ctx)
		if name == "" || err != nil {
			return applied, err
		}
		if err := m.apply(ctx, deadline, name); err != nil {
			return applied, fmt.Errorf("migrate: %s: %w", name, err)
		}
		applied++
	}
}

// connect makes the session of the lock, to a server that migrations can use.
func (m *migration) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	config := m.config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // it prepares nothing, also where a pooler answers
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	m.held = conn
	if err := m.examine(ctx); err != nil {
		m.unlock(ctx)
		return err
	}
	return nil
}

func (m *migration) examine(ctx context.Context) error {
	var pid uint32
	var server Server
	if err := m.held.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('server_version_num')::int,
		current_setting('server_version'), pg_is_in_recovery()`).Scan(&pid, &server.Version, &server.VersionText,
		&server.Standby); err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	if err := server.Usable(); err != nil {
		return err
	}
	if pid != m.held.PgConn().PID() {
		return errors.New("this URL goes through a pooler; migrations need the server itself: set database.listen_url")
	}
	return nil
}

// takeLock waits until no other process migrates, or until the deadline.
func (m *migration) takeLock(ctx, deadline context.Context) error {
	for said := (time.Time{}); ; pause(deadline, watchEvery) {
		var locked bool
		err := m.held.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", sessionlock.DefaultLockID).Scan(&locked)
		if err != nil {
			return fmt.Errorf("take the lock: %w", err)
		}
		if locked {
			return nil
		}
		if deadline.Err() != nil {
			return fmt.Errorf("another process migrates, and no lock within %s", m.limits.within)
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			m.log.Info("waiting for another process that migrates", "held_by", m.otherMigration(ctx))
		}
	}
}

// unlock ends the session, and its lock with it.
func (m *migration) unlock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = m.held.Close(ctx) // the server notices at the latest when the process ends
}

func (m *migration) otherMigration(ctx context.Context) (said string) {
	err := m.held.QueryRow(ctx, `SELECT 'pid ' || l.pid
			|| coalesce(' since ' || to_char(a.backend_start, 'HH24:MI:SS'), '')
		FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND (l.classid::bigint << 32) | l.objid::bigint = $1`,
		sessionlock.DefaultLockID).Scan(&said)
	if err != nil {
		return "" // it has just ended
	}
	return said
}

// provider reads the files. Its connections get the lock timeout; close ends them.
func (m *migration) provider(lockTimeout time.Duration) (_ *goose.Provider, close func() error, err error) {
	config := m.config.Copy()
	config.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockTimeout.Milliseconds(), 10)
	db := stdlib.OpenDB(*config)
	p, err := goose.NewProvider(goose.DialectPostgres, db, m.files)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read migrations: %w", err), db.Close())
	}
	return p, db.Close, nil
}

// next names the first file that is missing in the database; empty when there is none.
func (m *migration) next(ctx context.Context) (name string, err error) {
	p, closeDB, err := m.provider(m.limits.lockTimeout)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	all, err := p.Status(ctx)
	if err != nil {
		return "", fmt.Errorf("read applied migrations: %w", err)
	}
	for _, file := range all {
		if file.State == goose.StatePending {
			return path.Base(file.Source.Path), nil
		}
	}
	return "", nil
}

// apply applies the next file. What finds a lock taken is rolled back and tried again later, until the deadline: a
// statement that waits for a table keeps everybody else waiting behind it.
func (m *migration) apply(ctx, deadline context.Context, name string) error {
	text, err := fs.ReadFile(m.files, name)
	if err != nil {
		return err
	}
	timeout := m.limits.lockTimeout
	if bytes.Contains(text, []byte(noTransaction)) {
		timeout = 0
	}
	for wait := migrationRetryFirst; ; wait = min(2*wait, migrationRetryLast) {
		took, err := m.try(ctx, timeout, name)
		if err == nil {
			m.log.Info("migration applied", "file", name, "took", took)
			return nil
		}
		if !lockTaken(err) {
			return err
		}
		m.log.Warn("migration gave way to a transaction and is tried again", "file", name, "error", err, "retry_in", wait)
		pause(deadline, wait/2+jitter.Below(wait/2))
		if deadline.Err() != nil {
			return fmt.Errorf("no lock within %s: %w", m.limits.within, err)
		}
	}
}

// try applies the next file once, and says meanwhile what it waits for.
func (m *migration) try(ctx context.Context, timeout time.Duration, name string) (took time.Duration, err error) {
	p, closeDB, err := m.provider(timeout)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); m.watch(watching, name) }()
	defer func() { stop(); <-watched }()
	result, err := p.UpByOne(ctx)
	if err != nil {
		return 0, err
	}
	return result.Duration, nil
}

// lockTaken reports whether the server rolled back because of locks of others.
func lockTaken(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "55P03" || pgErr.Code == "40P01")
}

// waitsSQL is what the migration under way waits for. Of other users' sessions only the pid may be visible.
const waitsSQL = `SELECT coalesce((SELECT min(l.relation::regclass::text) FROM pg_locks l
		WHERE l.pid = a.pid AND NOT l.granted AND l.relation IS NOT NULL), 'older transactions'),
	b.pid, coalesce(b.application_name, ''), coalesce(b.state, ''),
	coalesce(extract(epoch FROM now() - b.xact_start), 0)::bigint
	FROM pg_stat_activity a CROSS JOIN unnest(pg_blocking_pids(a.pid)) AS p JOIN pg_stat_activity b ON b.pid = p
	WHERE a.application_name = $1 AND a.datname = current_database() AND a.pid <> pg_backend_pid()
	ORDER BY b.xact_start LIMIT 1`

// watch says what the statement under way waits for, until ctx ends.
func (m *migration) watch(ctx context.Context, name string) {
	var last uint32
	var said time.Time
	for pause(ctx, watchEvery); ctx.Err() == nil; pause(ctx, watchEvery) {
		var table, program, state string
		var pid uint32
		var seconds int64
		// Cancelling a query would close the connection that has the lock.
		err := m.held.QueryRow(context.WithoutCancel(ctx), waitsSQL, migrationName).Scan(&table, &pid, &program, &state,
			&seconds)
		if err != nil || (pid == last && time.Since(said) < sayEvery) {
			continue // nothing is waited for, or it was said
		}
		last, said = pid, time.Now()
		m.log.Info("migration waits", "file", name, "for", table, "held_by_pid", pid, "program", program, "state", state,
			"transaction_age_seconds", seconds)
	}
}
