package simulation_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// clockSQL gives the database the clock of the simulation. Unqualified functions are found along the search path, on
// which the system's come last; what a session has set is the time that it was told.
const clockSQL = `
CREATE SCHEMA simulation;
GRANT USAGE ON SCHEMA simulation TO PUBLIC;
CREATE FUNCTION simulation.now() RETURNS timestamptz STABLE LANGUAGE sql AS
	$$SELECT coalesce(nullif(current_setting('simulation.now', true), '')::timestamptz, pg_catalog.now())$$;
CREATE FUNCTION simulation.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$SELECT simulation.now()$$;
CREATE FUNCTION simulation.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$SELECT simulation.now()$$;
`

// server is a PostgreSQL with a migrated database that runs are copied from.
type server struct {
	admin    string
	template string
	next     atomic.Int64
}

func newServer(t testing.TB) *server {
	t.Helper()
	if admin, template, ok := strings.Cut(*servers, " "); ok {
		return &server{admin: admin, template: template}
	}
	s := &server{admin: storetest.URL(t), template: storetest.EmptyURL(t)}
	if err := run(t.Context(), s.template, clockSQL, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Migrate(t.Context(), withClock(s.template), nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Grant(t.Context(), s.template, "service"); err != nil {
		t.Fatal(err)
	}
	return s
}

// database makes a database for one run, and returns its address. drop removes it.
func (s *server) database(ctx context.Context) (address string, drop func(), err error) {
	from, err := url.Parse(s.template)
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("run_%d_%d", os.Getpid(), s.next.Add(1))
	if err := run(ctx, s.admin, "CREATE DATABASE "+name+" TEMPLATE "+from.Path[1:], nil); err != nil {
		return "", nil, err
	}
	from.Path = "/" + name
	drop = func() {
		for _, one := range []string{name, older(name)} {
			_ = run(context.WithoutCancel(ctx), s.admin, "DROP DATABASE IF EXISTS "+one+" WITH (FORCE)", nil)
		}
	}
	return from.String(), drop, nil
}

// withClock is an address whose sessions see the clock of the simulation.
func withClock(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // devnet wrote it
	}
	query := u.Query()
	query.Set("search_path", "public,simulation,pg_catalog")
	// A tenth of the time: a process that dies leaves all its plans.
	query.Set("plan_cache_mode", "force_generic_plan")
	u.RawQuery = query.Encode()
	return u.String()
}

func run(ctx context.Context, address, sql string, dial pgconn.DialFunc) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := connect(ctx, address, dial)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
