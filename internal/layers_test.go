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
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/roamcard/roamcard/"

// rows is the import table: a package of internal imports only packages of lower rows. Names that end
// in /* stand for every package below the folder.
var rows = [][]string{
	0: {"money", "money/decimal", "secret", "secret/custody", "fault", "paging", "recent", "outward", "jitter",
		"faultpoint", "testing/oidctest", "provider/sandbox/scenario"},
	1: {"x402", "limit", "ledger", "telemetry"},
	2: {"curve", "handshake", "order", "receipt", "job", "vendorfake", "chain/settler", "keystore"},
	3: {"smartaccount", "approval", "auth", "payment", "fulfilment", "availability", "activity", "screening", "webhook",
		"routing"},
	4: {"product/*"},
	5: {"checkout", "settlement", "admin", "reconcile", "provider", "provider/sandbox/trigger", "provider/wire"},
	6: {
		"store", "chain", "facilitator", "facilitator/cdp", "oidc", "provider/*", "provider/esimaccess/esimaccessfake",
		"provider/esimgo/esimgofake", "provider/lithic/lithicfake", "provider/stripe/stripefake",
		"signer/*", "signer/web3signer/web3signerfake", "signer/awskms/awskmsfake",
	},
	7:  {"transport/rpcx", "transport/static"},
	8:  {"transport/rpc"},
	9:  {"transport/rest", "transport/mcp", "transport/discovery", "transport/web"},
	10: {"transport/edge", "transport/webhooks"},
	11: {"devtools/devnet", "devtools/demo", "testing/invariants", "testing/history", "testing/apptest"},
	12: {"app", "testing/bench", "testing/hostile", "testing/goclient", "testing/vendorapi", "testing/simulation/node"},
	13: {"devtools/dev", "devtools/doctor", "testing/paperissuer", "testing/voucher"},
	14: {"testing/devserver", "testing/crash", "testing/endtoend", "testing/simulation", "devtools/cluster"},
}

const (
	rowAdapters = 6
	rowRPCX     = 7
	rowEdge     = 10
)

// sellers are what no adapter but the store imports.
var sellers = []string{"checkout", "settlement", "admin"}

// only names the few packages that may import what is dangerous or wide. The key is an import path or
// the folder above it; it holds for the folder's own packages too.
var only = map[string][]string{
	module + "ent": {"store"},
	"github.com/ethereum/go-ethereum": {
		"curve", "auth", "chain", "chain/settler", "smartaccount", "devtools/devnet", "keystore",
		"signer/web3signer/web3signerfake", "signer/awskms/awskmsfake", "testing/simulation/node",
	},
	"connectrpc.com":                  {"transport/rpcx", "transport/rpc", "transport/rest", "transport/edge"},
	"github.com/modelcontextprotocol": {"transport/mcp"},
	module + "gen/go":                 {"transport/rpcx", "transport/rpc", "transport/rest"},
	// No code that production runs knows a scenario.
	module + "internal/provider/sandbox/scenario": {"provider/sandbox", "provider/sandbox/trigger"},
	module + "internal/provider/sandbox/trigger":  {"app"},

	// What verifies an issuer's tokens stays behind one port, and what makes a facilitator's behind another.
	"github.com/coreos":  {"oidc"},
	"github.com/go-jose": {"oidc", "facilitator/cdp"},

	// A vendor's own library stays in its adapter.
	"github.com/stripe": {"provider/stripe"},
	"github.com/aws":    {"signer/awskms"},

	module + "clients/go": {"devtools/demo", "testing/devserver", "devtools/cluster"},
}

// commands may import these packages only: configuration and wiring, and the tools that run on them.
var commands = []string{"app", "devtools/dev", "devtools/doctor"}

// allowed are imports in addition to the table, each with its reason.
var allowed = map[string][]string{
	// A buyer speaks the API's own messages, as any client does.
	"devtools/demo": {module + "gen/go/roamcard/v1"},
	// So does a command that buys, and its tools' protocol.
	"cmd/roamcard": {
		module + "gen/go/roamcard/v1", module + "clients/go/roamcard", "github.com/modelcontextprotocol/go-sdk/mcp",
		// And what serves it to an agent, which no service runs.
		module + "clients/agent", module + "clients/agent/keys", module + "clients/agent/install",
		// Keys and settings are the user's, and what is started gets neither.
		module + "internal/secret/custody",
		// A receipt is verified without the service, whose published keys may be fetched.
		module + "internal/receipt", module + "internal/outward",
	},
	// The issuer of the tests plays the sandbox's scenarios, too.
	"product/card/cardtest": {module + "internal/provider/sandbox/scenario"},
	// The shop of the tests is one deployment: what sells, what settles and what operators do, over a store.
	"checkout/checkouttest": {
		module + "internal/settlement", module + "internal/admin", module + "internal/provider/sandbox/trigger",
		module + "internal/store", module + "internal/store/memory", module + "internal/store/storetest",
	},
	// Deliveries are jobs, which the store in memory keeps with the goods.
	"fulfilment/fulfilmenttest": {module + "internal/store/memory"},
	// Tests of programs that buy get their smart accounts from the server that they run against.
	"testing/devserver": {module + "internal/smartaccount/smartaccounttest"},
	// Each test gets a database, which the development network runs.
	"store/storetest": {module + "internal/devtools/devnet"},
}

// narrow packages import no more of internal than this, whatever their row.
var narrow = map[string][]string{
	// The caller is known without knowing what is sold.
	"auth": {"curve", "fault", "handshake", "limit", "secret", "x402"},
	// What a contract is called with knows payments only as the chain does.
	"chain/settler": {"money", "outward", "x402"},
	// The story is told from outside, by what any client could know. x402 is one of the client's own modules.
	"devtools/demo": {"outward", "secret", "x402"},
	// The processes are run and asked from outside, as an operator and a buyer do.
	"devtools/cluster": {"devtools/devnet", "outward", "testing/invariants"},
	// What checks the program's books, and what it has told, believes none of its code.
	"testing/invariants": {},
	"testing/history":    {},
	// What plays a vendor shares nothing with the adapter that is tested against it.
	"vendorfake":                         {},
	"provider/esimaccess/esimaccessfake": {"vendorfake"},
	"provider/lithic/lithicfake":         {"vendorfake"},
	"provider/stripe/stripefake":         {"vendorfake"},
	"signer/web3signer/web3signerfake":   {},
	"signer/awskms/awskmsfake":           {},
	"testing/oidctest":                   {},
	// What makes tokens knows nothing of what they are for.
	"facilitator/cdp": {"secret"},
	// The program is run as an operator runs it: as a process.
	"testing/apptest": {},
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	got, err := violations(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		t.Error(v)
	}
}

// TestCheckerFindsEveryKindOfViolation keeps the test above from passing because it looks at nothing.
func TestCheckerFindsEveryKindOfViolation(t *testing.T) {
	pkg := func(name string, imports ...string) *fstest.MapFile {
		var b strings.Builder
		fmt.Fprintf(&b, "// Package %s is for a test.\npackage %s\n", name, name)
		for _, i := range imports {
			fmt.Fprintf(&b, "import _ %q\n", strings.Replace(i, "~", module+"internal/", 1))
		}
		return &fstest.MapFile{Data: []byte(b.String())}
	}
	legal := func() fstest.MapFS {
		return fstest.MapFS{
			"internal/money/money.go": pkg("money", "fmt"),
			"internal/x402/x402.go":   pkg("x402", "~money"),
			"internal/auth/auth.go":   pkg("auth", "~x402"),
			"internal/auth/authtest/authtest.go": pkg("authtest", "~auth", "~x402",
				"github.com/ethereum/go-ethereum/crypto"),
			"internal/checkout/checkout.go":         pkg("checkout", "~auth"),
			"internal/store/store.go":               pkg("store", "~checkout", module+"ent", module+"ent/order"),
			"internal/store/store_test.go":          pkg("store", "~app", "~provider/sandbox"),
			"internal/store/storetest/storetest.go": pkg("storetest", "~store", "~devtools/devnet"),
			"internal/provider/sandbox/sandbox.go":  pkg("sandbox", "~money"),
			"internal/transport/rpcx/callinfo.go": pkg("rpcx", "~auth", "connectrpc.com/connect", module+
				"gen/go/roamcard/v1"),
			"internal/transport/rpc/services.go": pkg("rpc", "~checkout", "~transport/rpcx", "connectrpc.com/connect",
				module+"gen/go/roamcard/v1"),
			"internal/transport/edge/server.go":  pkg("edge", "~transport/rpcx", "connectrpc.com/cors"),
			"internal/devtools/devnet/devnet.go": pkg("devnet", "github.com/ethereum/go-ethereum/rpc"),
			"internal/devtools/demo/demo.go":     pkg("demo", "~secret", module+"clients/go/roamcard"),
			"internal/app/app.go": pkg("app", "~devtools/demo", "~devtools/devnet", "~store",
				"~transport/edge"),
			"internal/app/testdata/broken.go":         {Data: []byte("not Go")},
			"internal/devtools/dev/dev.go":            pkg("dev", "~app", "~devtools/demo", "~devtools/devnet"),
			"internal/devtools/doctor/doctor.go":      pkg("doctor", "~app", "~chain", "~store"),
			"cmd/roamcard/main.go":                    {Data: []byte("// Command roamcard is for a test.\npackage main\n")},
			"cmd/roamcard/commands.go":                pkg("main", "~app", "~devtools/dev", "~devtools/doctor"),
			"internal/provider/sandbox/other_test.go": {Data: []byte("package sandbox_test\n")},
		}
	}
	if got, err := violations(legal()); err != nil || len(got) != 0 {
		t.Fatalf("a legal tree: %v, %q", err, got)
	}
	tests := map[string]struct {
		file string
		with *fstest.MapFile
		want string
	}{
		"upward": {"internal/money/up.go", pkg("money", "~x402"),
			"internal/money (row 0) imports internal/x402 (row 1)"},
		"sideways": {"internal/payment/side.go", pkg("payment", "~auth"),
			"internal/payment (row 3) imports internal/auth (row 3)"},
		"orders in the sign-in": {"internal/auth/side.go", pkg("auth", "~order"),
			"internal/auth imports internal/order, beyond "},
		"another build": {"internal/money/up_linux.go", pkg("money", "~app"),
			"internal/money (row 0) imports internal/app (row 12)"},
		"support goes upward": {"internal/auth/authtest/up.go", pkg("authtest", "~checkout"),
			"internal/auth/authtest (row 3) imports internal/checkout (row 5)"},
		"support in the program": {"internal/checkout/fake.go", pkg("checkout", "~auth/authtest"),
			"internal/checkout imports internal/auth/authtest, which is for tests"},
		"availability of a product": {"internal/availability/card.go", pkg("availability", "~product/card"),
			"internal/availability (row 3) imports internal/product/card (row 4)"},
		"provider sells": {"internal/provider/sandbox/sell.go", pkg("sandbox", "~checkout"),
			"internal/provider/sandbox imports internal/checkout"},
		"chain sells": {"internal/chain/sell.go", pkg("chain", "~checkout"),
			"internal/chain imports internal/checkout"},
		"chain settles orders": {"internal/chain/settle.go", pkg("chain", "~settlement"),
			"internal/chain imports internal/settlement"},
		"checkout settles": {"internal/checkout/settle.go", pkg("checkout", "~settlement"),
			"internal/checkout (row 5) imports internal/settlement (row 5)"},
		"settlement sells": {"internal/settlement/sell.go", pkg("settlement", "~checkout"),
			"internal/settlement (row 5) imports internal/checkout (row 5)"},
		"scenario in a product": {"internal/product/card/play.go", pkg("card", "~provider/sandbox/scenario"),
			"internal/product/card imports " + module + "internal/provider/sandbox/scenario"},
		"scenario in the checkout": {"internal/checkout/play.go", pkg("checkout", "~provider/sandbox/trigger"),
			"internal/checkout imports " + module + "internal/provider/sandbox/trigger"},
		"provider and provider": {"internal/provider/acme/acme.go", pkg("acme", "~provider/sandbox"),
			"internal/provider/acme (row 6) imports internal/provider/sandbox (row 6)"},
		"adapter in the services": {"internal/transport/rpc/store.go", pkg("rpc", "~store"),
			"internal/transport/rpc (row 8) imports internal/store (row 6)"},
		"adapter below the services": {"internal/transport/rpcx/store.go", pkg("rpcx", "~store"),
			"internal/transport/rpcx (row 7) imports internal/store (row 6): requests"},
		"services below themselves": {"internal/transport/rpcx/up.go", pkg("rpcx", "~transport/rpc"),
			"internal/transport/rpcx (row 7) imports internal/transport/rpc (row 8)"},
		"adapter at the edge": {"internal/transport/edge/chain.go", pkg("edge", "~chain"),
			"internal/transport/edge (row 10) imports internal/chain (row 6)"},
		"ent outside the store": {"internal/app/ent.go", pkg("app", module+"ent/order"), "internal/app imports " +
			module + "ent/order"},
		"chain library in payment": {"internal/payment/p.go", pkg("payment", "github.com/ethereum/go-ethereum/common"),
			"internal/payment imports github.com/ethereum/go-ethereum/common"},
		"chain library in demo": {"internal/devtools/demo/rpc.go", pkg("demo", "github.com/ethereum/go-ethereum/rpc"),
			"internal/devtools/demo imports github.com/ethereum/go-ethereum/rpc"},
		"demo looks inside": {"internal/devtools/demo/card.go", pkg("demo", "~product/card"),
			"internal/devtools/demo imports internal/product/card"},
		"client in the program": {"internal/checkout/buy.go", pkg("checkout", module+"clients/go/roamcard"),
			"internal/checkout imports " + module + "clients/go/roamcard"},
		"connect in the domain": {"internal/product/card/c.go", pkg("card", "connectrpc.com/connect"),
			"internal/product/card imports connectrpc.com/connect"},
		"wire types in the domain": {"internal/product/card/g.go", pkg("card", module+"gen/go/roamcard/v1"),
			"internal/product/card imports " + module + "gen/go/roamcard/v1"},
		"wire types at the edge": {"internal/transport/edge/g.go", pkg("edge", module+"gen/go/roamcard/v1"),
			"internal/transport/edge imports " + module + "gen/go/roamcard/v1"},
		"app runs a tool": {"internal/app/dev.go", pkg("app", "~devtools/dev"),
			"internal/app (row 12) imports internal/devtools/dev (row 13)"},
		"command past the app": {"cmd/roamcard/demo.go", pkg("main", "~devtools/demo"),
			"cmd/roamcard imports internal/devtools/demo"},
		"package without a row": {"internal/util/util.go", pkg("util"), "internal/util is in no row"},
		"import without a row": {"internal/app/gone.go", pkg("app", "~gone"),
			"internal/app imports internal/gone, which is in no row"},
		"support without a package": {"internal/kit/kittest/kittest.go", pkg("kittest"), "internal/kit/kittest is in no row"},
		"no comment": {"internal/order/order.go", &fstest.MapFile{Data: []byte("package order\n")},
			"internal/order has no comment"},
		"comment of another": {"internal/job/job.go",
			&fstest.MapFile{Data: []byte("// Package work is queued.\npackage job\n")}, "internal/job has no comment"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree := legal()
			tree[tt.file] = tt.with
			got, err := violations(tree)
			if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("%v, %q, want %q", err, got, tt.want)
			}
		})
	}
	t.Run("a file that cannot be read", func(t *testing.T) {
		tree := legal()
		tree["internal/money/broken.go"] = &fstest.MapFile{Data: []byte("not Go")}
		if _, err := violations(tree); err == nil {
			t.Error("no error")
		}
	})
	t.Run("a tree without packages", func(t *testing.T) {
		if _, err := violations(fstest.MapFS{"internal/README.md": {}}); err == nil {
			t.Error("no error")
		}
	})
}

// source is a package as far as the table is concerned; the files of tests are left out.
type source struct {
	// dir is its folder in the module, "internal/product/card".
	dir       string
	name      string
	imports   []string
	commented bool
}

// violations lists what breaks the table, in the packages below internal and cmd.
func violations(module fs.FS) ([]string, error) {
	packages, err := readPackages(module)
	if err != nil {
		return nil, err
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("there are no packages to check")
	}
	var found []string
	for _, p := range packages {
		if !p.commented {
			found = append(found, p.dir+` has no comment that begins "Package `+p.name+` "`)
		}
		found = append(found, p.check()...)
	}
	return found, nil
}

func readPackages(tree fs.FS) ([]source, error) {
	found := map[string]*source{}
	walk := func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir
		case entry.IsDir(), path.Ext(file) != ".go", strings.HasSuffix(file, "_test.go"):
			return nil
		}
		return readFile(tree, file, found)
	}
	for _, root := range []string{"internal", "cmd"} {
		if _, err := fs.Stat(tree, root); err != nil {
			continue
		}
		if err := fs.WalkDir(tree, root, walk); err != nil {
			return nil, err
		}
	}
	packages := make([]source, 0, len(found))
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		packages = append(packages, *found[dir])
	}
	return packages, nil
}

func readFile(tree fs.FS, file string, found map[string]*source) error {
	text, err := fs.ReadFile(tree, file)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	dir := path.Dir(file)
	p := found[dir]
	if p == nil {
		p = &source{dir: dir, name: f.Name.Name}
		found[dir] = p
	}
	p.commented = p.commented || introduces(f.Doc, p)
	for _, i := range f.Imports {
		target, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		if !slices.Contains(p.imports, target) {
			p.imports = append(p.imports, target)
		}
	}
	return nil
}

// introduces reports whether a comment says what the package is for. Go calls a program a command.
func introduces(doc *ast.CommentGroup, p *source) bool {
	if p.name == "main" && strings.HasPrefix(doc.Text(), "Command "+path.Base(p.dir)+" ") {
		return true
	}
	return strings.HasPrefix(doc.Text(), "Package "+p.name+" ")
}

func (p source) check() []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, p.dir+fmt.Sprintf(format, args...)) }
	self, inside := strings.CutPrefix(p.dir, "internal/")
	own, support := home(self)
	row, known := rowOf(own)
	if inside && !known {
		add(" is in no row of the table")
		return found
	}
	for _, target := range p.imports {
		if slices.Contains(allowed[self], target) {
			continue
		}
		if under, who := reserved(target); under && (!inside || !slices.Contains(who, own)) {
			add(" imports %s, which is for %s only", target, strings.Join(who, ", "))
			continue
		}
		local, ok := strings.CutPrefix(target, module+"internal/")
		if !ok {
			continue
		}
		theirs, theirSupport := home(local)
		theirRow, known := rowOf(theirs)
		switch {
		case !known:
			add(" imports internal/%s, which is in no row of the table", local)
		case !inside && !slices.Contains(commands, local):
			add(" imports internal/%s: a command imports %s only", local, strings.Join(commands, ", "))
		case !inside:
		case theirSupport && !support:
			add(" imports internal/%s, which is for tests", local)
		case narrow[self] != nil && !slices.Contains(narrow[self], local):
			add(" imports internal/%s, beyond %s", local, strings.Join(narrow[self], ", "))
		case support && theirs == own && local != self:
			// A kit for tests may use the package it is for, and that package's other kits.
		case theirRow >= row:
			add(" (row %d) imports internal/%s (row %d)", row, local, theirRow)
		case row >= rowRPCX && row <= rowEdge && theirRow == rowAdapters:
			add(" (row %d) imports internal/%s (row %d): requests come in by the domain", row, local, theirRow)
		case row == rowAdapters && own != "store" && slices.Contains(sellers, local):
			add(" imports internal/%s: an adapter does not sell", local)
		}
	}
	return found
}

// home is the package whose row counts: a kit for tests, such as card/cardtest, and the store in memory belong to their
// parents.
func home(local string) (pkg string, support bool) {
	parent, base := path.Split(local)
	parent = strings.TrimSuffix(parent, "/")
	if parent != "" && (base == path.Base(parent)+"test" || local == "store/memory") {
		return parent, true
	}
	return local, false
}

func rowOf(local string) (int, bool) {
	for row, names := range rows {
		for _, name := range names {
			folder, all := strings.CutSuffix(name, "/*")
			if local == name || (all && path.Dir(local) == folder) {
				return row, true
			}
		}
	}
	return 0, false
}

// reserved reports who alone may import target, when that is restricted.
func reserved(target string) (bool, []string) {
	for folder, who := range only {
		if target == folder || strings.HasPrefix(target, folder+"/") {
			return true, who
		}
	}
	return false, nil
}
