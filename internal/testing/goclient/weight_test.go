package goclient_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const ours = "github.com/roamcard/roamcard"

// A buyer's program gets everything that the client needs, in its module graph and in its binary.
func TestBuyersProgramIsLight(t *testing.T) {
	t.Parallel()
	const mostModules, mostBytes = 40, 12 << 20 // 12 MiB
	folder := buyersModule(t)
	var foreign []string
	for _, module := range strings.Fields(goIn(t, folder, "list", "-m", "-f", "{{.Path}}", "all")) {
		if module == ours {
			t.Error("the service's module is in the graph")
		}
		if module != "buyer" && !strings.HasPrefix(module, ours+"/") {
			foreign = append(foreign, module)
		}
	}
	if len(foreign) == 0 || len(foreign) > mostModules {
		t.Errorf("%d foreign modules, want at most %d: %v", len(foreign), mostModules, foreign)
	}
	heavy := []string{
		"google.golang.org/grpc", "go.opentelemetry.io", "github.com/prometheus", "github.com/ethereum", ours + "/ent",
		ours + "/internal/auth", ours + "/internal/telemetry",
	}
	for _, linked := range strings.Fields(goIn(t, folder, "list", "-deps", ".")) {
		if slices.ContainsFunc(heavy, func(root string) bool {
			return linked == root || strings.HasPrefix(linked, root+"/")
		}) {
			t.Errorf("%s is linked", linked)
		}
	}
	program := filepath.Join(t.TempDir(), "buyer")
	goIn(t, folder, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, ".")
	built, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d foreign modules, %d bytes", len(foreign), built.Size())
	if built.Size() > mostBytes {
		t.Errorf("the program has %d bytes, want at most %d", built.Size(), mostBytes)
	}
}

// buyersModule is a module with the first program of the README, which requires the client only.
func buyersModule(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	client, folder := filepath.Join(root, "clients", "go"), t.TempDir()
	for from, to := range map[string]string{
		"examples/buycard/main.go": "main.go", "go.sum": "go.sum", "go.mod": "go.mod",
	} {
		content, err := os.ReadFile(filepath.Join(client, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, to), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Until there is a release, each module of ours is where the work is.
	edit := []string{
		"mod", "edit", "-module=buyer", "-require=" + ours + "/clients/go@v0.0.0",
		"-replace=" + ours + "/clients/go=" + client,
	}
	replaced := goIn(t, client, "list", "-m", "-f", "{{if .Replace}}-replace={{.Path}}={{.Dir}}{{end}}", "all")
	goIn(t, folder, append(edit, strings.Fields(replaced)...)...)
	return folder
}

// goIn runs the go command as in a clone without go.work.
func goIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}
