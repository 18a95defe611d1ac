package store_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// openAs opens a store whose listener has a URL of its own: that of another user of the same database.
func openAs(t *testing.T, address, listener string) *store.Store {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(listener)
	s, err := store.Open(t.Context(), store.Config{
		URL: address, ListenURL: u.String(), MaxConns: 4, Products: storetest.Products(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestListenerUsesItsOwnURL(t *testing.T) {
	address := storetest.URL(t)
	admin := storetest.Open(t, address)
	if _, err := admin.Pool().Exec(t.Context(), "CREATE ROLE ear LOGIN"); err != nil {
		t.Fatal(err)
	}
	s := openAs(t, address, "ear")
	if err := s.CheckWakeUps(t.Context()); err != nil {
		t.Errorf("wake-ups: %v", err)
	}
	var users []string
	if err := admin.Pool().QueryRow(t.Context(), `SELECT array_agg(DISTINCT usename::text) FROM pg_stat_activity
		WHERE application_name = 'roamcard listen' AND usename = 'ear' AND datname = current_database()`,
	).Scan(&users); err != nil {
		t.Fatal(err)
	}
	if len(users) != 1 {
		t.Errorf("nobody listens by the listener's URL, %v", users)
	}
	s.Close()
	if _, err := admin.Pool().Exec(t.Context(), "DROP ROLE ear"); err != nil {
		t.Error(err)
	}
}

func TestListenerAtAnotherDatabaseIsNoticed(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{
		URL: storetest.URL(t), ListenURL: storetest.EmptyURL(t), MaxConns: 4, Products: storetest.Products(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.CheckWakeUps(t.Context()); err == nil {
		t.Error("a wake-up in one database was heard in another")
	}
}

func TestServerIsExamined(t *testing.T) {
	s := storetest.New(t)
	got, err := s.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Pooled || got.Standby || got.Synchronous || got.MaxConnections < 100 || got.Usable() != nil {
		t.Errorf("%+v, %v", got, got.Usable())
	}
	t.Logf("PostgreSQL %s", got.VersionText)
	if err := s.CheckQueryMode(t.Context()); err != nil {
		t.Error(err)
	}
	for version, usable := range map[int]bool{140022: false, 90624: false, 150000: true, 180004: true} {
		if err := (store.Server{Version: version}).Usable(); (err == nil) != usable {
			t.Errorf("version %d: %v", version, err)
		}
	}
	if (store.Server{Version: 180004, Standby: true}).Usable() == nil {
		t.Error("a standby takes writes")
	}
}

func TestQueryModes(t *testing.T) {
	address := storetest.URL(t)
	for _, mode := range append(store.QueryModes(), "") {
		s, err := store.Open(t.Context(), store.Config{
			URL: address, QueryMode: mode, MaxConns: 4, Products: storetest.Products(),
		})
		if err != nil {
			t.Fatalf("%q: %v", mode, err)
		}
		if want := map[bool]string{true: "cache_statement", false: mode}[mode == ""]; s.QueryMode() != want {
			t.Errorf("%q opens with %q", mode, s.QueryMode())
		}
		if err := s.CheckQueryMode(t.Context()); err != nil {
			t.Errorf("%q: %v", mode, err)
		}
		s.Close()
	}
	if _, err := store.Open(t.Context(), store.Config{URL: address, QueryMode: "exec"}); err == nil {
		t.Error("opened in a mode that does not work")
	}
	for query, want := range map[string]string{
		"": "", "?default_query_exec_mode=cache_describe": "cache_describe", "?default_query_exec_mode=exec": "exec",
	} {
		if got := store.QueryModeOf("postgres://u@h/d" + query); got != want {
			t.Errorf("%q names %q", query, got)
		}
	}
}

// TestConnectionThatIsRefusedIsDown: who has a wrong password, or names no database, has asked for nothing.
func TestConnectionThatIsRefusedIsDown(t *testing.T) {
	u, err := url.Parse(storetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nowhere"
	s, err := store.Open(t.Context(), store.Config{URL: u.String(), MaxConns: 4, Products: storetest.Products()})
	if err == nil {
		s.Close()
	}
	if fault.Of(err) != fault.DependencyDown || !errors.Is(err, store.ErrUnavailable) ||
		!strings.Contains(err.Error(), "nowhere") {
		t.Errorf("opened nowhere: %v", err)
	}
}

// TestDatabaseThatTakesNoChangesIsDown: a standby, and one that an operator has made read-only, answer what is read.
func TestDatabaseThatTakesNoChangesIsDown(t *testing.T) {
	address := storetest.URL(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("default_transaction_read_only", "on")
	u.RawQuery = query.Encode()
	s, err := store.Open(t.Context(), store.Config{URL: u.String(), MaxConns: 4, Products: storetest.Products()})
	if err == nil {
		s.Close()
	}
	if f, ok := fault.As(err); !ok || f.Code != fault.DependencyDown || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("opened read-only: %v", err)
	}
	if err := storetest.Open(t, address).Ping(t.Context()); err != nil {
		t.Errorf("the same database, when it takes changes: %v", err)
	}
}
