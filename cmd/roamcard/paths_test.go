package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPathsInDocumentsExist(t *testing.T) {
	tree := os.DirFS("../..")
	files, err := filesOf(tree)
	if err != nil {
		t.Fatal(err)
	}
	pages, found := 0, 0
	for _, page := range files {
		// The pages of the API are made from comments, in which tools/list is a method of MCP.
		inDocs := strings.HasPrefix(page, "docs/") && path.Ext(page) == ".md" && path.Dir(page) != "docs/api"
		if page != "README.md" && page != "CONTRIBUTING.md" && !inDocs {
			continue
		}
		text, err := fs.ReadFile(tree, page)
		if err != nil {
			t.Fatal(err)
		}
		named, missing := pathsIn(files, page, string(text))
		pages, found = pages+1, found+named
		for _, m := range missing {
			t.Errorf("%s names %s, which does not exist", page, m)
		}
	}
	if pages < 20 || found < 150 {
		t.Errorf("%d paths in %d documents", found, pages)
	}
}

var (
	// A path of ours has no other characters. Names in angle brackets stand for any.
	ourPath  = regexp.MustCompile(`^[\w.@*/-]+$`)
	anything = regexp.MustCompile(`<[\w -]+>`)
	// sourceFile is the name of a file that is written by hand, without a folder.
	sourceFile = regexp.MustCompile(`^[\w-]+\.(?:go|sh|mjs|proto|sol|patch)$`)
	blocks     = regexp.MustCompile("(?s)```.*?```")
	release    = regexp.MustCompile(`/v\d+\.\d+\.\d+$`)
)

// made are folders that the program, the build and scripts make.
var made = []string{"bin", "data", "packaging/compose/secrets"}

// isMade reports whether a path, from one of some folders, leads to what is made.
func isMade(word string, bases []string) bool {
	return slices.ContainsFunc(bases, func(base string) bool {
		return slices.ContainsFunc(made, func(folder string) bool {
			return strings.HasPrefix(path.Join(base, word)+"/", folder+"/")
		})
	})
}

// pathsIn counts the paths of the repository that a page names in code, and lists those that lead nowhere. A path
// begins at the root, in internal, in packaging or in the page's folder, with a folder that is there. The name of a
// source file may be said without a folder.
func pathsIn(files []string, page, text string) (named int, missing []string) {
	text = blocks.ReplaceAllString(text, "")
	bases := []string{"", "internal/", "packaging/"}
	if folder := path.Dir(page); folder != "." {
		bases = append(bases, folder+"/")
	}
	for _, code := range inline.FindAllStringSubmatch(text, -1) {
		for _, word := range strings.Fields(anything.ReplaceAllString(code[1], "*")) {
			word = strings.TrimSuffix(strings.TrimPrefix(word, "./"), "/...")
			first, below, nested := strings.Cut(strings.TrimSuffix(word, "/"), "/")
			switch {
			case !ourPath.MatchString(word), isMade(word, bases), release.MatchString(word):
				continue
			case nested && !slices.ContainsFunc(bases, func(b string) bool { return exists(files, b+first) }):
				continue
			case !nested && !sourceFile.MatchString(word):
				continue
			}
			named++
			there := func(base string) bool { return exists(files, path.Join(base+first, below)) }
			if !nested {
				there = func(string) bool {
					return slices.ContainsFunc(files, func(f string) bool { return path.Base(f) == word })
				}
			}
			if !slices.ContainsFunc(bases, there) {
				missing = append(missing, fmt.Sprintf("%q", word))
			}
		}
	}
	return named, missing
}

// exists reports whether a path, in which * stands for any name, is a file or a folder.
func exists(files []string, wanted string) bool {
	if !strings.Contains(wanted, "*") {
		return slices.ContainsFunc(files, func(file string) bool {
			return file == wanted || strings.HasPrefix(file, wanted) && file[len(wanted)] == '/'
		})
	}
	depth := strings.Count(wanted, "/") + 1
	return slices.ContainsFunc(files, func(file string) bool {
		parts := strings.Split(file, "/")
		if len(parts) < depth {
			return false
		}
		ok, err := path.Match(wanted, strings.Join(parts[:depth], "/"))
		return ok && err == nil
	})
}

// filesOf lists what is written by hand or committed: nothing of what is fetched or built.
func filesOf(tree fs.FS) (files []string, err error) {
	err = fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(made, file) || entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case !entry.IsDir():
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

// TestPathThatLeadsNowhereIsFound keeps the test above from passing because it looks at nothing.
func TestPathThatLeadsNowhereIsFound(t *testing.T) {
	tree := fstest.MapFS{
		"docs/pages/look.md": {}, "docs/pages/shop/open.md": {}, "internal/store/orders.go": {},
		"internal/provider/lithic/lithic.go": {}, "packaging/compose/up.sh": {}, "tools/lint.sh": {},
		"tools/node_modules/left/pad.go": {}, "bin/built.go": {},
	}
	files, err := filesOf(tree)
	if err != nil || len(files) != 6 {
		t.Fatalf("%v, %v", err, files)
	}
	for text, want := range map[string][]string{
		"`internal/store` and `internal/store/orders.go`":                     nil,
		"`internal/provider/<vendor>`, `tools/*.sh`, `./internal/...`":        nil,
		"`store/orders.go`, `compose/up.sh`, `shop/open.md`":                  nil,
		"`tools/lint.sh NAME`, `orders.go`":                                   nil,
		"`text/html`, `esim/order`, `10/1m`, `data/x`, `compose/secrets/key`": nil,
		"`internal/store/gone.go`":                                            {`"internal/store/gone.go"`},
		"`internal/gone/`":                                                    {`"internal/gone/"`},
		"`store/gone.go`":                                                     {`"store/gone.go"`},
		"`tools/gone.sh NAME`":                                                {`"tools/gone.sh"`},
		"`gone.go`":                                                           {`"gone.go"`},
		"`tools/<name>.mjs`":                                                  {`"tools/*.mjs"`},
		"`pad.go`, `built.go`":                                                {`"pad.go"`, `"built.go"`},
		"tools/gone.sh without code":                                          nil,
	} {
		if _, got := pathsIn(files, "docs/pages/look.md", text); !slices.Equal(got, want) {
			t.Errorf("%s: missing %v, want %v", text, got, want)
		}
	}
}
