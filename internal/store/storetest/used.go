package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A copy of the template takes PostgreSQL several times as long as emptying the few tables that a test wrote to. So a
// database goes from a test that passed to a later one, which cannot tell: its rows are gone, its identities begin
// again, and its former address leads nowhere. One that somebody is still connected to waits. One that a test has
// changed by more than rows of the tables that the migrations leave empty is not used again.

// state is what two databases without a test's rows have in common.
type state struct {
	// catalog is of tables, columns, indexes, triggers, roles, settings and statistics.
	catalog string
	// seeds are the tables to which the migrations write, and seeded is what they wrote.
	seeds  []string
	seeded string
	// numbered are the sequences that the migrations took numbers from, as numberedSQL reads them.
	numbered map[string]int64
}

// catalogSQL reads who last wrote each row of the catalog. Emptying a table rewrites its row in pg_class, so of that it
// reads what it says.
const catalogSQL = `SELECT string_agg(part, ' ') FROM (
	SELECT concat('class ', count(*), ' ', sum(hashtextextended(concat_ws(' ', oid, relname, relnamespace, reltype,
			relowner, relam, relkind, relpersistence, relnatts, relchecks, relhasrules, relhastriggers, relrowsecurity,
			relforcerowsecurity, relreplident, relispartition, relacl, reloptions,
			CASE WHEN relkind = 'r' THEN reltuples END), 0))) AS part
		FROM pg_class WHERE oid >= 16384
	UNION ALL SELECT concat('attribute ', count(*), ' ', sum(xmin::text::bigint))
		FROM pg_attribute WHERE attrelid >= 16384
	UNION ALL SELECT concat('attrdef ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_attrdef
	UNION ALL SELECT concat('constraint ', count(*), ' ', sum(xmin::text::bigint))
		FROM pg_constraint WHERE oid >= 16384
	UNION ALL SELECT concat('index ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_index WHERE indexrelid >= 16384
	UNION ALL SELECT concat('sequence ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_sequence
	UNION ALL SELECT concat('trigger ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_trigger
	UNION ALL SELECT concat('proc ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_proc WHERE oid >= 16384
	UNION ALL SELECT concat('type ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_type WHERE oid >= 16384
	UNION ALL SELECT concat('rewrite ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_rewrite WHERE oid >= 16384
	UNION ALL SELECT concat('inherits ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_inherits
	UNION ALL SELECT concat('policy ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_policy
	UNION ALL SELECT concat('namespace ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_namespace
	UNION ALL SELECT concat('extension ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_extension
	UNION ALL SELECT concat('event_trigger ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_event_trigger
	UNION ALL SELECT concat('publication ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_publication
	UNION ALL SELECT concat('default_acl ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_default_acl
	UNION ALL SELECT concat('largeobject ', count(*)) FROM pg_largeobject_metadata
	UNION ALL SELECT concat('statistic ', count(*)) FROM pg_statistic WHERE starelid >= 16384
	UNION ALL SELECT concat('statistic_ext ', count(*)) FROM pg_statistic_ext
	UNION ALL SELECT concat('role ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_authid
	UNION ALL SELECT concat('setting ', count(*), ' ', sum(xmin::text::bigint)) FROM pg_db_role_setting
) parts`

// writtenSQL are the tables of which something is on the disk, in pages with what is too long for a row.
const writtenSQL = `SELECT format('%I.%I', nspname, relname),
		(pg_relation_size(c.oid) + CASE WHEN reltoastrelid <> 0 THEN pg_relation_size(reltoastrelid) ELSE 0 END) / 8192
	FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
	WHERE relkind = 'r' AND c.oid >= 16384 AND pg_relation_size(c.oid) > 0`

// numberedSQL are the sequences that gave a number: what lets each begin again, and the number.
const numberedSQL = `SELECT format('SELECT setval(%s, %s, false)', seqrelid::oid, seqstart), last
	FROM (SELECT seqrelid, seqstart, pg_sequence_last_value(seqrelid) AS last FROM pg_sequence) s WHERE last IS NOT NULL`

// few is how many pages of a table are emptied row by row, which takes a tenth of what new files do. The planner takes
// a table without statistics for one of ten pages at least.
const few = 4

func stateOfTemplate(ctx context.Context, url string) (state, error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return state{}, err
	}
	defer conn.Close(ctx)
	written, err := pairs(ctx, conn, writtenSQL)
	if err != nil {
		return state{}, err
	}
	numbered, err := pairs(ctx, conn, numberedSQL)
	if err != nil {
		return state{}, err
	}
	s := state{seeds: slices.Sorted(maps.Keys(written)), numbered: numbered}
	if s.seeded, err = contents(ctx, conn, s.seeds); err != nil {
		return state{}, err
	}
	err = conn.QueryRow(ctx, catalogSQL).Scan(&s.catalog)
	return s, err
}

// renew empties a database, and reports whether it is like the template then.
func (s state) renew(ctx context.Context, url string) (bool, error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return false, err
	}
	defer conn.Close(ctx)
	var catalog string
	if err := conn.QueryRow(ctx, catalogSQL).Scan(&catalog); err != nil || catalog != s.catalog {
		return false, err
	}
	if seeded, err := contents(ctx, conn, s.seeds); err != nil || seeded != s.seeded {
		return false, err
	}
	written, err := pairs(ctx, conn, writtenSQL)
	if err != nil {
		return false, err
	}
	numbered, err := pairs(ctx, conn, numberedSQL)
	if err != nil {
		return false, err
	}
	for restart, last := range s.numbered {
		if numbered[restart] != last {
			return false, nil
		}
		delete(numbered, restart)
	}
	// Tables that keep their rows from the service do so by triggers.
	statements := append([]string{"SET session_replication_role = replica"}, slices.Collect(maps.Keys(numbered))...)
	var large []string
	for table, pages := range written {
		switch {
		case slices.Contains(s.seeds, table):
		case pages > few:
			large = append(large, table)
		default:
			statements = append(statements, "DELETE FROM "+table)
		}
	}
	if len(large) > 0 {
		statements = append(statements, "TRUNCATE "+strings.Join(large, ", "))
	}
	_, err = conn.Exec(ctx, strings.Join(statements, ";"))
	return err == nil, err
}

// contents are the rows of some tables.
func contents(ctx context.Context, conn *pgx.Conn, tables []string) (string, error) {
	var all strings.Builder
	for _, table := range tables {
		var rows string
		sql := "SELECT coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM " + table + " t"
		if err := conn.QueryRow(ctx, sql).Scan(&rows); err != nil {
			return "", err
		}
		fmt.Fprintln(&all, table, rows)
	}
	return all.String(), nil
}

// pairs are the rows of a query for a name and a number.
func pairs(ctx context.Context, conn *pgx.Conn, sql string) (map[string]int64, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		all[name] = n
		return nil
	})
	return all, err
}

// take returns the name of a used database that is as new, and otherwise of a copy of the template.
func take() (string, error) {
	server.Lock()
	defer server.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		old, err := unconnected(ctx)
		if err != nil {
			return "", err
		}
		if old == "" {
			return copyOf(ctx, template)
		}
		server.used = slices.DeleteFunc(server.used, func(name string) bool { return name == old })
		name := newName()
		if err := execute(ctx, "ALTER DATABASE "+old+" RENAME TO "+name); err != nil {
			return "", err
		}
		asNew, err := server.asNew.renew(ctx, withDatabase(server.postgres.URL(), name))
		if asNew {
			return name, nil
		}
		if err = errors.Join(err, execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)")); err != nil {
			return "", err
		}
	}
}

// empty returns the name of a database that has nothing.
func empty(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	name, err := copyOf(ctx, "template0")
	if err != nil {
		t.Fatalf("make a database: %v", err)
	}
	return name
}

// unconnected is the last used database that nobody is connected to; empty when there is none.
func unconnected(ctx context.Context) (name string, err error) {
	if len(server.used) == 0 {
		return "", nil
	}
	admin, err := connected(ctx)
	if err != nil {
		return "", err
	}
	rows, err := admin.Query(ctx, `SELECT datname FROM pg_database d
		WHERE NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid)`)
	if err != nil {
		return "", err
	}
	free, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, used := range server.used {
		if slices.Contains(free, used) {
			name = used
		}
	}
	return name, err
}

// giveBack leaves a test's database to later ones.
func giveBack(t testing.TB, name string) {
	t.Helper()
	if t.Failed() { // nobody knows what it left
		drop(t, name)
		return
	}
	server.Lock()
	defer server.Unlock()
	server.used = append(server.used, name)
}

// drop removes a database, and ends its connections.
func drop(t testing.TB, name string) {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
		t.Fatalf("drop a database: %v", err)
	}
}

// copyOf makes a copy of a database, file by file: writing what is in them to the log takes three times as long.
func copyOf(ctx context.Context, source string) (string, error) {
	name := newName()
	return name, execute(ctx, "CREATE DATABASE "+name+" TEMPLATE "+source+" STRATEGY file_copy")
}

func newName() string { return "test_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// execute runs a statement outside of the tests' databases.
func execute(ctx context.Context, sql string) error {
	admin, err := connected(ctx)
	if err != nil {
		return err
	}
	if _, err = admin.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// connected is the server's one connection that stays.
func connected(ctx context.Context) (_ *pgx.Conn, err error) {
	if server.admin == nil || server.admin.IsClosed() {
		server.admin, err = connect(ctx, server.postgres.URL())
	}
	return server.admin, err
}

// connect opens a connection that asks nothing about a statement before sending it.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}
