package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

func TestMisspeltVariablesAreMistakes(t *testing.T) {
	wrong := Modules{}.unknownVariables([]string{
		"PATH=/bin", "ROAMCARD_SCREENING_LISTS=a", "ROAMCARD_SUPLIER__KEY=b", "ROAMCARD_QUOTE__KEYS_FILE=c",
		"ROAMCARD_SUPPLIER__KEY=d", "ROAMCARD_QUOTE__KEY_FILE=e", "ROAMCARD_URL=f", "ROAMCARD_OPERATOR_TOKEN_FILE=g",
		"ROAMCARD_SERVICE_HOST=10.0.0.1", "ROAMCARD_SERVICE_PORT_HTTP=80", "ROAMCARD_PORT=tcp://10.0.0.1:80",
		"ROAMCARD_PORT_80_TCP_ADDR=10.0.0.1", "ROAMCARD_METRICS_PORT_9090_TCP=tcp://10.0.0.1:9090",
		"ROAMCARD_RELAYER_TWO=h",
	}, []string{"ROAMCARD_RELAYER_TWO"})
	want := [][2]string{
		{"ROAMCARD_QUOTE__KEYS_FILE", "ROAMCARD_QUOTE__KEY"}, {"ROAMCARD_SCREENING_LISTS", "ROAMCARD_SCREENING__LISTS"},
		{"ROAMCARD_SUPLIER__KEY", "ROAMCARD_SUPPLIER__KEY"},
	}
	if len(wrong) != len(want) {
		t.Fatalf("%v, want %v", wrong, want)
	}
	for i, w := range want {
		if text := wrong[i].Error(); !strings.HasPrefix(text, w[0]+" ") || !strings.HasSuffix(text, " "+w[1]) {
			t.Errorf("%s, want %v", text, w)
		}
	}
}

// TestVariablesOfToolsStartNoProgramWithAMistake: what tools and tests read from the environment is a setting, a
// variable that the program knows to be none, or one that apptest leaves out of a program's environment.
func TestVariablesOfToolsStartNoProgramWithAMistake(t *testing.T) {
	name := regexp.MustCompile(`ROAMCARD_[A-Z0-9_]*[A-Z0-9]`)
	read := map[string]string{}
	for _, dir := range []string{"../../tools", "../testing"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			if entry.IsDir() || !slices.Contains([]string{".go", ".mjs", ".py", ".sh"}, filepath.Ext(path)) {
				return nil
			}
			text, err := os.ReadFile(path)
			for _, found := range name.FindAllString(string(text), -1) {
				read[found] = path
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read["ROAMCARD_PREVIOUS"] == "" || read["ROAMCARD_SCENARIOS"] == "" {
		t.Fatalf("the files were not searched: %d variables", len(read))
	}
	for variable, path := range read {
		if apptest.OfTests(variable) {
			continue
		}
		if wrong := (Modules{}).unknownVariables([]string{variable + "=x"}, nil); len(wrong) > 0 {
			t.Errorf("%s: %v", path, wrong)
		}
	}
}
