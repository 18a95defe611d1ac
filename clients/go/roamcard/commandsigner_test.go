package roamcard_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// TestSignersProgramGetsWhatTheTypesSay, which libraries check: no member that EIP712Domain does not have. What it says
// last is why it failed.
func TestSignersProgramGetsWhatTheTypesSay(t *testing.T) {
	t.Parallel()
	got := filepath.Join(t.TempDir(), "asked.json")
	s := roamcard.CommandSigner{Account: "0x" + strings.Repeat("1", 40), Command: []string{
		"sh", "-c", "cat > " + got + "; printf 'Traceback:\\n  in f\\nValueError: no\\n' >&2; exit 1"}}
	_, err := s.SignTypedData(t.Context(), roamcard.TypedData{})
	if err == nil || !strings.HasSuffix(err.Error(), ": ValueError: no") || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that fails: %v", err)
	}
	asked, err := os.ReadFile(got)
	if err != nil || strings.Contains(string(asked), `"salt"`) {
		t.Errorf("it was asked %s, %v", asked, err)
	}
}
