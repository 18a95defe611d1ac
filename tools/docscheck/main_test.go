package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsNotSoIsFound(t *testing.T) {
	root := t.TempDir()
	long := "# Long\n" + strings.Repeat("word ", longest/5)
	files := map[string]string{
		"Makefile":     "test: all\n\techo\n.PHONY: demo\ndemo:\n",
		"a/go_test.go": "package a\nfunc TestTrue(t *testing.T) {}\nfunc BenchmarkTrue(b *testing.B) {}\n",
		"docs/good.md": "# Good one\n\né [a](good.md#good-one) [b](#two-words-b) [c](../Makefile) [d](https://x.test/y)\n" +
			"[e](../a#z) `[f](gone.md)` `TestTrue/sub` `BenchmarkTrue` `make test`\n\n## Two words: *(b)*\n\n" +
			"## Two words: b\n\n[g](#two-words-b-1)\n\n" +
			"<!-- run by TestTrue -->\n```sh\nmake demo\n```\n\n<!-- run by a/go_test.go -->\n```sh\nx\n```\n\n" +
			"<!-- not run: it needs a phone -->\n```sh\nx\n```\n\n<!-- printed by a/go_test.go -->\n```text\n" +
			"[h](gone.md)\n# No title\n```\n```json\n{}\n```\n",
		"docs/bad.md": "# Bad\n\n[a](gone.md)\n[b](good.md#gone)\n`TestGone`\n`make gone`\n```sh\nx\n```\n" +
			"<!-- run by TestGone -->\n```sh\nx\n```\n[c](#no-title)\n" +
			"<!-- printed by gone.sh -->\n```text\n# No title\n```\n```\nmake test\n```\n",
		"examples/a/README.md":   "# A\n```json\n{}\n```\n",
		"docs/long.md":           long,
		"docs/made.md":           "<!-- Made by a tool. -->\n" + long + "[a](gone.md)",
		"docs/scale.md":          "# Scale\n\n## Shown\n\n`BenchmarkTrue`\n\n## Said\n\nIt is fast.\n",
		"docs/promises.md":       "# P\n\n## Run\n\n`make test`\n\n## Words\n<!-- no claim: it says what a word means -->\n",
		"docs/promises/extra.md": "# P\n\nNo section.\n",
		"README.md":              "# R\n" + strings.Repeat("\n", readmeLines),
	}
	var names []string
	for name, text := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "Makefile" {
			names = append(names, name)
		}
	}
	r, err := read(root, names)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"README.md:1: 151 lines are more than 150",
		"docs/bad.md:11: there is no TestGone to run these commands",
		"docs/bad.md:14: docs/bad.md has no heading #no-title",
		"docs/bad.md:16: there is no gone.sh to compare this with what is printed",
		"docs/bad.md:19: nothing says what runs these commands, or why nothing does",
		"docs/bad.md:3: the link to gone.md leads nowhere",
		"docs/bad.md:4: docs/good.md has no heading #gone",
		"docs/bad.md:5: there is no TestGone",
		"docs/bad.md:6: make has no target gone",
		"docs/bad.md:7: nothing says what runs these commands, or why nothing does",
		"docs/long.md:1: 25007 bytes are more than 25000",
		"docs/made.md:3: the link to gone.md leads nowhere",
		`docs/scale.md:7: "Said" names nothing that shows it`,
		"examples/a/README.md:2: nothing says what compares this with what is printed",
	}
	if got := r.check(); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwanted\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
