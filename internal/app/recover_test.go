package app_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/internal/app"
)

// TestRecoveryThatReadsNothingPrintsNoPlan reaches for a database that is not there: "0 found" would end a recovery.
func TestRecoveryThatReadsNothingPrintsNoPlan(t *testing.T) {
	text, err := yaml.Marshal(settlementSettings(map[string]string{
		"database.url": "postgres://u:pass@127.0.0.1:1/d", "relayer.keys": "0x" + string(bytes.Repeat([]byte("1f"), 32)),
	}))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, as := range []bool{false, true} {
		var out bytes.Buffer
		err := app.Recover(t.Context(), app.RecoverConfig{File: file, JSON: as, Out: &out, Err: io.Discard})
		if err == nil || out.Len() > 0 {
			t.Errorf("JSON %t: %v, and printed %q", as, err, out.String())
		}
	}
}
