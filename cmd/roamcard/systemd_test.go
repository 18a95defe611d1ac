package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommandsGetTheSecretsOfTheUnit runs the script with stand-ins for systemd: what it asks for is what the unit has.
func TestCommandsGetTheSecretsOfTheUnit(t *testing.T) {
	unit := packaged(t, "systemd/roamcard-worker.service") + `
# A drop-in.
[Service]
LoadCredential=telegram_token:/etc/roamcard/secrets/telegram_token
Environment=ROAMCARD_TELEGRAM__TOKEN_FILE=%d/telegram_token
`
	dir := t.TempDir()
	for name, text := range map[string]string{
		"worker":      unit,
		"systemctl":   "#!/bin/sh\n[ \"$*\" = 'cat roamcard-worker.service' ] && cat " + dir + "/worker\n",
		"systemd-run": "#!/bin/sh\nprintf '%s\\n' \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // run here
			t.Fatal(err)
		}
	}
	call := []string{"recover", "--apply", "--reason", "restored, lost $5", "--config", "/etc/roamcard/roamcard.yaml"}
	cmd := exec.CommandContext(t.Context(), "../../packaging/systemd/roamcard-run", call...)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ROAMCARD_DEPLOYER_KEY_FILE="+dir+"/worker")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	asked := strings.Split(strings.TrimSpace(string(out)), "\n")
	end := slices.Index(asked, "--")
	// systemd makes one dollar of two.
	runs := strings.ReplaceAll("/usr/bin/roamcard\n"+strings.Join(call, "\n"), "$", "$$")
	if end < 0 || strings.Join(asked[end+1:], "\n") != runs {
		t.Fatalf("it runs %q", asked)
	}
	name := regexp.MustCompile(`(?m)^--unit=(\S+\.service)$`).FindStringSubmatch(string(out))
	if name == nil {
		t.Fatalf("its unit has no name: %q", asked[:end])
	}
	passed := 0
	for line := range strings.Lines(unit) {
		line = strings.TrimSpace(line)
		if !regexp.MustCompile(`^(LoadCredential|Environment|EnvironmentFile|DynamicUser)=`).MatchString(line) {
			continue
		}
		passed++
		// The manual of systemd.exec promises the folder of credentials at this place.
		line = strings.ReplaceAll(line, "%d", "/run/credentials/"+name[1])
		if !slices.Contains(asked[:end], "--property="+line) {
			t.Errorf("the command does not get %s", line)
		}
	}
	for _, own := range []string{
		"LoadCredential=ROAMCARD_DEPLOYER_KEY_FILE:" + dir + "/worker",
		"Environment=ROAMCARD_DEPLOYER_KEY_FILE=/run/credentials/" + name[1] + "/ROAMCARD_DEPLOYER_KEY_FILE",
	} {
		if !slices.Contains(asked[:end], "--property="+own) {
			t.Errorf("the command does not get the caller's %s", own)
		}
	}
	if passed < 20 {
		t.Errorf("only %d lines were compared", passed)
	}
}

// TestMigrationAloneGetsTheOwnersURL runs the script, with the owner's file in a folder of the test's.
func TestMigrationAloneGetsTheOwnersURL(t *testing.T) {
	dir := t.TempDir()
	script := strings.ReplaceAll(packaged(t, "systemd/roamcard-run"), "/etc/roamcard/owner", dir)
	for name, text := range map[string]string{
		"database_url": "postgres://owner", "roamcard-run": script, "systemctl": "#!/bin/sh\n",
		"systemd-run": "#!/bin/sh\nprintf '%s\\n' \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // run here
			t.Fatal(err)
		}
	}
	given := "--property=LoadCredential=ROAMCARD_DATABASE__OWNER_URL_FILE:" + dir + "/database_url"
	for command, want := range map[string]bool{"migrate": true, "doctor": false, "serve": false} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "roamcard-run"), command)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if err != nil || slices.Contains(strings.Split(string(out), "\n"), given) != want {
			t.Errorf("%s: %q, %v", command, out, err)
		}
	}
}

// TestServersMayReadTheBacklog: Go takes the number of connections that may wait from /proc/sys, or 128 without it.
func TestServersMayReadTheBacklog(t *testing.T) {
	unit := packaged(t, "systemd/roamcard-server.service")
	hidden := regexp.MustCompile(`(?m)^ProcSubset=pid`).MatchString(unit)
	if hidden || !strings.Contains(unit, "ProtectKernelTunables=yes\n") {
		t.Error("the server's unit hides /proc/sys, or lets it be written")
	}
}

// TestUnitsHaveTheSameSecrets: the script runs commands as the workers' unit says, so servers have the same secrets.
func TestUnitsHaveTheSameSecrets(t *testing.T) {
	secrets := func(unit string) (lines []string) {
		text := packaged(t, "systemd/"+unit+".service")
		// What is one unit's alone, such as an address to listen at, is in a file of its own.
		own := "EnvironmentFile=-/etc/roamcard/" + strings.TrimPrefix(unit, "roamcard-") + ".env\n"
		if !strings.Contains(text, own) {
			t.Errorf("%s has no settings of its own", unit)
		}
		text = strings.Replace(text, own, "", 1)
		return regexp.MustCompile(`(?m)^(LoadCredential|Environment)\w*=.*$`).FindAllString(text, -1)
	}
	server, worker := secrets("roamcard-server"), secrets("roamcard-worker")
	if len(server) < 10 || !slices.Equal(server, worker) {
		t.Errorf("the server has %q, the worker %q", server, worker)
	}
}
