package devnet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ownOrJoin takes the lock of the folder, or returns where the server of the process that has it listens. The lock
// belongs to the process that started the server, so a server whose lock is free is an orphan.
func ownOrJoin(ctx context.Context, dir string) (*os.File, pgPlace, error) {
	for {
		lock, err := tryLock(filepath.Join(dir, "postgres.lock"))
		if lock != nil || err != nil {
			return lock, pgPlace{}, err
		}
		if data, _, err := existingData(dir); err == nil && data != "" {
			if running, err := readPidFile(data); err == nil && running.ping(ctx) == nil {
				return nil, running.pgPlace, nil
			}
		}
		// Its owner is still starting it, or stopping it and about to let go of the lock.
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, pgPlace{}, fmt.Errorf("another process has %s and its server does not answer: %w", dir, err)
		}
	}
}

// existingData returns the data folder in dir and the major version that made it; nothing when there is none yet.
func existingData(dir string) (data string, major int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", 0, fmt.Errorf("look for data: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "pg") || strings.HasSuffix(entry.Name(), newSuffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name(), "PG_VERSION"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", 0, fmt.Errorf("read data version: %w", err)
		}
		found, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return "", 0, fmt.Errorf("read data version: %w", err)
		}
		if found > major {
			data, major = filepath.Join(dir, entry.Name()), found
		}
	}
	return data, major, nil
}

// newSuffix marks a data folder that is still being made.
const newSuffix = ".new"

// initData makes the data folder, all or nothing: a start that dies meanwhile leaves only what the next one removes.
func initData(ctx context.Context, bin pgBinaries, data string, cfg PostgresConfig) error {
	fresh := data + newSuffix
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove unfinished data: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if err := bin.who.give(fresh); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	args := []string{"-D", fresh, "-U", pgUser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"}
	if cfg.Throwaway {
		args = append(args, "--no-sync")
	}
	c, err := startChild("initdb", bin.command("initdb", args...), cfg.Log)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("initdb: %w", ctx.Err()), c.stop())
	}
	if c.err != nil {
		return c.failure()
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("keep new data: %w", err)
	}
	return nil
}

// pidFile is what a server writes about itself into its data folder.
type pidFile struct {
	pid int
	pgPlace
}

func (f pidFile) alive() bool { return running(f.pid, "postgres") }

func pidPath(data string) string { return filepath.Join(data, "postmaster.pid") }

func readPidFile(data string) (pidFile, error) {
	text, err := os.ReadFile(pidPath(data))
	if err != nil {
		return pidFile{}, err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 6 {
		return pidFile{}, errors.New("postmaster.pid is not whole")
	}
	pid, err := strconv.Atoi(lines[0])
	if err != nil {
		return pidFile{}, fmt.Errorf("read postmaster.pid: %w", err)
	}
	port, err := strconv.Atoi(lines[3])
	if err != nil {
		return pidFile{}, fmt.Errorf("read postmaster.pid: %w", err)
	}
	return pidFile{pid: pid, pgPlace: pgPlace{socket: lines[4], port: port}}, nil
}

// clearOrphan ends a server whose owner died without stopping it. On Linux the kernel has told it to end; elsewhere
// nothing has. The caller holds the lock, so no living process owns it.
func clearOrphan(ctx context.Context, data string) error {
	orphan, err := readPidFile(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && orphan.alive() {
		if err := interrupt(orphan.pid); err != nil && orphan.alive() {
			return fmt.Errorf("stop orphaned server: %w", err)
		}
		for orphan.alive() {
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return fmt.Errorf("stop orphaned server %d: %w", orphan.pid, err)
			}
		}
	}
	if err == nil && running(orphan.pid, "") {
		// The number belongs to another program by now, which PostgreSQL would take for a server.
		for _, path := range []string{pidPath(data), orphan.path() + ".lock"} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove stale lock: %w", err)
			}
		}
	}
	// PostgreSQL itself checks a file that a dead server left or tore.
	return nil
}

// isDuplicateDatabase says that another start has just created the database.
func isDuplicateDatabase(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42P04" || pg.Code == "23505")
}

// pause waits between two looks at another process.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
