package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

// handbook are the texts of docs/operations, by their names.
func handbook(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/operations/*.md")
	if err != nil || len(paths) < 2 {
		t.Fatalf("%d pages, %v", len(paths), err)
	}
	pages := map[string]string{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(path)] = string(raw)
	}
	return pages
}

var (
	fenced  = regexp.MustCompile("(?s)```sh\n(.*?)```")
	inline  = regexp.MustCompile("`([^`]+)`")
	ours    = regexp.MustCompile(`(?:^|[;&|(] *|do +|-- +|exec +)(?:[A-Z_]+=\S* +)*(?:\S*/)?roamcard((?: [^;|&()\x60]*)?)`)
	comment = regexp.MustCompile(` +#.*$`)
)

// commandsIn are the calls of our program in a page: in blocks of commands and in code within the text.
func commandsIn(page string) (all []string) {
	var lines []string
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		lines = append(lines, strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n")...)
	}
	for _, code := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		lines = append(lines, strings.ReplaceAll(code[1], "\n", " "))
	}
	for _, line := range lines {
		for _, call := range ours.FindAllStringSubmatch(comment.ReplaceAllString(line, ""), -1) {
			all = append(all, strings.TrimSpace(call[1]))
		}
	}
	return all
}

// wrong says what our program does not have of a call.
func wrong(call string) string {
	words := strings.Fields(call)
	program := root()
	program.InitDefaultCompletionCmd()
	cmd, rest, err := program.Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "no command " + rest[0]
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range rest {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if strings.HasPrefix(word, "--") && !hasFlag(cmd, name) {
			return "no flag " + word
		}
	}
	return ""
}

func hasFlag(cmd *cobra.Command, name string) bool {
	return cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
}

func TestHandbookNamesCommandsThatExist(t *testing.T) {
	found := 0
	for name, page := range handbook(t) {
		for _, call := range commandsIn(page) {
			found++
			if why := wrong(call); why != "" {
				t.Errorf("%s: roamcard %s: %s", name, call, why)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d calls were found", found)
	}
	for _, call := range []string{"admin orders shw ORDER", "doctor --fiel x", "nothing"} {
		if wrong(call) == "" {
			t.Errorf("roamcard %s is believed to exist", call)
		}
	}
}

func TestEveryAlertHasARunbookAndATest(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations struct{ Runbook string }
			}
		}
	}
	var tests struct {
		Tests []struct {
			AlertTests []struct {
				Alert string     `yaml:"alertname"`
				Fires []struct{} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	for name, into := range map[string]any{"alerts.yml": &rules, "alerts_test.yml": &tests} {
		raw, err := os.ReadFile("../../docs/operations/" + name)
		if err == nil {
			err = yaml.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Of each alert, whether a test has it firing, and whether one has it quiet.
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, at := range test.AlertTests {
			fires[at.Alert] = fires[at.Alert] || len(at.Fires) > 0
			quiet[at.Alert] = quiet[at.Alert] || len(at.Fires) == 0
		}
	}
	sections := sectionsOf(handbook(t)["README.md"])
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			section, there := sections[rule.Alert]
			if !there || rule.Annotations.Runbook != "README.md#"+strings.ToLower(rule.Alert) {
				t.Errorf("%s has no section in the runbook", rule.Alert)
			}
			if len(commandsIn(section)) == 0 {
				t.Errorf("the section of %s has no command", rule.Alert)
			}
			if !fires[rule.Alert] || !quiet[rule.Alert] {
				t.Errorf("%s: tested firing %t, quiet %t", rule.Alert, fires[rule.Alert], quiet[rule.Alert])
			}
			delete(sections, rule.Alert)
		}
	}
	for name := range sections {
		t.Errorf("the runbook's section %s has no alert", name)
	}
}

// sectionsOf are the runbook's sections, by their titles.
func sectionsOf(page string) map[string]string {
	_, alerts, _ := strings.Cut(page, "\n## Alerts\n")
	sections := map[string]string{}
	for _, section := range strings.Split(alerts, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	return sections
}

func TestHandbookHasNoSQL(t *testing.T) {
	sql := regexp.MustCompile(`\b(SELECT|INSERT INTO|UPDATE [a-z_]+ SET|DELETE FROM)\b`)
	for name, page := range handbook(t) {
		if found := sql.FindString(page); found != "" {
			t.Errorf("%s has SQL: %s", name, found)
		}
	}
}

var links = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)

// TestHandbookLinksLead follows each link to a file and its heading.
func TestHandbookLinksLead(t *testing.T) {
	punctuation := regexp.MustCompile(`[^a-z0-9 _-]`)
	for name, page := range handbook(t) {
		for _, link := range links.FindAllStringSubmatch(page, -1) {
			path := "../../docs/operations/" + name
			if link[1] != "" {
				path = filepath.Join("../../docs/operations", link[1])
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s links to %s: %v", name, link[1], err)
				continue
			}
			found := link[2] == ""
			for line := range strings.Lines(string(raw)) {
				if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && line[0] == '#' {
					slug := punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
					found = found || strings.ReplaceAll(slug, " ", "-") == link[2]
				}
			}
			if !found {
				t.Errorf("%s links to %s#%s, which is no heading", name, link[1], link[2])
			}
		}
	}
}
