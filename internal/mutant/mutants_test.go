package mutant

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNothingIsPlantedInAnOrdinaryBuild(t *testing.T) {
	text, err := os.ReadFile("none.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "//go:build !mutant\n") || !strings.Contains(string(text), "const planted = \"\"\n") {
		t.Errorf("none.go:\n%s", text)
	}
}

// TestEveryBugCanBePlantedAtOnePlace: a constant without its file or its use would be a bug that no test
// has to notice.
func TestEveryBugCanBePlantedAtOnePlace(t *testing.T) {
	bugs := constants(t)
	if len(bugs) < 14 {
		t.Errorf("%d bugs", len(bugs))
	}
	used := uses(t, "..")
	for constant, name := range bugs {
		if want := strings.ReplaceAll(name, "_", ""); strings.ToLower(constant) != want {
			t.Errorf("%s is planted as %s", constant, name)
		}
		text, err := os.ReadFile(name + ".go")
		if want := fmt.Sprintf("//go:build mutant_%s\n\npackage mutant\n\nconst planted = %q\n", name, name); err != nil || string(text) != want {
			t.Errorf("%s.go: %v, %q, want %q", name, err, text, want)
		}
		if used[constant] != 1 {
			t.Errorf("%s is used at %d places", constant, used[constant])
		}
		delete(used, constant)
	}
	for constant := range used {
		t.Errorf("%s is used and not listed", constant)
	}
	if files, err := filepath.Glob("*.go"); err != nil || len(files) != len(bugs)+3 {
		t.Errorf("%d files for %d bugs, %v", len(files), len(bugs), err)
	}
}

// constants maps each constant of mutants.go to the name it is planted by.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "mutants.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		test, ok := spec.Values[0].(*ast.BinaryExpr)
		if !ok || test.Op != token.EQL || spec.Doc.Text() == "" {
			t.Errorf("%s wants a comment and a comparison", spec.Names[0])
			return true
		}
		found[spec.Names[0].Name] = strings.Trim(test.Y.(*ast.BasicLit).Value, `"`)
		return true
	})
	return found
}

// uses counts the mentions of this package's constants in the program below root, without its tests.
func uses(t *testing.T, root string) map[string]int {
	t.Helper()
	found := map[string]int{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if from, ok := s.X.(*ast.Ident); ok && from.Name == "mutant" {
					found[s.Sel.Name]++
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
