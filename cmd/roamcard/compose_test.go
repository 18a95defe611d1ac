package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// composed is a service of the compose file.
type composed struct {
	Image       string
	NetworkMode string `yaml:"network_mode"`
	StopGrace   string `yaml:"stop_grace_period"`
	Command     yaml.Node
	Environment map[string]string
	Ports       []string
	Secrets     []string
	Profiles    []string
	DependsOn   map[string]struct{} `yaml:"depends_on"`
}

// words is the command, which Compose takes as a list or as one line.
func (c composed) words() (words []string) {
	if err := c.Command.Decode(&words); err != nil {
		return strings.Fields(c.Command.Value)
	}
	return words
}

// isOurs says whether it runs our program, whose image is of the version that is deployed.
func (c composed) isOurs() bool { return strings.HasPrefix(c.Image, "roamcard:${VERSION") }

func composeServices(t *testing.T) map[string]composed {
	t.Helper()
	var file struct{ Services map[string]composed }
	unpack(t, "compose.yaml", &file)
	if len(file.Services) < 8 {
		t.Fatalf("%d services", len(file.Services))
	}
	return file.Services
}

// listens are the ports at which a service of ours listens, with each listener that a variable opens.
func (c composed) listens() (ports []string) {
	port := regexp.MustCompile(`:(\d+)\}?$`)
	for name, value := range c.Environment {
		if found := port.FindStringSubmatch(value); found != nil && strings.HasSuffix(name, "ADDR") {
			ports = append(ports, found[1])
		}
	}
	words := c.words()
	if at := slices.Index(words, "--addr"); at >= 0 {
		ports = append(ports, port.FindStringSubmatch(words[at+1])[1])
	}
	return ports
}

// TestImagesOfOthersAreNamedByDigest: a tag may mean something else tomorrow.
func TestImagesOfOthersAreNamedByDigest(t *testing.T) {
	images := regexp.MustCompile(`(?m)^FROM (.*?)(?: AS \w+)?$`).FindAllStringSubmatch(packaged(t, "Containerfile"), -1)
	for _, service := range composeServices(t) {
		if !service.isOurs() {
			images = append(images, []string{"", service.Image})
		}
	}
	named := regexp.MustCompile(`^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$`)
	found := 0
	for _, image := range images {
		if image[1] == "scratch" {
			continue
		}
		if found++; !named.MatchString(image[1]) {
			t.Errorf("%q has no version with a digest", image[1])
		}
	}
	if found < 5 {
		t.Errorf("only %d images were found", found)
	}
}

// TestPostgresHasOneVersion compares the version that is deployed with the one that the tests run on.
func TestPostgresHasOneVersion(t *testing.T) {
	b, err := os.ReadFile("../../tools/package.json")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string][]string{}
	note := func(version, where string) { versions[version] = append(versions[version], where) }
	packages := regexp.MustCompile(`"(@embedded-postgres/[^"]+)": "(\d+\.\d+)\.`).FindAllStringSubmatch(string(b), -1)
	for _, found := range packages {
		note(found[2], found[1])
	}
	deployed := regexp.MustCompile(`^postgres:(\d+\.\d+)-`)
	services := 0
	for name, service := range composeServices(t) {
		if found := deployed.FindStringSubmatch(service.Image); found != nil {
			note(found[1], name)
			services++
		}
	}
	if len(versions) != 1 || len(packages) == 0 || services == 0 {
		t.Errorf("PostgreSQL is %v", versions)
	}
}

func TestComposeListensOnceAtAPort(t *testing.T) {
	services := composeServices(t)
	// The service that has a port, by the network and the port.
	taken := map[string]map[string]string{}
	for name, service := range services {
		if !service.isOurs() {
			continue
		}
		owner, shared := strings.CutPrefix(service.NetworkMode, "service:")
		if !shared {
			owner = name
		}
		if taken[owner] == nil {
			taken[owner] = map[string]string{}
		}
		for _, port := range service.listens() {
			if other := taken[owner][port]; other != "" {
				t.Errorf("%s and %s both listen at %s in the network of %s", name, other, port, owner)
			}
			taken[owner][port] = name
		}
	}
	if len(taken["network"]) < 10 {
		t.Errorf("only these ports were found: %v", taken)
	}
	for owner, ports := range taken {
		for _, published := range services[owner].Ports {
			if port := published[strings.LastIndex(published, ":")+1:]; ports[port] == "" {
				t.Errorf("%s publishes %s, where nobody listens", owner, published)
			}
		}
	}
	for _, target := range regexp.MustCompile(`(\w+):(94\d+)`).FindAllStringSubmatch(
		packaged(t, "compose/prometheus.yml"), -1) {
		if taken[target[1]][target[2]] == "" {
			t.Errorf("Prometheus asks %s, where nobody listens", target[0])
		}
	}
}

// TestComposeUpgradeReplacesOneProcess: what an upgrade makes anew must not take down what it does not name.
func TestComposeUpgradeReplacesOneProcess(t *testing.T) {
	services := composeServices(t)
	for name, service := range services {
		owner := services[strings.TrimPrefix(service.NetworkMode, "service:")]
		if owner.isOurs() {
			t.Errorf("the network of %s goes with a process of ours", name)
		}
		if service.isOurs() && len(service.Ports) > 0 {
			t.Errorf("the ports %v go with %s", service.Ports, name)
		}
	}
	for _, name := range []string{"migrate", "roamcard"} {
		before := maps.Clone(services[name].DependsOn)
		if len(before) == 0 {
			t.Errorf("%s depends on nothing", name)
		}
		for len(before) > 0 {
			for other := range before {
				delete(before, other)
				if services[other].isOurs() {
					t.Errorf("%s starts %s, which is then made anew in the new version", name, other)
				}
				maps.Copy(before, services[other].DependsOn)
			}
		}
	}
}

// drains is the longest that a process takes to end: its requests, then its jobs, then those that had to be cancelled.
func drains(t *testing.T) time.Duration {
	t.Helper()
	of := func(path, pattern string) time.Duration {
		found := regexp.MustCompile(pattern).FindStringSubmatch(packaged(t, "../internal/"+path))
		if found == nil {
			t.Fatalf("%s has no %s", path, pattern)
		}
		seconds, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(seconds) * time.Second
	}
	return of("transport/edge/server.go", `defaultDrainTimeout += (\d+) \* time\.Second`) +
		of("job/runner.go", `c\.Drain = orDefault\(c\.Drain, (\d+)\*time\.Second\)`) +
		3*of("job/runner.go", `const claimGrace = (\d+) \* time\.Second`)
}

func TestProcessesAreGivenTheTimeTheyDrainIn(t *testing.T) {
	need := drains(t)
	for name, service := range composeServices(t) {
		words := service.words()
		if !service.isOurs() || !slices.Contains([]string{"serve", "worker"}, strings.Join(words[:min(1, len(words))], "")) {
			continue
		}
		if given, err := time.ParseDuration(service.StopGrace); err != nil || given < need {
			t.Errorf("compose gives %s %q to end, which takes %v", name, service.StopGrace, need)
		}
	}
	for _, unit := range []string{"server", "worker"} {
		found := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(
			packaged(t, "systemd/roamcard-"+unit+".service"))
		if found == nil {
			t.Errorf("the %s's unit has no TimeoutStopSec", unit)
		} else if given, err := time.ParseDuration(found[1] + "s"); err != nil || given < need {
			t.Errorf("systemd gives the %s %v to end, which takes %v", unit, given, need)
		}
	}
	var values struct {
		PreStop int `yaml:"preStopSeconds"`
		Grace   int `yaml:"terminationGracePeriodSeconds"`
	}
	unpack(t, "helm/roamcard/values.yaml", &values)
	if left := time.Duration(values.Grace-values.PreStop) * time.Second; values.PreStop == 0 || left < need {
		t.Errorf("the chart gives a server %d s less %d s to end, which takes %v", values.Grace, values.PreStop, need)
	}
	processes := packaged(t, "helm/roamcard/templates/processes.yaml")
	const least = `lt (int .Values.terminationGracePeriodSeconds) (add .Values.preStopSeconds 50 | int)`
	if need > 50*time.Second || !strings.Contains(processes, least) ||
		!strings.Contains(processes, "preStop: {sleep: {seconds: {{ $.Values.preStopSeconds }}}}") {
		t.Errorf("the chart does not make sure of the %v that a server takes to end", need)
	}
}

// TestComposeSecretsAreReadByTheirGroups runs the script, with a chgrp that only notes down what it is asked for.
func TestComposeSecretsAreReadByTheirGroups(t *testing.T) {
	dir := t.TempDir()
	script, noted := filepath.Join(dir, "secrets.sh"), filepath.Join(dir, "noted")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program of the test
			t.Fatal(err)
		}
	}
	write(script, packaged(t, "compose/secrets.sh"))
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, "bin/chgrp"), "#!/bin/sh\necho \"$@\" >>"+noted+"\n")
	for range 2 { // it may be run again
		cmd := exec.CommandContext(t.Context(), "bash", script)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	raw, err := os.ReadFile(noted)
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		for _, file := range words[1:] {
			groups[filepath.Base(file)] = words[0]
		}
	}
	for file, role := range map[string]string{"owner_url": "roamcard", "database_url": "roamcard_service"} {
		url, err := os.ReadFile(filepath.Join(dir, "secrets", file))
		if err != nil || !strings.HasPrefix(string(url), "postgres://"+role+":") {
			t.Errorf("%s is not of %s: %q, %v", file, role, url, err)
		}
	}
	user := regexp.MustCompile(`(?m)^USER \d+:(\d+)$`).FindStringSubmatch(packaged(t, "Containerfile"))
	for name, service := range composeServices(t) {
		for _, file := range service.Secrets {
			group := "999" // of the user postgres in its image
			if service.isOurs() {
				group = user[1]
			}
			info, err := os.Stat(filepath.Join(dir, "secrets", file))
			if err != nil || info.Mode().Perm() != 0o440 || groups[file] != group {
				t.Errorf("%s: %s is %v of the group %q, %v", name, file, info.Mode(), groups[file], err)
			}
		}
	}
}

// TestOnlyTheMigrationHasTheOwnersPassword: what serves, and who is told a command, is a role that owns nothing.
func TestOnlyTheMigrationHasTheOwnersPassword(t *testing.T) {
	for name, service := range composeServices(t) {
		given := slices.Contains(service.Secrets, "owner_url") || slices.Contains(service.Secrets, "postgres_password")
		if service.isOurs() && given != (name == "migrate") {
			t.Errorf("compose gives %s the secrets %q", name, service.Secrets)
		}
	}
	if !strings.Contains(packaged(t, "compose/primary.sh"), "CREATE ROLE roamcard_service LOGIN PASSWORD :'service';") {
		t.Error("the primary does not make the role that serves")
	}
	// Its own Secret is mounted in the pod of the migration alone.
	helpers := packaged(t, "helm/roamcard/templates/_helpers.tpl")
	if !strings.Contains(helpers, `{{- $owner := and (eq .component "migrate") .root.Values.migrate.owner.secret }}`) {
		t.Error("the chart gives the owner's URL to others than the migration")
	}
	if strings.Contains(packaged(t, "helm/roamcard/templates/processes.yaml"), "owner") {
		t.Error("the chart's processes know the owner's Secret")
	}
	command := packaged(t, "helm/roamcard/templates/command.yaml")
	if !strings.Contains(command, `{{- $owner := ternary $.Values.migrate.owner.secret "" $migrates }}`) ||
		!strings.Contains(command, `{{- $migrates := eq (index . 0) "migrate" }}`) {
		t.Error("a command that migrates has no owner's Secret, or another one has it")
	}
	for _, unit := range []string{"server", "worker"} {
		if strings.Contains(packaged(t, "systemd/roamcard-"+unit+".service"), "owner") {
			t.Errorf("the %s's unit knows the owner's URL", unit)
		}
	}
}
