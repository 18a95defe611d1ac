package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/roamcard/roamcard/internal/app"
)

func packaged(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../packaging", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func unpack(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(packaged(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// variables are the settings' names in the environment, by their names in the file.
func variables(t *testing.T) map[string]string {
	t.Helper()
	home(t)
	out, _, _ := runWith(t, "config", "show", "--json")
	var all []struct{ Key, Env string }
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, s := range all {
		known[s.Key] = s.Env
	}
	return known
}

// TestLicenseGoesWithEveryPackage: each client is published with the license of the repository, which names what it has
// of others.
func TestLicenseGoesWithEveryPackage(t *testing.T) {
	license := packaged(t, "../LICENSE")
	for _, client := range []string{"go", "python", "typescript"} {
		if packaged(t, "../clients/"+client+"/LICENSE") != license {
			t.Errorf("the license of clients/%s is another one", client)
		}
	}
	for file, says := range map[string]string{
		"../clients/typescript/package.json": `"license": "Apache-2.0"`, "../web/package.json": `"license": "Apache-2.0"`,
		"../clients/python/pyproject.toml": `license = "Apache-2.0"`, "goreleaser.yaml": "license: Apache-2.0",
		"helm/roamcard/Chart.yaml": "artifacthub.io/license: Apache-2.0",
	} {
		if !strings.Contains(packaged(t, file), says) {
			t.Errorf("%s does not say %s", file, says)
		}
	}
	notice := packaged(t, "../NOTICE")
	others, err := filepath.Glob("../../third_party/*")
	if err != nil || len(others) < 2 {
		t.Fatalf("%v, %v", others, err)
	}
	others = append(others, "../../internal/transport/discovery/docs")
	for _, other := range others {
		if _, err := os.Stat(filepath.Join(other, "LICENSE")); err != nil {
			t.Error(err)
		}
		if !strings.Contains(notice, strings.TrimPrefix(other, "../../")) {
			t.Errorf("NOTICE does not name %s", other)
		}
	}
}

func TestPackagingNamesSettingsThatExist(t *testing.T) {
	known := variables(t)
	var names []string
	for _, name := range known {
		names = append(names, name)
	}
	variable := regexp.MustCompile(`ROAMCARD_[A-Z0-9_]+`)
	for _, path := range []string{
		"compose.yaml", "systemd/roamcard-server.service", "systemd/roamcard-worker.service",
	} {
		found := variable.FindAllString(packaged(t, path), -1)
		if len(found) < 5 {
			t.Errorf("%s names only %v", path, found)
		}
		for _, name := range found {
			if !slices.Contains(names, strings.TrimSuffix(name, "_FILE")) {
				t.Errorf("%s: there is no setting %s", path, name)
			}
		}
	}
	model := regexp.MustCompile(`(?m)^([a-z_.]+): `).FindAllStringSubmatch(
		packaged(t, "../internal/devtools/cluster/conf/roamcard.yaml"), -1)
	if len(model) < 10 {
		t.Errorf("the cluster's file has only %d settings", len(model))
	}
	for _, line := range model {
		if known[line[1]] == "" {
			t.Errorf("the cluster's file: there is no setting %s", line[1])
		}
	}
	var values struct {
		Secret         struct{ Keys map[string]string }
		Console, Admin *struct{ Enabled bool }
	}
	unpack(t, "helm/roamcard/values.yaml", &values)
	// The chart makes the names of these settings of those of its values.
	for key, of := range map[string]*struct{ Enabled bool }{"console.addr": values.Console, "admin.addr": values.Admin} {
		if known[key] == "" || of == nil || of.Enabled {
			t.Errorf("the chart: %s is %q, and its value is %+v", key, known[key], of)
		}
	}
	for key := range values.Secret.Keys {
		if known[key] == "" {
			t.Errorf("the chart: there is no setting %s", key)
		}
	}
}

func TestPackagingRunsCommandsThatExist(t *testing.T) {
	var calls []string
	for _, service := range composeServices(t) {
		// The service for commands has none of its own.
		if service.isOurs() && len(service.Profiles) == 0 {
			calls = append(calls, strings.Join(service.words(), " "))
		}
	}
	for _, unit := range []string{"server", "worker"} {
		for line := range strings.Lines(packaged(t, "systemd/roamcard-"+unit+".service")) {
			if call, is := strings.CutPrefix(line, "ExecStart=/usr/bin/roamcard "); is {
				calls = append(calls, strings.TrimSpace(call))
			}
		}
	}
	for _, args := range regexp.MustCompile(`args: \[(.+)\]`).FindAllStringSubmatch(
		packaged(t, "helm/roamcard/templates/migrate.yaml"), -1) {
		calls = append(calls, strings.ReplaceAll(args[1], ",", ""))
	}
	for _, args := range regexp.MustCompile(`\(list (".+?")\)`).FindAllStringSubmatch(
		packaged(t, "helm/roamcard/templates/processes.yaml"), -1) {
		calls = append(calls, strings.ReplaceAll(args[1], `"`, "")+" --config=FILE")
	}
	if len(calls) != 12 || !slices.ContainsFunc(calls, func(call string) bool {
		return strings.HasPrefix(call, "config check ")
	}) {
		t.Errorf("%d calls: %q", len(calls), calls)
	}
	for _, call := range calls {
		if why := wrong(call); why != "" {
			t.Errorf("roamcard %s: %s", call, why)
		}
	}
}

// TestImageIsBuiltFromAllThereIs compares the container file with the modules, and with the Go, of the repository.
func TestImageIsBuiltFromAllThereIs(t *testing.T) {
	file, ignored := packaged(t, "Containerfile"), packaged(t, "Containerfile.dockerignore")
	work, err := os.ReadFile("../../go.work")
	if err != nil {
		t.Fatal(err)
	}
	modules := regexp.MustCompile(`(?m)^\t\./(\S+)$`).FindAllStringSubmatch(string(work), -1)
	if len(modules) < 5 {
		t.Fatalf("%d modules", len(modules))
	}
	for _, m := range modules {
		copied := "COPY " + m[1] + "/go.mod "
		if _, err := os.Stat("../../" + m[1] + "/go.sum"); err == nil {
			copied += m[1] + "/go.sum "
		}
		if !strings.Contains(file, copied+m[1]+"/\n") {
			t.Errorf("the image lacks %q", copied)
		}
		top, _, _ := strings.Cut(m[1], "/")
		if !strings.Contains(ignored, "\n!"+top+"\n") && !strings.Contains(ignored, "\n!"+m[1]+"\n") {
			t.Errorf("%s is kept from the image", m[1])
		}
	}
	language := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(string(work))
	if language == nil || !strings.Contains(file, "golang:"+language[1]+".") {
		t.Errorf("the image is not made with Go %v", language)
	}
	for _, must := range []string{
		"USER 65532:65532\n", "GOPROXY=off", "-trimpath", "CGO_ENABLED=0", "internal/app.Commit=",
	} {
		if !strings.Contains(file, must) {
			t.Errorf("the container file lacks %q", must)
		}
	}
}

func TestReleaseIsOfTheProgramsVersion(t *testing.T) {
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil || !strings.Contains(string(changes), "\n## "+app.Version+"\n") {
		t.Errorf("the changelog lacks %s, %v", app.Version, err)
	}
	var chart struct {
		AppVersion string `yaml:"appVersion"`
	}
	unpack(t, "helm/roamcard/Chart.yaml", &chart)
	if chart.AppVersion != app.Version {
		t.Errorf("the chart is of %s, the program of %s", chart.AppVersion, app.Version)
	}
	var release struct {
		Builds   []struct{ Env, Flags, Ldflags []string }
		Archives []struct{ Files []struct{ Src string } }
		Packages []struct {
			Contents []struct{ Src, Dst string }
		} `yaml:"nfpms"`
	}
	unpack(t, "goreleaser.yaml", &release)
	for _, build := range release.Builds {
		if !slices.Contains(build.Flags, "-trimpath") || !slices.Contains(build.Env, "CGO_ENABLED=0") ||
			!strings.Contains(strings.Join(build.Ldflags, " "), "internal/app.Commit={{ .FullCommit }}") {
			t.Errorf("the build is %+v", build)
		}
	}
	var sources []string
	for _, archive := range release.Archives {
		for _, file := range archive.Files {
			sources = append(sources, file.Src)
		}
	}
	for _, pkg := range release.Packages {
		for _, file := range pkg.Contents {
			sources = append(sources, file.Src)
		}
	}
	for _, src := range sources {
		found, err := filepath.Glob("../../" + src)
		if err != nil || len(found) == 0 && !strings.HasPrefix(src, "bin/") {
			t.Errorf("%s is not there, %v", src, err)
		}
	}
	// What is for systemd is in the packages.
	units, err := filepath.Glob("../../packaging/systemd/*")
	if err != nil || len(units) < 3 {
		t.Errorf("%d files for systemd, %v", len(units), err)
	}
	for _, unit := range units {
		if !slices.Contains(sources, strings.TrimPrefix(unit, "../../")) {
			t.Errorf("no package has %s", unit)
		}
	}
}
