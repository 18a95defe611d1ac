package faultpoint

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// arm arms for one test.
func arm(t *testing.T, spec string) {
	t.Helper()
	t.Cleanup(func() { armed.Store(nil) })
	if err := Arm(spec); err != nil {
		t.Fatal(err)
	}
}

func TestUnarmedPointDoesNothing(t *testing.T) {
	Reach("buy.decoded")
	ReachAfter("answer.half", func() { t.Error("begun") })
	if err := Fail("claim.before_commit"); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { Reach("buy.decoded") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFaultFiresAtItsPassOnly(t *testing.T) {
	arm(t, "claim.before_commit:error@2, buy.verified:sleep=30ms, settle.before_commit:error@*")
	for pass := 1; pass <= 4; pass++ {
		if err := Fail("claim.before_commit"); errors.Is(err, ErrInjected) != (pass == 2) {
			t.Errorf("pass %d: %v", pass, err)
		}
		if err := Fail("settle.before_commit"); !errors.Is(err, ErrInjected) {
			t.Errorf("armed for every pass, pass %d: %v", pass, err)
		}
	}
	start := time.Now()
	Reach("buy.verified")
	if took := time.Since(start); took < 30*time.Millisecond {
		t.Errorf("slept %s", took)
	}
	Reach("buy.decoded") // another point
}

func TestPanicNamesThePoint(t *testing.T) {
	arm(t, "answer.half:panic")
	begun := false
	defer func() {
		if v := recover(); v != "faultpoint answer.half" || !begun {
			t.Errorf("panic %v, begun %v", v, begun)
		}
	}()
	ReachAfter("answer.half", func() { begun = true })
}

// The test runs itself as the process that is killed.
func TestKillEndsTheProcessAtOnce(t *testing.T) {
	if spec := os.Getenv("KILL_ME"); spec != "" {
		if err := Arm(spec); err != nil {
			t.Fatal(err)
		}
		defer os.Stdout.WriteString("a deferred call ran\n")
		Reach("settle.seen")
		os.Stdout.WriteString("the program went on\n")
		return
	}
	self := exec.Command(os.Args[0], "-test.run=^TestKillEndsTheProcessAtOnce$")
	self.Env = append(os.Environ(), "KILL_ME=settle.seen:kill")
	out, err := self.CombinedOutput()
	if err == nil || string(out) != "faultpoint settle.seen: kill\n" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestArmRefusesMistakes(t *testing.T) {
	for _, spec := range []string{
		"nowhere:kill", "buy.decoded", "buy.decoded:", "buy.decoded:explode", "buy.decoded:error",
		"buy.decoded:kill@0", "buy.decoded:kill@**", "buy.decoded:kill@x", "buy.decoded:sleep=", "buy.decoded:sleep=-1s", ",",
		"buy.decoded:kill,",
	} {
		if err := Arm(spec); err == nil {
			t.Errorf("%q is armed", spec)
			armed.Store(nil)
		}
	}
}

// Every listed point is in the code exactly once, by the call that fits it, and every call names a listed point.
func TestPointsListMatchesTheCode(t *testing.T) {
	calls := callsIn(t, os.DirFS(".."))
	seen := map[string]int{}
	for _, c := range calls {
		p, ok := find(c.name)
		seen[c.name]++
		switch {
		case !ok:
			t.Errorf("%s: %q is not listed", c.at, c.name)
		case p.Fails != (c.function == "Fail"):
			t.Errorf("%s: %s is called with %s", c.at, c.name, c.function)
		}
	}
	var names []string
	for _, p := range Points() {
		if slices.Contains(names, p.Name) {
			t.Errorf("%s is listed twice", p.Name)
		}
		names = append(names, p.Name)
		if seen[p.Name] != 1 {
			t.Errorf("%s occurs %d times in the program", p.Name, seen[p.Name])
		}
		if p.Doc == "" || strings.Contains(p.Doc, "\n") {
			t.Errorf("%s needs one line of words", p.Name)
		}
	}
}

// The pages of payment safety say what a crash does at each point.
func TestPointsAreDocumented(t *testing.T) {
	paths, err := filepath.Glob("../../docs/payment-safety/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var page []byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	for _, p := range Points() {
		if !strings.Contains(string(page), "`"+p.Name+"`") {
			t.Errorf("%s is not explained", p.Name)
		}
	}
}

type call struct{ at, function, name string }

// callsIn finds the calls of this package in the program, without its tests.
func callsIn(t *testing.T, tree fs.FS) []call {
	t.Helper()
	var calls []call
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, text, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || len(c.Args) == 0 {
				return true
			}
			f, ok := c.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if from, ok := f.X.(*ast.Ident); !ok || from.Name != "faultpoint" || f.Sel.Name == "Arm" {
				return true
			}
			name := "not a literal"
			if lit, ok := c.Args[0].(*ast.BasicLit); ok {
				name, _ = strconv.Unquote(lit.Value)
			}
			calls = append(calls, call{set.Position(c.Pos()).String(), f.Sel.Name, name})
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return calls
}
