// Command comments finds names in comments that have gone: `pkg.Name` where pkg is a package of this repository and has
// no such name. It reads all packages, so it is no analyzer: what a package has changes without its readers.
//
//	comments FILE...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/roamcard/roamcard"

func main() {
	log.SetFlags(0)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range os.Args[1:] {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			log.Fatal(err)
		}
		files = append(files, file)
	}
	gone := find(fset, files)
	for _, g := range gone {
		fmt.Println(g)
	}
	if len(gone) > 0 {
		os.Exit(1)
	}
}

// names are those that a package declares.
type names map[string]bool

// find returns a line for each name that its package does not have.
func find(fset *token.FileSet, files []*ast.File) []string {
	byPath := map[string]names{} // by the folder, which is what an import path ends with
	byName := map[string][]names{}
	for _, file := range files {
		dir := filepath.ToSlash(filepath.Dir(fset.Position(file.Package).Filename))
		if byPath[dir] == nil {
			byPath[dir] = names{}
		}
		declare(byPath[dir], file)
		name := strings.TrimSuffix(file.Name.Name, "_test")
		if name != "main" && !slices.ContainsFunc(byName[name], func(n names) bool { return same(n, byPath[dir]) }) {
			byName[name] = append(byName[name], byPath[dir])
		}
	}
	var gone []string
	for _, file := range files {
		if ast.IsGenerated(file) {
			continue
		}
		imports := imported(file)
		for _, group := range file.Comments {
			for _, comment := range group.List {
				for _, m := range qualified.FindAllStringSubmatchIndex(comment.Text, -1) {
					pkg, name := comment.Text[m[2]:m[3]], comment.Text[m[4]:m[5]]
					known := byName[pkg]
					if importPath, ok := imports[pkg]; ok {
						known = nil
						if p, ours := strings.CutPrefix(importPath, module+"/"); ours && byPath[p] != nil {
							known = []names{byPath[p]}
						}
					}
					if len(known) == 0 || slices.ContainsFunc(known, func(n names) bool { return n[name] }) {
						continue
					}
					gone = append(gone, fmt.Sprintf("%s: %s has no %s",
						fset.Position(comment.Pos()+token.Pos(m[2])), pkg, name))
				}
			}
		}
	}
	return gone
}

// qualified is a name with its package, not in the middle of a longer one, of a path, of a host or of a file.
var qualified = regexp.MustCompile("(?:^|[\\s(\\[*`\"])([a-z][a-z0-9]*)\\.([A-Z]\\w*)")

func same(a, b names) bool { return fmt.Sprintf("%p", a) == fmt.Sprintf("%p", b) }

// declare adds what a file declares.
func declare(n names, file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			n[decl.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					n[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						n[name.Name] = true
					}
				}
			}
		}
	}
}

// imported are the paths by the names that the file gives them.
func imported(file *ast.File) map[string]string {
	all := map[string]string{}
	for _, spec := range file.Imports {
		importPath := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		all[name] = importPath
	}
	return all
}
