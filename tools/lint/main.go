// Command lint is vet, staticcheck and our own checks in one program, run by `go vet -vettool=bin/lint`: packages come
// to it one by one, what it finds in each is kept in go's build cache, and only changed packages are analysed again.
package main

import (
	"encoding/json"
	"log"
	"os"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/roamcard/roamcard/tools/lint/clock"
	"github.com/roamcard/roamcard/tools/lint/static"
)

func main() {
	analyzers := append([]*analysis.Analyzer{static.Analyzer, clock.Analyzer}, vet.Suite...)
	if file := os.Args[len(os.Args)-1]; strings.HasSuffix(file, ".cfg") && factsOnly(file) {
		// unitchecker would run every analyzer that reads facts, not only those that write them, on all dependencies.
		analyzers = writers(analyzers)
	}
	unitchecker.Main(analyzers...)
}

// factsOnly tells whether the package is a dependency, in which nothing is reported.
func factsOnly(file string) bool {
	var unit unitchecker.Config
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &unit)
	}
	if err != nil {
		log.Fatalf("read unit: %v", err)
	}
	return unit.VetxOnly
}

// writers are the analyzers, and those that they require, that write facts.
func writers(analyzers []*analysis.Analyzer) []*analysis.Analyzer {
	var found []*analysis.Analyzer
	seen := map[*analysis.Analyzer]bool{}
	var visit func(*analysis.Analyzer)
	visit = func(a *analysis.Analyzer) {
		if seen[a] {
			return
		}
		seen[a] = true
		if len(a.FactTypes) > 0 {
			found = append(found, a)
		}
		for _, required := range a.Requires {
			visit(required)
		}
	}
	for _, a := range analyzers {
		visit(a)
	}
	return found
}
