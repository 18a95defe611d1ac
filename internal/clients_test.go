package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// makers are what makes a client, or asks by one that nobody made, of the packages that do. A type is there for its
// literals, for new and for variables that begin as its zero value.
var makers = map[string][]string{
	"net/http": {
		"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm",
	},
	"net/http/httputil":                               {"ClientConn"},
	"github.com/ethereum/go-ethereum/rpc":             {"Dial", "DialContext", "DialHTTP"},
	"github.com/ethereum/go-ethereum/ethclient":       {"Dial", "DialContext"},
	"github.com/coreos/go-oidc/v3/oidc":               {"NewProvider", "NewRemoteKeySet"},
	"github.com/aws/aws-sdk-go-v2/aws/transport/http": {"NewBuildableClient"},
}

// clientless are the folders in which a client may be made: the package for it, and what tests are made of. What runs
// at the wallet's side is a module of its own.
var clientless = []string{"internal/outward", "internal/testing"}

// TestEveryClientIsMadeInOnePlace: what internal/outward promises of a client is promised of all.
func TestEveryClientIsMadeInOnePlace(t *testing.T) {
	found, files, err := madeElsewhere(os.DirFS(".."))
	if err != nil || files < 500 {
		t.Fatalf("%d files, %v", files, err)
	}
	for _, f := range found {
		t.Error(f + ": internal/outward makes the clients")
	}
}

func TestClientsMadeElsewhereAreFound(t *testing.T) {
	const head = `package a

import (
	"net/http"
	web "net/http"

	"github.com/ethereum/go-ethereum/rpc"
)

`
	for text, want := range map[string]int{
		"var c = http.DefaultClient":                                     1,
		"var c = &http.Client{}":                                         1,
		"var c = http.Client{Timeout: 1}":                                1,
		"var c = new(http.Client)":                                       1,
		"var c http.Client":                                              1,
		"var c struct{ http.Client }":                                    1,
		"type t struct{ own http.Transport }":                            1,
		"var c = []http.Client{{}}":                                      1,
		"var c = &web.Transport{}":                                       1,
		"var c = web.DefaultTransport.(*web.Transport)":                  1,
		"func f() { _, _ = http.Get(\"a\") }":                            1,
		"func f() { _, _ = http.Head(\"a\"); web.PostForm(1) }":          2,
		"func f() { _, _ = rpc.DialContext(nil, \"a\") }":                1,
		"func f() { _, _ = rpc.DialOptions(nil, \"a\", nil) }":           0,
		"func f(c *http.Client) { _, _ = c.Get(\"a\") }":                 0,
		"func f(c *http.Client) (*web.Client, http.Header)":              0,
		"var c *http.Client; type t struct{ c *http.Client }":            0,
		"var c map[string]*http.Client":                                  0,
		"var c http.RoundTripper = other.DefaultTransport":               0,
		"func f(c any) bool { _, ok := c.(*http.Transport); return ok }": 0,
	} {
		tree := fstest.MapFS{
			"internal/a/a.go":       {Data: []byte(head + text)},
			"internal/outward/a.go": {Data: []byte(head + "var c = http.DefaultClient")},
			"internal/testing/a.go": {Data: []byte(head + "var c = http.DefaultClient")},
			"internal/a/a_test.go":  {Data: []byte(head + "var c = http.DefaultClient")},
			"cmd/a/a.go":            {Data: []byte("package main")},
		}
		if found, files, err := madeElsewhere(tree); err != nil || len(found) != want || files != 2 {
			t.Errorf("%s: %q in %d files, %v", text, found, files, err)
		}
	}
}

// madeElsewhere are the places in which something else than internal/outward makes a client, and how many files were
// read.
func madeElsewhere(tree fs.FS) (found []string, files int, err error) {
	for _, root := range []string{"internal", "cmd"} {
		err := fs.WalkDir(tree, root, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || slices.Contains(clientless, file)):
				return fs.SkipDir
			case entry.IsDir(), path.Ext(file) != ".go", strings.HasSuffix(file, "_test.go"):
				return nil
			}
			text, err := fs.ReadFile(tree, file)
			if err != nil {
				return err
			}
			files++
			places, err := clientsIn(file, text)
			found = append(found, places...)
			return err
		})
		if err != nil {
			return nil, files, err
		}
	}
	return found, files, nil
}

// clientsIn are the places of a file that make a client.
func clientsIn(file string, text []byte) (found []string, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{} // by what a package is called here
	for _, i := range parsed.Imports {
		from, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		name := path.Base(from)
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = append(names[name], makers[from]...)
	}
	// A pointer to a client is one that somebody else made.
	pointers := map[ast.Node]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if star, ok := n.(*ast.StarExpr); ok {
			pointers[star.X] = true
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok || pointers[s] {
			return true
		}
		if of, ok := s.X.(*ast.Ident); ok && slices.Contains(names[of.Name], s.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: %s.%s", set.Position(s.Pos()), of.Name, s.Sel.Name))
		}
		return true
	})
	return found, nil
}
