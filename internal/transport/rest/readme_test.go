package rest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPageOfTheAPIListsEveryRoute, with its method.
func TestPageOfTheAPIListsEveryRoute(t *testing.T) {
	routes, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/api/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Endpoints\n")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z, ]+) \| ([^|]+) \|`).FindAllStringSubmatch(table, -1) {
		for _, path := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			for method := range strings.SplitSeq(row[1], ", ") {
				listed[method+" "+path[1]] = true
			}
		}
	}
	word := regexp.MustCompile(`_([a-z])`)
	for line := range strings.Lines(string(routes)) {
		method, rest, _ := strings.Cut(line, " ")
		path := word.ReplaceAllStringFunc(strings.Fields(rest)[0], func(s string) string { return strings.ToUpper(s[1:]) })
		if !listed[method+" "+path] {
			t.Errorf("the table lacks %s %s", method, path)
		}
	}
}
