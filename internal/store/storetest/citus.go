package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/store"
)

// CitusVariable names the variable with the addresses of a coordinator of Citus and of its workers, divided by spaces.
// With it, tests get databases that are distributed by owner.
const CitusVariable = "ROAMCARD_TEST_CITUS"

// cluster is a running Citus. Each database is on all its nodes, the coordinator first.
type cluster struct {
	nodes    []string
	template string
	// next are databases that were made ahead, because that takes longer than most tests.
	next  chan made
	stop  chan struct{}
	tasks sync.WaitGroup
}

// made is a database, or why it could not be made.
type made struct {
	name string
	err  error
}

// ahead is how many databases are made ahead.
const ahead = 3

// Distributed reports whether databases are distributed.
func Distributed() bool { return os.Getenv(CitusVariable) != "" }

// NeedsTriggers skips a test of what only triggers refuse: distributed tables have none.
func NeedsTriggers(t testing.TB) {
	t.Helper()
	if Distributed() {
		t.Skip("distributed tables have no triggers")
	}
}

// NeedsBatches skips a test of transactions that several callers share: in a distributed database each has its own.
func NeedsBatches(t testing.TB) {
	t.Helper()
	NeedsOneServer(t, "each caller has a transaction of its own")
}

// NeedsOneServer skips a test of something that one server has, for a reason.
func NeedsOneServer(t testing.TB, why string) {
	t.Helper()
	if Distributed() {
		t.Skip("in a distributed database: " + why)
	}
}

// citus is nil unless tests run on Citus.
func citus(t testing.TB) *cluster {
	t.Helper()
	if !Distributed() {
		return nil
	}
	server.Lock()
	defer server.Unlock()
	if server.citus == nil && server.err == nil {
		server.citus, server.err = newCluster(strings.Fields(os.Getenv(CitusVariable)))
	}
	if server.err != nil {
		t.Fatalf("prepare Citus: %v", server.err)
	}
	return server.citus
}

// newCluster makes a distributed database, which the others are copied from on each node.
func newCluster(nodes []string) (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := &cluster{
		nodes: nodes, template: "distributed_" + strings.ReplaceAll(uuid.NewString(), "-", ""),
		next: make(chan made, ahead), stop: make(chan struct{}),
	}
	for _, node := range nodes {
		if err := c.begin(ctx, node); err != nil {
			return nil, err
		}
	}
	coordinator := withDatabase(nodes[0], c.template)
	if err := c.join(ctx, coordinator); err != nil {
		return nil, err
	}
	if _, err := store.Migrate(ctx, coordinator, nil); err != nil {
		return nil, err
	}
	if err := store.Distribute(ctx, coordinator); err != nil {
		return nil, err
	}
	for _, node := range nodes {
		// Citus' own connections to a database would keep it from being copied.
		if err := run(ctx, node, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS false", c.template)); err != nil {
			return nil, err
		}
	}
	if err := c.quiet(ctx); err != nil {
		return nil, err
	}
	c.tasks.Go(c.makeAhead)
	return c, nil
}

func (c *cluster) begin(ctx context.Context, node string) error {
	if err := run(ctx, node, "CREATE DATABASE "+c.template); err != nil {
		return fmt.Errorf("make a database at a node: %w", err)
	}
	return run(ctx, withDatabase(node, c.template), "CREATE EXTENSION citus")
}

// join makes the nodes known to the coordinator.
func (c *cluster) join(ctx context.Context, coordinator string) error {
	for i, node := range c.nodes {
		config, err := pgx.ParseConfig(node)
		if err != nil {
			return fmt.Errorf("read the address of a node: %w", err)
		}
		add := "SELECT citus_add_node('%s', %s)"
		if i == 0 {
			add = "SELECT citus_set_coordinator_host('%s', %s)"
		}
		if err := run(ctx, coordinator, fmt.Sprintf(add, "127.0.0.1", strconv.Itoa(int(config.Port)))); err != nil {
			return fmt.Errorf("join a node: %w", err)
		}
	}
	return nil
}

const endConnectionsSQL = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1`

// quiet waits until nothing is connected to the template.
func (c *cluster) quiet(ctx context.Context) error {
	for _, node := range c.nodes {
		for left := 1; left > 0; {
			conn, err := pgx.Connect(ctx, node)
			if err != nil {
				return err
			}
			err = conn.QueryRow(ctx, endConnectionsSQL, c.template).Scan(&left)
			conn.Close(ctx)
			if err != nil {
				return fmt.Errorf("end connections: %w", err)
			}
		}
	}
	return nil
}

// fresh makes a distributed database and returns its address at the coordinator.
func (c *cluster) fresh(t testing.TB) string {
	t.Helper()
	database := <-c.next
	if database.err != nil {
		t.Fatalf("make a distributed database: %v", database.err)
	}
	t.Cleanup(func() { c.tasks.Go(func() { c.drop(database.name) }) })
	return withDatabase(c.nodes[0], database.name)
}

// makeAhead makes databases until it is stopped.
func (c *cluster) makeAhead() {
	for {
		name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
		err := c.everywhere(func(ctx context.Context, node string) error {
			return run(ctx, node, "CREATE DATABASE "+name+" TEMPLATE "+c.template+" STRATEGY file_copy")
		})
		select {
		case c.next <- made{name, err}:
		case <-c.stop:
			c.drop(name)
			return
		}
	}
}

// everywhere does something at all nodes at once.
func (c *cluster) everywhere(do func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := make([]error, len(c.nodes))
	var all sync.WaitGroup
	for i, node := range c.nodes {
		all.Go(func() { errs[i] = do(ctx, node) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// drop may fail: the cluster is a throwaway.
func (c *cluster) drop(name string) {
	_ = c.everywhere(func(ctx context.Context, node string) error {
		return run(ctx, node, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
}

func (c *cluster) close() {
	close(c.stop)
	c.tasks.Wait()
	for len(c.next) > 0 {
		c.drop((<-c.next).name)
	}
	c.drop(c.template)
}

// TwoPhases counts the transactions of a database that the workers have prepared: those of which Citus committed parts
// at several nodes.
func TwoPhases(t testing.TB, database string) (n int) {
	t.Helper()
	for _, worker := range Workers() {
		n += count(t, worker, `SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements
			WHERE query ILIKE 'prepare transaction%' AND dbid = (SELECT oid FROM pg_database WHERE datname = $1)`, database)
	}
	return n
}

// Workers are the addresses of the workers.
func Workers() []string { return strings.Fields(os.Getenv(CitusVariable))[1:] }

// Touched are the workers to which some processes of the coordinator have connections: those to which they have sent
// statements. Each is named with the last statement that it got.
func Touched(t testing.TB, backends []int, database string) map[string][]string {
	t.Helper()
	touched := map[string][]string{}
	for _, worker := range Workers() {
		conn, err := pgx.Connect(t.Context(), worker)
		if err != nil {
			t.Fatal(err)
		}
		// Citus names a session by its node and the process there.
		rows, err := conn.Query(t.Context(), `SELECT query FROM pg_stat_activity
			WHERE datname = $1 AND application_name LIKE 'citus_internal gpid=%'
				AND (substr(application_name, 21)::bigint % 10000000000) = ANY($2)`, database, backends)
		if err != nil {
			t.Fatal(err)
		}
		last, err := pgx.CollectRows(rows, pgx.RowTo[string])
		conn.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(last) > 0 {
			touched[worker] = last
		}
	}
	return touched
}

func count(t testing.TB, url, sql string, args ...any) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
