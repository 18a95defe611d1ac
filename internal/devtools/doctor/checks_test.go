package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestSecretFilesOfAGroupAreNoFault: the chart mounts secrets that only the group of the container may read, which is
// how the service takes the files of its keys, too.
func TestSecretFilesOfAGroupAreNoFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	for mode, want := range map[fs.FileMode]string{
		0o400: statusOK, 0o600: statusOK, 0o440: statusOK, 0o640: statusOK,
		0o444: statusFail, 0o404: statusFail, 0o660: statusFail, 0o601: statusFail,
	} {
		path := filepath.Join(t.TempDir(), "database_url")
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		t.Setenv("ROAMCARD_DATABASE__URL_FILE", path)
		found := examineSecretFiles()
		if found.Status != want {
			t.Errorf("mode %#o: %+v, want %s", mode, found, want)
		}
		if want == statusFail && (!strings.Contains(found.Detail, path) || !strings.Contains(found.Fix, "defaultMode 0440")) {
			t.Errorf("mode %#o: %+v", mode, found)
		}
	}
}
