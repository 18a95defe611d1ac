package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// importers are the files outside of internal/product that import a product or its kits, by the product's folder, each
// with its reason. A name that ends in a slash is a folder.
var importers = map[string]map[string]string{
	"card": {
		"internal/app/card.go":                        "the settings and wiring of cards",
		"internal/app/topup.go":                       "top-ups load the cards that it has made",
		"internal/app/wire.go":                        "the parts that other products are made of",
		"internal/app/services.go":                    "operators decide on fees and closings of cards",
		"internal/app/http.go":                        "the path of the page that shows a card",
		"internal/provider/":                          "issuers implement its ports",
		"internal/testing/paperissuer/":               "an issuer for tests implements its ports",
		"internal/store/cards.go":                     "the rows of cards",
		"internal/store/owners.go":                    "whose a card is",
		"internal/store/fees.go":                      "the rows of fees of cards",
		"internal/store/feejobs.go":                   "the jobs that pay them",
		"internal/store/treasury.go":                  "an operator's act is recorded as one on a card is",
		"internal/store/cardbooks.go":                 "the records of cards that are compared",
		"internal/store/cardlinks.go":                 "links that show a card",
		"internal/store/closings.go":                  "the rows of cards that are closed",
		"internal/store/approvals.go":                 "an approval closes a card or pays a fee",
		"internal/store/admin.go":                     "an order's page for operators has its card's fee",
		"internal/store/memory/":                      "the rows of cards, in memory",
		"internal/store/issuerlines.go":               "the lines of the issuer's statement",
		"internal/reconcile/books.go":                 "the issuer's statement is one of the books",
		"internal/reconcile/compare_issuer.go":        "the issuer's statement is compared",
		"internal/reconcile/reconcile.go":             "the issuer's book is one of the books",
		"internal/reconcile/run.go":                   "the issuer's statement is read",
		"internal/reconcile/reconciletest/":           "fills tables by hand",
		"internal/checkout/checkouttest/":             "the shop of the tests sells cards",
		"internal/transport/rpc/card.go":              "the rpc file of cards",
		"internal/transport/rpc/operator.go":          "operators decide on fees of cards",
		"internal/transport/rpc/operator_closings.go": "operators decide on closings of cards",
		"internal/transport/web/web.go":               "the page that shows a card",
	},
	"topup": {
		"internal/app/topup.go":           "the wiring of top-ups",
		"internal/store/topups.go":        "the records of top-ups that are compared",
		"internal/checkout/checkouttest/": "the shop of the tests sells top-ups",
		"internal/transport/rpc/topup.go": "the rpc file of top-ups",
	},
	"esim": {
		"internal/app/esim.go":                "the settings and wiring of eSIMs",
		"internal/checkout/checkouttest/":     "orders of its kit post as each product does",
		"internal/app/esimtopup.go":           "the wiring of what is added to eSIMs",
		"internal/provider/":                  "suppliers implement its ports",
		"internal/store/esims.go":             "the rows of eSIMs and plans",
		"internal/store/esimcancels.go":       "the rows of eSIMs that are given back",
		"internal/store/esimjournal.go":       "what suppliers were sent",
		"internal/store/memory/":              "the rows of eSIMs and plans, in memory",
		"internal/store/esimtopups.go":        "the rows of what is added to eSIMs",
		"internal/transport/rpc/esim.go":      "the rpc file of eSIMs",
		"internal/transport/rpc/esimtopup.go": "the rpc file of what is added to eSIMs",
	},
}

func TestProductsAreImportedByListedFilesOnly(t *testing.T) {
	got, err := unlisted(os.DirFS(".."), importers)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		t.Error(v)
	}
}

// unlisted tells which files import a product without being listed, and which rows of the list no file needs.
func unlisted(tree fs.FS, list map[string]map[string]string) (found []string, err error) {
	used := map[string]bool{}
	err = eachSource(tree, func(file string) error {
		sold, err := productsImported(tree, file)
		for _, product := range sold {
			at, ok := listed(list[product], file)
			used[product+" "+at] = true
			if !ok && !strings.HasPrefix(file, "internal/product/"+product+"/") {
				found = append(found, fmt.Sprintf("%s imports product/%s, and is not listed with a reason", file, product))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, product := range slices.Sorted(maps.Keys(list)) {
		for _, at := range slices.Sorted(maps.Keys(list[product])) {
			if !used[product+" "+at] {
				found = append(found, fmt.Sprintf("%s does not import product/%s: take it off the list", at, product))
			}
		}
	}
	return found, nil
}

// productsImported lists the products whose package, or a package below it, a file imports.
func productsImported(tree fs.FS, file string) (all []string, err error) {
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, i := range f.Imports {
		target, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		below, ok := strings.CutPrefix(target, module+"internal/product/")
		product, _, _ := strings.Cut(below, "/")
		if ok && !slices.Contains(all, product) {
			all = append(all, product)
		}
	}
	return all, nil
}

// eachSource calls do for every Go file below internal and cmd that is no test's. A tree without any is an error.
func eachSource(tree fs.FS, do func(file string) error) error {
	files := 0
	for _, root := range []string{"internal", "cmd"} {
		err := fs.WalkDir(tree, root, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return fs.SkipDir
			case entry.IsDir(), path.Ext(file) != ".go", strings.HasSuffix(file, "_test.go"):
				return nil
			}
			files++
			return do(file)
		})
		if err != nil {
			return err
		}
	}
	if files == 0 {
		return fmt.Errorf("there are no files to check")
	}
	return nil
}

// TestUnlistedImporterIsFound keeps the test above from passing because it looks at nothing.
func TestUnlistedImporterIsFound(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		text := "// Package p is for a test.\npackage p\n"
		for _, i := range imports {
			text += fmt.Sprintf("import _ %q\n", module+"internal/"+i)
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	list := map[string]map[string]string{
		"card": {"internal/app/card.go": "wires it", "internal/provider/": "implement its ports"},
	}
	legal := func() fstest.MapFS {
		return fstest.MapFS{
			"cmd/roamcard/main.go":                      file("app"),
			"internal/app/card.go":                      file("product/card", "store"),
			"internal/provider/lithic/cards.go":         file("product/card"),
			"internal/product/card/cardtest/issuer.go":  file("product/card"),
			"internal/settlement/fulfill_test.go":       file("product/card/cardtest"),
			"internal/settlement/testdata/fulfilled.go": file("product/card"),
		}
	}
	if got, err := unlisted(legal(), list); err != nil || len(got) != 0 {
		t.Fatalf("a legal tree: %v, %q", err, got)
	}
	for name, tt := range map[string]struct {
		file string
		with *fstest.MapFile
		want string
	}{
		"a new importer": {"internal/settlement/fulfill.go", file("product/card"),
			"internal/settlement/fulfill.go imports product/card, and is not listed"},
		"a kit": {"internal/checkout/buy.go", file("product/card/cardtest"),
			"internal/checkout/buy.go imports product/card, and is not listed"},
		"another product": {"internal/provider/lithic/esim.go", file("product/esim"),
			"internal/provider/lithic/esim.go imports product/esim, and is not listed"},
		"a product of a product": {"internal/product/topup/topup.go", file("product/card"),
			"internal/product/topup/topup.go imports product/card, and is not listed"},
		"a command": {"cmd/roamcard/buy.go", file("product/card"),
			"cmd/roamcard/buy.go imports product/card, and is not listed"},
		"a row that nothing needs": {"internal/app/card.go", file("store"),
			"internal/app/card.go does not import product/card: "},
	} {
		t.Run(name, func(t *testing.T) {
			tree := legal()
			tree[tt.file] = tt.with
			got, err := unlisted(tree, list)
			if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("%v, %q, want %q", err, got, tt.want)
			}
		})
	}
	if _, err := unlisted(fstest.MapFS{"internal/README.md": {}, "cmd/README.md": {}}, nil); err == nil {
		t.Error("a tree without files: no error")
	}
}
