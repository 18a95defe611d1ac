// Command mutantcheck shows that the bugs of tools/mutants can be planted: each patch applies, the package that it
// changes still compiles, and the tests that shall notice it are there. No test runs, and no code is generated: of a
// package only its own files are read, and of what it imports the export data in go's build cache.
//
//	mutantcheck ROOT NAME...
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

func main() {
	log.SetFlags(0)
	root, err := filepath.Abs(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	mutants, err := readAll(root, os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}
	c, err := newChecker(root, mutants)
	if err != nil {
		log.Fatal(err)
	}
	// Export data is read by one at a time, so a worker keeps its own packages.
	queue := make(chan *mutant)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			mine := c.worker()
			for m := range queue {
				m.err = mine.check(m)
			}
		})
	}
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	workers.Wait()
	failed := 0
	for _, m := range mutants {
		if m.err != nil {
			fmt.Printf("tools/mutants/%s.patch %v\n", m.name, m.err)
			failed++
		}
	}
	fmt.Printf("planted bugs: %d ok, %d broken\n", len(mutants)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// A mutant is one planted bug.
type mutant struct {
	name, patch string
	files       []string // that it changes
	tests       string   // the folder with the tests that notice it
	pattern     *regexp.Regexp
	err         error
}

// dir is the folder of the package that the patch changes.
func (m *mutant) dir() string { return path.Dir(m.files[0]) }

var (
	caughtBy = regexp.MustCompile(`(?m)^caught by: (\S+) (\S+)$`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w*)\(`)
	changes  = regexp.MustCompile(`(?m)^(?:---|\+\+\+) [ab]/(\S+)`)
)

func readAll(root string, names []string) ([]*mutant, error) {
	var all []*mutant
	for _, name := range names {
		m := &mutant{name: name, patch: filepath.Join(root, "tools/mutants", name+".patch")}
		text, err := os.ReadFile(m.patch)
		if err != nil {
			return nil, err
		}
		by := caughtBy.FindStringSubmatch(string(text))
		if by == nil {
			return nil, fmt.Errorf("%s does not say by what it is caught", m.patch)
		}
		m.tests = path.Join("internal", by[1])
		if m.pattern, err = regexp.Compile(`^Test.*(` + by[2] + `)`); err != nil {
			return nil, fmt.Errorf("%s: %w", m.patch, err)
		}
		for _, change := range changes.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(m.files, change[1]) {
				m.files = append(m.files, change[1])
			}
		}
		for _, file := range m.files {
			if path.Dir(file) != m.dir() || path.Ext(file) != ".go" {
				return nil, fmt.Errorf("%s changes more than the Go files of one package", m.patch)
			}
		}
		if len(m.files) == 0 {
			return nil, fmt.Errorf("%s changes nothing", m.patch)
		}
		all = append(all, m)
	}
	return all, nil
}

// A unit is what `go list` says of a package.
type unit struct {
	Dir, ImportPath, Export string
	GoFiles, CgoFiles       []string
	ImportMap               map[string]string
	Module                  *struct{ GoVersion string }
	Error                   *struct{ Err string }
}

type checker struct {
	root    string
	byPath  map[string]*unit
	byDir   map[string]*unit
	fset    *token.FileSet
	sources map[string]*ast.File // those without a bug
}

// newChecker lists the packages that are changed, with the export data of what they import.
func newChecker(root string, mutants []*mutant) (*checker, error) {
	c := &checker{root: root, byPath: map[string]*unit{}, byDir: map[string]*unit{},
		fset: token.NewFileSet(), sources: map[string]*ast.File{}}
	dirs := map[string]bool{}
	for _, m := range mutants {
		dirs["./"+m.dir()] = true
	}
	list := exec.Command("go", "list", "-deps", "-export",
		"-json=Dir,ImportPath,Export,GoFiles,CgoFiles,ImportMap,Module,Error")
	list.Args = append(list.Args, slices.Sorted(maps.Keys(dirs))...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		u := new(unit)
		if err := d.Decode(u); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		c.byPath[u.ImportPath], c.byDir[u.Dir] = u, u
	}
	for dir := range dirs {
		u := c.byDir[filepath.Join(root, dir)]
		if u == nil || u.Error != nil || len(u.CgoFiles) > 0 {
			continue // check says so
		}
		for _, name := range u.GoFiles {
			file := filepath.Join(u.Dir, name)
			if c.sources[file], err = parser.ParseFile(c.fset, file, nil, parser.SkipObjectResolution); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// A worker checks one bug after the other.
type worker struct {
	*checker
	imports types.Importer
}

func (c *checker) worker() *worker { return &worker{c, importer.ForCompiler(c.fset, "gc", c.export)} }

// check returns why a bug cannot be planted or noticed.
func (w *worker) check(m *mutant) error {
	if err := w.hasTest(m); err != nil {
		return err
	}
	u := w.byDir[filepath.Join(w.root, m.dir())]
	if u == nil || u.Error != nil || len(u.CgoFiles) > 0 {
		return fmt.Errorf("changes %s, which is no package", m.dir())
	}
	changed, err := w.apply(m)
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, name := range u.GoFiles {
		file := filepath.Join(u.Dir, name)
		if _, ok := changed[file]; !ok {
			files = append(files, w.sources[file])
		}
	}
	for _, file := range slices.Sorted(maps.Keys(changed)) {
		f, err := parser.ParseFile(w.fset, file, changed[file], parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("does not parse: %w", err)
		}
		files = append(files, f)
	}
	return w.compile(u, files)
}

// hasTest looks for a test that matches the pattern.
func (w *worker) hasTest(m *mutant) error {
	found, err := filepath.Glob(filepath.Join(w.root, m.tests, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, test := range testFunc.FindAllSubmatch(text, -1) {
			if m.pattern.Match(test[1]) {
				return nil
			}
		}
	}
	return fmt.Errorf("is caught by nothing: %s has no test like %s", m.tests, m.pattern)
}

// apply returns the changed files, by their names. Each bug is planted in a tree of its own: what two change in the
// same place is no conflict.
func (w *worker) apply(m *mutant) (map[string][]byte, error) {
	tree, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tree)
	for _, file := range m.files {
		text, err := os.ReadFile(filepath.Join(w.root, file))
		if errors.Is(err, os.ErrNotExist) {
			continue // the patch makes it, or does not apply
		}
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Join(tree, m.dir()), 0o755),
				os.WriteFile(filepath.Join(tree, file), text, 0o644))
		}
		if err != nil {
			return nil, err
		}
	}
	git := exec.Command("git", "apply", m.patch)
	git.Dir = tree
	// The tree belongs to no repository.
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(tree))
	if out, err := git.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(out), "\n")
		return nil, fmt.Errorf("does not apply: %s", cmp.Or(first, err.Error()))
	}
	changed := map[string][]byte{}
	for _, file := range m.files {
		text, err := os.ReadFile(filepath.Join(tree, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err == nil {
			changed[filepath.Join(w.root, file)] = text
		} else {
			return nil, fmt.Errorf("takes %s away", file)
		}
	}
	return changed, nil
}

// compile finds what a compiler would refuse.
func (w *worker) compile(u *unit, files []*ast.File) error {
	config := types.Config{
		Importer: importing(func(name string) (*types.Package, error) {
			return w.imports.Import(cmp.Or(u.ImportMap[name], name))
		}),
		Sizes: types.SizesFor("gc", runtime.GOARCH),
	}
	if u.Module != nil && u.Module.GoVersion != "" {
		config.GoVersion = "go" + u.Module.GoVersion
	}
	if _, err := config.Check(u.ImportPath, w.fset, files, nil); err != nil {
		return fmt.Errorf("does not compile: %w", err)
	}
	return nil
}

// An importing finds packages as one package names them.
type importing func(string) (*types.Package, error)

func (i importing) Import(name string) (*types.Package, error) { return i(name) }

// export opens the export data of a package.
func (c *checker) export(name string) (io.ReadCloser, error) {
	if u := c.byPath[name]; u != nil {
		return os.Open(u.Export)
	}
	// Nothing but the bug imports it.
	list := exec.Command("go", "list", "-export", "-f", "{{.Export}}", name)
	list.Dir, list.Stderr = c.root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return os.Open(strings.TrimSpace(string(out)))
}
