package doctor

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// TestMigrationLetsAnotherRoleServe: the owner migrates, and grants the user of database.url what serving takes. A role
// that cannot be granted anything is told of before anything is changed.
func TestMigrationLetsAnotherRoleServe(t *testing.T) {
	apptest.HideVariables(t)
	storetest.URL(t) // makes the role
	owner := storetest.EmptyURL(t)
	serves := storetest.ServiceURL(owner)
	migrate := func(url string) error {
		t.Helper()
		// JSON is YAML, and needs no care with what a URL has in it.
		text, err := json.Marshal(map[string]string{"database.url": url, "database.owner_url": owner})
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
