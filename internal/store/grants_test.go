package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// TestFunctionsHaveASearchPathOfTheirOwn: else a function reads the caller's temporary table in place of ours.
func TestFunctionsHaveASearchPathOfTheirOwn(t *testing.T) {
	s := storetest.New(t)
	rows, err := s.Pool().Query(t.Context(), `SELECT proname::text, coalesce((SELECT substr(c, 13) FROM unnest(proconfig) c
			WHERE c LIKE 'search_path=%'), '') FROM pg_proc p
		WHERE pronamespace = current_schema()::regnamespace AND NOT EXISTS (
			SELECT 1 FROM pg_depend WHERE objid = p.oid AND classid = 'pg_proc'::regclass AND deptype = 'e')`)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	var function, path string
	if _, err := pgx.ForEachRow(rows, []any{&function, &path}, func() error {
		found++
		if named := strings.Split(path, ", "); named[0] != "pg_catalog" || named[len(named)-1] != "pg_temp" {
			t.Errorf("%s has the search_path %q: it begins with pg_catalog and ends with pg_temp", function, path)
		}
		return nil
	}); err != nil || found < 4 {
		t.Fatalf("%d functions, %v", found, err)
	}
}

// refusalOf is the code with which the database refuses a statement; empty when it does not. Nothing stays of it.
func refusalOf(t *testing.T, s *store.Store, statements ...string) string {
	t.Helper()
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // it ends with the connection
	for _, sql := range statements {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			refusal, ok := errors.AsType[*pgconn.PgError](err)
			if !ok {
				t.Fatal(err)
			}
			return refusal.Code
		}
	}
	return ""
}

const forbidden, restricted = "42501", "23001"

// TestTemporaryTableDeletesNoLine: neither for the service nor for the owner of the tables.
func TestTemporaryTableDeletesNoLine(t *testing.T) {
	storetest.NeedsTriggers(t)
	url := storetest.URL(t)
	for name, s := range map[string]*store.Store{
		"service": storetest.Open(t, storetest.ServiceURL(url)), "owner": storetest.Open(t, url),
	} {
		p, _ := paidOrder(t, s, name, order.Provisioning)
		owned := storetest.Open(t, url)
		exec(t, owned, `ALTER TABLE timeline DISABLE TRIGGER timeline_append_only`)
		exec(t, owned, `UPDATE timeline SET at = at - interval '9 days' WHERE order_id = $1`, p.Order.ID)
		exec(t, owned, `ALTER TABLE timeline ENABLE TRIGGER timeline_append_only`)
		code := refusalOf(t, s,
			`CREATE TEMPORARY TABLE orders AS SELECT id, owner, 'fulfilled'::text AS status, 1000 AS version FROM public.orders`,
			`SET LOCAL search_path = pg_temp, public`,
			`DELETE FROM public.timeline WHERE order_id = '`+string(p.Order.ID)+`'`)
		if code != restricted {
			t.Errorf("the %s deletes lines: %q", name, code)
		}
	}
}

// TestServiceKeepsItsRecords: as the role that owns nothing it can neither change what is written nor what protects it.
func TestServiceKeepsItsRecords(t *testing.T) {
	storetest.NeedsOneServer(t, "the tests are the owner")
	s := storetest.New(t)
	if owned, err := s.Owned(t.Context()); err != nil || len(owned) > 0 {
		t.Errorf("the role owns %v, %v", owned, err)
	}
	for _, sql := range []string{
		"UPDATE timeline SET reason = ''", "UPDATE audit SET reason = ''", "UPDATE ledger_entries SET amount = 1",
		"UPDATE ledger_postings SET kind = 'sold'", "UPDATE transfers SET value = 1",
		"UPDATE transfer_resolutions SET reason = ''", "DELETE FROM ledger_entries", "DELETE FROM ledger_postings",
		"DELETE FROM transfers", "DELETE FROM transfer_resolutions", "DELETE FROM operator_approvals",
		"DELETE FROM operator_tokens", "TRUNCATE timeline", "TRUNCATE orders",
		"UPDATE goose_db_version SET is_applied = false", "ALTER TABLE timeline DISABLE TRIGGER USER",
		"DROP TRIGGER timeline_append_only ON timeline",
		"ALTER TABLE orders DROP CONSTRAINT orders_status", "CREATE TABLE public.more (id int)",
		"ALTER FUNCTION forbid_change() RESET search_path", "DROP TABLE orders", "SET session_replication_role = replica",
		"CREATE TRIGGER mine BEFORE DELETE ON timeline FOR EACH ROW EXECUTE FUNCTION forbid_change()",
		"SET ROLE app",
	} {
		if code := refusalOf(t, s, sql); code != forbidden {
			t.Errorf("%s: %q", sql, code)
		}
	}
}

// TestRightsAreThoseThatTriggersLeave: what a trigger forbids to everybody, the role may not do anyway, and it may do
// all the rest but empty a table.
func TestRightsAreThoseThatTriggersLeave(t *testing.T) {
	storetest.NeedsOneServer(t, "distributed tables have no triggers")
	s := storetest.New(t)
	const remove, change = 8, 16 // of pg_trigger.tgtype
	forbids := map[string]int{}
	rows, err := s.Pool().Query(t.Context(), `SELECT relname::text, proname::text, tgtype::int FROM pg_trigger
		JOIN pg_class c ON c.oid = tgrelid JOIN pg_proc f ON f.oid = tgfoid
		WHERE NOT tgisinternal AND proname LIKE 'forbid_%'`)
	if err != nil {
		t.Fatal(err)
	}
	var table, function string
	var on int
	if _, err := pgx.ForEachRow(rows, []any{&table, &function, &on}, func() error {
		if function != "forbid_change" {
			on &^= remove // it lets some rows be deleted
		}
		forbids[table] |= on & (remove | change)
		return nil
	}); err != nil || len(forbids) < 8 {
		t.Fatal(forbids, err)
	}
	rows, err = s.Pool().Query(t.Context(), `SELECT relname::text, has_table_privilege(oid, 'SELECT'),
			has_table_privilege(oid, 'INSERT'), has_table_privilege(oid, 'UPDATE'), has_table_privilege(oid, 'DELETE'),
			has_table_privilege(oid, 'TRUNCATE') OR has_table_privilege(oid, 'REFERENCES')
				OR has_table_privilege(oid, 'TRIGGER')
		FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`)
	if err != nil {
		t.Fatal(err)
	}
	var read, insert, update, del, more bool
	if _, err := pgx.ForEachRow(rows, []any{&table, &read, &insert, &update, &del, &more}, func() error {
		writes, forbidden := table != "goose_db_version", forbids[table]
		want := []bool{true, writes, writes && forbidden&change == 0, writes && forbidden&remove == 0, false}
		if got := []bool{read, insert, update, del, more}; !slices.Equal(got, want) {
			t.Errorf("%s: read, insert, update, delete, more: %v, want %v", table, got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestRightsAreGrantedToARoleThatOwnsNothing(t *testing.T) {
	storetest.NeedsOneServer(t, "the tests are the owner")
	url := storetest.URL(t)
	owner := storetest.Open(t, url)
	exec(t, owner, "GRANT ALL ON audit, orders TO service")
	if err := store.Grant(t.Context(), url, "service"); err != nil {
		t.Fatal(err)
	}
	serves := storetest.Open(t, storetest.ServiceURL(url))
	if code := refusalOf(t, serves, "UPDATE audit SET reason = ''"); code != forbidden {
		t.Errorf("what was granted before stays: %q", code)
	}
	exec(t, owner, `CREATE ROLE "o'ne; ""two"""`)
	exec(t, owner, `CREATE ROLE member`)
	exec(t, owner, `GRANT app TO member`)
	defer exec(t, owner, `DROP OWNED BY "o'ne; ""two"""; DROP ROLE "o'ne; ""two"""; DROP ROLE member`)
	if err := store.Grant(t.Context(), url, `o'ne; "two"`); err != nil {
		t.Errorf("a role with an odd name: %v", err)
	}
	exec(t, owner, "GRANT CREATE ON SCHEMA public TO PUBLIC")
	if err := store.CheckRole(t.Context(), url, "service"); err == nil || !strings.Contains(err.Error(), "make tables") {
		t.Errorf("a role that makes tables: %v", err)
	}
	exec(t, owner, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	for role, why := range map[string]string{
		"nobody": "no role", "app": "superuser", "member": "member of it", "": "no role",
	} {
		if err := store.Grant(t.Context(), url, role); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", role, err)
		}
	}
}
