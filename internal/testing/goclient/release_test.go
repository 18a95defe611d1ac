package goclient_test

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// TestClientOfAReleaseIsInstalledByItsName prepares a release as tools/tag-modules.sh does, publishes its modules in a
// folder, and buys the client from there: without a replacement, and without this repository.
func TestClientOfAReleaseIsInstalledByItsName(t *testing.T) {
	t.Parallel()
	const version = "v" + roamcard.Version
	clone := cloneOfModules(t)
	release(t, clone, version)
	proxy := t.TempDir()
	for _, folder := range modulesOf(t, clone) {
		publish(t, clone, folder, version, proxy)
	}

	folder := t.TempDir()
	copyFile(t, filepath.Join(clone, "clients/go/examples/buycard/main.go"), filepath.Join(folder, "main.go"))
	env := strangersEnv(t, folder, proxy)
	goWith(t, folder, env, "mod", "init", "buyer")
	goWith(t, folder, env, "get", ours+"/clients/go/roamcard@"+version)
	goWith(t, folder, env, "build", "-ldflags=-s -w", "-o", filepath.Join(t.TempDir(), "buyer"), ".")
	got := goWith(t, folder, env, "list", "-m", "all")
	found := 0
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, ours) {
			continue
		}
		found++
		if !strings.HasSuffix(line, " "+version+"\n") {
			t.Errorf("the buyer has %s", line)
		}
	}
	client, err := os.ReadFile(filepath.Join(clone, "clients/go/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// The client, and what it shares with the service: not what serves a wallet to an agent.
	if want := strings.Count(string(client), ours+"/") - strings.Count(string(client), " => "); found != want {
		t.Errorf("the buyer has %d modules of ours, want %d:\n%s", found, want, got)
	}
}

// TestClientOfAnUnpreparedReleaseIsNotInstalled shows that the test above needs what the script writes.
func TestClientOfAnUnpreparedReleaseIsNotInstalled(t *testing.T) {
	t.Parallel()
	const version = "v" + roamcard.Version
	clone, proxy, folder := cloneOfModules(t), t.TempDir(), t.TempDir()
	for _, folder := range modulesOf(t, clone) {
		publish(t, clone, folder, version, proxy)
	}
	env := strangersEnv(t, folder, proxy)
	goWith(t, folder, env, "mod", "init", "buyer")
	cmd := exec.Command("go", "get", ours+"/clients/go/roamcard@"+version)
	cmd.Dir, cmd.Env = folder, env
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "@v0.0.0") {
		t.Errorf("go get: %v\n%s", err, out)
	}
}

func TestReleaseOfAnotherVersionThanTheClientSaysIsRefused(t *testing.T) {
	t.Parallel()
	clone := cloneOfModules(t)
	for _, args := range [][]string{{}, {"v0.0.9"}, {"v2.0.0"}, {"0.3.1"}, {"--publish", "v" + roamcard.Version}} {
		cmd := exec.Command(filepath.Join(clone, "tools/tag-modules.sh"), args...)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%v is taken:\n%s", args, out)
		}
	}
}

// release prepares one, and checks that what is only shown changes nothing, and that a second time changes nothing.
func release(t *testing.T, clone, version string) {
	t.Helper()
	script := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(filepath.Join(clone, "tools/tag-modules.sh"), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("tools/tag-modules.sh %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	shown := script(version)
	if again := script(version); again != shown {
		t.Errorf("showing what would change changes it:\n%s\n%s", shown, again)
	}
	if wrote := script("--write", version); wrote != shown {
		t.Errorf("it shows\n%sand writes\n%s", shown, wrote)
	}
	last := script(version)
	if strings.Contains(last, "go.mod") || !strings.Contains(last, " clients/go/"+version+" ") {
		t.Errorf("after it has written: %s", last)
	}
}

// cloneOfModules copies what a stranger gets of our modules, and the script. Of the service's module that is go.mod.
func cloneOfModules(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	for _, file := range []string{"go.mod", "go.work", "tools/tag-modules.sh"} {
		copyFile(t, filepath.Join(root, file), filepath.Join(clone, file))
	}
	for _, folder := range modulesOf(t, clone) {
		err := fs.WalkDir(os.DirFS(root), folder, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				copyFile(t, filepath.Join(root, file), filepath.Join(clone, file))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return clone
}

// modulesOf lists the folders of go.work but for the root.
func modulesOf(t *testing.T, clone string) (folders []string) {
	t.Helper()
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(goIn(t, clone, "work", "edit", "-json", "go.work")), &work); err != nil {
		t.Fatal(err)
	}
	for _, use := range work.Use {
		if use.DiskPath != "." {
			folders = append(folders, filepath.Clean(use.DiskPath))
		}
	}
	return folders
}

// publish puts a module into a folder that has the layout of a module proxy.
func publish(t *testing.T, clone, folder, version, proxy string) {
	t.Helper()
	module := ours + "/" + filepath.ToSlash(folder)
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v", version)
	copyFile(t, filepath.Join(clone, folder, "go.mod"), at+".mod")
	if err := os.WriteFile(at+".info", []byte(`{"Version":"`+version+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(at + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(archive)
	tree := os.DirFS(filepath.Join(clone, folder))
	err = fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		into, err := w.Create(module + "@" + version + "/" + file)
		if err != nil {
			return err
		}
		_, err = into.Write(content)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// strangersEnv is the environment of somebody who has never had our modules. Those of others come from this machine's
// cache, so nothing is fetched.
func strangersEnv(t *testing.T, folder, proxy string) []string {
	t.Helper()
	cached := filepath.Join(strings.TrimSpace(goIn(t, folder, "env", "GOMODCACHE")), "cache", "download")
	flags := "-mod=mod -modcacherw " + os.Getenv("GOFLAGS") // those of this run, which has compiled what is needed
	return append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags, "GONOSUMDB=*", "GONOPROXY=none",
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(cached), "GOMODCACHE="+t.TempDir())
}

func goWith(t *testing.T, folder string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = folder, env
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, info.Mode().Perm())
	}
	if err != nil {
		t.Fatal(err)
	}
}
