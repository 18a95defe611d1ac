package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// TestDatabaseWithoutSpaceIsDown from the first change that it has no space for, until it has some.
func TestDatabaseWithoutSpaceIsDown(t *testing.T) {
	storetest.NeedsTriggers(t)
	address := storetest.URL(t)
	s := storetest.Open(t, storetest.ServiceURL(address))
	owner, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// As when neither a table can grow nor another one be made.
	exec(`CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
		CREATE FUNCTION no_tables() RETURNS event_trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not create file' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER no_space BEFORE INSERT ON locks FOR EACH ROW EXECUTE FUNCTION no_space();
		CREATE EVENT TRIGGER no_tables ON ddl_command_start EXECUTE FUNCTION no_tables()`)
	defer exec("DROP EVENT TRIGGER IF EXISTS no_tables")
	if err := s.Ping(t.Context()); err != nil {
		t.Fatalf("before any change: %v", err)
	}
	change := func() error {
		_, err := s.Pool().Exec(t.Context(), "INSERT INTO locks (id) VALUES ('space')")
		return err
	}
	if err := change(); err == nil {
		t.Fatal("a change without space was made")
	}
	for range 2 {
		if err := s.Ping(t.Context()); fault.Of(err) != fault.DependencyDown || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("after a change that it had no space for: %v", err)
		}
	}
	exec("DROP EVENT TRIGGER no_tables; DROP TRIGGER no_space ON locks")
	for range 2 {
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("with space again: %v", err)
		}
	}
	if err := change(); err != nil {
		t.Errorf("a change with space: %v", err)
	}
}
