package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/internal/settlement"
)

// handbook are the texts of docs/operations, by their names.
func handbook(t *testing.T) map[string]string {
	t.Helper()
	pages := textsOf(t, "docs/operations/*.md")
	if len(pages) < 2 {
		t.Fatalf("%d pages", len(pages))
	}
	return pages
}

// textsOf are the texts of the repository that a pattern names, by their names without folders.
func textsOf(t *testing.T, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../" + pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d pages, %v", pattern, len(paths), err)
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
	before  = `(?:^|[;&|(] *|do +|-- +|exec +|sudo +|run --rm +(?:-\w \S+ +)*)`
	ours    = regexp.MustCompile(before + `(?:[A-Z_]+=\S* +)*(?:\S*/)?roamcard(?:-run)?((?: [^;|&()\x60]*)?)`)
	word    = regexp.MustCompile(`(?:[^\s"']+|"[^"]*"|'[^']*')+`)
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
	call, _, _ = strings.Cut(call, " >") // where its output goes
	words := word.FindAllString(call, -1)
	program := root()
	program.InitDefaultCompletionCmd()
	cmd, rest, err := program.Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "no command " + rest[0]
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

func TestDocumentsNameCommandsThatExist(t *testing.T) {
	found := 0
	for _, folder := range []string{
		"*.md", "docs/*.md", "docs/operations/*.md", "docs/configuration/*.md", "docs/payment-safety/*.md",
		"docs/agents/*.md", "docs/providers/*.md", "examples/*/*.md",
	} {
		for name, page := range textsOf(t, folder) {
			if name == "CHANGELOG.md" {
				continue // it names what was there once
			}
			for _, call := range commandsIn(page) {
				found++
				if why := wrong(call); why != "" {
					t.Errorf("%s of %s: roamcard %s: %s", name, folder, call, why)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d calls were found", found)
	}
	for _, call := range []string{
		"admin orders shw ORDER", "doctor --fiel x", "nothing", "admin orders show", "doctor FILE", "doctor --config",
		"card topup --json", "config check FILE ANOTHER",
	} {
		if wrong(call) == "" {
			t.Errorf("roamcard %s is believed to exist", call)
		}
	}
}

// secretive are the commands that read the settings and the secrets of the service.
var secretive = regexp.MustCompile(`^(migrate|doctor|recover|reconcile|deploy-settler|config check)\b`)

// TestUpgradesAndRotationsSayWhichSettings: in a shell these commands have neither settings nor secrets, so these pages
// name the file, and link to how each way of deploying gives a command both. Compose has no file.
func TestUpgradesAndRotationsSayWhichSettings(t *testing.T) {
	pages := handbook(t)
	for _, name := range []string{"upgrade.md", "rotate.md", "recovery.md"} {
		if !strings.Contains(pages[name], "](deploy.md#run-a-command)") {
			t.Errorf("%s does not say how to run a command", name)
		}
		inCompose := regexp.MustCompile(`run --rm roamcard [^\x60]+`)
		for _, block := range fenced.FindAllStringSubmatch(pages[name], -1) {
			for _, call := range commandsIn(block[0]) {
				if secretive.MatchString(call) && !strings.Contains(call, "--config ") {
					t.Errorf("%s: roamcard %s names no settings", name, call)
				}
			}
		}
		for _, row := range regexp.MustCompile(`(?m)^\| .*$`).FindAllString(pages[name], -1) {
			for _, call := range commandsIn(inCompose.ReplaceAllString(row, "")) {
				if strings.HasPrefix(call, "migrate") && !strings.Contains(call, "--config ") {
					t.Errorf("%s: roamcard %s names no settings", name, call)
				}
			}
		}
	}
	_, section, _ := strings.Cut(pages["deploy.md"], "\n## Run a command\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, must := range []string{
		"sudo roamcard-run doctor --config ", "run --rm roamcard doctor", "kubectl exec deploy/",
	} {
		if !strings.Contains(section, must) {
			t.Errorf("running a command: there is no %q", must)
		}
	}
	// The chart sees no change of a Secret, and Helm waits for 5 minutes where a migration may take 15.
	if !strings.Contains(pages["rotate.md"], "kubectl rollout restart ") {
		t.Error("no rotation restarts the chart's processes")
	}
	if !strings.Contains(pages["upgrade.md"], "helm upgrade --timeout 20m ") {
		t.Error("an upgrade by Helm gives up before its migration does")
	}
	// A managed PostgreSQL has no machine to log in to.
	if strings.Contains(pages["upgrade.md"], "kill -TERM") {
		t.Error("a transaction is ended on the database's machine")
	}
}

// TestAFormerTreasuryIsRetiredOnceNoRefundIsOpen: without a status, jobs that wait or run are not listed.
func TestAFormerTreasuryIsRetiredOnceNoRefundIsOpen(t *testing.T) {
	_, section, _ := strings.Cut(handbook(t)["rotate.md"], "\n## The treasury's key\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, must := range []string{
		"admin jobs list --kind " + string(settlement.RefundConfirming), "`--status queued`", "`--status processing`",
	} {
		if !strings.Contains(section, must) {
			t.Errorf("the treasury's key is retired without %q", must)
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
	sections := sectionsOf(handbook(t)["alerts.md"])
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			section, there := sections[rule.Alert]
			if !there || rule.Annotations.Runbook != "alerts.md#"+strings.ToLower(rule.Alert) {
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
	sections := map[string]string{}
	for _, section := range strings.Split(page, "\n## ")[1:] {
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
