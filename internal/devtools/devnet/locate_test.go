package devnet

import (
	"strings"
	"testing"
)

func TestMissingAnvilSaysWhatToRun(t *testing.T) {
	t.Setenv("ROAMCARD_ANVIL", "")
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir()) // the test binary lies outside the repository as well
	path, err := FindAnvil()
	if err == nil {
		t.Fatalf("found %s", path)
	}
	if !strings.Contains(err.Error(), "make setup") {
		t.Errorf("the error gives no advice: %v", err)
	}
}

func TestAnvilSettingIsNotIgnored(t *testing.T) {
	t.Setenv("ROAMCARD_ANVIL", "/nowhere/anvil")
	if path, err := FindAnvil(); err == nil || !strings.Contains(err.Error(), "ROAMCARD_ANVIL") {
		t.Errorf("got %q, %v, want an error that names the setting", path, err)
	}
}

func TestPostgresSettingIsNotIgnored(t *testing.T) {
	t.Setenv("ROAMCARD_PG_BIN", "/nowhere/bin")
	pg, err := StartPostgres(t.Context(), PostgresConfig{Throwaway: true})
	if err == nil {
		pg.Close()
		t.Fatal("it started another PostgreSQL")
	}
	if !strings.Contains(err.Error(), "make setup") {
		t.Errorf("the error gives no advice: %v", err)
	}
}
