// Command docscheck finds what documents say and what is not so: links and headings that lead nowhere, tests,
// benchmarks and targets of make that do not exist, commands that nothing runs and that do not say so, output that
// nothing compares with what is printed, claims without a proof, and texts that are too long to be read.
//
//	docscheck ROOT FILE...
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	known, err := read(os.Args[1], os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}
	found := known.check()
	for _, f := range found {
		fmt.Println(f)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// repository is what documents may name.
type repository struct {
	root    string
	pages   map[string]string // Markdown, by its path
	tests   map[string]bool   // of Go: functions that go test runs
	targets map[string]bool   // of make
}

var (
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// read reads documents, and all that the root has of tests and targets.
func read(root string, files []string) (*repository, error) {
	r := &repository{root: root, pages: map[string]string{}, tests: map[string]bool{}, targets: map[string]bool{}}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return nil, err
	}
	for _, target := range makeTarget.FindAllSubmatch(makefile, -1) {
		r.targets[string(target[1])] = true
	}
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(file, "_test.go") {
			for _, test := range testFunc.FindAllSubmatch(raw, -1) {
				r.tests[string(test[1])] = true
			}
			continue
		}
		r.pages[file] = string(raw)
	}
	return r, nil
}

// check returns a line for each fault.
func (r *repository) check() (found []string) {
	for page, text := range r.pages {
		say := func(at int, format string, values ...any) {
			line := 1 + strings.Count(text[:at], "\n")
			found = append(found, fmt.Sprintf("%s:%d: %s", page, line, fmt.Sprintf(format, values...)))
		}
		r.links(page, text, say)
		r.names(text, say)
		if made(text) {
			continue
		}
		blocks(text, r.tests, r.exists, say)
		outputs(page, text, r.exists, say)
		size(page, text, say)
		claims(page, text, say)
	}
	slices.SortFunc(found, cmp.Compare)
	return found
}

// say tells of a fault at a byte of a text.
type say func(at int, format string, values ...any)

// made reports whether a page is generated.
func made(text string) bool { return strings.HasPrefix(text, "<!-- Made by ") }

// exists reports whether the root has a file or a folder.
func (r *repository) exists(file string) bool {
	_, err := os.Stat(filepath.Join(r.root, filepath.FromSlash(file)))
	return err == nil
}

var (
	fence  = regexp.MustCompile("(?ms)^(```|~~~).*?^(```|~~~)$")
	inCode = regexp.MustCompile("`[^`\n]*`")
	link   = regexp.MustCompile(`\]\(([^()\s]*(?:\([^()\s]*\))?[^()\s]*)\)`)
)

// blank overwrites what a pattern finds, so that what is left keeps its place.
func blank(text string, pattern *regexp.Regexp) string {
	return pattern.ReplaceAllStringFunc(text, func(s string) string {
		erased := []byte(s)
		for i, b := range erased {
			if b != '\n' {
				erased[i] = ' '
			}
		}
		return string(erased)
	})
}

// links follows each link to a file of the repository, and to its heading.
func (r *repository) links(page, text string, say say) {
	prose := blank(blank(text, fence), inCode)
	for _, at := range link.FindAllStringSubmatchIndex(prose, -1) {
		target := prose[at[2]:at[3]]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, heading, _ := strings.Cut(target, "#")
		to := page
		if file != "" {
			to = path.Join(path.Dir(page), file)
		}
		if !r.exists(to) {
			say(at[0], "the link to %s leads nowhere", target)
			continue
		}
		if other, is := r.pages[to]; heading != "" && is && !slices.Contains(headings(other), heading) {
			say(at[0], "%s has no heading #%s", to, heading)
		}
	}
}

var (
	title       = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	linkInTitle = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings are the anchors of a page, as code hosts make them.
func headings(text string) (all []string) {
	seen := map[string]int{}
	for _, heading := range title.FindAllStringSubmatch(blank(text, fence), -1) {
		name := strings.ToLower(linkInTitle.ReplaceAllString(heading[1], "$1"))
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(name, ""), " ", "-")
		if n := seen[slug]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", slug, n))
		} else {
			all = append(all, slug)
		}
		seen[slug]++
	}
	return all
}

var (
	testName = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)(?:/[^`\n]*)?`")
	makeCall = regexp.MustCompile("(?m)(?:`|^|&& |; )make ([a-z][a-z-]*)")
)

// names looks each test and each target up.
func (r *repository) names(text string, say say) {
	for _, at := range testName.FindAllStringSubmatchIndex(text, -1) {
		if name := text[at[2]:at[3]]; !r.tests[name] {
			say(at[0], "there is no %s", name)
		}
	}
	// In prose a line may begin with the word.
	code := blank(text, regexp.MustCompile("(?m)^make [a-z]+ [a-z]+ [a-z]+.*$"))
	for _, at := range makeCall.FindAllStringSubmatchIndex(code, -1) {
		if target := code[at[2]:at[3]]; !r.targets[target] {
			say(at[0], "make has no target %s", target)
		}
	}
}

var (
	// Commands are in the language of a shell, or begin as one.
	commands = regexp.MustCompile("(?m)^```(?:sh|bash|console|\n(?:make|roamcard|npm|go|curl|cast|psql|git|cd) .*)$")
	// Output is text; in the examples, which answer in JSON, that too. What else JSON shows is made of the protos.
	output, answers = regexp.MustCompile("(?m)^```text$"), regexp.MustCompile("(?m)^```(?:text|json)$")
	// What stands above a block of commands, and above one of output.
	ranBy     = regexp.MustCompile(`<!-- run by ([\w./-]+) -->\n\z`)
	notRun    = regexp.MustCompile(`<!-- not run: [^\n]+ -->\n\z`)
	printedBy = regexp.MustCompile(`<!-- printed by ([\w./-]+) -->\n\z`)
)

// outputs asks of each block of output for the file that compares it with what is printed.
func outputs(page, text string, exists func(string) bool, say say) {
	shown := output
	if strings.HasPrefix(page, "examples/") {
		shown = answers
	}
	for _, at := range shown.FindAllStringIndex(text, -1) {
		by := printedBy.FindStringSubmatch(text[:at[0]])
		switch {
		case by == nil:
			say(at[0], "nothing says what compares this with what is printed")
		case !exists(by[1]):
			say(at[0], "there is no %s to compare this with what is printed", by[1])
		}
	}
}

// blocks asks of each block of commands what runs it: a test, or a file of the repository; or why nothing does.
func blocks(text string, tests map[string]bool, exists func(string) bool, say say) {
	for _, at := range commands.FindAllStringIndex(text, -1) {
		above := text[:at[0]]
		if notRun.MatchString(above) {
			continue
		}
		by := ranBy.FindStringSubmatch(above)
		switch {
		case by == nil:
			say(at[0], "nothing says what runs these commands, or why nothing does")
		case !tests[by[1]] && !exists(by[1]):
			say(at[0], "there is no %s to run these commands", by[1])
		}
	}
}

// The most that a text may have, in bytes, and the README in lines, too.
const (
	longest       = 25_000
	readmeLongest = 9_000
	readmeLines   = 150
)

// size refuses what nobody reads to its end.
func size(page, text string, say say) {
	limit := longest
	if page == "README.md" {
		limit = readmeLongest
		if lines := strings.Count(text, "\n"); lines > readmeLines {
			say(0, "%d lines are more than %d", lines, readmeLines)
		}
	}
	if page != "CHANGELOG.md" && len(text) > limit {
		say(0, "%d bytes are more than %d", len(text), limit)
	}
}

// claiming are the pages that promise safety, speed or scale.
var claiming = regexp.MustCompile(
	`^docs/(promises|fairness|ledger|scale|performance|threat-model|payment-safety)(/.*|[\w-]*)\.md$`)

var (
	section = regexp.MustCompile(`(?m)^## .*$`)
	// A proof is a test, a benchmark, or what runs many of them; a page made by such a run has its figures.
	proof = regexp.MustCompile("`(?:Test|Benchmark|Fuzz)[A-Z]\\w*|`make [a-z]|(?:fault-matrix|performance)[\\w/-]*\\.md")
	// no is how a section says that it promises nothing.
	no = regexp.MustCompile(`(?m)^<!-- no claim: [^\n]+ -->$`)
)

// claims asks each section of a page that promises for what shows it.
func claims(page, text string, say say) {
	if !claiming.MatchString(page) {
		return
	}
	at := section.FindAllStringIndex(blank(text, fence), -1)
	for i, from := range at {
		to := len(text)
		if i+1 < len(at) {
			to = at[i+1][0]
		}
		if body := text[from[0]:to]; !proof.MatchString(body) && !no.MatchString(body) {
			say(from[0], "%q names nothing that shows it", strings.TrimPrefix(text[from[0]:from[1]], "## "))
		}
	}
}
