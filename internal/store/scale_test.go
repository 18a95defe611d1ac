package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// part is what docs/scale.md says between two texts.
func part(t *testing.T, after, before string) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(raw)+"\n", after)
	found, _, ends := strings.Cut(rest, before)
	if !begins || !ends {
		t.Fatalf("docs/scale.md has nothing between %q and %q", after, before)
	}
	return found
}

// names are the matches of the first group of a pattern, each once.
func names(pattern, text string) []string {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// differ tells what only one of two lists has.
func differ(t *testing.T, ours, listed []string) {
	t.Helper()
	if len(ours) == 0 {
		t.Error("there is nothing to compare")
	}
	for _, name := range ours {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/scale.md leaves out %s", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(ours, name) {
			t.Errorf("docs/scale.md lists %s, which is none", name)
		}
	}
}

func TestEveryTableIsPlacedInADistributedDatabase(t *testing.T) {
	files, err := filepath.Glob("../../ent/migrate/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var made strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		made.Write(raw)
	}
	tables := names(`(?m)^CREATE (?:UNLOGGED )?TABLE "?(\w+)`, made.String())
	const name = "`([a-z_]+)`"
	ours := names(name, part(t, "- Every row of an order has its `owner`: ", ". A test fails"))
	others := names(name, part(t, "| kind | tables |\n", "\n\n"))
	// The row of those by owner says of one of them how it differs.
	differ(t, tables, slices.DeleteFunc(slices.Concat(ours, others), func(s string) bool { return s == "owner" }))
}

// A test is skipped in a distributed database by the functions of storetest whose names begin with Needs, which it
// calls itself or by a function of this package.
func TestWhatADistributedDatabaseSkipsIsListed(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				calls[fn.Name.Name] = called(fn)
			}
		}
	}
	var skips func(name string) bool
	skips = func(name string) bool {
		return slices.ContainsFunc(calls[name], func(c string) bool {
			return strings.HasPrefix(c, "storetest.Needs") || c != name && skips(c)
		})
	}
	skipped := slices.DeleteFunc(slices.Sorted(maps.Keys(calls)), func(name string) bool {
		return !strings.HasPrefix(name, "Test") || !skips(name)
	})
	script, err := os.ReadFile("../../tools/citus.sh")
	if err != nil {
		t.Fatal(err)
	}
	skipped = append(skipped, names(`-skip (\w+)`, string(script))...)
	text := part(t, "Tests that are skipped there, each with its reason in the output:\n\n", "\n\n")
	differ(t, skipped, names("`(Test\\w+)`", text))
}

// called are the functions that a function calls, without their results' methods.
func called(fn *ast.FuncDecl) (all []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			all = append(all, f.Name)
		case *ast.SelectorExpr:
			if pkg, ok := f.X.(*ast.Ident); ok {
				all = append(all, pkg.Name+"."+f.Sel.Name)
			}
		}
		return true
	})
	return all
}
