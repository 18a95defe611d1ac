package internal_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/testing/voucher"
)

// plain are words of products' kinds that are words of their own in the business, each with why it may be said
// anywhere. Of a kind that is made of such words the whole is looked for. Any other word of a kind names its product.
var plain = map[string]string{
	"card":  "issuers, accounts and fees are about cards, whoever sells them; what is one product is to buy one",
	"issue": "who makes cards is an issuer",
}

// spelled are words of kinds that are written in more than one way.
var spelled = map[string]string{"topup": "top[-_ ]?up"}

// naming finds the names of products in identifiers and in strings, import paths among them.
type naming struct{ products, vendors *regexp.Regexp }

// namingOf makes it of the kinds that are registered, and of the vendors, which may have the word for what they sell in
// their names.
func namingOf(kinds, vendors []string) (naming, error) {
	words, used := map[string]bool{}, map[string]bool{}
	for _, kind := range kinds {
		parts := strings.Split(kind, "_")
		own := slices.DeleteFunc(slices.Clone(parts), func(word string) bool { return plain[word] != "" })
		for _, word := range parts {
			used[word] = true
		}
		for _, word := range own {
			words[cmp.Or(spelled[word], regexp.QuoteMeta(word))] = true
		}
		if len(own) == 0 {
			// "card_issue" is a product, and "card issuer" is none. Its package is known by what it says of itself.
			words[strings.Join(parts, "[-_ ]?")+`(?:[^r]|$)`] = true
			words[`\b`+parts[0]+`\.kind\b`] = true
		}
	}
	for word := range plain {
		if !used[word] {
			return naming{}, fmt.Errorf("no kind has the word %q: take it off the list of plain words", word)
		}
	}
	if len(words) == 0 {
		return naming{}, fmt.Errorf("no product is registered")
	}
	products := strings.Join(slices.Sorted(maps.Keys(words)), "|")
	sell := regexp.MustCompile(`^(?i:` + products + `)`)
	var named []string
	for _, vendor := range vendors {
		if word := sell.FindString(vendor); word != "" && word != vendor {
			named = append(named, word+"[-_]?"+strings.TrimPrefix(vendor, word)+"(?:fake)?")
		}
	}
	// Of no vendors, a pattern that finds nothing.
	return naming{
		products: regexp.MustCompile("(?i)" + products),
		vendors:  regexp.MustCompile("(?i)" + cmp.Or(strings.Join(named, "|"), `[^\s\S]`)),
	}, nil
}

// find finds a product's name in what is said, or returns nothing.
func (n naming) find(said string) string {
	return n.products.FindString(n.vendors.ReplaceAllString(said, ""))
}

// namesOfTheProgram are the kinds that the program registers, with that of the tests' product, and its vendors.
func namesOfTheProgram(tree fs.FS) (naming, error) {
	kinds := []string{string(voucher.Kind)}
	for _, p := range (app.Config{}).StoredProducts() {
		kinds = append(kinds, string(p.Kind))
	}
	folders, err := fs.ReadDir(tree, "internal/provider")
	if err != nil {
		return naming{}, err
	}
	var vendors []string
	for _, f := range folders {
		if f.IsDir() {
			vendors = append(vendors, f.Name())
		}
	}
	return namingOf(kinds, vendors)
}

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
	"internal/store/memory/":              "the store files of products, in memory",
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
	"internal/devtools/demo/":             "a client, which tells what it buys",
	"internal/devtools/cluster/":          "a client, which buys one of each",
	"cmd/roamcard/":                       "a client, with a command for each product",
	"internal/testing/voucher/":           "a whole product, for tests",
	"internal/testing/invariants/":        "states what each product promises, and believes no module",
	"internal/reconcile/reconciletest/":   "fills tables by hand",
	"internal/faultpoint/":                "lists the points of all modules",
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
	tree := os.DirFS("..")
	names, err := namesOfTheProgram(tree)
	if err != nil {
		t.Fatal(err)
	}
	got, used, err := productsNamed(tree, names)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		t.Error(v)
	}
	for _, list := range []map[string]string{homes, vocabulary} {
		for _, where := range slices.Sorted(maps.Keys(list)) {
			if !used[where] {
				t.Errorf("%s names no product any more: take it off the list", where)
			}
		}
	}
}

// productsNamed lists where a product is named outside of its homes, and which entries of the lists are used.
func productsNamed(tree fs.FS, names naming) (found []string, used map[string]bool, err error) {
	used = map[string]bool{}
	err = eachSource(tree, func(file string) error {
		all, err := namesIn(tree, file, names)
		if len(all) == 0 {
			return err
		}
		for _, list := range []map[string]string{homes, vocabulary} {
			if at, ok := listed(list, file); ok {
				used[at] = true
				return err
			}
		}
		found = append(found, all...)
		return err
	})
	return found, used, err
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
func namesIn(tree fs.FS, file string, names naming) (found []string, err error) {
	text, err := fs.ReadFile(tree, file)
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
			if pkg, ok := n.X.(*ast.Ident); ok && n.Sel.Name == "Kind" {
				said = pkg.Name + "." + n.Sel.Name
			}
		}
		if name := names.find(said); name != "" {
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
	kinds := []string{"card_issue", "card_topup", "esim", "esim_topup", "voucher"}
	names, err := namingOf(kinds, []string{"esimgo", "sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := productsNamed(legal(), names); err != nil || len(got) != 0 {
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
			got, _, err := productsNamed(tree, names)
			if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "internal/checkout/named.go:3 ") {
				t.Errorf("%v, %q", err, got)
			}
		})
	}
	if _, _, err := productsNamed(fstest.MapFS{"internal/README.md": {}, "cmd/README.md": {}}, names); err == nil {
		t.Error("a tree without files: no error")
	}
}

// TestProductThatIsAddedIsLookedFor holds without a change of the lists above.
func TestProductThatIsAddedIsLookedFor(t *testing.T) {
	kinds := []string{"card_issue", "card_gift", "phone_number"}
	names, err := namingOf(kinds, nil)
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		"CardGifts": "Gift", "card_gift": "gift", "phoneNumber": "phone", "CardIssue": "CardIssue", "card.Kind": "card.Kind",
		"cardIssuer": "", "a card": "", "esim": "",
	} {
		if got := names.find(said); got != want {
			t.Errorf("in %q: %q, want %q", said, got, want)
		}
	}
	if _, err := namingOf([]string{"card", "esim"}, nil); err == nil {
		t.Error("a plain word that no kind has any more: no error")
	}
	names, err = namesOfTheProgram(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range (app.Config{}).StoredProducts() {
		if names.find(string(r.Kind)) == "" {
			t.Errorf("%s is registered and not looked for", r.Kind)
		}
	}
}
