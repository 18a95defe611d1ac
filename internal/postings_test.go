package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// stored are the names of the ledger that the store needs to write what it is given and to read it again: the types,
// the names of a transfer's postings, and the accounts that show what is on a card. Everything else of the ledger
// decides.
var stored = []string{"Account", "Card", "Entry", "ID", "Kind", "OfTransfer", "Posting"}

// account is the name of one of the ledger's accounts in a text.
var account = regexp.MustCompile(`\b(treasury|issuer|supplier|revenue|cost):[a-z_]+|\b(holder|customer|receivable):`)

// TestStoreDecidesNoPosting keeps accounting out of what writes SQL: the domain hands postings to the store with the
// transition that they belong to.
func TestStoreDecidesNoPosting(t *testing.T) {
	got, err := decidedPostings(os.DirFS("store"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		t.Error(v)
	}
}

func TestWhatDecidesAPostingIsFound(t *testing.T) {
	const header = "package store\nimport \"" + module + "internal/ledger\"\n"
	named := func(as string) string { return strings.Replace(header, "import", "import "+as, 1) }
	for name, tt := range map[string]struct{ code, want string }{
		"mapping":          {header + "func f(p ledger.Posting) ledger.ID { return p.ID }", ""},
		"another selector": {"package store\nvar x = books.Treasury", ""},
		"a constructor":    {header + "var p = ledger.Settled", "a.go:3: ledger.Settled"},
		"an account":       {header + "var p = ledger.Treasury", "a.go:3: ledger.Treasury"},
		"under a name":     {named("books") + "var p = books.Sold", "a.go:3: ledger.Sold"},
		"with a dot":       {named("."), "a.go:2: ledger.*"},
		"in SQL":           {"package store\nconst x = `VALUES ('issuer:float', 1)`", `a.go:2: the account "issuer:float"`},
		"by its kind":      {"package store\nvar x = \"customer:\" + id", `a.go:2: the account "customer:"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decidedPostings(fstest.MapFS{"a.go": {Data: []byte(tt.code)}, "a_test.go": {Data: []byte("not Go")}})
			if err != nil || strings.Join(got, "\n") != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := decidedPostings(fstest.MapFS{}); err == nil {
		t.Error("a folder without code is in order")
	}
}

// decidedPostings lists what of the ledger the files of a package name beyond what is stored.
func decidedPostings(dir fs.FS) (found []string, err error) {
	files, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	read := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		read++
		called := ledgerIn(file)
		add := func(at token.Pos, what string) {
			p := set.Position(at)
			found = append(found, fmt.Sprintf("%s:%d: %s", path.Base(p.Filename), p.Line, what))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				if called == "." && n.Name != nil && n.Name.Name == "." {
					add(n.Pos(), "ledger.*")
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && called != "" && x.Name == called && !slices.Contains(stored, n.Sel.Name) {
					add(n.Pos(), "ledger."+n.Sel.Name)
				}
			case *ast.BasicLit:
				if a := account.FindString(n.Value); n.Kind == token.STRING && a != "" {
					add(n.Pos(), fmt.Sprintf("the account %q", a))
				}
			}
			return true
		})
	}
	if read == 0 {
		return nil, fmt.Errorf("there is no code to check")
	}
	return found, nil
}

// ledgerIn is what a file calls the ledger; empty when it does not import it.
func ledgerIn(file *ast.File) string {
	for _, i := range file.Imports {
		if target, err := strconv.Unquote(i.Path.Value); err != nil || target != module+"internal/ledger" {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return "ledger"
	}
	return ""
}
