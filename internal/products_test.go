package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// productNames are the words that name a product, in identifiers and in strings, import paths among them. That there
// are cards is no secret: an issuer, an account and a fee are about them. What is one product is to buy one.
var productNames = regexp.MustCompile(`(?i)esim|voucher|top[-_ ]?up|card[-_ ]?issue(?:[^r]|$)|\bcard\.kind\b`)

// vendorNames are names of vendors, which have the word for what they sell in them.
var vendorNames = regexp.MustCompile(`(?i)esim[-_]?(?:access|go)(?:fake)?`)

// homes are where a product may be named: its module, its store file, its rpc file, its part of the wiring.
var homes = map[string]string{
	"internal/product/":                   "the modules",
	"internal/provider/":                  "who makes it, by its own API",
	"internal/store/cardbooks.go":         "the store file of cards",
	"internal/store/topups.go":            "the store file of top-ups",
	"internal/store/esims.go":             "the store file of eSIMs",
	"internal/store/esimcancels.go":       "the store file of eSIMs that are given back",
	"internal/store/esimjournal.go":       "the store file of what eSIM suppliers were sent",
	"internal/store/esimtopups.go":        "the store file of what is added to eSIMs",
	"internal/store/storetest/":           "tests of the store have all products",
	"internal/checkout/checkouttest/":     "the shop of the tests sells cards and top-ups",
	"internal/transport/rpc/card.go":      "the rpc file of cards",
	"internal/transport/rpc/topup.go":     "the rpc file of top-ups",
	"internal/transport/rpc/esim.go":      "the rpc file of eSIMs",
	"internal/transport/rpc/esimtopup.go": "the rpc file of what is added to eSIMs",
	"internal/app/card.go":                "the settings and wiring of cards",
	"internal/app/topup.go":               "the settings and wiring of top-ups",
	"internal/app/esim.go":                "the settings and wiring of eSIMs",
	"internal/app/esimtopup.go":           "the wiring of what is added to eSIMs",
	"internal/app/products.go":            "the registration, a line for each",
	"internal/agent/":                     "a client, with a tool for each product",
	"internal/devtools/demo/":             "a client, which tells what it buys",
	"internal/devtools/cluster/":          "a client, which buys one of each",
	"cmd/roamcard/":                       "a client, with a command for each product",
	"internal/testing/voucher/":           "a whole product, for tests",
	"internal/testing/invariants/":        "states what each product promises, and believes no module",
	"internal/reconcile/reconciletest/":   "fills tables by hand",
	"internal/testing/faultpoint/":        "lists the points of all modules",
}

// vocabulary is where the contract itself names products, whoever sells them.
var vocabulary = map[string]string{
	"internal/fault/catalogue.go":        "codes and titles of the contract",
	"internal/ledger/ledger.go":          "the chart of accounts",
	"internal/activity/allowlist.go":     "what product events may say",
	"internal/telemetry/metrics.go":      "the name of a metric",
	"internal/transport/discovery/":      "documents for strangers",
	"internal/transport/mcp/":            "the table of tools, each for a documented path",
	"internal/transport/rpcx/policy.go":  "the header of delivery tokens",
	"internal/transport/rpc/services.go": "the services of the contract",
}

func TestProductsAreNamedInTheirModulesOnly(t *testing.T) {
	got, used, err := productsNamed(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		t.Error(v)
	}
	for _, where := range slices.Sorted(maps.Keys(vocabulary)) {
		if !used[where] {
			t.Errorf("%s names no product any more: take it off the list", where)
		}
	}
}

// productsNamed lists where a product is named outside of its homes, and which entries of the vocabulary are used.
func productsNamed(module fs.FS) (found []string, used map[string]bool, err error) {
	used = map[string]bool{}
	files := 0
	for _, root := range []string{"internal", "cmd"} {
		err := fs.WalkDir(module, root, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return fs.SkipDir
			case entry.IsDir(), path.Ext(file) != ".go", strings.HasSuffix(file, "_test.go"):
				return nil
			}
			files++
			if at, ok := listed(homes, file); ok {
				used[at] = true
				return nil
			}
			all, err := namesIn(module, file)
			if at, ok := listed(vocabulary, file); ok && len(all) > 0 {
				used[at] = true
				return err
			}
			found = append(found, all...)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if files == 0 {
		return nil, nil, fmt.Errorf("there are no files to check")
	}
	return found, used, nil
}

// listed finds the entry of a list that a file is, or lies below.
func listed(list map[string]string, file string) (string, bool) {
	for at := range list {
		if file == at || (strings.HasSuffix(at, "/") && strings.HasPrefix(file, at)) {
			return at, true
		}
	}
	return "", false
}

// namesIn lists the names of products in a file's identifiers and strings. Comments may say what they like.
func namesIn(module fs.FS, file string) (found []string, err error) {
	text, err := fs.ReadFile(module, file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		said := ""
		switch n := n.(type) {
		case *ast.Ident:
			said = n.Name
		case *ast.BasicLit:
			said = n.Value
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && strings.EqualFold(pkg.Name+"."+n.Sel.Name, "card.Kind") {
				said = pkg.Name + "." + n.Sel.Name
			}
		}
		if name := productNames.FindString(vendorNames.ReplaceAllString(said, "")); name != "" {
			at := set.Position(n.Pos())
			found = append(found,
				fmt.Sprintf("%s:%d names a product outside of its module: %q in %.60q", file, at.Line, name, said))
		}
		return true
	})
	return found, nil
}

// TestProductNamedElsewhereIsFound keeps the test above from passing because it looks at nothing.
func TestProductNamedElsewhereIsFound(t *testing.T) {
	file := func(body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("// Package p sells an eSIM, and a top-up.\npackage p\n" + body)}
	}
	legal := func() fstest.MapFS {
		return fstest.MapFS{
			"internal/checkout/buy.go":       file("const card = \"a card\"\n"),
			"internal/checkout/vendor.go":    file("import _ \"github.com/roamcard/roamcard/internal/provider/esimgo\"\n"),
			"internal/checkout/buy_test.go":  file("const kind = \"esim\"\n"),
			"internal/product/esim/esim.go":  file("const Kind = \"esim\"\n"),
			"internal/app/testdata/other.go": file("const esim = 1\n"),
			"cmd/roamcard/main.go":           file("const esim = 1\n"),
		}
	}
	if got, _, err := productsNamed(legal()); err != nil || len(got) != 0 {
		t.Fatalf("a legal tree: %v, %q", err, got)
	}
	for name, body := range map[string]string{
		"an identifier":   "const loadTopups = 1\n",
		"in capitals":     "type ESIM struct{}\n",
		"a string":        "const kind = \"card_topup\"\n",
		"a statement":     "const sql = `SELECT FROM orders WHERE kind = 'card_issue'`\n",
		"a path":          "const path = \"/api/esim/purchase\"\n",
		"an import":       "import _ \"github.com/roamcard/roamcard/internal/product/esim\"\n",
		"a kind":          "var kind = card.Kind\n",
		"a vendor and it": "var esimgoEsims = 1\n",
		"a test's":        "import _ \"github.com/roamcard/roamcard/internal/testing/voucher\"\n",
		"words of buyers": "const text = \"Top up your card\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			tree := legal()
			tree["internal/checkout/named.go"] = file(body)
			got, _, err := productsNamed(tree)
			if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "internal/checkout/named.go:3 ") {
				t.Errorf("%v, %q", err, got)
			}
		})
	}
	if _, _, err := productsNamed(fstest.MapFS{"internal/README.md": {}, "cmd/README.md": {}}); err == nil {
		t.Error("a tree without files: no error")
	}
}
