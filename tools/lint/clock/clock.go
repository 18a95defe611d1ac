// Package clock keeps tests of whole programs from judging by the clock of a shared machine.
package clock

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports, in tests of whole programs, every time.Sleep and every deadline below a minute whose line, or the
// line above, does not say why in a comment: "// clock: why". Time in a bubble of synctest is not looked at.
var Analyzer = &analysis.Analyzer{
	Name: "clock",
	Doc:  "refuse sleeps and short deadlines in tests of whole programs",
	Run:  run,
}

const (
	module = "github.com/roamcard/roamcard/"
	least  = time.Minute
)

var (
	programs = regexp.MustCompile(`^` + module +
		`(internal/testing/(endtoend|crash|hostile|goclient)|cmd/roamcard|internal/devtools/[^ ]+?)(_test)?( |$)`)
	reason = regexp.MustCompile(`^// clock: \S`)
	// waits are our functions that poll until a deadline, by name.
	waits = regexp.MustCompile(`^(until|eventually|await|wait)|(Until|Eventually|Await|Within)`)
	// deadlines are the functions of others whose duration bounds what is waited for.
	deadlines = map[string]bool{
		"context.WithTimeout": true, "context.WithTimeoutCause": true,
		"time.After": true, "time.AfterFunc": true, "time.NewTimer": true,
	}
	// instants are those that take the end instead.
	instants = map[string]bool{
		"context.WithDeadline": true, "context.WithDeadlineCause": true,
		"SetDeadline": true, "SetReadDeadline": true, "SetWriteDeadline": true,
	}
)

type checker struct {
	*analysis.Pass
	excused map[int]bool // lines
}

func run(pass *analysis.Pass) (any, error) {
	if !programs.MatchString(pass.Pkg.Path()) {
		return nil, nil
	}
	for _, file := range pass.Files {
		if !strings.HasSuffix(pass.Fset.File(file.FileStart).Name(), "_test.go") {
			continue
		}
		c := &checker{Pass: pass, excused: map[int]bool{}}
		if err := c.excuse(file); err != nil {
			return nil, err
		}
		ast.Inspect(file, c.visit)
	}
	return nil, nil
}

// excuse collects the lines that have a reason: its own, and below a comment that has lines of its own the next.
func (c *checker) excuse(file *ast.File) error {
	source, err := c.ReadFile(c.Fset.File(file.FileStart).Name())
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if !reason.MatchString(comment.Text) {
				continue
			}
			c.excused[c.line(comment.Pos())] = true
			at := c.Fset.Position(comment.Pos())
			if before := source[at.Offset-at.Column+1 : at.Offset]; len(bytes.TrimSpace(before)) == 0 {
				c.excused[c.line(group.End())+1] = true
			}
		}
	}
	return nil
}

func (c *checker) line(pos token.Pos) int { return c.Fset.Position(pos).Line }

// visit looks at one node, and tells whether at what is in it.
func (c *checker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if fn, ok := c.callee(n).(*types.Func); ok {
			if name(fn) == "testing/synctest.Test" {
				return false
			}
			c.call(n, fn)
		}
	case *ast.SelectorExpr:
		if fn, ok := c.TypesInfo.Uses[n.Sel].(*types.Func); ok && name(fn) == "time.Sleep" {
			c.report(n.Pos(), n.Pos(), "time.Sleep: wait for a condition instead")
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && isTimeout(c.TypesInfo.Uses[key]) {
			c.duration(n.Pos(), n.Value, key.Name)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) &&
				isTimeout(c.TypesInfo.Uses[field.Sel]) {
				c.duration(n.Pos(), n.Rhs[i], field.Sel.Name)
			}
		}
	}
	return true
}

func (c *checker) callee(call *ast.CallExpr) types.Object {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return c.TypesInfo.Uses[fun]
	case *ast.SelectorExpr:
		return c.TypesInfo.Uses[fun.Sel]
	}
	return nil
}

// call looks at the arguments of a function that waits.
func (c *checker) call(call *ast.CallExpr, fn *types.Func) {
	ours := fn.Pkg() != nil && strings.HasPrefix(fn.Pkg().Path()+"/", module)
	switch {
	case deadlines[name(fn)], ours && waits.MatchString(fn.Name()):
		for _, argument := range call.Args {
			if isDuration(c.TypesInfo.TypeOf(argument)) {
				c.duration(call.Pos(), argument, fn.Name())
			}
		}
	case instants[name(fn)], instants[fn.Name()] && fn.Signature().Recv() != nil:
		for _, argument := range call.Args {
			// Of an instant only what is added to another is known.
			if add, ok := ast.Unparen(argument).(*ast.CallExpr); ok {
				if method, ok := c.callee(add).(*types.Func); ok && method.FullName() == "(time.Time).Add" {
					c.duration(call.Pos(), add.Args[0], fn.Name())
				}
			}
		}
	}
}

// duration reports a constant that is shorter than a minute. One that has passed before it begins waits for nothing.
func (c *checker) duration(at token.Pos, value ast.Expr, what string) {
	v := c.TypesInfo.Types[value].Value
	if v == nil || !isDuration(c.TypesInfo.TypeOf(value)) {
		return
	}
	if d, exact := constant.Int64Val(constant.ToInt(v)); exact && d > 0 && time.Duration(d) < least {
		c.report(at, value.Pos(), what+" of "+time.Duration(d).String()+": a busy machine takes longer")
	}
}

// report accepts a reason where the statement begins, and where the duration is.
func (c *checker) report(begin, at token.Pos, message string) {
	if !c.excused[c.line(begin)] && !c.excused[c.line(at)] {
		c.Reportf(at, "%s; or say why: // clock: …", message)
	}
}

func name(fn *types.Func) string {
	if fn.Pkg() == nil || fn.Signature().Recv() != nil {
		return ""
	}
	return fn.Pkg().Path() + "." + fn.Name()
}

func isDuration(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" && named.Obj().Name() == "Duration"
}

// isTimeout is true for the fields of net and net/http that bound a call or a connection.
func isTimeout(o types.Object) bool {
	field, ok := o.(*types.Var)
	return ok && field.IsField() && field.Pkg() != nil && strings.HasPrefix(field.Pkg().Path(), "net") &&
		strings.HasSuffix(field.Name(), "Timeout")
}
