// Package static is staticcheck as one analyzer: its default checks and unused code, with its directives.
//
// Staticcheck's own driver reads all dependencies from source. Here a unit is one package, as `go vet` makes them: with
// its tests when it has some, so that code which only tests use is seen to be used.
package static

import (
	"fmt"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/analysis/facts/directives"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/analysis/report"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// Analyzer reports what staticcheck does by default; each message ends with the name of its check.
var Analyzer = &analysis.Analyzer{
	Name:     "staticcheck",
	Doc:      "run the default checks of staticcheck",
	Run:      run,
	Requires: append(wrapped, directives.Analyzer, unused.Analyzer.Analyzer),
}

// wrapped are the checks, which hand over their findings instead of reporting them.
var wrapped = wrap(staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers)

type finding struct {
	analysis.Diagnostic
	check   string
	ignored bool
}

func wrap(suites ...[]*lint.Analyzer) []*analysis.Analyzer {
	var all []*analysis.Analyzer
	for _, check := range slices.Concat(suites...) {
		if check.Doc.NonDefault {
			continue
		}
		w := *check.Analyzer
		w.ResultType = reflect.TypeFor[[]finding]()
		w.Run = func(pass *analysis.Pass) (any, error) {
			var found []finding
			quiet := *pass
			quiet.Report = func(d analysis.Diagnostic) {
				found = append(found, finding{Diagnostic: d, check: check.Analyzer.Name})
			}
			_, err := check.Analyzer.Run(&quiet)
			return found, err
		}
		all = append(all, &w)
	}
	return all
}

func run(pass *analysis.Pass) (any, error) {
	var found []finding
	for _, check := range wrapped {
		found = append(found, pass.ResultOf[check].([]finding)...)
	}
	for _, directive := range pass.ResultOf[directives.Analyzer].([]lint.Directive) {
		ignore(pass, directive, found)
	}
	for _, f := range found {
		if !f.ignored {
			f.Message += " (" + f.check + ")"
			f.SuggestedFixes = nil
			pass.Report(f.Diagnostic)
		}
	}
	reportUnused(pass)
	return nil, nil
}

// ignore marks what a directive excuses: //lint:ignore what is on the line of its node, //lint:file-ignore all of the
// file. The first must excuse something, unless it is about unused code, which knows directives by itself.
func ignore(pass *analysis.Pass, directive lint.Directive, found []finding) {
	if directive.Command != "ignore" && directive.Command != "file-ignore" {
		return
	}
	if len(directive.Arguments) < 2 {
		pass.Reportf(directive.Node.Pos(), "malformed linter directive; missing the required reason field? (compile)")
		return
	}
	place := report.DisplayPosition(pass.Fset, directive.Node.Pos())
	patterns := strings.Split(strings.ToLower(directive.Arguments[0]), ",")
	matched := false
	for i := range found {
		at := report.DisplayPosition(pass.Fset, found[i].Pos)
		if at.Filename != place.Filename || directive.Command == "ignore" && at.Line != place.Line {
			continue
		}
		for _, pattern := range patterns {
			if ok, _ := filepath.Match(pattern, strings.ToLower(found[i].check)); ok {
				found[i].ignored, matched = true, true
			}
		}
	}
	if directive.Command == "ignore" && !matched && couldMatch(patterns) {
		pass.Reportf(directive.Directive.Pos(),
			"this linter directive didn't match anything; should it be removed? (staticcheck)")
	}
}

// couldMatch tells whether one of the patterns is the name of a check that runs.
func couldMatch(patterns []string) bool {
	for _, pattern := range patterns {
		if pattern == "u1000" {
			return false
		}
	}
	return slices.ContainsFunc(wrapped, func(check *analysis.Analyzer) bool {
		return slices.Contains(patterns, strings.ToLower(check.Name))
	})
}

// reportUnused reports objects without a use. Instances of one generic object have its position, and one use is enough.
func reportUnused(pass *analysis.Pass) {
	type key struct {
		file string
		line int
		name string
	}
	of := func(o unused.Object) key { return key{o.Position.Filename, o.Position.Line, o.Name} }
	result := pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result)
	used := map[key]bool{}
	for _, object := range result.Used {
		used[of(object)] = true
	}
	for _, object := range result.Unused {
		if used[of(object)] {
			continue
		}
		pass.Report(analysis.Diagnostic{
			Pos:     position(pass, object.Position),
			Message: fmt.Sprintf("%s %s is unused (U1000)", object.Kind, object.Name),
		})
	}
}

// position finds the place in the files of the package.
func position(pass *analysis.Pass, at token.Position) token.Pos {
	for _, file := range pass.Files {
		f := pass.Fset.File(file.FileStart)
		if f.Name() == at.Filename && at.Line <= f.LineCount() {
			return f.LineStart(at.Line) + token.Pos(at.Column-1)
		}
	}
	return pass.Files[0].Pos()
}
