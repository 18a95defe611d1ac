package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// migrateFor migrates as the owner, for who serves.
func migrateFor(t *testing.T, owner, serves string) error {
	t.Helper()
	// JSON is YAML, and needs no care with what a URL has in it.
	text, err := json.Marshal(map[string]string{"database.url": serves, "database.owner_url": owner})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = app.Migrate(t.Context(), file, io.Discard)
	return err
}

// TestSecondRoleTakesOver is how a password of the database is changed without a gap: two roles serve at once, and then
// the first one does no longer.
func TestSecondRoleTakesOver(t *testing.T) {
	apptest.HideVariables(t)
	storetest.URL(t) // makes the role
	owner := storetest.EmptyURL(t)
	admin, err := pgx.Connect(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(context.WithoutCancel(t.Context())) })
	do := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	first := storetest.ServiceURL(owner)
	next := strings.Replace(first, "service@", "service_next@", 1)
	do("CREATE ROLE service_next LOGIN")
	t.Cleanup(func() {
		for _, statement := range []string{"DROP OWNED BY service_next", "DROP ROLE service_next"} {
			if _, err := admin.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	writes := func(s *store.Store) error {
		return s.OperatorTokens().Refused(t.Context(), auth.Caller{Name: "ann"}, "method", auth.RoleAdmin)
	}
	if err := migrateFor(t, owner, first); err != nil {
		t.Fatal(err)
	}
	before := storetest.Open(t, first)
	if err := migrateFor(t, owner, next); err != nil {
		t.Fatal(err)
	}
	after := storetest.Open(t, next)
	if err := errors.Join(writes(before), writes(after), after.CheckSchema(t.Context())); err != nil {
		t.Errorf("two roles at once: %v", err)
	}
	do("DROP OWNED BY service")
	if err := writes(after); err != nil {
		t.Errorf("the second role, alone: %v", err)
	}
	if writes(before) == nil {
		t.Error("the first role still writes")
	}
}

// TestMigrationLetsAnotherRoleServe: the owner migrates, and grants the user of database.url what serving takes. A role
// that cannot be granted anything is told of before anything is changed.
func TestMigrationLetsAnotherRoleServe(t *testing.T) {
	apptest.HideVariables(t)
	storetest.URL(t) // makes the role
	owner := storetest.EmptyURL(t)
	serves := storetest.ServiceURL(owner)
	migrate := func(url string) error { return migrateFor(t, owner, url) }
	examine := func(url, environment string) finding {
		t.Helper()
		s, err := store.Open(t.Context(), store.Config{URL: url, MaxConns: 1, Now: time.Now, Products: storetest.Products()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return examineRole(t.Context(), s, environment == app.Production)
	}
	nobody := strings.Replace(serves, "service@", "nobody@", 1)
	if err := migrate(nobody); err == nil || !strings.Contains(err.Error(), "CREATE ROLE") {
		t.Errorf("a role that there is not: %v", err)
	}
	if err := storetest.Open(t, owner).CheckSchema(t.Context()); err == nil {
		t.Error("it has migrated for a role that there is not")
	}
	for range 2 { // it may be called again
		if err := migrate(serves); err != nil {
			t.Fatal(err)
		}
	}
	s := storetest.Open(t, serves)
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Errorf("the role does not see what was migrated: %v", err)
	}
	if err := s.OperatorTokens().Refused(t.Context(), auth.Caller{Name: "ann"}, "method", auth.RoleAdmin); err != nil {
		t.Errorf("the role cannot write: %v", err)
	}
	for name, tt := range map[string]struct{ url, environment, want string }{
		"who serves":            {serves, app.Production, statusOK},
		"the owner":             {owner, app.Production, statusFail},
		"the owner, in a trial": {owner, app.Sandbox, statusSkip},
	} {
		if got := examine(tt.url, tt.environment); got.Status != tt.want {
			t.Errorf("%s: %+v, want %s", name, got, tt.want)
		}
	}
}
