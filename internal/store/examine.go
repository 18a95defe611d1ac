package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// OldestServer is the oldest major version of PostgreSQL that the service runs on.
const OldestServer = 15

// Server is what the pool is connected to.
type Server struct {
	// Version is a number like 180004, and VersionText how the server writes it.
	Version     int
	VersionText string
	// Pooled says that another program answers in front of the server.
	Pooled bool
	// MaxConnections are those that the server takes from users that are no superusers, all programs together.
	MaxConnections int
	// Standby says that the server only reads, and Synchronous that commits wait for a standby.
	Standby, Synchronous bool
}

// Usable is an error for a server that is too old or only reads.
func (s Server) Usable() error {
	switch {
	case s.Version/10_000 < OldestServer:
		return fmt.Errorf("PostgreSQL %s is too old, %d is the oldest that serves", s.VersionText, OldestServer)
	case s.Standby:
		return errors.New("this server is a standby, which takes no writes")
	}
	return nil
}

// examineSQL is sent as plain text: it has to work in every query mode, also in one that does not fit the server.
const examineSQL = `SELECT pg_backend_pid(), current_setting('server_version_num'), current_setting('server_version'),
	current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- coalesce(current_setting('reserved_connections', true), '0')::int,
	pg_is_in_recovery()::int,
	(current_setting('synchronous_standby_names') <> ''
		AND current_setting('synchronous_commit') NOT IN ('off', 'local'))::int`

// Examine asks the server what it is.
func (s *Store) Examine(ctx context.Context) (Server, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Server{}, fmt.Errorf("ask the server: %w", mapError(err))
	}
	defer conn.Release()
	pg := conn.Conn().PgConn()
	results, err := pg.Exec(ctx, examineSQL).ReadAll()
	if err != nil {
		return Server{}, fmt.Errorf("ask the server: %w", mapError(err))
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return Server{}, errors.New("ask the server: it does not answer with one row")
	}
	row := results[0].Rows[0]
	number := func(at int) int {
		n, err := strconv.Atoi(string(row[at]))
		if err != nil {
			n = -1
		}
		return n
	}
	return Server{
		// A pooler gives its clients keys of its own for cancelling, with which they do not reach the server's process.
		Pooled: number(0) != int(pg.PID()), Version: number(1), VersionText: string(row[2]),
		MaxConnections: number(3), Standby: number(4) == 1, Synchronous: number(5) == 1,
	}, nil
}

// CheckQueryMode is an error when the query mode does not fit what the pool is connected to. It runs a statement on two
// connections in turn: a pooler that shares sessions gives both the same one, unless another client has it just then.
// So several statements are run.
func (s *Store) CheckQueryMode(ctx context.Context) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	for range 10 {
		sql := "SELECT $1::int8 /* " + uuid.NewString() + " */" // prepared in no session yet
		for range 2 {
			if err := s.onTwo(ctx, sql); err != nil {
				return fmt.Errorf("query mode %s: %w", s.QueryMode(), err)
			}
		}
	}
	return nil
}

func (s *Store) onTwo(ctx context.Context, sql string) error {
	first, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer first.Release()
	second, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer second.Release()
	var echo int64
	for _, conn := range []pgxRunner{first, second} {
		if err := conn.QueryRow(ctx, sql, int64(7)).Scan(&echo); err != nil {
			return err
		}
		if echo != 7 {
			return fmt.Errorf("the server answers 7 with %d", echo)
		}
	}
	return nil
}

// hearWithin is more than a notification takes that comes at all.
const hearWithin = 5 * time.Second

// CheckWakeUps sends a wake-up over the pool, as another process would, and is an error when the listener does not get
// it.
func (s *Store) CheckWakeUps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	select {
	case <-s.bus.listening:
	case <-ctx.Done():
		s.bus.mu.Lock()
		defer s.bus.mu.Unlock()
		return fmt.Errorf("not listening: %w", errors.Join(s.bus.failure, ctx.Err()))
	}
	about := subject{topic: "check", key: uuid.NewString()}
	heard, done := s.bus.subscribe([]subject{about})
	defer done()
	_, err := s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, "\n"+about.topic+"\n"+about.key)
	if err != nil {
		return fmt.Errorf("send a wake-up: %w", mapError(err))
	}
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return errors.New("a wake-up that was sent over the pool does not reach the listener")
	}
}
