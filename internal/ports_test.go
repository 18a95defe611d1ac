package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// mostMethods is how many methods an interface has of its own. A larger port is made of smaller ones, each named for
// what it is about, so that a fake or a reader needs only those.
const mostMethods = 8

func TestPortsAreSmall(t *testing.T) {
	large, files, err := largePorts(os.DirFS("."))
	if err != nil || files < 500 {
		t.Fatalf("%d files, %v", files, err)
	}
	for _, l := range large {
		t.Error(l)
	}
}

func TestLargePortIsFound(t *testing.T) {
	nine := "package a\ntype Port interface {\n" + strings.Repeat("f()\n", mostMethods+1) + "}\n"
	composed := "package a\ntype Port interface {\n" + strings.Repeat("f()\n", mostMethods) + "Other\n}\n"
	got, _, err := largePorts(fstest.MapFS{
		"a/nine.go": {Data: []byte(nine)}, "a/composed.go": {Data: []byte(composed)}, "a/a_test.go": {Data: []byte(nine)},
		"a/atest/kit.go": {Data: []byte(nine)},
	})
	if want := "a/nine.go: Port has 9 methods"; err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// largePorts are the interfaces with too many methods, but for those of tests and their kits.
func largePorts(tree fs.FS) (large []string, files int, err error) {
	err = fs.WalkDir(tree, ".", func(at string, d fs.DirEntry, err error) error {
		kit := strings.HasSuffix(path.Base(path.Dir(at)), "test")
		if err != nil || d.IsDir() || !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go") || kit {
			return err
		}
		text, err := fs.ReadFile(tree, at)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), at, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if port, ok := spec.Type.(*ast.InterfaceType); ok {
				methods := 0
				for _, m := range port.Methods.List {
					methods += len(m.Names)
				}
				if methods > mostMethods {
					large = append(large, fmt.Sprintf("%s: %s has %d methods", at, spec.Name, methods))
				}
			}
			return true
		})
		return nil
	})
	return large, files, err
}
